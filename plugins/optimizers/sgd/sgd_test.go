package sgd

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

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
		{"momentum": "0.9"},
		{"momentum": "0.9", "nesterov": "true", "weight_decay": "0.1"},
		{"momentum": "0.5", "dampening": "0.25", "max_grad_norm": "1"},
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
	p, buffer := make([]float64, l.Len()), make([]float64, l.Len())
	for i, x := range optimizertest.Initial(l) {
		p[i] = float64(x)
	}
	for step := 1; step <= optimizertest.StepCount; step++ {
		g := optimizertest.Gradient(l, step)
		var norm float64
		for _, x := range g {
			norm += float64(x) * float64(x)
		}
		clip := 1.0
		if c.maxGradNorm > 0 {
			clip = min(1, c.maxGradNorm/math.Sqrt(norm))
		}
		for _, of := range l.Tensors() {
			for i := of.Offset; i < of.Offset+of.Len(); i++ {
				x := float64(g[i]) * clip
				if of.Kind != tensor.Bias {
					x += c.weightDecay * p[i]
				}
				if step == 1 {
					buffer[i] = x
				} else {
					buffer[i] = c.momentum*buffer[i] + (1-c.dampening)*x
				}
				switch {
				case c.momentum == 0:
				case c.nesterov:
					x += c.momentum * buffer[i]
				default:
					x = buffer[i]
				}
				p[i] -= optimizertest.Rate(step) * x
			}
		}
	}
	return p
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
		{"momentum", "1.1", "momentum"},
		{"dampening", "-0.1", "dampening"},
		{"weight_decay", "NaN", "weight_decay"},
		{"nesterov", "true", "want a positive momentum"},
		{"max_grad_norm", "-1", "max_grad_norm"},
		{"momentun", "0.9", "did you mean momentum"},
	} {
		_, err := New().Slots(t.Context(), map[string]string{test.name: test.value})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%s: error %v, want one with %q", test.name, test.value, err, test.want)
		}
	}
}
