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
func (p *phase) save(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("checkpoint after step %d: %w", p.Step, err)
		}
	}()
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	state, err := p.checkpointState(ctx)
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
	if _, err := checkpoint.Save(p.record.Checkpoints(), state, t); err != nil {
		return err
	}
	if err := checkpoint.Prune(p.record.Checkpoints(), keep); err != nil {
		return err
	}
	p.lap(partCheckpoint, start)
	return nil
}

// saveInterrupted saves where the run is when ctx ends.
func (p *phase) saveInterrupted(ctx context.Context) error {
	if p.Step == 0 {
		return nil // the checkpoint at the end of the phase before holds the same state
	}
	return p.save(ctx)
}

// checkpointState is all of a checkpoint but its tensors.
func (p *phase) checkpointState(ctx context.Context) (checkpoint.State, error) {
	state, err := p.session.Save(ctx)
	if err != nil {
		return checkpoint.State{}, err
	}
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
		Backend:   checkpoint.Plugin{Name: p.Backend, Options: p.program.Options, State: state},
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
