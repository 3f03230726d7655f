// Package backendtest tests any implementation of backend.Backend: against the contract (Conformance), and against
// results that an independent program computed (Oracle). A backend goes in, a list of results comes out, so that
// tests and commands can use it alike.
package backendtest

import (
	"context"
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// Result is the outcome of one rule of the contract in one precision.
type Result struct {
	Name string
	Err  error // nil: the implementation keeps the rule
}

// Conformance tests b against the contract in each of its precisions, with its default options, on models so small
// that it takes seconds. The results have a fixed order.
func Conformance(ctx context.Context, b backend.Backend) []Result {
	info, err := b.Describe(ctx)
	if err == nil {
		err = describes(ctx, b, info)
	}
	results := []Result{{"describes itself", err}}
	initial := map[start][]float32{}
	for _, p := range info.Precisions {
		s := &suite{ctx: ctx, b: b, precision: p, initial: initial}
		rules := s.rules()
		if info.RepeatsSteps {
			rules = append(rules, rule{"computes a step again at other parameters", s.computesAgain})
		}
		for _, r := range rules {
			err := ctx.Err()
			if err == nil {
				err = r.check()
			}
			results = append(results, Result{p.Name + ": " + r.name, err})
		}
	}
	return results
}

// rule is a sentence of the contract and its test.
type rule struct {
	name  string
	check func() error
}

// suite is one run of the conformance suite in one precision.
type suite struct {
	ctx       context.Context
	b         backend.Backend
	precision backend.Precision
	initial   map[start][]float32
}

// start is the key of initial parameters, which are drawn once for all rules and precisions.
type start struct {
	model bert.Config
	head  bert.Head
	seed  uint64
}

func (s *suite) rules() []rule {
	return []rule{
		{"refuses programs that it can't run", s.refusesPrograms},
		{"refuses memory of the wrong shape", s.refusesMemory},
		{"refuses a step before the first commit", s.refusesEarlyStep},
		{"refuses wrong micro-batches and goes on", s.refusesBatches},
		{"passes on errors of the batches", s.passesErrors},
		{"sets every element of the gradients", s.setsGradients},
		{"computes the gradient of every task", s.servesTasks},
		{"leaves parameters alone in a step", s.leavesParameters},
		{"repeats a step bit for bit", s.repeats},
		{"sums replicas and micro-batches to the same gradient", s.cuts},
		{"packs sequences, or refuses to", s.packs},
		{"traces its operators, or says that it can't", s.traces},
		{"drops out in training only", s.dropsOut},
		{"goes on from a saved state bit for bit", s.resumes},
		{"refuses a broken state", s.refusesState},
		{"commits once and for all", s.commits},
		{"learns", s.learns},
		{"evaluates all outputs in their shapes", s.evaluates},
		{"evaluates the losses that a step has", s.evaluatesLosses},
		{"ends when it is cancelled", s.cancels},
		{"refuses calls after it was closed", s.closes},
	}
}

func describes(ctx context.Context, b backend.Backend, info backend.Info) error {
	if info.Name == "" || info.Version == "" || info.Doc == "" {
		return fmt.Errorf("name %q, version %q, doc %q, want none of them empty", info.Name, info.Version, info.Doc)
	}
	if len(info.Precisions) == 0 {
		return fmt.Errorf("no precisions, want at least one")
	}
	seen := map[string]bool{}
	for _, p := range info.Precisions {
		if p.Name == "" || seen[p.Name] {
			return fmt.Errorf("precision %q is nameless or named twice", p.Name)
		}
		seen[p.Name] = true
		if !(p.OutputTolerance > 0) || !(p.GradientTolerance > 0) || p.Reason == "" {
			return fmt.Errorf("precision %s: tolerances %g and %g for the reason %q, want positive ones with a reason",
				p.Name, p.OutputTolerance, p.GradientTolerance, p.Reason)
		}
	}
	names := map[string]bool{}
	for _, o := range info.Options {
		if o.Name == "" || names[o.Name] {
			return fmt.Errorf("option %q is nameless or named twice", o.Name)
		}
		names[o.Name] = true
	}
	again, err := b.Describe(ctx)
	if err == nil && fmt.Sprint(again) != fmt.Sprint(info) {
		err = fmt.Errorf("a second description differs from the first")
	}
	return err
}

func (s *suite) refusesPrograms() error {
	for name, spoil := range map[string]func(p *backend.Program){
		"a precision that no one knows": func(p *backend.Program) { p.Precision = "no such precision" },
		"an option that no one knows":   func(p *backend.Program) { p.Options = map[string]string{"no such option": "1"} },
		"micro_batch 0":                 func(p *backend.Program) { p.MicroBatch = 0 },
		"replicas -1":                   func(p *backend.Program) { p.Replicas = -1 },
		"no accumulation":               func(p *backend.Program) { p.Accumulation = 0 },
		"a length beyond the model's":   func(p *backend.Program) { p.Length = p.Model.MaxPositionEmbeddings + 1 },
		"no predictions":                func(p *backend.Program) { p.MaxPredictions = 0 },
		"heads that do not divide":      func(p *backend.Program) { p.Model.NumAttentionHeads = 5 },
		"an unknown task":               func(p *backend.Program) { p.Head.Task = "no such task" },
		"an unknown activation":         func(p *backend.Program) { p.Model.HiddenAct = "relu6" },
	} {
		f, err := s.fixture(bert.Pretraining)
		if err != nil {
			return err
		}
		p := f.program
		spoil(&p)
		if session, err := s.b.Open(s.ctx, p, f.memory); err == nil {
			return fmt.Errorf("a program with %s was opened, want an error: %w", name, orNil(session.Close()))
		}
	}
	return nil
}

// orNil makes an error that may be nil fit for wrapping.
func orNil(err error) error {
	if err == nil {
		return backend.ErrUnsupported
	}
	return err
}

func (s *suite) refusesMemory() error {
	f, err := s.fixture(bert.Pretraining)
	if err != nil {
		return err
	}
	other, err := s.fixture(bert.QuestionAnswering)
	if err != nil {
		return err
	}
	short := f.memory
	short.Grads = short.Grads[1:]
	for name, m := range map[string]backend.Memory{"another model's layout": other.memory, "too few gradients": short} {
		if session, err := s.b.Open(s.ctx, f.program, m); err == nil {
			return fmt.Errorf("memory with %s was taken, want an error: %w", name, orNil(session.Close()))
		}
	}
	return nil
}

func (s *suite) refusesEarlyStep() error {
	return s.with(bert.Pretraining, func(f *fixture) error {
		f.uncommitted = true
		return nil
	}, func(f *fixture, session backend.Session) error {
		if _, err := f.step(session, 1); err == nil {
			return fmt.Errorf("a step without parameters ran, want an error")
		}
		return nil
	})
}
