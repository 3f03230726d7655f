// Package optimizertest holds any implementation of optimizer.Optimizer against its contract and against trajectories that an independent
// program computed. It returns what it found, so that a test and a command line can use it alike.
package optimizertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/random"
	"harness.invalid/core/tensor"
)

// Result is the outcome of one rule of the contract.
type Result struct {
	Name string
	Err  error // nil: the implementation keeps the rule
}

// Conformance holds o against the contract with its default options. The results come in a fixed order, one for each rule; what o says that it asks of
// the training loop adds some.
func Conformance(ctx context.Context, o optimizer.Optimizer) []Result {
	s := &suite{ctx: ctx, o: o}
	s.info, _ = o.Describe(ctx) // its error is that of the first rule
	type rule struct {
		name  string
		check func() error
	}
	rules := []rule{
		{"describes itself", s.describes},
		{"names its slots", s.namesSlots},
		{"takes its own defaults", s.takesDefaults},
		{"refuses an unknown option", s.refusesUnknownOption},
		{"refuses memory of the wrong length", s.refusesWrongMemory},
		{"refuses an impossible step", s.refusesWrongStep},
		{"moves every parameter that has a gradient", s.moves},
		{"leaves padding alone", s.leavesPadding},
		{"keeps parameters at learning rate 0", s.standsStill},
		{"stays finite without a gradient", s.staysFinite},
		{"reports the norm of the gradients", s.reportsNorm},
		{"repeats itself bit for bit", s.repeats},
		{"keeps no state outside of its slots", s.keepsNoState},
		{"serves two sessions at once", s.servesTwo},
		{"keeps the state that its cost states", s.statesCost},
	}
	if s.info.Probes {
		rules = append(rules, []rule{
			{"probes other parameters", s.probes},
			{"refuses an impossible probe", s.refusesWrongProbe},
			{"probes again after a step that was skipped", s.probesAgain},
			{"keeps no state between a probe and its step", s.restartsAfterProbe},
		}...)
	}
	if s.info.Averages {
		rules = append(rules, []rule{
			{"averages other parameters", s.averages},
			{"refuses an average before the first step", s.refusesWrongAverage},
			{"trains as if nobody had asked for an average", s.averagesAside},
		}...)
	}
	results := make([]Result, len(rules))
	for i, r := range rules {
		err := ctx.Err()
		if err == nil {
			err = r.check()
		}
		results[i] = Result{r.name, err}
	}
	return results
}

// suite is one run of the conformance suite.
type suite struct {
	ctx  context.Context
	o    optimizer.Optimizer
	info optimizer.Info
}

// layout has every kind of tensor, lengths that leave padding and lengths that don't, and one tensor of several blocks.
func layout() *tensor.Layout {
	l, err := tensor.NewLayout(
		tensor.Tensor{Name: "embeddings.weight", Shape: tensor.Shape{31, 7}, Kind: tensor.Embedding},
		tensor.Tensor{Name: "dense.weight", Shape: tensor.Shape{3, 2*optimizer.BlockLen/3 + 5}, Kind: tensor.Weight},
		tensor.Tensor{Name: "dense.bias", Shape: tensor.Shape{1}, Kind: tensor.Bias},
		tensor.Tensor{Name: "LayerNorm.weight", Shape: tensor.Shape{32}, Kind: tensor.NormScale},
		tensor.Tensor{Name: "LayerNorm.bias", Shape: tensor.Shape{33}, Kind: tensor.NormBias},
	)
	if err != nil {
		panic("optimizertest: " + err.Error())
	}
	return l
}

// memory returns memory as at the start of a run, with parameters that are not zero.
func (s *suite) memory() (optimizer.Memory, error) { return s.memoryOf(layout()) }

// memoryOf is memory over a layout.
func (s *suite) memoryOf(l *tensor.Layout) (optimizer.Memory, error) {
	slots, err := s.o.Slots(s.ctx, nil)
	if err != nil {
		return optimizer.Memory{}, fmt.Errorf("slots: %w", err)
	}
	m := optimizer.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	for range slots {
		m.Slots = append(m.Slots, make([]float32, l.Len()))
	}
	fill(l, m.Params, 0)
	return m, nil
}

// fill draws the values of all tensors from a stream that the step names, and clears the padding.
func fill(l *tensor.Layout, section []float32, step int) {
	clear(section)
	stream := random.New(1, random.Data)
	stream.Step = uint32(step)
	r := rand.New(&random.Source{Stream: stream})
	for _, t := range l.Tensors() {
		for i := range t.Of(section) {
			section[t.Offset+i] = float32(0.1 * r.NormFloat64())
		}
	}
}

// steps runs updates first to last with gradients that depend on the step alone, all in one session.
func (s *suite) steps(m optimizer.Memory, first, last int) (err error) {
	session, err := s.o.Open(s.ctx, nil, m)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for step := first; step <= last; step++ {
		if err := s.step(session, m, step); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) step(session optimizer.Session, m optimizer.Memory, step int) error {
	_, err := s.update(session, m, optimizer.Step{Step: step, LR: rate}, func(n int) { fill(m.Layout, m.Grads, n) })
	return err
}

// second is added to the number of a step for that of its second gradient.
const second = 1000

// update is one step as the training loop does it. gradients sets them; it is called with the number of the step and, of a rule that probes, of the second
// gradient. Odd steps come with the norm of the gradients, as from a host that has taken it, even ones without.
func (s *suite) update(session optimizer.Session, m optimizer.Memory, step optimizer.Step, gradients func(n int)) (r optimizer.StepResult, err error) {
	set := func(n int) {
		if gradients(n); step.Step%2 == 1 {
			step.GradientNorm = optimizer.Norm(optimizer.Blocks(m.Layout), m.Grads)
		}
	}
	set(step.Step)
	if s.info.Probes {
		before := slices.Clone(m.Params)
		if err := s.probe(session, step); err != nil {
			return r, err
		}
		copy(m.Params, before)
		set(step.Step + second)
	}
	if r, err = session.Step(s.ctx, step); err != nil {
		return r, fmt.Errorf("step %d: %w", step.Step, err)
	}
	return r, nil
}

func (s *suite) probe(session optimizer.Session, step optimizer.Step) error {
	p, ok := session.(optimizer.Prober)
	if !ok {
		return errors.New("it says that it probes, and its session is no Prober")
	}
	if err := p.Probe(s.ctx, step); err != nil {
		return fmt.Errorf("probe of step %d: %w", step.Step, err)
	}
	return nil
}

func (s *suite) average(session optimizer.Session, updates int) error {
	a, ok := session.(optimizer.Averager)
	if !ok {
		return errors.New("it says that it averages, and its session is no Averager")
	}
	if err := a.Average(s.ctx, updates); err != nil {
		return fmt.Errorf("average after step %d: %w", updates, err)
	}
	return nil
}

// rate is the learning rate of the suite: small enough that no rule overshoots, large enough that every float32 parameter moves.
const rate = 0.01

func (s *suite) describes() error {
	info, err := s.o.Describe(s.ctx)
	if err != nil {
		return err
	}
	if info.Name == "" || info.Version == "" || info.Doc == "" {
		return fmt.Errorf("name %q, version %q, doc %q, want none of them empty", info.Name, info.Version, info.Doc)
	}
	seen := map[string]bool{}
	for _, o := range info.Options {
		if o.Name == "" || seen[o.Name] || o.Doc == "" {
			return fmt.Errorf("option %q with doc %q, want unique names and a line about each", o.Name, o.Doc)
		}
		seen[o.Name] = true
	}
	return nil
}

func (s *suite) namesSlots() error {
	slots, err := s.o.Slots(s.ctx, nil)
	if err != nil {
		return err
	}
	for i, name := range slots {
		if name == "" || slices.Contains(slots[:i], name) {
			return fmt.Errorf("slots %q, want names that are unique and not empty", slots)
		}
	}
	return nil
}

func (s *suite) takesDefaults() error {
	info, err := s.o.Describe(s.ctx)
	if err != nil {
		return err
	}
	defaults := map[string]string{}
	for _, o := range info.Options {
		defaults[o.Name] = o.Default
	}
	given, err := s.o.Slots(s.ctx, defaults)
	if err != nil {
		return fmt.Errorf("slots with every option at its default: %w", err)
	}
	left, err := s.o.Slots(s.ctx, nil)
	if err != nil {
		return err
	}
	if !slices.Equal(given, left) {
		return fmt.Errorf("slots are %q with defaults given and %q without", given, left)
	}
	return nil
}

func (s *suite) refusesUnknownOption() error {
	unknown := map[string]string{"no_such_option": "1"}
	if _, err := s.o.Slots(s.ctx, unknown); err == nil {
		return errors.New("slots took it")
	}
	m, err := s.memory()
	if err != nil {
		return err
	}
	if session, err := s.o.Open(s.ctx, unknown, m); err == nil {
		return errors.Join(errors.New("open took it"), session.Close())
	}
	return nil
}

func (s *suite) refusesWrongMemory() error {
	for _, wrong := range []struct {
		what   string
		change func(*optimizer.Memory)
	}{
		{"short params", func(m *optimizer.Memory) { m.Params = m.Params[1:] }},
		{"short grads", func(m *optimizer.Memory) { m.Grads = m.Grads[:len(m.Grads)-tensor.Align] }},
		{"a slot too many", func(m *optimizer.Memory) { m.Slots = append(m.Slots, make([]float32, len(m.Params))) }},
		{"a short slot", func(m *optimizer.Memory) {
			if n := len(m.Slots); n > 0 {
				m.Slots[n-1] = m.Slots[n-1][1:]
			} else {
				m.Params = nil
			}
		}},
	} {
		m, err := s.memory()
		if err != nil {
			return err
		}
		wrong.change(&m)
		if session, err := s.o.Open(s.ctx, nil, m); err == nil {
			return errors.Join(fmt.Errorf("open took %s", wrong.what), session.Close())
		}
	}
	return nil
}

func (s *suite) refusesWrongStep() (err error) {
	m, err := s.memory()
	if err != nil {
		return err
	}
	session, err := s.o.Open(s.ctx, nil, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	before := snapshot(m)
	for _, step := range []optimizer.Step{
		{Step: 0, LR: rate}, {Step: 1, LR: math.NaN()}, {Step: 1, LR: math.Inf(1)}, {Step: 1, LR: -rate},
		{Step: 1, LR: rate, GradientNorm: math.NaN()}, {Step: 1, LR: rate, GradientNorm: math.Inf(1)}, {Step: 1, LR: rate, GradientNorm: -1},
	} {
		if _, err := session.Step(s.ctx, step); err == nil {
			return fmt.Errorf("took step %d with learning rate %g and gradient norm %g", step.Step, step.LR, step.GradientNorm)
		}
	}
	return differ("memory after refused steps", before, snapshot(m))
}

func (s *suite) moves() error {
	m, err := s.memory()
	if err != nil {
		return err
	}
	before := slices.Clone(m.Params)
	if err := s.steps(m, 1, 3); err != nil {
		return err
	}
	for _, t := range m.Layout.Tensors() {
		old := t.Of(before)
		for i, v := range t.Of(m.Params) {
			if v == old[i] || !finite(v) {
				return fmt.Errorf("%s[%d] went from %g to %g in three steps", t.Name, i, old[i], v)
			}
		}
	}
	return nil
}

func (s *suite) leavesPadding() error {
	m, err := s.memory()
	if err != nil {
		return err
	}
	if err := s.steps(m, 1, 2); err != nil {
		return err
	}
	for i, section := range append([][]float32{m.Params}, m.Slots...) {
		if err := padded(m.Layout, section); err != nil {
			return fmt.Errorf("section %d: %w", i, err)
		}
	}
	return nil
}

// padded reports padding of a section that is not zero.
func padded(l *tensor.Layout, section []float32) error {
	end := 0
	for _, t := range l.Tensors() {
		if err := zero(section, end, t.Offset); err != nil {
			return fmt.Errorf("before %s: %w", t.Name, err)
		}
		end = t.Offset + t.Len()
	}
	return zero(section, end, len(section))
}

func zero(section []float32, begin, end int) error {
	for i := begin; i < end; i++ {
		if section[i] != 0 {
			return fmt.Errorf("padding element %d is %g, want 0", i, section[i])
		}
	}
	return nil
}

func (s *suite) standsStill() (err error) {
	m, err := s.memory()
	if err != nil {
		return err
	}
	session, err := s.o.Open(s.ctx, nil, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	before := slices.Clone(m.Params)
	if _, err := s.update(session, m, optimizer.Step{Step: 1, LR: 0}, func(n int) { fill(m.Layout, m.Grads, n) }); err != nil {
		return err
	}
	return differ("parameters", [][]float32{before}, [][]float32{m.Params})
}

func (s *suite) staysFinite() (err error) {
	m, err := s.memory()
	if err != nil {
		return err
	}
	// A parameter that is zero and never sees a gradient must not become 0/0.
	clear(m.Layout.Tensors()[0].Of(m.Params))
	session, err := s.o.Open(s.ctx, nil, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for step := 1; step <= 2; step++ {
		r, err := s.update(session, m, optimizer.Step{Step: step, LR: rate}, func(int) { clear(m.Grads) })
		if err != nil {
			return err
		}
		if r.GradientNorm != 0 {
			return fmt.Errorf("gradient norm %g, want 0", r.GradientNorm)
		}
	}
	for _, section := range append([][]float32{m.Params}, m.Slots...) {
		for i, v := range section {
			if !finite(v) {
				return fmt.Errorf("element %d became %g", i, v)
			}
		}
	}
	return nil
}

func (s *suite) reportsNorm() (err error) {
	m, err := s.memory()
	if err != nil {
		return err
	}
	session, err := s.o.Open(s.ctx, nil, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	var sum float64 // of the gradients that were set last
	for step := 1; step <= 2; step++ {
		r, err := s.update(session, m, optimizer.Step{Step: step, LR: rate}, func(n int) {
			fill(m.Layout, m.Grads, n)
			sum = 0
			for _, g := range m.Grads {
				sum += float64(g) * float64(g)
			}
		})
		if err != nil {
			return err
		}
		// A sum of 33,000 squares in float32, added pairwise or in lanes, is right to a few parts in a million.
		if want := math.Sqrt(sum); !(math.Abs(r.GradientNorm-want) <= 1e-5*want) {
			return fmt.Errorf("step %d: norm %g, want %g", step, r.GradientNorm, want)
		}
	}
	return nil
}

func (s *suite) repeats() error {
	var first [][]float32
	for range 2 {
		m, err := s.memory()
		if err != nil {
			return err
		}
		if err := s.steps(m, 1, 3); err != nil {
			return err
		}
		if first == nil {
			first = snapshot(m)
		} else if err := differ("memory after the same three steps", first, snapshot(m)); err != nil {
			return err
		}
	}
	return nil
}

// keepsNoState restarts in the middle: four steps in one session must end as two sessions of two steps do.
func (s *suite) keepsNoState() error {
	whole, err := s.memory()
	if err != nil {
		return err
	}
	if err := s.steps(whole, 1, 4); err != nil {
		return err
	}
	halves, err := s.memory()
	if err != nil {
		return err
	}
	if err := errors.Join(s.steps(halves, 1, 2), s.steps(halves, 3, 4)); err != nil {
		return err
	}
	return differ("memory after a restart at step 3", snapshot(whole), snapshot(halves))
}

func (s *suite) servesTwo() (err error) {
	alone, err := s.memory()
	if err != nil {
		return err
	}
	if err := s.steps(alone, 1, 2); err != nil {
		return err
	}
	var memories [2]optimizer.Memory
	var sessions [2]optimizer.Session
	for i := range sessions {
		if memories[i], err = s.memory(); err != nil {
			return err
		}
		session, err := s.o.Open(s.ctx, nil, memories[i])
		if err != nil {
			return fmt.Errorf("open session %d: %w", i+1, err)
		}
		defer func() { err = errors.Join(err, session.Close()) }()
		sessions[i] = session
	}
	for step := 1; step <= 2; step++ {
		for i, session := range sessions {
			if err := s.step(session, memories[i], step); err != nil {
				return err
			}
		}
	}
	for i, m := range memories {
		if err := differ("session "+strconv.Itoa(i+1)+" of two", snapshot(alone), snapshot(m)); err != nil {
			return err
		}
	}
	return nil
}

// snapshot copies parameters and slots.
func snapshot(m optimizer.Memory) [][]float32 {
	sections := [][]float32{slices.Clone(m.Params)}
	for _, s := range m.Slots {
		sections = append(sections, slices.Clone(s))
	}
	return sections
}

// differ reports the first element whose bits differ.
func differ(what string, want, got [][]float32) error {
	for i := range want {
		for j, w := range want[i] {
			if g := got[i][j]; math.Float32bits(w) != math.Float32bits(g) {
				return fmt.Errorf("%s: section %d, element %d is %g, want %g with equal bits", what, i, j, g, w)
			}
		}
	}
	return nil
}

func finite(v float32) bool { return v-v == 0 }
