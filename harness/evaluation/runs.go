package evaluation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"harness.invalid/core/dataset/tasks"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// RunScore is what the runs of a task come to, in %.
type RunScore struct {
	Mean results.Number  `json:"mean"`
	SD   *results.Number `json:"sd,omitempty"` // of two runs or more
	Best float64         `json:"best"`
	Runs int             `json:"runs"`
}

// RunsScore is the score of a benchmark over runs.
type RunsScore struct {
	Score   float64             `json:"score"`
	Tasks   map[string]RunScore `json:"tasks"`
	Missing []string            `json:"missing"` // tasks without a run

	Incomplete []string `json:"-"` // folders of runs that were left out
	Arms       []string `json:"-"` // of the runs; those of several arms count as seeds of one
}

// ScoreRuns scores a benchmark over the complete runs in some folders: the mean over its tasks of the mean over a
// task's runs.
func ScoreRuns(b tasks.Benchmark, folders []string) (*RunsScore, error) {
	s := &RunsScore{Tasks: map[string]RunScore{}, Missing: []string{}}
	values, arms := map[string][]float64{}, map[string]bool{}
	for _, folder := range folders {
		dirs, err := results.Find(folder)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			r, err := results.Open(dir)
			if err != nil {
				return nil, err
			}
			if r.Result == nil || r.Result.Status != results.Complete {
				s.Incomplete = append(s.Incomplete, dir)
				continue
			}
			for i := range r.Recipe.Phases {
				t := r.Recipe.Phases[i].FineTuning()
				if t == nil || t.Benchmark != b {
					continue
				}
				scores := Scores{Metrics: r.Result.Phases[i].Metrics}
				values[t.Name] = append(values[t.Name], scores.TaskScore(t))
				arms[r.Arm().String()] = true
			}
		}
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("%s: no complete run of one of its tasks in %s", b, strings.Join(folders, ", "))
	}
	means := map[string]float64{}
	for name, v := range values {
		m := statistics.NewSample(v)
		s.Tasks[name] = RunScore{Mean: m.Mean, SD: m.SD, Best: slices.Max(v), Runs: len(v)}
		means[name] = float64(m.Mean)
	}
	score, missing := BenchmarkScore(b, means)
	s.Score, s.Missing, s.Arms = score, append(s.Missing, missing...), slices.Sorted(maps.Keys(arms))
	return s, nil
}
