package evaluation

import "harness.invalid/core/dataset/tasks"

// TaskScore is a task's share in the score of a benchmark: the mean of those of its metrics that count there, in %.
func (s *Scores) TaskScore(t *tasks.Task) float64 {
	sum := 0.0
	for _, name := range t.Metrics[:t.Scored] {
		sum += s.Metrics[name]
	}
	return sum / float64(t.Scored)
}

// merged maps tasks of a benchmark to those that they count as one with, by the mean of the scores that are there.
// The two genres of MNLI are one task; so are the two kinds of inference of CLUE, CMNLI in version 1.0 and OCNLI in
// 1.1.
var merged = map[string]string{"mnli-mm": "mnli", "ocnli": "cmnli"}

// BenchmarkScore is the mean of the scores of a benchmark's tasks, and the tasks without a score.
// Sources: Wang et al. 2018 (GLUE), section 3; Xu et al. 2020 (CLUE), table 4.
func BenchmarkScore(b tasks.Benchmark, scores map[string]float64) (mean float64, missing []string) {
	sums, counts := map[string]float64{}, map[string]int{}
	for _, t := range tasks.Of(b) {
		if v, ok := scores[t.Name]; ok {
			key := t.Name
			if other, ok := merged[key]; ok {
				key = other
			}
			sums[key] += v
			counts[key]++
		}
	}
	n := 0
	for _, t := range tasks.Of(b) {
		switch {
		case merged[t.Name] != "":
		case counts[t.Name] == 0:
			missing = append(missing, t.Name)
		default:
			mean += sums[t.Name] / float64(counts[t.Name])
			n++
		}
	}
	if n > 0 {
		mean /= float64(n)
	}
	return mean, missing
}
