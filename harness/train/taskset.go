package train

import (
	"context"
	"encoding/json"
	"io"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/durable"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/evaluation"
	"harness.invalid/results"
)

// taskSet is the data of fine-tuning.
type taskSet struct {
	*evaluation.Training
	evaluator *evaluation.Evaluator
	atLeast   map[string]float64 // see set
}

func (d *Data) openTask(s split, p *recipe.Phase, seed uint64) (*taskSet, error) {
	t := new(taskSet)
	var err error
	if t.Training, err = s.train.Training(d.Tokenizer, p, seed); err != nil {
		return nil, err
	}
	if t.evaluator, err = evaluation.New(s.dev.First(p.Evaluation.Sequences), d.Tokenizer, p); err != nil {
		return nil, err
	}
	t.atLeast, err = t.evaluator.Floors()
	return t, err
}

func (t *taskSet) sequences() int                  { return t.Sequences }
func (t *taskSet) source() (dataset.Source, error) { return t.Source, nil }
func (t *taskSet) notes() []string                 { return t.Notes }
func (t *taskSet) evaluated() int                  { return t.evaluator.Sequences() }
func (t *taskSet) floors() map[string]float64      { return t.atLeast }

func (t *taskSet) evaluate(
	ctx context.Context, s backend.Session, final bool, path func(string) string, phase string,
) (map[string]float64, error) {
	predictions, err := t.evaluator.Run(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	scores, err := t.evaluator.Data.Score(predictions)
	if err != nil {
		return nil, err
	}
	if t.evaluator.Data.Task.Kind != bert.QuestionAnswering {
		scores.Metrics["loss"] = predictions.Loss
	}
	if v := predictions.AnswerNLL; v != nil {
		scores.Metrics[tasks.AnswerNLL] = *v
	}
	if !final {
		return scores.Metrics, nil
	}
	if err := predictions.Save(func(name string) string { return path(phase + "." + name) }); err != nil {
		return nil, err
	}
	if scores.Questions != nil {
		// For statistics over questions.
		err = durable.WriteFile(path(results.ScoresFile(phase)), func(w io.Writer) error {
			return json.NewEncoder(w).Encode(scores.Questions)
		})
	}
	return scores.Metrics, err
}
