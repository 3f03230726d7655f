package format

import (
	"fmt"
	"math"
)

// Rule says how a power-of-two scale follows from the largest magnitude of a block.
type Rule string

// The rules. a is the largest magnitude, max the element's largest value.
const (
	Floor Rule = "floor" // 2^(⌊log2 a⌋ - ⌊log2 max⌋): the OCP's; some elements exceed max
	Ceil  Rule = "ceil"  // the least 2^k with a ≤ max·2^k: NVIDIA's
)

// PowerOfTwo is the scale format 2^k, k from Least to Greatest. OCP's E8M0 is the one from -127 to 127.
const PowerOfTwo = "power-of-two"

// Scale says which elements share a scale, and how it is chosen and kept.
type Scale struct {
	// Rows and Columns are the tile that shares a scale; 0: all of them. The elements of a row follow the inner dimension
	// of the matrix product. Tiles at the edges are smaller.
	Rows    int `yaml:"rows" json:"rows"`
	Columns int `yaml:"columns" json:"columns"`
	// Format in which the scale is kept: PowerOfTwo, fp32, or a built-in element format.
	Format string `yaml:"format" json:"format"`
	// Rule of a power of two; Ceil if empty.
	Rule Rule `yaml:"rule,omitempty" json:"rule,omitempty"`
	// Least and Greatest exponent of a power of two; -127 and 127 if both are 0.
	Least    int `yaml:"least,omitempty" json:"least,omitempty"`
	Greatest int `yaml:"greatest,omitempty" json:"greatest,omitempty"`
	// Tensor adds an FP32 scale of the whole tensor, with which the largest scale of a block becomes the largest that
	// Format has: (largest scale · largest element) / largest magnitude of the tensor.
	Tensor bool `yaml:"tensor,omitempty" json:"tensor,omitempty"`

	element *Element // of Format
}

func (s *Scale) setDefaults() {
	if s.Format == PowerOfTwo {
		if s.Rule == "" {
			s.Rule = Ceil
		}
		if s.Least == 0 && s.Greatest == 0 {
			s.Least, s.Greatest = -127, 127
		}
	}
}

// settle checks the scale and finds its format.
func (s *Scale) settle() error {
	if s.Rows < 0 || s.Columns < 0 {
		return fmt.Errorf("a tile of %d rows and %d columns, want at least 1, or 0 for all: %w", s.Rows, s.Columns, ErrInvalid)
	}
	if s.Format == PowerOfTwo {
		switch {
		case s.Tensor:
			return fmt.Errorf("tensor is true and format %s, want an element format such as e4m3: %w", PowerOfTwo, ErrInvalid)
		case s.Least < -127 || s.Greatest > 127 || s.Least > s.Greatest:
			return fmt.Errorf("exponents from %d to %d, want a range within -127 to 127: %w", s.Least, s.Greatest, ErrInvalid)
		}
		return oneOf("rule", s.Rule, Floor, Ceil)
	}
	if s.Rule != "" || s.Least != 0 || s.Greatest != 0 {
		return fmt.Errorf("rule, least and greatest belong to a %s, and format is %q: %w", PowerOfTwo, s.Format, ErrInvalid)
	}
	if s.Format == "" {
		return fmt.Errorf("format is not given, want %s, fp32 or another element format: %w", PowerOfTwo, ErrInvalid)
	}
	text, err := Text(s.Format)
	if err != nil {
		return fmt.Errorf("format: %w", err)
	}
	kept, err := parse(text)
	if err != nil {
		return err
	}
	if kept.Scale != nil {
		return fmt.Errorf("format is %s, which has a scale itself: want %s or a format of elements: %w", s.Format, PowerOfTwo, ErrInvalid)
	}
	if s.Tensor && kept.Element.Mantissa == 23 {
		return fmt.Errorf("tensor is true and format fp32, which needs no second scale: want a narrow one: %w", ErrInvalid)
	}
	kept.Element.Overflow = Saturate
	s.element = &kept.Element
	return nil
}

func (s *Scale) line() string {
	tile := "tensor"
	if s.Rows > 0 || s.Columns > 0 {
		count := func(n int) string {
			if n == 0 {
				return "all"
			}
			return fmt.Sprint(n)
		}
		tile = count(s.Rows) + " x " + count(s.Columns)
	}
	text := fmt.Sprintf("a scale of %s for each %s", s.Format, tile)
	if tile == "tensor" {
		text = fmt.Sprintf("a scale of %s for the tensor", s.Format)
	}
	if s.Rule != "" {
		text += fmt.Sprintf(" (%s)", s.Rule)
	}
	if s.Tensor {
		text += " and one of fp32 for the tensor"
	}
	return text
}

// factors are what values are multiplied by before and after they are cast: the first product is rounded to float32, the
// second is the value that the stored numbers stand for, rounded once.
type factors struct {
	encode float32
	decode float64
}

// choose returns the factors of a block with the largest magnitude amax, and tensor that of the whole tensor, which
// matters with Tensor alone. The float32 operations and their order are those of the published references.
func (s *Scale) choose(e *Element, amax, tensor float32) factors {
	top := float32(e.Max())
	if s.Format == PowerOfTwo {
		k := s.exponent(amax, e.Max())
		return factors{float32(math.Ldexp(1, -k)), math.Ldexp(1, k)}
	}
	if s.element.Mantissa == 23 {
		encode := finite(top / amax)
		if amax == 0 {
			encode = 1
		}
		return factors{encode, float64(1 / encode)}
	}
	largest := float32(s.element.Max()) * top
	global, decode := float32(1), 1.0
	if s.Tensor && tensor > 0 {
		global, decode = finite(largest/tensor), float64(tensor)/float64(largest)
	}
	kept := s.element.Round(float64(finite(amax/top*global)), 0)
	if kept == 0 {
		return factors{} // so small beside the tensor's largest that all are zero
	}
	return factors{finite(1 / (float32(kept) * (1 / global))), kept * decode}
}

// exponent is that of a power-of-two scale.
func (s *Scale) exponent(amax float32, top float64) int {
	if amax == 0 {
		return s.Least
	}
	k := math.Ilogb(float64(amax)) - math.Ilogb(top)
	if s.Rule == Ceil {
		fraction, exponent := math.Frexp(float64(amax) / top)
		k = exponent
		if fraction == 0.5 {
			k--
		}
	}
	return min(max(k, s.Least), s.Greatest)
}

func finite(x float32) float32 { return min(x, math.MaxFloat32) }
