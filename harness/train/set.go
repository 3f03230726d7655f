package train

import (
	"context"
	"fmt"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/recipe"
)

// set is the data of one phase.
type set interface {
	// sequences is the number of training sequences in an epoch; 0 for text that was not prepared, where it is unknown and
	// phases count steps.
	sequences() int
	source() (dataset.Source, error)
	// evaluate measures the model that a session holds. If final is set, it also saves files, to path(name) with names
	// that begin with the phase's.
	evaluate(
		ctx context.Context, s backend.Session, final bool, path func(string) string, phase string,
	) (map[string]float64, error)
	// evaluated is the number of sequences in an evaluation.
	evaluated() int
	// floors are what a model that ignores its input gets in an evaluation, by metric.
	floors() map[string]float64
	// notes are doubts about the data that do not stop the run.
	notes() []string
}

// open opens the data of a phase.
func (d *Data) open(r *recipe.Recipe, p *recipe.Phase, seed uint64) (set, error) {
	if p.Task == bert.Pretraining {
		return d.openText(r, p, seed)
	}
	if t := p.FineTuning(); t != nil {
		return d.openTask(d.tasks[t.Name], p, seed)
	}
	return nil, fmt.Errorf("task %s has no data: dataset is not given, want one of %s", p.Task, strings.Join(tasks.Names(), ", "))
}
