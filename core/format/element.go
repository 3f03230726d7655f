package format

import (
	"fmt"
	"math"
)

// Specials says which codes of a format are no finite numbers.
type Specials string

// What codes stand for.
const (
	IEEE         Specials = "ieee"          // the highest exponent: infinity, and NaN
	OneNaN       Specials = "nan"           // the highest code alone: NaN
	NegativeZero Specials = "negative-zero" // the code of -0: NaN; there is no -0
	NoSpecials   Specials = "none"
)

// Overflow says what becomes of values beyond the largest.
type Overflow string

// What becomes of values beyond the largest, infinite ones included.
const (
	ToInfinity Overflow = "infinity"
	ToNaN      Overflow = "nan"
	Saturate   Overflow = "saturate" // the largest value, with the sign
)

// Rounding says which neighbour a value between two of them becomes.
type Rounding string

// The roundings.
const (
	NearestEven Rounding = "nearest-even"
	NearestAway Rounding = "nearest-away" // of two equally near ones the one away from zero
	TowardZero  Rounding = "toward-zero"
	Stochastic  Rounding = "stochastic" // up where fraction + random ≥ 1, with a random number of RandomBits bits below 1
)

// Element is a number format with a sign, an exponent and a mantissa. A value with the exponent field e > 0 and the
// mantissa field m is ±2^(e-Bias)·(1 + m·2^-Mantissa), and one with e = 0 is ±2^(1-Bias)·m·2^-Mantissa. Without exponent
// bits it is a fixed point format of values ±m·2^-Bias.
type Element struct {
	// Like is the name of a built-in format whose keys hold where this one sets none.
	Like string `yaml:"like,omitempty" json:"like,omitempty"`
	// Exponent and Mantissa are widths in bits.
	Exponent int `yaml:"exponent" json:"exponent"`
	Mantissa int `yaml:"mantissa" json:"mantissa"`
	Bias     int `yaml:"bias" json:"bias"`
	// Specials is NoSpecials if empty.
	Specials Specials `yaml:"specials" json:"specials"`
	// FlushSubnormals makes results below the least normal value zero.
	FlushSubnormals bool     `yaml:"flush_subnormals" json:"flush_subnormals"`
	Overflow        Overflow `yaml:"overflow" json:"overflow"` // Saturate if empty
	Rounding        Rounding `yaml:"rounding" json:"rounding"` // NearestEven if empty
	// RandomBits of stochastic rounding, 1 to 16; 0: 16.
	RandomBits int `yaml:"random_bits,omitempty" json:"random_bits,omitempty"`
}

func (e *Element) setDefaults() {
	if e.Specials == "" {
		e.Specials = NoSpecials
	}
	if e.Overflow == "" {
		e.Overflow = Saturate
	}
	if e.Rounding == "" {
		e.Rounding = NearestEven
	}
	if e.Rounding == Stochastic && e.RandomBits == 0 {
		e.RandomBits = 16
	}
}

// Validate reports what no format can be, or what float32 does not hold.
func (e *Element) Validate() error {
	switch {
	case e.Exponent < 0 || e.Exponent > 8:
		return fmt.Errorf("exponent is %d, want 0 (fixed point) to 8 bits: %w", e.Exponent, ErrInvalid)
	case e.Mantissa < 0 || e.Mantissa > 23:
		return fmt.Errorf("mantissa is %d, want 0 to 23 bits: %w", e.Mantissa, ErrInvalid)
	case e.Exponent+e.Mantissa == 0:
		return fmt.Errorf("exponent and mantissa have no bits, want at least one: %w", ErrInvalid)
	case e.Bias < -256 || e.Bias > 256:
		return fmt.Errorf("bias is %d, want -256 to 256: %w", e.Bias, ErrInvalid)
	}
	if err := oneOf("specials", e.Specials, IEEE, OneNaN, NegativeZero, NoSpecials); err != nil {
		return err
	}
	if err := oneOf("overflow", e.Overflow, ToInfinity, ToNaN, Saturate); err != nil {
		return err
	}
	if err := oneOf("rounding", e.Rounding, NearestEven, NearestAway, TowardZero, Stochastic); err != nil {
		return err
	}
	switch {
	case e.Specials == IEEE && (e.Exponent < 2 || e.Mantissa < 1):
		return fmt.Errorf("specials is ieee with %d exponent and %d mantissa bits, want at least 2 and 1: %w", e.Exponent, e.Mantissa,
			ErrInvalid)
	case e.Specials == OneNaN && (e.Exponent < 1 || e.Mantissa < 1):
		return fmt.Errorf("specials is nan with %d exponent and %d mantissa bits, want at least 1 of each: %w", e.Exponent, e.Mantissa,
			ErrInvalid)
	case e.Overflow == ToInfinity && e.Specials != IEEE:
		return fmt.Errorf("overflow is infinity, which specials %s has not: want nan or saturate, or specials ieee: %w", e.Specials, ErrInvalid)
	case e.Overflow == ToNaN && e.Specials == NoSpecials:
		return fmt.Errorf("overflow is nan, which specials none has not: want saturate, or other specials: %w", ErrInvalid)
	case e.Rounding == Stochastic && (e.RandomBits < 1 || e.RandomBits > 16):
		return fmt.Errorf("random_bits is %d, want 1 to 16: %w", e.RandomBits, ErrInvalid)
	case e.Rounding != Stochastic && e.RandomBits != 0:
		return fmt.Errorf("random_bits is %d and rounding %s, want none unless it is stochastic: %w", e.RandomBits, e.Rounding, ErrInvalid)
	case e.FlushSubnormals && e.Exponent == 0:
		return fmt.Errorf("flush_subnormals is true in a fixed point format, which has none: %w", ErrInvalid)
	case e.step() < -149 || e.Max() > math.MaxFloat32:
		return fmt.Errorf("the values are multiples of 2^%d up to %g, want what float32 has: at least 2^-149, at most %g: %w",
			e.step(), e.Max(), math.MaxFloat32, ErrInvalid)
	}
	return nil
}

func oneOf[T ~string](key string, v T, known ...T) error {
	for _, k := range known {
		if v == k {
			return nil
		}
	}
	return fmt.Errorf("%s is %q, want one of %v: %w", key, v, known, ErrInvalid)
}

// Bits is the width of a code, with the sign.
func (e *Element) Bits() int { return 1 + e.Exponent + e.Mantissa }

// least is the exponent of the least normal value; in fixed point formats of the first that they do not have.
func (e *Element) least() int {
	if e.Exponent == 0 {
		return e.Mantissa - e.Bias
	}
	return 1 - e.Bias
}

// step is the exponent of the distance of the smallest values.
func (e *Element) step() int { return e.least() - e.Mantissa }

// Tiny is the least positive value: the least subnormal one, where they are not flushed.
func (e *Element) Tiny() float64 {
	if e.FlushSubnormals {
		return math.Ldexp(1, e.least())
	}
	if e.Mantissa == 0 {
		return math.Ldexp(1, e.least())
	}
	return math.Ldexp(1, e.step())
}

// Normal is the least normal value, below which precision is lost; in fixed point formats the distance of values.
func (e *Element) Normal() float64 {
	if e.Exponent == 0 {
		return math.Ldexp(1, e.step())
	}
	return math.Ldexp(1, e.least())
}

// Max is the largest finite value.
func (e *Element) Max() float64 {
	last := 1<<e.Mantissa - 1 // mantissa field
	if e.Exponent == 0 {
		return math.Ldexp(float64(last), e.step())
	}
	top := 1<<e.Exponent - 1 // exponent field
	switch e.Specials {
	case IEEE:
		top--
	case OneNaN:
		last--
	}
	return math.Ldexp(float64(1<<e.Mantissa+last), top-e.Bias-e.Mantissa)
}

// Round returns the value that x becomes: the specification, in float64. random selects the neighbour in stochastic
// rounding, by its upper RandomBits bits. NaN stays NaN also where the format has none.
func (e *Element) Round(x float64, random uint16) float64 {
	if math.IsNaN(x) {
		return x
	}
	a := math.Abs(x)
	if math.IsInf(x, 0) {
		return e.beyond(x)
	}
	exponent := e.least()
	if a != 0 && e.Exponent > 0 {
		exponent = max(exponent, math.Ilogb(a))
	}
	ulp := math.Ldexp(1, exponent-e.Mantissa)
	if e.Exponent == 0 {
		ulp = math.Ldexp(1, e.step())
	}
	whole, fraction := math.Modf(a / ulp)
	if e.up(whole, fraction, random) {
		whole++
	}
	r := whole * ulp
	if r > e.Max() {
		return e.beyond(x)
	}
	if r < e.Tiny() {
		r = 0
	}
	if r == 0 && e.Specials == NegativeZero {
		return 0
	}
	return math.Copysign(r, x)
}

// up says whether whole + fraction steps become whole + 1.
func (e *Element) up(whole, fraction float64, random uint16) bool {
	switch e.Rounding {
	case NearestAway:
		return fraction >= 0.5
	case TowardZero:
		return false
	case Stochastic:
		r := float64(random >> (16 - e.RandomBits))
		return fraction+math.Ldexp(r, -e.RandomBits) >= 1
	}
	return fraction > 0.5 || fraction == 0.5 && math.Mod(whole, 2) == 1
}

// beyond is what a value beyond the largest becomes.
func (e *Element) beyond(x float64) float64 {
	switch e.Overflow {
	case ToInfinity:
		return math.Inf(int(math.Copysign(1, x)))
	case ToNaN:
		return math.NaN()
	}
	return math.Copysign(e.Max(), x)
}

// Values lists the finite values that are not negative, in order. The format must have at most 16 bits.
func (e *Element) Values() []float64 {
	if e.Bits() > 16 {
		panic("format: the values of a format of more than 16 bits")
	}
	var all []float64
	for code := range 1 << (e.Exponent + e.Mantissa) {
		field, m := code>>e.Mantissa, code&(1<<e.Mantissa-1)
		v := math.Ldexp(float64(m), e.step())
		if field > 0 {
			v = math.Ldexp(float64(1<<e.Mantissa+m), field-e.Bias-e.Mantissa)
		}
		if v > e.Max() || e.FlushSubnormals && field == 0 && m > 0 {
			continue
		}
		all = append(all, v)
	}
	return all
}
