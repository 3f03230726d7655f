package thismachine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"harness.invalid/core/bert"
	"harness.invalid/core/plugin"
	"harness.invalid/harness/bench"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/processes"
	"harness.invalid/results"
)

// Batches are the sequences of the steps that judge the model, by size of the model: as many as take about as long.
var Batches = map[string]int{"tiny": 32, "mini": 16, "small": 8, "medium": 4, "base": 2}

// Options say what is measured.
type Options struct {
	Models []string  // of Batches, whose steps judge the model
	Rounds int       // in each, operators are measured and then steps
	Steps  int       // of each model in a round
	Output io.Writer // for what the plugins write
}

// Measure measures operators and steps in turn, so that both see the same load of the machine. Every figure is the median
// over the rounds.
func Measure(ctx context.Context, o Options) (s *System, err error) {
	set, err := processes.NewSet(ctx, Backend, processes.Options{Output: o.Output})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	var profiles []Profile
	var flops, bytes, calls []float64
	seconds := map[string][]float64{}
	for range o.Rounds {
		p, err := operators(ctx, o.Output)
		if err != nil {
			return nil, err
		}
		profiles = append(profiles, p)
		f, err := memory().Measure(3)
		if err != nil {
			return nil, err
		}
		bytes = append(bytes, 1e9*f.PeakGBs)
		for _, model := range o.Models {
			step := bench.Step(ctx, set, bench.StepOptions{
				Size: model, Task: bert.Pretraining, Backend: Backend, Precision: precision, Optimizer: "adamw",
				Length: length, Batch: Batches[model], Fill: 1, Dropout: 0.1,
			})
			f, err := step.Measure(o.Steps)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", model, err)
			}
			seconds[model] = append(seconds[model], f.StepMS.Median/1e3)
			flops, calls = append(flops, 1e9*f.PeakGFLOPS), append(calls, f.Parts["commit"]/1e3)
		}
	}
	env := results.CaptureEnvironment()
	s = &System{
		Name: Name, Measured: time.Now().UTC().Format(time.DateOnly), CPU: env.CPU, Profile: middle(profiles), FMAFlops: bench.Median(flops),
		MemoryBytesPerSecond: bench.Median(bytes), MemoryBytes: env.Memory, CallSeconds: bench.Median(calls),
	}
	for _, model := range o.Models {
		s.Steps = append(s.Steps, Step{model, length, Batches[model], bench.Median(seconds[model])})
	}
	return s, s.Validate()
}

const length = 128

// memory is the benchmark of the pass that limits all others.
func memory() *bench.Benchmark {
	list := bench.Memory()
	i := slices.IndexFunc(list, func(b bench.Benchmark) bool { return b.Name == "Memory/scale-in-place" })
	return &list[i]
}

// operators runs plugins/torch/harness_torch/machine.py as the backend is run.
func operators(ctx context.Context, output io.Writer) (p Profile, err error) {
	e, err := catalog.Find(plugin.Backend, Backend)
	if err != nil {
		return p, err
	}
	cmd := exec.CommandContext(ctx, e.Path, e.Script, "machine")
	cmd.Env = append(append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", runtime.GOMAXPROCS(0))), e.Env...)
	cmd.Stderr = output
	text, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("measuring PyTorch's operators: %w", err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("measuring PyTorch's operators: %w", err)
	}
	return p, nil
}

// middle is a profile of medians.
func middle(list []Profile) Profile {
	of := func(get func(p *Profile) float64) float64 {
		var values []float64
		for i := range list {
			values = append(values, get(&list[i]))
		}
		return bench.Median(values)
	}
	pair := func(get func(p *Profile) Pair) Pair {
		return Pair{of(func(p *Profile) float64 { return get(p).Forward }), of(func(p *Profile) float64 { return get(p).Backward })}
	}
	first := list[0]
	out := Profile{Software: first.Software, Threads: first.Threads, Operator: pair(func(p *Profile) Pair { return p.Operator }),
		Passes: map[string]Pair{}, Gradients: map[string]float64{}}
	for i, product := range first.Products {
		v := pair(func(p *Profile) Pair { return Pair{p.Products[i].Forward, p.Products[i].Backward} })
		out.Products = append(out.Products, Product{product.Dimension, v.Forward, v.Backward})
	}
	for i, a := range first.Attention {
		v := pair(func(p *Profile) Pair { return Pair{p.Attention[i].Forward, p.Attention[i].Backward} })
		out.Attention = append(out.Attention, Attention{a.Length, v.Forward, v.Backward})
	}
	for name := range maps.Keys(first.Passes) {
		out.Passes[name] = pair(func(p *Profile) Pair { return p.Passes[name] })
	}
	for name := range maps.Keys(first.Gradients) {
		out.Gradients[name] = of(func(p *Profile) float64 { return p.Gradients[name] })
	}
	return out
}
