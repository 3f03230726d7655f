package train

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"harness.invalid/core/checkpoint"
	"harness.invalid/results"
)

// keep is how many checkpoints of a run are kept: the newest, and one before in case the newest is damaged.
const keep = 2

// carried is what the host adds to the state that every checkpoint holds.
type carried struct {
	Digest  []byte         `json:"digest"`  // state of the running batch digest
	Mark    results.Mark   `json:"mark"`    // end of the record
	Result  results.Result `json:"result"`  // of the phases that are over
	Current phaseTotals    `json:"current"` // of the phase under way
}

// save writes a checkpoint and what was recorded up to it. A signal does not cut it short: it may be the reason for
// saving.
func (p *phase) save(ctx context.Context) error {
	if err := p.awaitSaved(); err != nil {
		return err
	}
	if p.resumed != nil && *p.resumed == p.standing() { // the checkpoint that it went on from has it all
		return checkpoint.Prune(p.record.Checkpoints(), keep)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	c, err := p.checkpoint(ctx, true)
	if err == nil {
		err = c.write()
	}
	if err != nil {
		return err
	}
	p.saver.last = time.Now()
	p.saver.spent += time.Since(start)
	p.lap(partCheckpoint, start)
	return nil
}

// standing is how far a phase is: what a checkpoint would add is in none of these if they are equal.
type standing struct{ steps, evaluated, notes int }

func (p *phase) standing() standing { return standing{p.Step, p.Evaluated, len(p.outcome.Notes)} }

// awaitSaved waits for the checkpoint that is written beside training, and adds its time to the totals.
func (p *phase) awaitSaved() error {
	err := p.saver.wait()
	if p.saver.beside > 0 {
		p.Seconds[partBeside] += p.saver.beside
		p.saver.beside = 0
	}
	return err
}

// saveBeside copies a checkpoint, which is then written beside training.
func (p *phase) saveBeside(ctx context.Context) error {
	if err := p.awaitSaved(); err != nil {
		return err
	}
	start := time.Now()
	c, err := p.checkpoint(ctx, true)
	if err != nil {
		return err
	}
	p.saver.copy(&c.tensors)
	p.saver.begin(c, time.Since(start))
	p.lap(partCheckpoint, start)
	return nil
}

// saveInterrupted saves where the run is when ctx ends.
func (p *phase) saveInterrupted(ctx context.Context) error {
	if p.Step == 0 {
		return p.saver.wait() // the checkpoint at the end of the phase before holds the same state
	}
	return p.save(ctx)
}

// rescue saves where the run is after a plugin died between two steps, or in one before it changed anything.
func (p *phase) rescue() error {
	if err := p.saver.wait(); err != nil || p.Step == 0 || !p.between || p.averaged || p.check.spoilt {
		return err
	}
	c, err := p.checkpoint(context.Background(), false)
	if err != nil {
		return err
	}
	return c.write()
}

// unsaved is a checkpoint that is not written yet.
type unsaved struct {
	record  *results.Writer
	state   checkpoint.State
	tensors checkpoint.Tensors
}

// checkpoint collects what the next checkpoint holds. Its tensors are those of the phase, which the next step changes.
// The average is for evaluations by others; it takes plugins that are alive.
func (p *phase) checkpoint(ctx context.Context, average bool) (*unsaved, error) {
	fail := func(err error) (*unsaved, error) { return nil, fmt.Errorf("checkpoint after step %d: %w", p.Step, err) }
	state, err := p.checkpointState()
	if err != nil {
		return fail(err)
	}
	t := checkpoint.Tensors{Layout: p.memory.Layout, Params: p.memory.Params}
	if average {
		if t.Average, err = p.average(ctx); err != nil {
			return fail(err)
		}
	}
	for i, name := range p.slotNames {
		t.Slots = append(t.Slots, checkpoint.Slot{Name: name, Values: p.memory.Slots[i]})
	}
	return &unsaved{p.record, state, t}, nil
}

func (u *unsaved) write() error {
	err := u.record.Sync()
	if err == nil {
		_, err = checkpoint.Save(u.record.Checkpoints(), u.state, u.tensors)
	}
	if err == nil {
		err = checkpoint.Prune(u.record.Checkpoints(), keep)
	}
	if err != nil {
		return fmt.Errorf("checkpoint after step %d: %w", u.state.Step, err)
	}
	return nil
}

// checkpointState is all of a checkpoint but its tensors.
func (p *phase) checkpointState() (checkpoint.State, error) {
	digest, err := p.digest.save()
	if err != nil {
		return checkpoint.State{}, err
	}
	position, err := json.Marshal(p.position)
	if err != nil {
		return checkpoint.State{}, err
	}
	host, err := json.Marshal(carried{Digest: digest, Mark: p.record.Mark(), Result: p.outcome, Current: p.phaseTotals})
	if err != nil {
		return checkpoint.State{}, err
	}
	return checkpoint.State{
		Fingerprint: p.Recipe.Fingerprint(), DataDigest: p.Data.Digest, Seed: p.Seed,
		PhaseIndex: p.index, Phase: p.recipe.Name, Step: p.Step, TotalSteps: p.done, Updates: p.Updates, Skipped: p.Step - p.Updates,
		BatchDigest: p.digest.sum(), Position: position, Host: host,
		Backend:   checkpoint.Plugin{Name: p.Backend, Options: p.program.Options, State: p.private},
		Optimizer: checkpoint.Plugin{Name: p.rule.Name, Options: p.rule.Options},
	}, nil
}

// restore sets parameters, slots, position and totals of the phase to those of a checkpoint.
func (p *phase) restore(c *checkpoint.Checkpoint) error {
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
	p.resumed = &standing{host.Current.Step, host.Current.Evaluated, len(host.Result.Notes)}
	for part, s := range seconds {
		p.Seconds[part] += s
	}
	return nil
}

// restoreRun sets the run as a whole to where a checkpoint was saved, and opens the record there.
func (r *run) restoreRun(c *checkpoint.Checkpoint) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("checkpoint %s: %w", c.Path, err)
		}
	}()
	var host carried
	if err := json.Unmarshal(c.Host, &host); err != nil {
		return err
	}
	if c.PhaseIndex >= len(r.Recipe.Phases) {
		return fmt.Errorf("it is of phase %d, the recipe has %d", c.PhaseIndex+1, len(r.Recipe.Phases))
	}
	if err := r.digest.load(host.Digest); err != nil {
		return fmt.Errorf("batch digest: %w", err)
	}
	r.outcome = host.Result
	r.done = c.TotalSteps
	r.record, err = results.Resume(r.Dir, host.Mark)
	return err
}
