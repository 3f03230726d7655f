package backendtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"harness.invalid/core/agreement"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// The tolerances of every FP32 program, whatever it declares.
const (
	FP32OutputLimit   = 2e-5
	FP32GradientLimit = 1e-4
	// FP32FolderLimit is for folders with real weights: their hidden states are not small, and only a few layers deep.
	FP32FolderLimit = 1e-5
)

// Oracle runs the cases in a folder through a backend and compares every output, loss and gradient with those in
// the files, which gives a row for each. Cases are safetensors files (ReadCase) and folders (ReadFolder); path may
// also be a single one. precisions names some of the backend's; none means all. Limits are those of the precision,
// and for fp32 never above FP32OutputLimit and FP32GradientLimit.
func Oracle(ctx context.Context, b backend.Backend, path string, precisions ...string) ([]agreement.Row, error) {
	info, err := b.Describe(ctx)
	if err != nil {
		return nil, err
	}
	cases, err := readCases(path)
	if err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	if len(precisions) == 0 {
		for _, p := range info.Precisions {
			precisions = append(precisions, p.Name)
		}
	}
	var rows []agreement.Row
	for _, c := range cases {
		for _, name := range precisions {
			p, err := info.Precision(name)
			if err != nil {
				return nil, err
			}
			r, err := c.compare(ctx, b, c.limits(p))
			if err != nil {
				return nil, fmt.Errorf("case %s in %s: %w", c.Name, p.Name, err)
			}
			rows = append(rows, r...)
		}
	}
	return rows, nil
}

// readCases reads the cases at a path, in the order of their names.
func readCases(path string) ([]*Case, error) {
	files, err := filepath.Glob(filepath.Join(path, "*.safetensors"))
	if err != nil {
		return nil, err
	}
	folders, err := filepath.Glob(filepath.Join(path, "*", goldenFile))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(path, goldenFile)); err == nil {
		files, folders = nil, []string{filepath.Join(path, goldenFile)}
	} else if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.IsDir() {
		files = []string{path}
	} else if len(files)+len(folders) == 0 {
		return nil, fmt.Errorf("%s holds no case, want *.safetensors or folders with %s", path, goldenFile)
	}
	var cases []*Case
	for _, file := range files {
		c, err := ReadCase(file)
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	for _, file := range folders {
		c, err := ReadFolder(filepath.Dir(file))
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// limits are the tolerances of a precision for the case.
func (c *Case) limits(p backend.Precision) backend.Precision {
	if p.Name == "fp32" {
		p.OutputTolerance = min(p.OutputTolerance, FP32OutputLimit)
		p.GradientTolerance = min(p.GradientTolerance, FP32GradientLimit)
		if !c.trains() {
			p.OutputTolerance = min(p.OutputTolerance, FP32FolderLimit)
		}
	}
	return p
}

// trains reports whether the case has losses and gradients.
func (c *Case) trains() bool { return len(c.Gradients) > 0 }

// compare runs the case as one micro-batch.
func (c *Case) compare(ctx context.Context, b backend.Backend, p backend.Precision) (rows []agreement.Row, err error) {
	l := c.Model.Layout
	m := backend.Memory{Layout: l, Params: slices.Clone(c.Params), Grads: make([]float32, l.Len())}
	program := backend.Program{Model: c.Model.Config, Head: c.Model.Head, Precision: p.Name, Seed: 1, Length: c.Batch.Length,
		MaxPredictions: c.Batch.Predictions, MicroBatch: c.Batch.Size, Accumulation: 1, Replicas: 1}
	session, err := b.Open(ctx, program, m)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	if err := session.Commit(ctx, 0); err != nil {
		return nil, err
	}
	row := func(quantity string, e, limit float64) {
		rows = append(rows, agreement.Row{Case: c.Name, Task: string(c.Model.Head.Task), Precision: p.Name, Quantity: quantity,
			RelError: e, Limit: limit, Pass: e <= limit})
	}

	var outputs backend.Outputs
	losses, err := session.Evaluate(ctx, backend.Evaluation{Outputs: slices.Sorted(maps.Keys(c.Outputs)),
		Labels: c.trains()}, cut(c.Batch, c.Batch.Size),
		func(o backend.Outputs) error { outputs = o; return nil })
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Outputs)) {
		if got, want := len(outputs[name].Values), len(c.Outputs[name]); got != want {
			return nil, fmt.Errorf("output %s has %d values, want %d", name, got, want)
		}
		row("out."+name, agreement.RelError(outputs[name].Values, c.Outputs[name]), p.OutputTolerance)
	}
	compareLosses := func(kind string, l bert.Losses) error {
		for _, name := range slices.Sorted(maps.Keys(c.Losses)) {
			got, ok := LossOf(l, name)
			if !ok {
				return fmt.Errorf("no loss is named %s", name)
			}
			row(kind+name, agreement.RelError([]float64{got}, []float64{c.Losses[name]}), p.OutputTolerance)
		}
		return nil
	}
	if err := compareLosses("loss.", losses); err != nil {
		return nil, err
	}

	if !c.trains() {
		return rows, nil
	}
	r, err := session.Step(ctx, announce(1, c.Batch), cut(c.Batch, c.Batch.Size))
	if err != nil {
		return nil, err
	}
	if err := compareLosses("step.loss.", r.Losses); err != nil {
		return nil, err
	}
	for _, t := range c.Tensors() {
		want, ok := c.Gradients[t.Name]
		if !ok {
			continue
		}
		if len(want) != t.Len() {
			return nil, fmt.Errorf("grad.%s has %d values, want %d", t.Name, len(want), t.Len())
		}
		row("grad."+t.Name, c.GradientError(t.Name, t.Of(m.Grads)), p.GradientTolerance)
	}
	return rows, nil
}

// Worst returns the row with the largest error for each precision, of gradients and of everything else: the errors
// that tolerances must cover.
func Worst(rows []agreement.Row) []agreement.Row {
	var worst []agreement.Row
	for _, r := range rows {
		i := slices.IndexFunc(worst, func(w agreement.Row) bool { return w.Precision == r.Precision && w.Limit == r.Limit })
		switch {
		case i < 0:
			worst = append(worst, r)
		case r.RelError > worst[i].RelError:
			worst[i] = r
		}
	}
	return worst
}
