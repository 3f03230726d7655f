package train

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"harness.invalid/core/checkpoint"
	"harness.invalid/core/plugin/host"
	"harness.invalid/results"
)

// Restarter is implemented by plugins that can be started again.
type Restarter interface {
	Plugins
	// Restart ends the processes that are left and starts the backend again. Optimizers are started when they are asked for.
	Restart(ctx context.Context) error
}

// Run trains all phases and records them in j.Dir. When ctx ends, it saves a checkpoint and returns ctx's error. A run
// that fails in its first step leaves no record.
//
// When a plugin dies, or hangs and is killed, all plugins are started again, Job.Restarts times at most, if Job.Plugins is
// a Restarter. The run then goes on as one that is resumed, with the same bits: from the state that the host has, which
// is that before the step under way, or if an optimizer or a commit was changing it, from the last checkpoint.
func Run(ctx context.Context, j Job) (*results.Result, error) {
	if j.Observe == nil {
		j.Observe = func(Event) {}
	}
	var died deaths
	for {
		result, err := j.once(ctx, &died)
		for restart := true; restart; {
			plugins, ok := j.Plugins.(Restarter)
			if !errors.Is(err, host.ErrDied) || ctx.Err() != nil || !ok || j.KeepParameters != "" {
				return result, err
			}
			if died.count == j.Restarts {
				if died.count > 0 {
					err = fmt.Errorf("after %d restarts: %w", died.count, err)
				}
				return nil, err
			}
			died.add(err)
			err = plugins.Restart(ctx)
			restart = err != nil
		}
		j.Resume = true
	}
}

// deaths are those of plugins in a run.
type deaths struct {
	count int
	last  string   // what was said of the last one
	notes []string // for the record
}

func (d *deaths) add(err error) {
	d.count++
	d.last, _, _ = strings.Cut(err.Error(), "\n")
}

// note adds them to the record of a run that goes on.
func (d *deaths) note(r *run, from *checkpoint.Checkpoint) {
	if d.last != "" {
		phase := 0
		if from != nil {
			phase = from.PhaseIndex
		}
		text := fmt.Sprintf("a plugin was started again, and the run went on after step %d: %s", r.done, d.last)
		r.Observe(Event{Phase: r.Recipe.Phases[phase].Name, Doubt: text})
		d.notes, d.last = append(d.notes, text), ""
	}
	for _, n := range d.notes {
		r.note("%s", n)
	}
}
