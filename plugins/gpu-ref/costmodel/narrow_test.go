package costmodel

import (
	"errors"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/plugins/gpu-ref/execution"
)

// TestNarrowProducts: FP8 loses in a small linear operator and wins in a large one, as published: both figures are within
// the interval that the model states. M, K, N of the forward product; speedup over BF16, forward and backward. Source:
// pytorch/ao, torchao/float8/README.md, "Performance", scales of the tensor itself. These are sums of the kernels' times,
// without the gaps between them (benchmarks/float8/float8_roofline.py), on an H100 whose memory has 2.4 TB/s, of which kernels
// get 0.92 (torchao/testing/float8/roofline_utils.py).
func TestNarrowProducts(t *testing.T) {
	system, err := Systems.Load("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	system.Chip.MemoryBytesPerSecond, system.Chip.MemoryEfficiency = 2.4e12, 0.92
	seconds := func(precision string, rows, in, out int) float64 {
		p := large(t)
		p.Precision, p.Accumulation = precision, 1
		m, err := newModel(p, execution.Plan{}, system, backend.Machine{}, fitted())
		if err != nil {
			t.Fatal(err)
		}
		l, rest := m.layerLinear(rows, in, out), m.rest(rows, in, out) // theirs has no bias
		return l.forward.seconds() + l.backward.seconds() - rest.backward.seconds()
	}
	p := large(t)
	width := published().Confidence(&p, system.Chip.Name, 1)
	for _, c := range []struct {
		m, k, n int
		speedup float64
	}{{1024, 2048, 1024, 0.80}, {4096, 8192, 16384, 1.39}} {
		got := seconds("bf16", c.m, c.k, c.n) / seconds("fp8-current", c.m, c.k, c.n)
		if got*width.Low > c.speedup || got*width.High < c.speedup {
			t.Errorf("%d x %d x %d: FP8 is %.3f times as fast, %.3f to %.3f, published %.2f",
				c.m, c.k, c.n, got, got*width.Low, got*width.High, c.speedup)
		}
		if delayed := seconds("bf16", c.m, c.k, c.n) / seconds("fp8", c.m, c.k, c.n); delayed <= got {
			t.Errorf("%d x %d x %d: delayed scales are %.3f times as fast, and those of the tensor %.3f", c.m, c.k, c.n, delayed, got)
		}
	}
}

// TestNarrowSteps: BERT-Large is small for FP8, with casts as kernels of their own: a step gains by it where scales are there
// already, and loses where the largest magnitude is searched first. BERT-Tiny gains nothing.
func TestNarrowSteps(t *testing.T) {
	rate := func(system, size, precision string) float64 {
		p := large(t)
		var err error
		if p.Model, err = bert.Defaults().Size(size); err != nil {
			t.Fatal(err)
		}
		p.Precision = precision
		e, err := modelled(t, p, execution.Plan{}, system)
		if err != nil {
			t.Fatal(err)
		}
		if e.Confidence.Inside {
			t.Errorf("%s, %s: nothing is published, and the figure counts as inside", system, precision)
		}
		return e.SequencesPerSecond
	}
	for system, rising := range map[string][]string{"dgx-h100": {"fp8-current", "bf16", "fp8"}, "dgx-b200": {"bf16", "mxfp6", "mxfp4"}} {
		before := 0.0
		for _, precision := range rising {
			gain := rate(system, "large", precision) / rate(system, "large", "bf16")
			if gain <= before || gain >= 2 {
				t.Errorf("%s: %s is %.3f times as fast as BF16, want more than %.3f and less than 2", system, precision, gain, before)
			}
			before = gain
		}
		last := rising[len(rising)-1]
		if gain := rate(system, "tiny", last) / rate(system, "tiny", "bf16"); gain > 1 {
			t.Errorf("%s: BERT-Tiny is %.3f times as fast in %s", system, gain, last)
		}
	}
	for system, precision := range map[string]string{
		"dgx-a100-80gb": "fp8", "dgx-h100": "mxfp8", "dgx-h200": "nvfp4", "dgx-b200": "fp8-block",
	} {
		p := large(t)
		p.Precision = precision
		if _, err := modelled(t, p, execution.Plan{}, system); !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("%s in %s: %v, want that it does not", system, precision, err)
		}
	}
}
