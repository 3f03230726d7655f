// Package oracle holds the built-in formats against values that other programs computed: a folder of safetensors files
// goes in, and for each tensor how many values differ comes out.
//
// A file has tensors of three kinds. F.VARIANT beside x is the cast of x to the element format F; the variants are
// nearest (by the format's own overflow), nearest.saturate and stochastic.saturate, whose random bits, of which there
// are 16, are the tensor bits. T.F.VARIANT beside T with two axes is T quantised along its last axis and multiplied by
// its scales; the variants are floor and ceil of the scale of MX, tensor for one scale, and the tile. N.F.VARIANT beside
// N.a [M, K] and N.b [N, K] is the product of both, quantised along K.
package oracle

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/format"
	"harness.invalid/core/tensor"
)

// Case is what came out for one tensor.
type Case struct {
	File   string `json:"file"`
	Tensor string `json:"tensor"`
	// Format is the built-in format, with what the variant changes of it in brackets.
	Format string `json:"format"`
	Values int    `json:"values"`
	// Mismatches counts the values that differ; those of products that differ by more than 1e-6 of the product's norm.
	Mismatches int `json:"mismatches"`
	// Worst is the greatest relative error of a value, 1 where either is not finite; of products that of the norm.
	Worst float64 `json:"worst"`
}

// Report is what came out for a folder.
type Report struct {
	Cases []Case `json:"cases"`
	Pass  bool   `json:"pass"`
}

// Pass reports whether all values agree.
func (c *Case) Pass() bool { return c.Mismatches == 0 && c.Worst <= productTolerance }

// productTolerance bounds the error of a product relative to its norm: both are sums of some hundred products of
// float32 values, which float64 adds up with an error of 1e-13; the rest is room for programs that add in float32.
const productTolerance = 1e-6

// Verify compares all tensors of the files DIR/*.safetensors whose names say that they are results. It is an error if
// there are none.
func Verify(dir string) (*Report, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	r := &Report{Cases: []Case{}, Pass: true}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".safetensors" {
			continue
		}
		if err := r.file(dir, e.Name()); err != nil {
			return nil, fmt.Errorf("oracle %s: %w", filepath.Join(dir, e.Name()), err)
		}
	}
	if len(r.Cases) == 0 {
		return nil, fmt.Errorf("oracle %s: no file there has results of formats, want *.safetensors with tensors such as e4m3.nearest: %w",
			dir, fs.ErrNotExist)
	}
	return r, nil
}

func (r *Report) file(dir, name string) (err error) {
	f, err := safetensors.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	v := &vectors{tensors: map[string]weights.Tensor{}}
	var names []string
	for _, t := range f.Tensors() {
		v.tensors[t.Name] = t
		names = append(names, t.Name)
	}
	slices.Sort(names)
	for _, tensor := range names {
		if !v.result(tensor) {
			continue
		}
		c, err := v.compare(tensor)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", weights.Quote(tensor), err)
		}
		c.File = name
		r.Cases = append(r.Cases, *c)
		r.Pass = r.Pass && c.Pass()
	}
	return nil
}

// vectors are the tensors of a file.
type vectors struct{ tensors map[string]weights.Tensor }

func (v *vectors) has(name string) bool { _, ok := v.tensors[name]; return ok }

// result tells results from what they are computed of.
func (v *vectors) result(name string) bool {
	first, rest, dotted := strings.Cut(name, ".")
	if !dotted || rest == "a" || rest == "b" {
		return false
	}
	return v.has(first) || v.has(first+".a") || v.has("x")
}

func (v *vectors) compare(name string) (*Case, error) {
	first, rest, _ := strings.Cut(name, ".")
	want, err := v.tensors[name].Float64s()
	if err != nil {
		return nil, err
	}
	c := &Case{Tensor: name, Values: len(want)}
	switch {
	case v.has(first + ".a"):
		err = v.product(c, first, rest, want)
	case v.has(first):
		err = v.blocks(c, first, rest, want)
	default:
		err = v.cast(c, name, want)
	}
	return c, err
}

func (v *vectors) cast(c *Case, name string, want []float64) error {
	f, title, err := named(name)
	if err != nil {
		return err
	}
	c.Format = title
	x, err := v.tensors["x"].Float32s()
	if err != nil {
		return err
	}
	var random func(i int) uint16
	if f.Element.Rounding == format.Stochastic {
		if !v.has("bits") {
			return errors.New("the file has no tensor bits, which stochastic rounding takes")
		}
		bits, err := v.tensors["bits"].Int32s()
		if err != nil {
			return err
		}
		if len(bits) != len(x) {
			return fmt.Errorf("bits has %d values, want those of x: %d", len(bits), len(x))
		}
		random = func(i int) uint16 { return uint16(bits[i]) }
	}
	got := make([]float32, len(x))
	if err := f.Quantize(got, x, 1, len(x), random); err != nil {
		return err
	}
	return c.count(got, want)
}

func (v *vectors) blocks(c *Case, first, rest string, want []float64) error {
	f, title, err := named(rest)
	if err != nil {
		return err
	}
	c.Format = title
	got, _, err := v.quantized(f, first)
	if err != nil {
		return err
	}
	return c.count(got, want)
}

// quantized quantizes a matrix along its last axis.
func (v *vectors) quantized(f *format.Format, name string) ([]float32, tensor.Shape, error) {
	t, ok := v.tensors[name]
	if !ok || len(t.Shape) != 2 {
		return nil, nil, fmt.Errorf("tensor %s is not there with two axes", weights.Quote(name))
	}
	x, err := t.Float32s()
	if err != nil {
		return nil, nil, err
	}
	return x, t.Shape, f.Quantize(x, x, t.Shape[0], t.Shape[1], nil)
}

func (v *vectors) product(c *Case, first, rest string, want []float64) error {
	f, title, err := named(rest)
	if err != nil {
		return err
	}
	c.Format = title
	a, as, err := v.quantized(f, first+".a")
	if err != nil {
		return err
	}
	b, bs, err := v.quantized(f, first+".b")
	if err != nil {
		return err
	}
	m, n, k := as[0], bs[0], as[1]
	if bs[1] != k || len(want) != m*n {
		return fmt.Errorf("%d values of the factors %v and %v, want %d x %d", len(want), as, bs, m, n)
	}
	var norm, off float64
	errs := make([]float64, len(want))
	for i := range want {
		sum := 0.0
		for j := range k {
			sum += float64(a[i/n*k+j]) * float64(b[i%n*k+j])
		}
		errs[i] = math.Abs(sum - want[i])
		norm, off = norm+want[i]*want[i], off+errs[i]*errs[i]
	}
	c.Worst = math.Sqrt(off / norm)
	if !(c.Worst <= 1) { // NaN, or worse
		c.Worst = 1
	}
	for _, e := range errs {
		if !(e <= productTolerance*math.Sqrt(norm)) {
			c.Mismatches++
		}
	}
	return nil
}

// count compares every value.
func (c *Case) count(got []float32, want []float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d values, want those of what they are computed of: %d", len(want), len(got))
	}
	for i, w := range want {
		g := float64(got[i])
		if g == w || g != g && w != w {
			continue
		}
		c.Mismatches++
		e := math.Abs(g-w) / math.Abs(w)
		if !(e <= 1) {
			e = 1
		}
		c.Worst = max(c.Worst, e)
	}
	return nil
}
