package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint"
	"harness.invalid/core/dataset"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// keep is how many checkpoints of a run are kept: the newest, and one before in case it turns out damaged.
const keep = 2

// phase is one phase of a run.
type phase struct {
	*run
	index    int
	recipe   *recipe.Phase
	settings recipe.Backend
	program  backend.Program
	update   recipe.Optimizer
	schedule recipe.Schedule
	set      set
	steps    int
	resume   *checkpoint.Checkpoint // where to go on; nil: at the beginning

	clock      modelledClock
	unmodelled error // why there is none where there might be
	memory     Memory
	slotNames  []string
	session    backend.Session
	optimizer  optimizer.Session
	asks
	position dataset.Position // of the next batch
	phaseTotals
}

// phaseTotals are what a phase adds up.
type phaseTotals struct {
	Step    int `json:"step"`    // done
	Updates int `json:"updates"` // of them with an update
	// Sequences is how many were trained on; packed ones are counted one by one.
	Sequences int64 `json:"sequences"`
	// Evaluated is the step after which the model was evaluated last: an evaluation that was cut short is made up for when the run goes on.
	Evaluated int                `json:"evaluated"`
	Seconds   map[string]float64 `json:"seconds"` // measured, by part
	Target    *results.Reached   `json:"target,omitempty"`
	Best      *results.Best      `json:"best,omitempty"`
	Stale     int                `json:"stale,omitempty"`   // evaluations since the best one
	Stopped   bool               `json:"stopped,omitempty"` // early: too many of them
}

// The parts of a phase's measured time that the host sees. What the backend measures inside "backend" has its own names.
const (
	partSetup      = "setup"
	partData       = "data" // waiting for a batch
	partBackend    = "backend"
	partOptimizer  = "optimizer"
	partCommit     = "commit"
	partEvaluation = "evaluation"
	partCheckpoint = "checkpoint"
)

// lap adds the time since start to a part and returns now.
func (p *phase) lap(part string, start time.Time) time.Time {
	now := time.Now()
	p.Seconds[part] += now.Sub(start).Seconds()
	return now
}

// train runs the phase from where it stands to its end.
func (p *phase) train(ctx context.Context) (err error) {
	p.Seconds = map[string]float64{}
	start := time.Now()
	if err := p.open(ctx); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, p.session.Close(), p.optimizer.Close())
	}()
	p.lap(partSetup, start)
	if err := p.loop(ctx); err != nil {
		return err
	}
	metrics, err := p.conclude(ctx)
	if err != nil {
		return err
	}
	p.finish(metrics)
	if p.index == len(p.Recipe.Phases)-1 {
		if p.SaveModel {
			return p.saveModel(p.record.Path(ModelDir))
		}
		return nil
	}
	// The next phase starts from here, whatever becomes of the shared memory.
	p.layout, p.params, p.slots = p.memory.Layout, slices.Clone(p.memory.Params), nil
	if p.Recipe.Phases[p.index+1].CarryOptimizerState {
		p.slots = make(map[string][]float32)
		for i, name := range p.slotNames {
			p.slots[name] = slices.Clone(p.memory.Slots[i])
		}
	}
	return nil
}

// open brings the model, the memory and the plugins to where the phase begins, or goes on.
func (p *phase) open(ctx context.Context) error {
	l, err := bert.Parameters(p.program.Model, p.program.Head)
	if err != nil {
		return err
	}
	rule, err := p.Plugins.Optimizer(ctx, p.update.Name)
	if err != nil {
		return err
	}
	if p.update.Options, err = withMoment(ctx, rule, p.update.Name, p.update.Options, p.settings.OptionsAt(0)); err != nil {
		return err
	}
	if p.slotNames, err = rule.Slots(ctx, p.update.Options); err != nil {
		return err
	}
	if p.memory, err = p.Plugins.Allocate(l, len(p.slotNames)); err != nil {
		return err
	}
	if err := p.fill(); err != nil {
		return err
	}
	info, err := rule.Describe(ctx)
	if err != nil {
		return err
	}
	if p.optimizer, err = rule.Open(ctx, p.update.Options, p.memory); err != nil {
		return err
	}
	if err := p.readAsks(ctx, info); err != nil {
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

// openBackend opens a session with the options that the step has. It goes on from another session's state, or begins when there is none.
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
	if err != nil {
		return errors.Join(err, s.Close())
	}
	p.session = s
	return nil
}

// changeOptions opens the backend's session again when the recipe gives the step that comes other options than the last one had.
func (p *phase) changeOptions(ctx context.Context) error {
	if maps.Equal(p.settings.OptionsAt(p.Step), p.program.Options) {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	state, err := p.session.Save(ctx)
	if err != nil {
		return err
	}
	if err := p.session.Close(); err != nil {
		return err
	}
	return p.openBackend(ctx, state, p.done)
}

// fill sets parameters and slots.
func (p *phase) fill() error {
	clear(p.memory.Grads)
	for _, s := range p.memory.Slots {
		clear(s)
	}
	if p.resume == nil {
		if err := p.initial(p.program.Model, p.memory.Layout, p.memory.Params); err != nil {
			return err
		}
		if p.recipe.CarryOptimizerState {
			p.carry(p.memory.Layout, p.slotNames, p.memory.Slots)
		}
		return nil
	}
	c := p.resume
	if err := c.ReadParams(p.memory.Layout, p.memory.Params); err != nil {
		return err
	}
	for i, name := range p.slotNames {
		if err := c.ReadSlot(name, p.memory.Layout, p.memory.Slots[i]); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(c.Position, &p.position); err != nil {
		return fmt.Errorf("checkpoint %s: position: %w", c.Path, err)
	}
	var host carried
	if err := json.Unmarshal(c.Host, &host); err != nil {
		return fmt.Errorf("checkpoint %s: %w", c.Path, err)
	}
	seconds := p.Seconds
	p.phaseTotals = host.Current
	for part, s := range seconds {
		p.Seconds[part] += s
	}
	return nil
}

func (p *phase) loop(ctx context.Context) error {
	source, err := p.set.source()
	if err != nil {
		return err
	}
	if err := source.Seek(p.position); err != nil {
		return err
	}
	feed, stop := context.WithCancel(ctx)
	batches := prefetch(feed, source, p.steps-p.Step)
	defer func() {
		stop()
		for range batches { // the source is free again when the channel is closed
		}
	}()
	for p.Step < p.steps && !p.Stopped {
		err := p.advance(ctx, batches)
		if err != nil && ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), p.interrupted(ctx))
		}
		if err != nil {
			return err
		}
	}
	return p.save(ctx)
}

// advance does one step, with the evaluation that is due before it and the checkpoint that is due after it.
func (p *phase) advance(ctx context.Context, batches <-chan loaded) error {
	if every := p.recipe.Evaluation.Every; every > 0 && p.Step > 0 && p.Step%every == 0 && p.Evaluated != p.Step {
		if _, err := p.evaluate(ctx, false); err != nil || p.Stopped {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := p.changeOptions(ctx); err != nil {
		return fmt.Errorf("step %d: other options: %w", p.Step+1, err)
	}
	if err := p.step(ctx, batches); err != nil {
		return fmt.Errorf("step %d: %w", p.Step+1, err)
	}
	if n := p.recipe.CheckpointEvery; n > 0 && p.Step%n == 0 && p.Step < p.steps {
		return p.save(ctx)
	}
	return nil
}

// interrupted saves where the run is.
func (p *phase) interrupted(ctx context.Context) error {
	if p.Step == 0 {
		return nil // the checkpoint at the end of the phase before says the same
	}
	return p.save(ctx)
}

// step trains on one global batch. A signal does not cut it short: a step is done or not begun.
func (p *phase) step(ctx context.Context, batches <-chan loaded) error {
	start := time.Now()
	next, ok := <-batches
	if !ok {
		return context.Cause(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	if next.err != nil {
		return next.err
	}
	seconds, now := map[string]float64{partOptimizer: 0, partCommit: 0}, start
	lap := func(part string) {
		after := p.lap(part, now)
		seconds[part] += after.Sub(now).Seconds()
		now = after
	}
	lap(partData)
	b, number := next.batch, p.done+1
	compute := func() (backend.StepResult, error) {
		return p.session.Step(ctx, backend.Step{Step: number, Sequences: b.Size, MaskedWeight: b.MaskedWeight(), NextSentenceWeight: b.NextSentenceWeight()}, microBatches(b, p.program.MicroBatch))
	}
	res, err := compute()
	if err != nil {
		return err
	}
	lap(partBackend)
	update := optimizer.Step{Step: p.Updates + 1, LR: p.schedule.LR(p.Step+1, p.steps), GradientNorm: res.GradientNorm}
	if res.Finite && p.prober != nil {
		if err := p.secondGradient(ctx, number, update, &res, compute, lap); err != nil {
			return err
		}
	}
	var norm float64
	if res.Finite {
		update.GradientNorm = res.GradientNorm
		u, err := p.optimizer.Step(ctx, update)
		if err != nil {
			return err
		}
		norm = u.GradientNorm
		lap(partOptimizer)
		if err := p.session.Commit(ctx, number); err != nil {
			return err
		}
		lap(partCommit)
		p.Updates++
	}
	p.digest.add(b)
	p.position = next.after
	p.Step++
	sequences := b.Size
	if packed := b.NextSentenceWeight(); packed > 0 {
		sequences = int(packed)
	}
	p.Sequences += int64(sequences)
	p.done = number
	seconds["total"] = time.Since(start).Seconds()
	for _, ph := range res.Phases {
		seconds["backend."+ph.Name] += ph.Seconds
		p.Seconds["backend."+ph.Name] += ph.Seconds
	}
	if err := p.saveSchedule(number, res.Schedule); err != nil {
		return err
	}
	throughput, share, left := p.work.step(p.recipe, sequences)
	p.Observe(Event{Phase: p.recipe.Name, Step: p.Step, Steps: p.steps, Loss: res.Losses.Total(), Skipped: p.Step - p.Updates,
		Throughput: throughput, Done: share, Left: left})
	return p.record.Step(results.Step{
		Phase: p.recipe.Name, Step: p.Step, TotalStep: number, Metrics: lossMetrics(p.recipe.Task, res.Losses),
		LearningRate: results.Number(update.LR), LossScale: results.Number(res.LossScale), Finite: res.Finite, Overflows: res.Overflows, Invalid: res.Invalid,
		GradientNorm: results.Number(norm), Sequences: sequences, MeasuredSeconds: seconds,
		ModelledSeconds: p.clock.step, ModelledPhaseSeconds: p.clock.seconds(p.Step), ModelledTotalSeconds: p.modelledSeconds(),
	})
}

// save writes a checkpoint and what was recorded up to it. A signal does not cut it short: it may be what the signal asks for.
func (p *phase) save(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("checkpoint after step %d: %w", p.Step, err)
		}
	}()
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	blob, err := p.session.Save(ctx)
	if err != nil {
		return err
	}
	digest, err := p.digest.save()
	if err != nil {
		return err
	}
	position, err := json.Marshal(p.position)
	if err != nil {
		return err
	}
	host, err := json.Marshal(carried{Digest: digest, Mark: p.record.Mark(), Result: p.outcome, Current: p.phaseTotals})
	if err != nil {
		return err
	}
	if err := p.record.Sync(); err != nil {
		return err
	}
	average, err := p.average(ctx)
	if err != nil {
		return err
	}
	t := checkpoint.Tensors{Layout: p.memory.Layout, Params: p.memory.Params, Average: average}
	for i, name := range p.slotNames {
		t.Slots = append(t.Slots, checkpoint.Slot{Name: name, Values: p.memory.Slots[i]})
	}
	_, err = checkpoint.Save(p.record.Checkpoints(), checkpoint.State{
		Fingerprint: p.Recipe.Fingerprint(), DataDigest: p.Data.Digest, Seed: p.Seed,
		PhaseIndex: p.index, Phase: p.recipe.Name, Step: p.Step, TotalSteps: p.done, Updates: p.Updates, Skipped: p.Step - p.Updates,
		BatchDigest: p.digest.sum(), Position: position, Host: host,
		Backend:   checkpoint.Plugin{Name: p.Backend, Options: p.program.Options, State: blob},
		Optimizer: checkpoint.Plugin{Name: p.update.Name, Options: p.update.Options},
	}, t)
	if err != nil {
		return err
	}
	if err := checkpoint.Prune(p.record.Checkpoints(), keep); err != nil {
		return err
	}
	p.lap(partCheckpoint, start)
	return nil
}
