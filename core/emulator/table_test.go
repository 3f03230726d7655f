package emulator_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/format"
	"harness.invalid/core/numerics"
)

func parsed(t *testing.T, text string) emulator.Policy {
	t.Helper()
	p, err := emulator.ParsePolicy("mine", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestParsePolicy: each key sets the store that it names, and nothing else.
func TestParsePolicy(t *testing.T) {
	s := emulator.Store{Format: numerics.FP16, Stochastic: true}
	row := emulator.Row{Out: s, Grad: s, Weight: s}
	for text, want := range map[string]emulator.Policy{
		"doc: nothing":            {},
		"inputs: tf32":            {Inputs: numerics.TF32},
		"statistics: bf16":        {Statistics: emulator.Store{Format: numerics.BF16}},
		"masked: fp16 stochastic": {Masked: s}, "exponential: fp16 stochastic": {Exponential: s},
		"reciprocal: fp16 stochastic": {Reciprocal: s}, "loss_gradient: fp16 stochastic": {LossGrad: s},
		"accumulate: fp16 stochastic": {Accumulate: s}, "reduce: fp16 stochastic": {Reduce: s},
		"parameters: fp16 stochastic": {Parameters: s}, "working: fp16 stochastic": {Working: s},
		"running_mean: true": {RunningMean: true}, "shares: true": {Shares: true}, "divide: true": {Divide: true},
		"overflow: saturate": {Overflow: numerics.Clip}, "overflow: nan": {Overflow: numerics.NaN},
		"partials: {chunk: 16, store: fp16 stochastic}": {Partials: emulator.Partials{Chunk: 16, Store: s}},
		"embeddings: ROW": {Embed: row}, "linear: ROW": {Linear: row}, "pointwise: ROW": {Pointwise: row}, "residual: ROW": {Residual: row},
		"norm: ROW": {Norm: row}, "scores: ROW": {Scores: row}, "probabilities: ROW": {Probabilities: row},
		"linear: {input_gradient: bf16}":      {Linear: emulator.Row{Grad: emulator.Store{Format: numerics.BF16}}},
		"products: {wide: {first_layers: 2}}": {Products: emulator.Products{Wide: emulator.Wide{FirstLayers: 2}}},
	} {
		text = strings.ReplaceAll(text, "ROW",
			"{result: fp16 stochastic, input_gradient: fp16 stochastic, parameter_gradient: fp16 stochastic}")
		if got := parsed(t, text); !reflect.DeepEqual(got, want) {
			t.Errorf("%s gives %+v, want %+v", text, got, want)
		}
	}
}

// TestPolicyMistakes: errors name what is wrong in a table.
func TestPolicyMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                 "it is empty",
		"linaer: {result: bf16}":                           `"linaer" is no key of a policy, did you mean linear?`,
		"linear: {resalt: bf16}":                           `"resalt" is no key of a policy, did you mean result?`,
		"statistics: fp17":                                 `"fp17" is not one of`,
		"statistics: fp16 sometimes":                       "want FORMAT or FORMAT stochastic",
		"statistics: tf32 stochastic":                      "stochastic rounding to tf32",
		"overflow: maybe":                                  `overflow is "maybe"`,
		"partials: {chunk: 300}":                           "partial sums of 300",
		"products: {wide: {last_layers: -1}}":              "want nothing below 0",
		"products: {chunk: 257}":                           "products.chunk is 257",
		"products: {delayed: {history: 3}}":                "wants an operand with one scale for the tensor",
		"products: {delayed: {margin: 3}}":                 "want a history of 1 to 65536 steps",
		"products: {delayed: {history: 70000}}":            "want a history of 1 to 65536 steps",
		"products: {parameter_gradient: {hadamard: true}}": "wants the formats of both operands",
		"products: {forward: {input: e4m4}}":               `products.forward.input: no format is named "e4m4", did you mean e4m3`,
		"products: {forward: {input: ./x.yaml}}":           "no format is named",
		"products: {forward: {input: e4m3 ceil}}":          "has no scale",
		"products: {forward: {input: e4m3 upward}}":        `rounding is "upward"`,
		"formats: {mine: {element: {exponent: 9}}}":        "format mine: element: exponent is 9",
		"formats: {mine: 3}":                               "format mine",
		"inputs: bf16\n---\ninputs: fp16":                  "a second document",
		"doc: " + strings.Repeat("long ", 20000):           "want at most",
	} {
		_, err := emulator.ParsePolicy("mine", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: the error is %v, want one with %q", text, err, want)
		}
	}
}

// FuzzParsePolicy: no text makes the parser fail other than by an error.
func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte("inputs: bf16\nlinear: {result: bf16 stochastic}\nproducts: {forward: {input: mxfp8-e4m3 ceil}}"))
	f.Add([]byte("formats: {mine: {element: {like: e4m3, bias: 9}}}\nproducts: {forward: {input: mine}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := emulator.ParsePolicy("fuzzed", text); err == nil && p.Validate() != nil {
			t.Error("a policy is taken that is not valid")
		}
	})
}

const everyOperand = `
formats:
  mine: {element: {exponent: 3, mantissa: 2, bias: 4}, scale: {rows: 1, columns: 8, format: power-of-two, rule: floor}}
products:
  forward: {input: mine, weight: fp8-128x128}
  input_gradient: {gradient: e5m2-tensor, weight: mxfp8-e4m3 ceil}
  parameter_gradient: {gradient: mxfp4, input: nvfp4}
  wide: {first_layers: 1}
`

// factorOf is a reference-quantised matrix, along rows where the product sums over them.
func factorOf(t *testing.T, f *format.Format, x []float32, rows, columns int, alongRows bool) []float32 {
	t.Helper()
	g := *f
	if f.Scale != nil && alongRows {
		s := *f.Scale
		s.Rows, s.Columns = s.Columns, s.Rows
		g.Scale = &s
	}
	y := make([]float32, len(x))
	if err := g.Quantize(y, x, rows, columns, nil); err != nil {
		t.Fatal(err)
	}
	return y
}

// TestProducts holds the three products of a linear operator against float64 products of operands that the reference
// quantised along the dimension that each product sums over; the first layer stays wide.
func TestProducts(t *testing.T) {
	mine, err := format.Parse("mine",
		[]byte("element: {exponent: 3, mantissa: 2, bias: 4}\nscale: {rows: 1, columns: 8, format: power-of-two, rule: floor}"))
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string) *format.Format {
		f, err := format.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	ceil, err := named("mxfp8-e4m3").With("", "", format.Ceil)
	if err != nil {
		t.Fatal(err)
	}
	wide := named("fp32")
	for _, layer := range []int{0, 1} {
		f := [6]*format.Format{mine, named("fp8-128x128"), named("e5m2-tensor"), ceil, named("mxfp4"), named("nvfp4")}
		if layer == 0 {
			f = [6]*format.Format{wide, wide, wide, wide, wide, wide}
		}
		const R, K, N = 70, 36, 52
		r := rand.New(rand.NewPCG(1, 9))
		random := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(6))))
			}
			return x
		}
		x, w, dy := random(R*K), random(N*K), random(R*N)
		op := &bert.Linear{Site: bert.Site{Layer: layer, Op: bert.OpQuery}, Rows: R, In: K, Out: N, X: x, W: w, B: make([]float32, N),
			Y: make([]float32, R*N), DW: make([]float32, N*K), DB: make([]float32, N)}
		d, pass, dx := emulator.New(parsed(t, everyOperand)), &bert.Pass{Seed: 1, Step: 1, Size: 1, Length: R, Train: true}, make([]float32, R*K)
		d.Linear(pass, op)
		d.LinearBackward(pass, op, slices.Clone(dy), dx, false)
		check := func(what string, got []float32, rows, columns, inner int, a, b func(i, j int) float32) {
			var off, norm float64
			for i := range rows {
				for j := range columns {
					sum := 0.0
					for k := range inner {
						sum += float64(a(i, k)) * float64(b(j, k))
					}
					e := float64(got[i*columns+j]) - sum
					off, norm = off+e*e, norm+sum*sum
				}
			}
			// FP32 sums of at most 70 products: each addition is off by at most 2^-24.
			if e := math.Sqrt(off / norm); !(e < 1e-6) {
				t.Errorf("layer %d: %s is off by %.3g of its norm, want less than 1e-6", layer, what, e)
			}
		}
		xa, wa := factorOf(t, f[0], x, R, K, false), factorOf(t, f[1], w, N, K, false)
		check("Y", op.Y, R, N, K, func(i, k int) float32 { return xa[i*K+k] }, func(j, k int) float32 { return wa[j*K+k] })
		ga, wb := factorOf(t, f[2], dy, R, N, false), factorOf(t, f[3], w, N, K, true)
		check("dX", dx, R, K, N, func(i, k int) float32 { return ga[i*N+k] }, func(j, k int) float32 { return wb[k*K+j] })
		gb, xb := factorOf(t, f[4], dy, R, N, true), factorOf(t, f[5], x, R, K, true)
		check("dW", op.DW, N, K, R, func(i, k int) float32 { return gb[k*N+i] }, func(j, k int) float32 { return xb[k*K+j] })
	}
}

// TestWide: where operands stay wide, gradients have the same bits as without rounding of operands; elsewhere they differ.
func TestWide(t *testing.T) {
	gradients := func(text string) []float32 {
		b := newBench(t, small, bert.Pretraining, 4)
		d := emulator.New(parsed(t, text))
		b.run(t, d, b.batch)
		return slices.Clone(b.grads)
	}
	const narrow = "products: {forward: {input: e4m3-tensor, weight: e4m3-tensor}, wide: {WIDE}}"
	plain := gradients("doc: FP32")
	for wide, same := range map[string]bool{"": false, "first_layers: 1": false, "first_layers: 100": true,
		"first_steps: 1": false, "first_steps: 2": true} {
		if got := gradients(strings.Replace(narrow, "WIDE", wide, 1)); slices.Equal(got, plain) != same {
			t.Errorf("wide: {%s}: gradients equal FP32's: %v, want %v", wide, !same, same)
		}
	}
}

// TestStochasticOperands: operands that are rounded stochastically give other bits in other steps, and in evaluation are
// rounded to nearest.
func TestStochasticOperands(t *testing.T) {
	p := parsed(t, "products: {input_gradient: {gradient: mxfp4 stochastic}, forward: {weight: mxfp4 stochastic}}")
	n := p.Nearest()
	if got := n.Products.Weight.Format().Element.Rounding; got != format.NearestEven {
		t.Errorf("in evaluation weights are rounded by %s", got)
	}
	if got := p.Products.Weight.Format().Element.Rounding; got != format.Stochastic {
		t.Errorf("in training weights are rounded by %s", got)
	}
	b := newBench(t, small, bert.Pretraining, 4)
	b.run(t, emulator.New(p), b.batch)
	first := slices.Clone(b.grads)
	b.run(t, emulator.New(p), b.batch)
	if !slices.Equal(b.grads, first) {
		t.Error("the same step gives other bits")
	}
	p.RoundingSeed = 3
	b.run(t, emulator.New(p), b.batch)
	if slices.Equal(b.grads, first) {
		t.Error("another draw gives the same bits")
	}
}

// TestPolicies: every policy that comes with the program trains, near FP32 and not with its bits; those in blocks of
// fewer bits are further off.
func TestPolicies(t *testing.T) {
	b := newBench(t, small, bert.Pretraining, 4)
	b.run(t, emulator.New(emulator.Policy{}), b.batch)
	want := slices.Clone(b.grads)
	off := map[string]float64{}
	for _, name := range emulator.PolicyNames() {
		text, err := emulator.PolicyText(name)
		if err != nil {
			t.Fatal(err)
		}
		b.run(t, emulator.New(parsed(t, string(text))), b.batch)
		off[name] = relative(b.grads, want)
		if !(off[name] > 0 && off[name] < 0.5) {
			t.Errorf("%s changes the gradient by %.3g, want more than 0 and less than 0.5", name, off[name])
		}
	}
	if len(off) < 5 || off["mxfp4"] <= off["mxfp8"] {
		t.Errorf("gradients are off by %v, want more in mxfp4 than in mxfp8", off)
	}
	if _, err := emulator.PolicyText("mxfp5"); err == nil || !strings.Contains(err.Error(), "did you mean mxfp") {
		t.Errorf("the error is %v", err)
	}
}
