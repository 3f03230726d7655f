package evaluation

import (
	"maps"
	"slices"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/score"
)

// Scores are the metrics of predictions.
type Scores struct {
	// Report is what the task's official script prints, under its names and in its order.
	Report Report
	// Metrics are in %, under the names that recipes, records and tables use.
	Metrics map[string]float64
	// Missing counts the questions for which a file of predictions has no answer.
	Missing int
	// Questions are the scores of single questions in %, by metric and ID, for metrics that are their mean.
	Questions map[string]map[string]float64
}

// Score scores the predictions of a model.
func (d *Data) Score(p *Predictions) (*Scores, error) {
	switch {
	case d.Task.Kind == bert.TokenClassification:
		return d.scoreEntities(p)
	case d.examples != nil:
		return d.scoreLabels(p)
	case d.Task.Impossible:
		return d.scoreImpossible(p)
	}
	return d.scoreAnswers(p)
}

// ScoreFile scores a file of predictions. odds names a file with the odds that a question has no answer, for SQuAD
// v2.0 alone; questions with odds above threshold count as unanswered. odds may be empty.
func (d *Data) ScoreFile(predictions, odds string, threshold float64) (*Scores, error) {
	p, err := readPredictions(d.Task, predictions, odds)
	if err != nil {
		return nil, err
	}
	if d.examples == nil && d.Task.Impossible {
		s, err := score.SQuAD2(d.questions(), p.texts, p.odds, threshold)
		if err != nil {
			return nil, err
		}
		return impossibleScores(&s), nil
	}
	return d.Score(p)
}

func (d *Data) scoreLabels(p *Predictions) (*Scores, error) {
	scores, err := d.examples.Score(p.labels)
	if err != nil {
		return nil, err
	}
	s := &Scores{Metrics: map[string]float64{}}
	for _, name := range d.Task.Metrics {
		s.Report.add(name, scores[name])
		s.Metrics[name] = 100 * scores[name]
	}
	return s, nil
}

func (d *Data) scoreEntities(p *Predictions) (*Scores, error) {
	e, err := d.examples.Entities(p.labels)
	if err != nil {
		return nil, err
	}
	s := &Scores{Metrics: map[string]float64{
		tasks.Precision: 100 * e.Precision, tasks.Recall: 100 * e.Recall, tasks.F1: 100 * e.F1, tasks.Accuracy: 100 * e.Accuracy,
	}}
	s.Report.add("precision", e.Precision)
	s.Report.add("recall", e.Recall)
	s.Report.add("f1", e.F1)
	s.Report.add("accuracy", e.Accuracy)
	types := Report{}
	for _, kind := range slices.Sorted(maps.Keys(e.ByType)) {
		of, group := e.ByType[kind], Report{}
		group.add("precision", of.Precision)
		group.add("recall", of.Recall)
		group.add("f1-score", of.F1)
		group.add("support", float64(of.Support))
		types = append(types, Number{Name: kind, Group: group})
	}
	s.Report = append(s.Report, Number{Name: "by_type", Group: types})
	return s, nil
}

// scoreAnswers is for question answering in which every question has an answer.
func (d *Data) scoreAnswers(p *Predictions) (*Scores, error) {
	metric := score.SQuAD
	if d.Task.Chinese {
		metric = score.CMRC
	}
	r, err := metric(d.questions(), p.answers())
	if err != nil {
		return nil, err
	}
	s := answerScores(&r)
	if d.Task.Chinese {
		s.Report.add("AVERAGE", (r.ExactMatch+r.F1)/2)
		s.Report.add("F1", r.F1)
		s.Report.add("EM", r.ExactMatch)
		s.Report.add("TOTAL", float64(r.Total))
		s.Report.add("SKIP", float64(r.Missing))
	} else {
		s.Report.add("exact_match", r.ExactMatch)
		s.Report.add("f1", r.F1)
	}
	return s, nil
}

// scoreImpossible scores a model on SQuAD v2.0. The model has already decided with its own threshold which
// questions have no answer, so its odds serve only to find the best threshold: given to the metric itself, they
// would decide a second time.
func (d *Data) scoreImpossible(p *Predictions) (*Scores, error) {
	best, err := score.SQuAD2(d.questions(), p.answers(), p.nullOdds(), 1)
	if err != nil {
		return nil, err
	}
	r, err := score.SQuAD2(d.questions(), p.answers(), nil, 1)
	if err != nil {
		return nil, err
	}
	r.Best = best.Best
	return impossibleScores(&r), nil
}

// impossibleScores are the scores of SQuAD v2.0.
func impossibleScores(r *score.SQuAD2Score) *Scores {
	s := answerScores(&r.SQuADScore)
	part := func(prefix string, r *score.SQuADScore) {
		if r != nil {
			s.Report.add(prefix+"exact", r.ExactMatch)
			s.Report.add(prefix+"f1", r.F1)
			s.Report.add(prefix+"total", float64(r.Total))
		}
	}
	part("", &r.SQuADScore)
	part("HasAns_", r.HasAns)
	part("NoAns_", r.NoAns)
	if b := r.Best; b != nil {
		s.Report.add("best_exact", b.ExactMatch)
		s.Report.add("best_exact_thresh", b.ExactMatchThreshold)
		s.Report.add("best_f1", b.F1)
		s.Report.add("best_f1_thresh", b.F1Threshold)
		s.Metrics[tasks.BestExact], s.Metrics[tasks.BestF1] = b.ExactMatch, b.F1
	}
	return s
}

// answerScores are the scores of question answering without the report, which differs from script to script.
func answerScores(r *score.SQuADScore) *Scores {
	questions := map[string]map[string]float64{tasks.ExactMatch: {}, tasks.F1: {}}
	for _, q := range r.Questions {
		questions[tasks.F1][q.ID], questions[tasks.ExactMatch][q.ID] = 100*q.F1, 0
		if q.ExactMatch {
			questions[tasks.ExactMatch][q.ID] = 100
		}
	}
	return &Scores{
		Metrics: map[string]float64{tasks.ExactMatch: r.ExactMatch, tasks.F1: r.F1},
		Missing: r.Missing, Questions: questions,
	}
}
