package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/tensor"
)

// open brings the model, the memory and the plugins to where the phase begins, or goes on.
func (p *phase) open(ctx context.Context) error {
	l, err := bert.Parameters(p.program.Model, p.program.Head)
	if err != nil {
		return err
	}
	rule, err := p.Plugins.Optimizer(ctx, p.rule.Name)
	if err != nil {
		return err
	}
	if p.rule.Options, err = withMoment(ctx, rule, p.rule.Name, p.rule.Options, p.settings.OptionsAt(0)); err != nil {
		return err
	}
	if p.slotNames, err = rule.Slots(ctx, p.rule.Options); err != nil {
		return err
	}
	if p.memory, err = p.Plugins.Allocate(l, len(p.slotNames)); err != nil {
		return err
	}
	p.check = newChecker(p.memory)
	if err := p.fill(); err != nil {
		return err
	}
	info, err := rule.Describe(ctx)
	if err != nil {
		return err
	}
	if p.optimizer, err = rule.Open(ctx, p.rule.Options, p.memory); err != nil {
		return err
	}
	if err := p.extend(ctx, info); err != nil {
		return errors.Join(err, p.optimizer.Close())
	}
	var state []byte
	committed := 0
	if p.resume != nil {
		state, committed = p.resume.Backend.State, p.done
	}
	if err := p.openBackend(ctx, state, committed); err != nil {
		return errors.Join(err, p.optimizer.Close())
	}
	p.startClock()
	return nil
}

// openBackend opens a session with the options of the next step. It goes on from the state of another session
// unless that is nil.
func (p *phase) openBackend(ctx context.Context, state []byte, committed int) error {
	p.program.Options = p.settings.OptionsAt(p.Step)
	m := backend.Memory{Layout: p.memory.Layout, Params: p.memory.Params, Grads: p.memory.Grads}
	s, err := p.Plugins.Backend().Open(ctx, p.program, m)
	if err != nil {
		return err
	}
	if state != nil {
		err = s.Load(ctx, state)
	}
	if err == nil {
		err = s.Commit(ctx, committed)
	}
	p.session = s
	if err == nil {
		err = p.keepState(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	p.between = true
	return nil
}

// keepState copies the backend's own state. It is small, and with it the host has all that the next step begins from.
func (p *phase) keepState(ctx context.Context) error {
	state, err := p.session.Save(ctx)
	if err != nil {
		return fmt.Errorf("state of the backend: %w", err)
	}
	p.private = state
	return nil
}

// changeOptions opens the backend's session again if the recipe gives the next step other options than the last one
// had.
func (p *phase) changeOptions(ctx context.Context) error {
	if maps.Equal(p.settings.OptionsAt(p.Step), p.program.Options) {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if err := p.keepState(ctx); err != nil {
		return err
	}
	if err := p.session.Close(); err != nil {
		return err
	}
	return p.openBackend(ctx, p.private, p.done)
}

// fill sets parameters and slots to where the phase begins or goes on.
func (p *phase) fill() error {
	clear(p.memory.Grads)
	for _, s := range p.memory.Slots {
		clear(s)
	}
	if p.resume != nil {
		return p.restore(p.resume)
	}
	if err := p.initialize(p.program.Model, p.memory.Layout, p.memory.Params); err != nil {
		return err
	}
	if p.recipe.CarryOptimizerState {
		p.carry(p.memory.Layout, p.slotNames, p.memory.Slots)
	}
	return nil
}

// initialize sets the parameters of a phase: by name from the phase before, or else from the recipe's start model, or
// else to initial values. The first phase takes them from a model folder if there is one.
func (r *run) initialize(config bert.Config, l *tensor.Layout, params []float32) error {
	clear(params)
	for _, t := range l.Tensors() {
		if r.layout != nil {
			if before, ok := r.layout.Lookup(t.Name); ok && before.Len() == t.Len() {
				copy(t.Of(params), before.Of(r.params))
				continue
			}
		}
		if found, err := r.Data.readStart(t, t.Of(params)); found || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		r.Recipe.Model.Initializer.Tensor(config, t, t.Of(params), r.Seed)
	}
	if r.layout != nil || r.Data.model == nil {
		return nil
	}
	missing, err := r.Data.model.Load(l, params)
	if slices.ContainsFunc(missing, func(name string) bool { return strings.HasPrefix(name, "bert.pooler.") }) {
		r.note("the model to start from has no pooler: it was initialised, like the head on top of it")
	}
	return err
}

// carry copies the optimizer's slots from the phase before, by the names of slots and tensors. All others keep
// their values.
func (r *run) carry(l *tensor.Layout, names []string, slots [][]float32) {
	for i, name := range names {
		for _, t := range l.Tensors() {
			if before, ok := r.layout.Lookup(t.Name); ok && before.Len() == t.Len() && r.slots[name] != nil {
				copy(t.Of(slots[i]), before.Of(r.slots[name]))
			}
		}
	}
}
