package optimizertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/agreement"
	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// trajectories hold what all rules of a file share.
type trajectories struct {
	rules  map[string]rule
	rates  []float64
	layout *tensor.Layout
}

func readTrajectories(f *weights.File) (t trajectories, err error) {
	if err := json.Unmarshal([]byte(f.Metadata()["rules"]), &t.rules); err != nil {
		return t, fmt.Errorf("metadata rules: %w", err)
	}
	if t.rates, err = f.Float64s("lr"); err != nil {
		return t, err
	}
	var tensors []tensor.Tensor
	for _, name := range f.Names() {
		if short, ok := strings.CutPrefix(name, "w0."); ok {
			of, _ := f.Tensor(name)
			tensors = append(tensors, tensor.Tensor{Name: short, Shape: of.Shape, Kind: bert.KindOf(short)})
		}
	}
	if len(tensors) == 0 {
		return t, errors.New("no tensor w0.*: not a file of optimizer trajectories")
	}
	t.layout, err = tensor.NewLayout(tensors...)
	return t, err
}

// run runs a rule and compares what it computes.
func (t trajectories) run(
	ctx context.Context, o optimizer.Optimizer, f *weights.File, name string, options map[string]string,
) (rows []agreement.Row, err error) {
	info, err := o.Describe(ctx)
	if err != nil {
		return nil, err
	}
	slots, err := o.Slots(ctx, options)
	if err != nil {
		return nil, err
	}
	m := optimizer.Memory{Layout: t.layout, Params: make([]float32, t.layout.Len()), Grads: make([]float32, t.layout.Len())}
	for range slots {
		m.Slots = append(m.Slots, make([]float32, t.layout.Len()))
	}
	if err := t.load(f, "w0.", m.Params); err != nil {
		return nil, err
	}
	session, err := o.Open(ctx, options, m)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	r := &replay{t, &suite{ctx: ctx, o: o, info: info}, f, name, m, nil}
	for i, lr := range t.rates {
		if err := r.step(session, optimizer.Step{Step: i + 1, LR: lr}); err != nil {
			return nil, err
		}
	}
	return r.rows, nil
}

// replay runs the steps of one rule.
type replay struct {
	trajectories
	suite  *suite
	file   *weights.File
	name   string // of the rule
	memory optimizer.Memory
	rows   []agreement.Row
}

// step runs a step with the calls that the rule needs, and compares the parameters after each.
func (r *replay) step(session optimizer.Session, step optimizer.Step) error {
	at := strconv.Itoa(step.Step-1) + "."
	if err := r.load(r.file, "grad."+at, r.memory.Grads); err != nil {
		return err
	}
	if r.suite.info.Probes {
		if err := r.aside(at+"probe.", func() error { return r.suite.probe(session, step) }); err != nil {
			return err
		}
		if err := r.load(r.file, r.name+"."+at+"second.", r.memory.Grads); err != nil {
			return err
		}
	}
	if _, err := session.Step(r.suite.ctx, step); err != nil {
		return err
	}
	if err := r.compare(at); err != nil {
		return err
	}
	if r.suite.info.Averages {
		return r.aside(at+"average.", func() error { return r.suite.average(session, step.Step) })
	}
	return nil
}

// aside compares the parameters that a call leaves, and restores the earlier ones.
func (r *replay) aside(at string, call func() error) error {
	before := slices.Clone(r.memory.Params)
	defer copy(r.memory.Params, before)
	if err := call(); err != nil {
		return err
	}
	return r.compare(at)
}

func (r *replay) compare(at string) error {
	for _, of := range r.layout.Tensors() {
		want, err := r.file.Float64s(r.name + "." + at + of.Name)
		if err != nil {
			return err
		}
		row, err := agreement.Compare(r.name, "optimizer", "fp32", "step."+at+of.Name, of.Of(r.memory.Params), want, OracleLimit)
		if err != nil {
			return err
		}
		r.rows = append(r.rows, row)
	}
	return nil
}

// load reads the tensors with a prefix into a section.
func (t trajectories) load(f *weights.File, prefix string, section []float32) error {
	for _, of := range t.layout.Tensors() {
		if err := f.ReadFloat32s(prefix+of.Name, of.Of(section)); err != nil {
			return err
		}
	}
	return nil
}
