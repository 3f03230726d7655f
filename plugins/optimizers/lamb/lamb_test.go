package lamb

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/numerics"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/option"
	"harness.invalid/core/tensor"
)

func TestConformance(t *testing.T) {
	for _, r := range optimizertest.Conformance(t.Context(), New()) {
		if r.Err != nil {
			t.Errorf("%s: %v", r.Name, r.Err)
		}
	}
}

// run makes the steps of optimizertest and returns the memory.
func run(t *testing.T, options map[string]string) optimizer.Memory {
	t.Helper()
	m, err := optimizertest.Steps(t.Context(), New(), options)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAgainstTwin compares every variant with the rule written down once more, element by element in float64.
func TestAgainstTwin(t *testing.T) {
	for _, options := range []map[string]string{
		nil,
		{"use_nvlamb": "true"},
		{"grad_averaging": "false", "bias_correction": "false"},
		{"max_weight_norm": "2", "max_grad_norm": "0"},
		{"weight_decay": "0"},
		{"weight_decay": "0", "use_nvlamb": "true"},
	} {
		m := run(t, options)
		want := twin(t, m.Layout, options)
		for _, of := range m.Layout.Tensors() {
			for i, got := range of.Of(m.Params) {
				// A parameter of up to 0.3 is rounded to 1.5e-8 a few times at each of four steps.
				if w := want[of.Offset+i]; !(math.Abs(float64(got)-w) <= 2e-7) {
					t.Fatalf("%v: %s[%d] = %g, want %g", options, of.Name, i, got, w)
				}
			}
		}
	}
}

// twin is the rule of the package comment in float64.
func twin(t *testing.T, l *tensor.Layout, options map[string]string) []float64 {
	given, err := option.Read(info.Options, options)
	if err != nil {
		t.Fatal(err)
	}
	u, err := read(given)
	if err != nil {
		t.Fatal(err)
	}
	c := u.(*rule)
	n := l.Len()
	p, m, v := make([]float64, n), make([]float64, n), make([]float64, n)
	for i, x := range optimizertest.Initial(l) {
		p[i] = float64(x)
	}
	for step := 1; step <= optimizertest.StepCount; step++ {
		g := optimizertest.Gradient(l, step)
		var norm float64
		for _, x := range g {
			norm += float64(x) * float64(x)
		}
		norm = math.Sqrt(norm)
		clip := 1.0
		if c.maxGradNorm > 0 {
			clip = min(1, c.maxGradNorm/norm)
		}
		c1, c2 := 1.0, 1.0
		if c.BiasCorrection {
			c1, c2 = 1-math.Pow(c.Beta1, float64(step)), 1-math.Pow(c.Beta2, float64(step))
		}
		beta3 := 1.0
		if c.gradAveraging {
			beta3 = 1 - c.Beta1
		}
		for _, of := range l.Tensors() {
			decay := c.WeightDecay
			if of.Kind == tensor.Bias {
				decay = 0
			}
			u := make([]float64, of.Len())
			var pp, uu float64
			for j := range u {
				i := of.Offset + j
				x := float64(g[i]) * clip
				m[i] = c.Beta1*m[i] + beta3*x
				v[i] = c.Beta2*v[i] + (1-c.Beta2)*x*x
				u[j] = m[i]/c1/(math.Sqrt(v[i]/c2)+c.Eps) + decay*p[i]
				pp += p[i] * p[i]
				uu += u[j] * u[j]
			}
			ratio := 1.0
			if (decay != 0 || c.nvlamb) && pp > 0 && uu > 0 {
				ratio = math.Sqrt(pp)
				if c.maxWeightNorm > 0 {
					ratio = min(ratio, c.maxWeightNorm)
				}
				ratio /= math.Sqrt(uu)
			}
			for j := range u {
				p[of.Offset+j] -= optimizertest.Rate(step) * ratio * u[j]
			}
		}
	}
	return p
}

// TestFirstMoment: in FP16 the first moment has only values of FP16 times the scale, the parameters move almost as
// with FP32, and random bits matter.
func TestFirstMoment(t *testing.T) {
	exact := run(t, nil)
	var runs []optimizer.Memory
	for _, rounding := range []string{"nearest", "stochastic"} {
		m := run(t, map[string]string{"first_moment": "fp16", "first_moment_rounding": rounding})
		for i, v := range m.Slots[0] {
			if v*4096 != numerics.FP16.Round(v*4096) {
				t.Fatalf("%s: moment %d is %g, which FP16 lacks at a scale of 4096", rounding, i, v)
			}
		}
		var moved, off float64
		start := optimizertest.Initial(m.Layout)
		for i, v := range m.Params {
			moved += math.Pow(float64(exact.Params[i]-start[i]), 2)
			off += math.Pow(float64(v-exact.Params[i]), 2)
		}
		// FP16 has unit roundoff 4.9e-4, twice that when rounded stochastically, and a moment is the sum of a few roundings.
		if e := math.Sqrt(off / moved); e == 0 || e > 4e-3 {
			t.Errorf("%s: the way of the parameters is off by %.2g, want more than 0 and at most 4e-3", rounding, e)
		}
		runs = append(runs, m)
	}
	if slices.Equal(runs[0].Params, runs[1].Params) {
		t.Error("stochastic rounding does what nearest rounding does")
	}
}

// TestUpdateFormat: the update that Step leaves over the gradients is FP16, and so parameters move a little otherwise.
func TestUpdateFormat(t *testing.T) {
	exact, half := run(t, nil), run(t, map[string]string{"update_format": "fp16"})
	for i, u := range half.Grads {
		if u != numerics.FP16.Round(u) {
			t.Fatalf("update %d is %g, which FP16 lacks", i, u)
		}
	}
	var off, size float64
	for i, v := range half.Params {
		off += math.Pow(float64(v-exact.Params[i]), 2)
		size += math.Pow(float64(exact.Params[i]), 2)
	}
	if e := math.Sqrt(off / size); e == 0 || e > 1e-4 {
		t.Errorf("parameters differ by %.2g, want more than 0 and at most 1e-4", e)
	}
}

func TestAnyNumberOfCPUs(t *testing.T) {
	options := map[string]string{"max_grad_norm": "0.5"}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	want := run(t, options)
	for procs := 2; procs <= 4; procs++ {
		runtime.GOMAXPROCS(procs)
		if got := run(t, options); !slices.Equal(got.Params, want.Params) {
			t.Errorf("parameters on %d CPUs differ from those on one", procs)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"beta1", "1", "beta1"},
		{"beta2", "-0.1", "beta2"},
		{"eps", "0", "eps"},
		{"weight_decay", "NaN", "weight_decay"},
		{"use_nvlamb", "maybe", "use_nvlamb"},
		{"update_format", "bf16", "update_format"},
		{"max_weight_norm", "-1", "max_weight_norm"},
		{"first_moment", "fp8", "first_moment"}, {"first_moment_scale", "3", "power of two"},
		{"first_moment_rounding", "up", "first_moment_rounding"},
		{"max_grad_nrm", "1", "did you mean max_grad_norm"},
	} {
		_, err := New().Slots(t.Context(), map[string]string{test.name: test.value})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%s: error %v, want one with %q", test.name, test.value, err, test.want)
		}
	}
}
