package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
	"harness.invalid/core/wordpiece"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/ipu"
	"harness.invalid/plugins/optimizers/adamw"
)

// inProcess runs its plugins in this process, for benchmarks without the wire.
type inProcess struct{ backend backend.Backend }

func (p inProcess) Backend() backend.Backend { return p.backend }

func (inProcess) Optimizer(context.Context, string) (optimizer.Optimizer, error) {
	return adamw.New(), nil
}

func (inProcess) Allocate(l *tensor.Layout, slots int) (optimizer.Memory, error) {
	m := optimizer.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	for range slots {
		m.Slots = append(m.Slots, make([]float32, l.Len()))
	}
	return m, nil
}

// BenchmarkStep is `harness bench step` without the wire.
func BenchmarkStep(b *testing.B) {
	for _, x := range []struct {
		backend backend.Backend
		name    string
		formats []string
	}{{gpuref.New(), "gpu-ref", []string{"fp32", "tf32", "bf16", "fp16"}}, {ipu.New(), "ipu", []string{"fp16.16", "fp16.32"}}} {
		for _, size := range []string{"tiny", "mini"} {
			for _, format := range x.formats {
				m := Step(b.Context(), inProcess{x.backend}, StepOptions{
					Size: size, Task: bert.Pretraining, Backend: x.name, Precision: format, Length: 128, Batch: 32, Dropout: 0.1,
				})
				b.Run(strings.TrimPrefix(m.Name, "Step/"), m.Run)
			}
		}
	}
}

func BenchmarkKernels(b *testing.B) { all(b, Kernels()) }
func BenchmarkMemory(b *testing.B)  { all(b, Memory()) }
func BenchmarkFormats(b *testing.B) { all(b, Formats()) }

func BenchmarkOptimizer(b *testing.B) {
	all(b, []Benchmark{Optimizer(b.Context(), inProcess{}, "adamw", "base")})
}

func all(b *testing.B, list []Benchmark) {
	for _, m := range list {
		_, name, _ := strings.Cut(m.Name, "/")
		b.Run(name, m.Run)
	}
}

// TestFLOP: the published forward pass of BERT-Base over 128 tokens takes 22.5 GFLOP.
// Source: Jiao et al. 2020, "TinyBERT" (arXiv:1909.10351), table 1.
func TestFLOP(t *testing.T) {
	o := StepOptions{Size: "base", Task: bert.QuestionAnswering, Length: 128, Batch: 1}
	c, err := o.Config()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := o.FLOP(c)/3, 22.5e9; math.Abs(got/want-1) > 0.01 {
		t.Errorf("forward pass of BERT-Base: %g FLOP, published %g", got, want)
	}
}

func TestMeasureStep(t *testing.T) {
	for _, task := range []bert.Task{bert.Pretraining, bert.QuestionAnswering} {
		m := Step(t.Context(), inProcess{gpuref.New()}, StepOptions{
			Size: "tiny", Task: task, Backend: "gpu-ref", Precision: "fp32", Length: 8, Batch: 2, Dropout: 0.1,
		})
		f, err := m.Measure(3)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range f.Samples {
			if !(s.MS > 0 && s.Share > 0 && s.ProbeNS > 0) {
				t.Errorf("%v: sample %+v", task, s)
			}
		}
		if len(f.Samples) != 3 {
			t.Errorf("%v: %d samples, want 3", task, len(f.Samples))
		}
		if f.Count != 3 || f.Name != m.Name {
			t.Errorf("%v: count %d, name %q, want 3 steps of %q", task, f.Count, f.Name, m.Name)
		}
		if !(0 < f.Time.Min && f.Time.Min <= f.Time.Median && f.Time.Median <= f.Time.Max) {
			t.Errorf("%v: times %+v are not in order", task, f.Time)
		}
		if p := f.Parts; !(p["backend"] > 0 && p["optimizer"] > 0 && p["other"] >= 0 && p["backend"] <= f.Time.Max) {
			t.Errorf("%v: parts %v", task, p)
		}
		if r := f.SequencesPerSecond * f.Time.Median / 1e3; math.Abs(r-2) > 1e-9 {
			t.Errorf("%v: %g sequences in a median step, want 2", task, r)
		}
		if !strings.HasPrefix(f.Line(), "Benchmark"+m.Name) || !strings.Contains(f.Line(), " ns/op\t") {
			t.Errorf("line %q is not in Go's benchmark format", f.Line())
		}
	}
}

func TestMeasureErrors(t *testing.T) {
	m := Step(t.Context(), inProcess{gpuref.New()}, StepOptions{Size: "tony", Length: 8, Batch: 2})
	if _, err := m.Measure(1); err == nil || !strings.Contains(err.Error(), "tiny") {
		t.Errorf("error %v, want one that names tiny", err)
	}
}

// TestTokenizer: WordPiece does not allocate memory for lines of text.
func TestTokenizer(t *testing.T) {
	text := strings.NewReader("the cat sat on the mat\nthe dog sat\n")
	v, err := wordpiece.Train(wordpiece.TrainOptions{Size: 80, Options: wordpiece.Google(true)}, text)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := wordpiece.New(v, wordpiece.Google(true))
	if err != nil {
		t.Fatal(err)
	}
	m := Tokenizer(tok, strings.Repeat("the cat sat on the mat\n", 1000))
	f, err := m.Measure(2)
	if err != nil {
		t.Fatal(err)
	}
	// The runtime itself may allocate a few times during a thousand lines.
	if f.MBs <= 0 || f.AllocationsPerLine > 0.05 {
		t.Errorf("%g MB/s, %g allocations a line, want none", f.MBs, f.AllocationsPerLine)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2}, {[]float64{7}, 7}} {
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v is %g, want %g", c.values, got, c.want)
		}
	}
}

func TestAlone(t *testing.T) {
	figures := []Figure{
		{Samples: []Sample{{MS: 5, Share: 0.9, ProbeNS: 0.5}, {MS: 7, Share: 0.6, ProbeNS: 0.8}, {MS: 5, Share: 0.8, ProbeNS: 0.62}}},
		{Samples: []Sample{{MS: 4, Share: 0.7, ProbeNS: 0.63}}},
		{Samples: []Sample{{MS: 2001, Share: 0.5, ProbeNS: 0.5}, {MS: 4, Share: 0.4}}}, // too long, and unknown
	}
	want := [][]float64{{0.9, 0.8}, nil, nil}
	if got := Alone(figures); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("shares of samples alone: %v, want %v", got, want)
	}
}

// TestLengths: batches have about the share of tokens that was asked for, and PyTorch gets sequences of the same lengths.
func TestLengths(t *testing.T) {
	o := StepOptions{Length: 384, Batch: 8, Fill: 0.45}
	var all []int
	tokens := 0
	for i := range batches {
		for _, n := range o.lengths(i) {
			all = append(all, n)
			tokens += n
		}
	}
	if share := float64(tokens) / (batches * 8 * 384); math.Abs(share-0.45) > 0.01 || slices.Min(all) < 60 || slices.Max(all) > 280 {
		t.Errorf("%d to %d tokens, a share of %.3f", slices.Min(all), slices.Max(all), share)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("Python is not installed")
	}
	const program = `
import json, sys
sys.path.insert(0, "against-pytorch")
from lengths import BATCHES, lengths
print(json.dumps([n for i in range(BATCHES) for n in lengths(384, 8, 0.45, i)]))
`
	out, err := exec.CommandContext(t.Context(), python, "-B", "-c", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var theirs []int
	if err := json.Unmarshal(out, &theirs); err != nil || !slices.Equal(theirs, all) {
		t.Errorf("lengths %v, PyTorch's %v: %v", all, theirs, err)
	}
}

// TestAgainstPyTorch: the program with which `bench step` is compared runs and counts the same operations.
func TestAgainstPyTorch(t *testing.T) {
	if testing.Short() {
		t.Skip("PyTorch takes seconds to load")
	}
	const python = "/usr/bin/python3"
	const found = "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch'))"
	if err := exec.CommandContext(t.Context(), python, "-c", found).Run(); err != nil {
		t.Skip("PyTorch is not installed: apt-get install python3-torch libopenblas0-openmp")
	}
	// One process runs the program for both tasks, because PyTorch takes two seconds to load.
	const twice = `
import runpy, sys
for task in "pretraining", "squad":
    sys.path.insert(0, "against-pytorch")
    sys.argv = ["step.py", "--task=" + task, "--seq=16", "--batch=2", "--steps=1", "--threads=1"]
    runpy.run_path("against-pytorch/step.py", run_name="__main__")
`
	cmd := exec.CommandContext(t.Context(), python, "-B", "-c", twice)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	printed := json.NewDecoder(bytes.NewReader(out))
	for _, task := range []bert.Task{bert.Pretraining, bert.QuestionAnswering} {
		var got struct {
			GFLOP float64 `json:"gflop_per_step"`
		}
		if err := printed.Decode(&got); err != nil {
			t.Fatalf("%s: %v: %s", task, err, out)
		}
		o := StepOptions{Size: "tiny", Task: task, Length: 16, Batch: 2}
		c, err := o.Config()
		if err != nil {
			t.Fatal(err)
		}
		want := o.FLOP(c)
		if task == bert.Pretraining {
			// PyTorch computes the whole last layer for every token. The heads read 1 + 2 of 16 tokens; for the others the
			// query, the attention, its output and the feed-forward block are superfluous.
			want += 3 * 2 * (16 - 3) * (2*128*128 + 4*16*128 + 2*128*128 + 4*128*512)
		}
		if want /= 1e9; math.Abs(got.GFLOP/want-1) > 1e-12 {
			t.Errorf("%s: PyTorch's step has %g GFLOP, bench counts %g", task, got.GFLOP, want)
		}
	}
}
