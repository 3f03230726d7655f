package estimate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/thismachine"
	"harness.invalid/harness/train"
)

// Session is an estimation with the backend that models it.
type Session struct {
	*Estimation
	estimator backend.Estimator
	process   *host.Process // nil: the host has the model itself
}

// Start starts the backend of an estimation.
func (e *Estimation) Start(ctx context.Context) (*Session, error) {
	name, _, _ := strings.Cut(e.Backend, ":")
	if name == thismachine.Backend {
		return &Session{Estimation: e, estimator: thismachine.Estimator{}}, e.price(ctx)
	}
	p, err := processes.Launch(ctx, plugin.Backend, name, processes.Options{Transport: host.Stream})
	if err != nil {
		return nil, err
	}
	s, err := e.with(name, p.Backend())
	if err == nil {
		err = e.price(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	s.process = p
	return s, nil
}

// with makes a session with a backend that runs.
func (e *Estimation) with(name string, b backend.Backend) (*Session, error) {
	estimator, ok := b.(backend.Estimator)
	if !ok {
		return nil, fmt.Errorf("backend %s has no model of its machine: %w", name, backend.ErrUnsupported)
	}
	return &Session{Estimation: e, estimator: estimator}, nil
}

// price asks the optimizers of the jobs what their updates cost. Each is started once.
func (e *Estimation) price(ctx context.Context) (err error) {
	rules := map[string]*host.Process{}
	defer func() {
		for _, rule := range rules {
			err = errors.Join(err, rule.Close())
		}
	}()
	for i := range e.Jobs {
		j := &e.Jobs[i]
		rule, ok := rules[j.Optimizer.Name]
		if !ok {
			if rule, err = processes.Launch(ctx, plugin.Optimizer, j.Optimizer.Name, processes.Options{Transport: host.Stream}); err != nil {
				return err
			}
			rules[j.Optimizer.Name] = rule
		}
		if j.Machine.Update, err = train.Cost(ctx, rule.Optimizer(), j.Optimizer, j.Program); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the backend.
func (s *Session) Close() error {
	if s.process == nil {
		return nil
	}
	return s.process.Close()
}

// Systems lists the systems that the backend knows by name.
func (s *Session) Systems(ctx context.Context) ([]backend.System, error) {
	return s.estimator.Systems(ctx)
}

// Result is a modelled phase.
type Result struct {
	Job
	backend.Estimate
	Flags string // of harness estimate that make it fit; "": it fits, or nobody knows how
}

// TotalSeconds is the modelled time of all steps of the phase; 0 when their number is not known.
func (r *Result) TotalSeconds() float64 { return float64(r.Steps) * r.StepSeconds }

// Hint says what makes the program fit, and the flags that do it; "" when it fits or nothing is known to help.
func (r *Result) Hint() string {
	if r.Advice == "" {
		return ""
	}
	return FitHint(r.Advice, r.Flags)
}

// Model models the given job.
func (s *Session) Model(ctx context.Context, j *Job) (*Result, error) {
	m, err := s.estimator.Estimate(ctx, j.Program, j.Machine)
	if err != nil {
		return nil, err
	}
	return &Result{Job: *j, Estimate: m, Flags: s.flags(j, m.Remedy)}, nil
}

// ModelAll models all jobs.
func (s *Session) ModelAll(ctx context.Context) ([]*Result, error) {
	var list []*Result
	for i := range s.Jobs {
		r, err := s.Model(ctx, &s.Jobs[i])
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// Job returns the job of a phase, or the first one for "".
func (e *Estimation) Job(phase string) (*Job, error) {
	if phase == "" {
		return &e.Jobs[0], nil
	}
	var names []string
	for i := range e.Jobs {
		if e.Jobs[i].Phase == phase {
			return &e.Jobs[i], nil
		}
		names = append(names, e.Jobs[i].Phase)
	}
	return nil, fmt.Errorf("--phase is %q, want %s", phase, strings.Join(names, ", "))
}
