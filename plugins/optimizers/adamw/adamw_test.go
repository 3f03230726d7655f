package adamw

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
		{"bias_correction": "false", "eps": "1e-6", "max_grad_norm": "1"},
		{"beta1": "0", "beta2": "0.5", "weight_decay": "0.5"},
		{"max_grad_norm": "1e6"},
		{"max_grad_norm": "0.2", "clip_by": "tensor", "bias_correction": "false"},
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
		for _, of := range l.Tensors() {
			decay := c.WeightDecay
			if of.Kind == tensor.Bias {
				decay = 0
			}
			clip := clip
			if c.clipTensors {
				var norm float64
				for _, x := range of.Of(g) {
					norm += float64(x) * float64(x)
				}
				clip = min(1, c.maxGradNorm/math.Sqrt(norm))
			}
			for i := of.Offset; i < of.Offset+of.Len(); i++ {
				x := float64(g[i]) * clip
				m[i] = c.Beta1*m[i] + (1-c.Beta1)*x
				v[i] = c.Beta2*v[i] + (1-c.Beta2)*x*x
				p[i] -= optimizertest.Rate(step) * (m[i]/c1/(math.Sqrt(v[i]/c2)+c.Eps) + decay*p[i])
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
		{"bias_correction", "maybe", "bias_correction"},
		{"max_grad_norm", "-1", "max_grad_norm"},
		{"clip_by", "layer", "clip_by"},
		{"beta3", "0.9", "did you mean beta1"},
	} {
		_, err := New().Slots(t.Context(), map[string]string{test.name: test.value})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%s: error %v, want one with %q", test.name, test.value, err, test.want)
		}
	}
}
