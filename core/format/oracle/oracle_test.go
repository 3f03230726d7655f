package oracle_test

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/format/oracle"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/tensor"
)

// TestGolden holds all formats against vectors of torch, gfloat, microxcaling and Transformer Engine.
func TestGolden(t *testing.T) {
	r, err := oracle.Verify(reference.PathOrExcerpt(t, "golden", "formats"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) < 26 || !r.Pass {
		t.Errorf("%d tensors were compared, and pass is %v; want the 26 of the excerpts or more, all of which agree", len(r.Cases), r.Pass)
	}
	for _, c := range r.Cases {
		if !c.Pass() {
			t.Errorf("%s %s: %d of %d values differ from %s, worst %.3g", c.File, c.Tensor, c.Mismatches, c.Values, c.Format, c.Worst)
		}
	}
}

// write leaves a file of tensors in a new folder.
func write(t *testing.T, contents ...weights.Content) string {
	t.Helper()
	dir := t.TempDir()
	if err := safetensors.Write(filepath.Join(dir, "mine.safetensors"), contents, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPlanted: a value that is off is found, in casts, blocks and products, and so is one that is not finite.
func TestPlanted(t *testing.T) {
	x := tensor.Shape{1, 2}
	nan := float32(math.NaN())
	dir := write(t,
		weights.Of("x", x, []float32{1, 1000}), weights.Of("e4m3.nearest", x, []float32{1.125, nan}),
		weights.Of("e5m2.nearest", x, []float32{1, nan}), weights.Of("x.mxfp4.floor", x, []float32{0, 768}),
		weights.Of("0.a", x, []float32{1, 2}), weights.Of("0.b", x, []float32{2, 1}),
		weights.Of("0.e4m3.tensor", tensor.Shape{1, 1}, []float64{4.00001}), weights.Of("0.e5m2.tensor", tensor.Shape{1, 1}, []float64{4}))
	r, err := oracle.Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"e4m3.nearest": 1, "e5m2.nearest": 1, "x.mxfp4.floor": 0, "0.e4m3.tensor": 1, "0.e5m2.tensor": 0}
	for _, c := range r.Cases {
		if w, ok := want[c.Tensor]; !ok || c.Mismatches != w || c.Pass() != (w == 0) {
			t.Errorf("%+v, want %d mismatches", c, w)
		}
	}
	if len(r.Cases) != len(want) || r.Pass {
		t.Errorf("%d cases, and pass is %v; want %d and false", len(r.Cases), r.Pass, len(want))
	}
}

// TestMistakes: results that cannot be compared give an error that says why.
func TestMistakes(t *testing.T) {
	x, two := weights.Of("x", tensor.Shape{2}, []float32{1, 2}), tensor.Shape{2}
	for want, contents := range map[string][]weights.Content{
		"has results of formats":                {x},
		`no format is named "e4m4"`:             {x, weights.Of("e4m4.nearest", two, []float32{1, 2})},
		`"wild" is no variant`:                  {x, weights.Of("e4m3.wild", two, []float32{1, 2})},
		"has no tensor bits":                    {x, weights.Of("e4m3.stochastic.saturate", two, []float32{1, 2})},
		"3 values, want":                        {x, weights.Of("e4m3.nearest", tensor.Shape{3}, []float32{1, 2, 3})},
		"two axes":                              {x, weights.Of("x.mxfp4.floor", two, []float32{1, 2})},
		"has no scale, so no rule floor of one": {x, weights.Of("e4m3.floor", two, []float32{1, 2})},
	} {
		if _, err := oracle.Verify(write(t, contents...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
	if _, err := oracle.Verify(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that does not exist gives %v", err)
	}
}
