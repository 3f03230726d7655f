package tasks

import (
	"maps"
	"math"
	"slices"

	"harness.invalid/core/bert"
)

// Floors are the best scores of predictions that do not depend on the input, by metric and in the units of Score:
// those of the one label or choice that, given to all examples, scores best, and a correlation of 0. Loss is the
// mean loss, in nats, of the best probabilities that are the same for all examples: the entropy of the labels, or
// for a regression the variance of the targets.
func (d *Data) Floors() (scores map[string]float64, loss float64, err error) {
	if d.Task.Kind == bert.TokenClassification {
		return d.entityFloors()
	}
	if d.Task.Regression() {
		scores = map[string]float64{}
		for _, m := range d.Task.Metrics {
			scores[m] = 0
		}
		return scores, d.variance(), nil
	}
	count := map[int]int{}
	for _, e := range d.Examples {
		count[e.Label]++
	}
	labels := slices.Sorted(maps.Keys(count))
	for _, label := range labels {
		p := &Predictions{Task: d.Task, by: map[string]int{}}
		for _, e := range d.Examples {
			p.add(prediction{id: e.ID, label: label})
		}
		of, err := d.Score(p)
		if err != nil {
			return nil, 0, err
		}
		if scores == nil {
			scores = of
		}
		for m, v := range of {
			scores[m] = max(scores[m], v)
		}
		share := float64(count[label]) / float64(len(d.Examples))
		loss -= share * math.Log(share)
	}
	return scores, loss, nil
}

// variance is the mean squared distance of the targets from their mean.
func (d *Data) variance() float64 {
	var mean, sum float64
	for _, e := range d.Examples {
		mean += float64(e.Target) / float64(len(d.Examples))
	}
	for _, e := range d.Examples {
		sum += (float64(e.Target) - mean) * (float64(e.Target) - mean)
	}
	return sum / float64(len(d.Examples))
}
