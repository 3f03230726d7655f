package emulator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"harness.invalid/core/bert"
	"harness.invalid/core/format"
	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/random"
)

// Products are the formats to which the operands of the linear operators of layers are quantised when a product reads
// them, each along the product's inner dimension, from what is stored. The product itself is summed in FP32. nil leaves
// an operand as it is stored, rounded to Policy.Inputs.
type Products struct {
	Input, Weight               *format.Quantizer // Y = X·Wᵀ, both along the width of X
	BackGradient, BackWeight    *format.Quantizer // dX = dY·W, both along the width of dY
	WeightGradient, WeightInput *format.Quantizer // dW = dYᵀ·X, both along the tokens of a micro-batch
	// Hadamard multiplies both operands of the last product, before they are quantised, by a Hadamard matrix of 16 x 16
	// with random signs along the tokens: the product stays, and a large element is spread over 16.
	Hadamard bool
	Delayed  Delayed // of operands with one scale for the tensor
	// Chunk replaces Partials.Chunk in products of quantised operands, on a device that stores partial sums; 0: it holds
	// for them too.
	Chunk int
	Wide  Wide

	layers int // of the model
}

// Wide says which products keep their operands as they are stored, besides those outside of the encoder.
type Wide struct {
	FirstLayers int `yaml:"first_layers"` // of the encoder
	LastLayers  int `yaml:"last_layers"`
	FirstSteps  int `yaml:"first_steps"` // of each phase, in training alone
}

// parseOperand reads NAME, and behind it a rounding and a rule of the scale where they are not the format's own. own are
// formats besides those built in.
func parseOperand(text string, own map[string]*format.Format) (*format.Quantizer, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, nil
	}
	f, ok := own[words[0]]
	if !ok {
		named, err := format.Text(words[0]) // no file: a policy stands for itself
		if err != nil {
			return nil, fmt.Errorf("%w, or described under the key formats", err)
		}
		if f, err = format.Parse(words[0], named); err != nil {
			return nil, err
		}
	}
	for _, word := range words[1:] {
		var err error
		if rule := format.Rule(word); rule == format.Floor || rule == format.Ceil {
			f, err = f.With("", "", rule)
		} else {
			f, err = f.With(format.Rounding(word), "", "")
		}
		if err != nil {
			return nil, err
		}
	}
	return f.Quantizer(), nil
}

func (p *Products) all() []**format.Quantizer {
	return []**format.Quantizer{&p.Input, &p.Weight, &p.BackGradient, &p.BackWeight, &p.WeightGradient, &p.WeightInput}
}

// nearest makes all rounding one to nearest.
func (p *Products) nearest() {
	err := p.change(func(f *format.Format) (*format.Format, error) {
		if f.Element.Rounding != format.Stochastic {
			return f, nil
		}
		return f.With(format.NearestEven, "", "")
	})
	if err != nil {
		panic(err) // another rounding makes no valid format invalid
	}
}

// Overflow sets what becomes of values beyond the largest. All formats must have it.
func (p *Products) Overflow(o format.Overflow) error {
	return p.change(func(f *format.Format) (*format.Format, error) { return f.With("", o, "") })
}

// change replaces every format.
func (p *Products) change(to func(f *format.Format) (*format.Format, error)) error {
	for _, q := range p.all() {
		if *q == nil {
			continue
		}
		f, err := to((*q).Format())
		if err != nil {
			return err
		}
		if f != (*q).Format() {
			*q = f.Quantizer()
		}
	}
	return nil
}

func (p *Products) validate() error {
	if w := p.Wide; w.FirstLayers < 0 || w.LastLayers < 0 || w.FirstSteps < 0 {
		return fmt.Errorf("emulator: products.wide is %+v, want nothing below 0", w)
	}
	if p.Chunk < 0 || p.Chunk > 256 {
		return fmt.Errorf("emulator: products.chunk is %d, want 0 to 256", p.Chunk)
	}
	if p.Hadamard && (p.WeightGradient == nil || p.WeightInput == nil) {
		return errors.New("emulator: products.parameter_gradient.hadamard wants the formats of both operands there")
	}
	if err := p.Delayed.validate(); err != nil {
		return err
	}
	if p.Delayed.History > 0 && !slices.ContainsFunc(p.all(), func(q **format.Quantizer) bool { return delayed(*q) }) {
		return errors.New("emulator: products.delayed wants an operand with one scale for the tensor, such as e4m3-tensor")
	}
	return nil
}

// narrow reports whether the products of an operator quantise operands in a pass.
func (p *Products) narrow(pass *bert.Pass, site bert.Site) bool {
	l, w := site.Layer, &p.Wide
	return l >= w.FirstLayers && (l < p.layers-w.LastLayers || w.LastLayers == 0) &&
		(!pass.Train || int(pass.Step) > w.FirstSteps)
}

// operands are the quantised factors of a product. Their memory goes back to the device with done.
type operands struct {
	d     *Device
	pass  *bert.Pass
	site  bert.Site
	taken []*scratch
}

// factor says how a factor [rows, columns] of a product is quantised: not at all where quantizer is nil.
type factor struct {
	quantizer     *format.Quantizer
	rows, columns int
	alongRows     bool // the product sums over rows
	role          role
	draw          uint32
}

// quantize replaces the factors of a product by their values in the formats of the policy. The product promises the
// format of both where it is exact for them.
func (d *Device) quantize(p *bert.Pass, site bert.Site, g *kernels.Gemm, a, b factor) (done func()) {
	if a.quantizer == nil && b.quantizer == nil || !d.policy.Products.narrow(p, site) {
		return func() {}
	}
	o := operands{d: d, pass: p, site: site}
	if d.policy.Products.Hadamard && a.draw == drawWeightGradient {
		o.transform(g, &a, &b)
	}
	if a.quantizer != nil {
		g.A, g.LDA, g.RoundA = o.values(g.A, &a), a.columns, numerics.FP32
	}
	if b.quantizer != nil {
		g.B, g.LDB, g.RoundB = o.values(g.B, &b), b.columns, numerics.FP32
	}
	if n := d.policy.Products.Chunk; n > 0 && g.Partials.Chunk > 0 {
		g.Partials.Chunk = n
	}
	if g.Inputs = numerics.FP32; a.isBF16(d.policy.Inputs) && b.isBF16(d.policy.Inputs) {
		g.Inputs = numerics.BF16
	}
	return func() {
		for _, s := range o.taken {
			d.scratch.put(s)
		}
	}
}

// isBF16 reports whether all values of a factor are BF16's too.
func (f *factor) isBF16(stored numerics.Format) bool {
	if f.quantizer == nil {
		return stored == numerics.BF16
	}
	described := f.quantizer.Format()
	return described.Element.Mantissa <= 7 && (described.Scale == nil || described.Scale.Format == format.PowerOfTwo)
}

// values returns x in the factor's format.
func (o *operands) values(x []float32, f *factor) []float32 {
	s := o.d.scratch.get()
	o.taken = append(o.taken, s)
	n := f.rows * f.columns
	m := format.Matrix{Dst: s.take(n), Src: x[:n], Rows: f.rows, Columns: f.columns, AlongRows: f.alongRows}
	if f.quantizer.Format().Element.Rounding == format.Stochastic {
		m.Stream = o.d.stream(o.pass, random.Rounding)
		m.Stream.Step, m.Stream.Sample, m.Stream.Site = o.pass.Step, uint32(o.pass.Sample), o.site.Stream(f.draw, 0)
	}
	tensor := float32(0)
	if f.quantizer.NeedsLargest() {
		tensor = largest(m.Src)
	}
	if o.d.scaling != nil && delayed(f.quantizer) {
		if tensor = o.d.scaling.take(o.pass, o.site, f.role, tensor); tensor == 0 {
			tensor = float32(f.quantizer.Format().Element.Max()) // a scale of 1
		}
	}
	kernels.Parallel(f.quantizer.Bands(&m), func(b0, b1 int) { f.quantizer.Quantize(&m, b0, b1, tensor) })
	if o.d.effects.wanted(o.pass) {
		o.d.effects.add(o.site, f.draw, f.quantizer, &m, tensor)
	}
	return m.Dst
}

// largest is format.Largest of parts that workers share.
func largest(x []float32) float32 {
	const part = 4096
	var mu sync.Mutex
	amax := float32(0)
	kernels.Parallel((len(x)+part-1)/part, func(i0, i1 int) {
		found := format.Largest(x[i0*part : min(i1*part, len(x))])
		mu.Lock()
		defer mu.Unlock()
		amax = format.Worse(amax, found)
	})
	return amax
}
