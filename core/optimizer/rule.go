package optimizer

import (
	"context"
	"fmt"

	"harness.invalid/core/kernels"
	"harness.invalid/core/option"
	"harness.invalid/core/tensor"
)

// Rule is an Optimizer built from the parts in which update rules differ. It handles options, memory, checks of steps and the
// gradient norm.
type Rule struct {
	Info Info
	// Read creates the rule with the settings in v; it need not check v.Err. It is called again for each session, so the
	// rule may keep scratch memory.
	Read func(v *option.Values) (Update, error)
}

var _ Coster = Rule{}

// Update is a rule with its settings, for one session. If Info.Probes, it also has Probe(w *Work, s Step), and if
// Info.Averages, Average(w *Work, updates int): see Prober and Averager. If it states its cost, it has
// Cost(l *tensor.Layout) Cost: see Coster.
type Update interface {
	// Slots names the state that the rule keeps for each parameter.
	Slots() []string
	// Step updates w.Params and w.Slots from w.Grads.
	Step(w *Work, s Step)
}

// Work is the memory of a session, cut into blocks.
type Work struct {
	Memory
	Blocks []Block
	Norm   float64 // of the gradients, in Step and Probe
}

// Each calls f for every block, on all CPUs. The result must not depend on the order of the calls.
func (w *Work) Each(f func(b Block)) {
	kernels.Parallel(len(w.Blocks), func(i0, i1 int) {
		for _, b := range w.Blocks[i0:i1] {
			f(b)
		}
	})
}

// Tensor returns the tensor that a block belongs to.
func (w *Work) Tensor(b Block) tensor.Tensor { return w.Layout.Tensors()[b.Tensor] }

// Decay returns the weight decay of a block's parameters: lambda, or 0 if none applies (Decays).
func (w *Work) Decay(b Block, lambda float64) float32 {
	if Decays(w.Tensor(b).Kind) {
		return float32(lambda)
	}
	return 0
}

// Describe implements Optimizer.
func (r Rule) Describe(context.Context) (Info, error) { return r.Info, nil }

func (r Rule) read(given map[string]string) (Update, error) {
	v, err := option.Read(r.Info.Options, given)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Info.Name, err)
	}
	u, err := r.Read(v)
	if v.Err() != nil { // report a bad value rather than its consequences
		err = v.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Info.Name, err)
	}
	return u, nil
}

// Slots implements Optimizer.
func (r Rule) Slots(_ context.Context, given map[string]string) ([]string, error) {
	u, err := r.read(given)
	if err != nil {
		return nil, err
	}
	return u.Slots(), nil
}

// Cost implements Coster.
func (r Rule) Cost(_ context.Context, given map[string]string, l *tensor.Layout) (Cost, error) {
	u, err := r.read(given)
	if err != nil {
		return Cost{}, err
	}
	priced, ok := u.(interface{ Cost(l *tensor.Layout) Cost })
	if !ok {
		return Cost{}, fmt.Errorf("%s: %w", r.Info.Name, ErrNoCost)
	}
	c := priced.Cost(l)
	c.Probes = r.Info.Probes
	return c, nil
}

// Open implements Optimizer.
func (r Rule) Open(_ context.Context, given map[string]string, m Memory) (Session, error) {
	u, err := r.read(given)
	if err != nil {
		return nil, err
	}
	if err := m.Check(len(u.Slots())); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Info.Name, err)
	}
	return &ruleSession{r.Info.Name, u, Work{Memory: m, Blocks: Blocks(m.Layout)}}, nil
}

// ruleSession always has the methods of a Prober and an Averager. Callers check Info first.
type ruleSession struct {
	name   string
	update Update
	work   Work
}

var (
	_ Prober   = (*ruleSession)(nil)
	_ Averager = (*ruleSession)(nil)
)

// begin checks a step and provides the norm of the gradients.
func (s *ruleSession) begin(step Step) error {
	if err := step.Check(); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if s.work.Norm = step.GradientNorm; s.work.Norm == 0 {
		s.work.Norm = Norm(s.work.Blocks, s.work.Grads)
	}
	return nil
}

// Step implements Session.
func (s *ruleSession) Step(_ context.Context, step Step) (StepResult, error) {
	if err := s.begin(step); err != nil {
		return StepResult{}, err
	}
	s.update.Step(&s.work, step)
	return StepResult{GradientNorm: s.work.Norm}, nil
}

// Probe implements Prober.
func (s *ruleSession) Probe(_ context.Context, step Step) error {
	u, ok := s.update.(interface{ Probe(*Work, Step) })
	if !ok {
		return fmt.Errorf("%s: the rule does not probe", s.name)
	}
	if err := s.begin(step); err != nil {
		return err
	}
	u.Probe(&s.work, step)
	return nil
}

// Average implements Averager.
func (s *ruleSession) Average(_ context.Context, updates int) error {
	u, ok := s.update.(interface{ Average(*Work, int) })
	if !ok {
		return fmt.Errorf("%s: the rule does not average", s.name)
	}
	if updates < 1 {
		return fmt.Errorf("%s: average after %d updates, want at least 1", s.name, updates)
	}
	u.Average(&s.work, updates)
	return nil
}

// Close implements Session.
func (s *ruleSession) Close() error { return nil }
