package optimizer

import (
	"fmt"
	"math"

	"harness.invalid/core/kernels"
	"harness.invalid/core/numerics"
	"harness.invalid/core/option"
	"harness.invalid/core/random"
)

// MomentOptions are the options of a rule that can keep its first moment in FP16, as Graphcore's optimizers do to save
// memory. They multiply it by the loss scale, so that small values do not vanish, and round it stochastically. Source:
// graphcore/popart, adam.hpp (accl1 type, scaledOptimizerState).
var MomentOptions = []option.Option{
	{Name: "first_moment", Default: "fp32", Doc: "format of the first moment: fp32 or fp16"},
	{Name: "first_moment_scale", Default: "4096", Doc: "power of two by which an FP16 first moment is multiplied"},
	{Name: "first_moment_rounding", Default: "stochastic", Doc: "rounding of an FP16 first moment: stochastic or nearest"},
}

// Moment says how a rule stores its first moment. The zero value stores it in FP32.
type Moment struct {
	scale      float32 // 0: FP32
	stochastic bool
}

// ReadMoment reads MomentOptions.
func ReadMoment(v *option.Values) (Moment, error) {
	half := v.OneOf("first_moment", "fp32", "fp16") == "fp16"
	scale := v.Float("first_moment_scale", 0x1p-24, 0x1p24)
	m := Moment{stochastic: v.OneOf("first_moment_rounding", "stochastic", "nearest") == "stochastic"}
	if frac, _ := math.Frexp(scale); v.Err() == nil && frac != 0.5 {
		return m, fmt.Errorf("option first_moment_scale is %g, want a power of two", scale)
	}
	if half {
		m.scale = float32(scale)
	}
	return m, v.Err()
}

// Narrow reports whether the first moment is not FP32.
func (m Moment) Narrow() bool { return m.scale != 0 }

// Slots returns the first moment m and the second moment v, in the formats in which a machine stores them.
func (m Moment) Slots() []Slot {
	slots := FP32Slots("m", "v")
	if m.Narrow() {
		slots[0].Format, slots[0].Bits = "fp16", 16
	}
	return slots
}

// Cost adds the cost of storing the first moment in FP16: it is scaled, rounded, and scaled back.
func (m Moment) Cost(c TensorCost, n int) TensorCost {
	if m.Narrow() {
		c.Flops += 3 * float64(n)
	}
	return c
}

// Update computes the first moment of a block, m = beta1·m + beta3·gradScale·g, and stores it. The rest of the rule uses the
// stored value, with the coefficients from Kept.
func (m Moment) Update(c *kernels.Adam, step int, b Block, moment, grad []float32) {
	kernels.Scale(moment, c.Beta1, moment)
	kernels.Axpy(moment, float32(c.Beta3*c.GradScale), grad)
	r := numerics.Rounding{Format: numerics.FP16, Stochastic: m.stochastic, Overflow: numerics.Clip, Stream: random.New(0, random.Rounding)}
	// The backend's streams have the run's seed and sites above 0; these have tensors in place of samples.
	r.Stream.Step, r.Stream.Sample = uint32(step), uint32(b.Tensor)
	kernels.Scale(moment, m.scale, moment)
	kernels.Round(moment, moment, r, b.Begin)
	kernels.Scale(moment, 1/m.scale, moment)
}

// Kept returns coefficients that leave the first moment as Update stored it.
func (m Moment) Kept(c kernels.Adam) kernels.Adam {
	c.Beta1, c.Beta3 = 1, 0
	return c
}
