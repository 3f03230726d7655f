package evaluation

import "harness.invalid/core/dataset/tasks"

// together are tasks of a benchmark that count as one: the mean of those that are there. Both genres of MNLI are one task, and CLUE has either kind of
// inference, CMNLI in version 1.0 and OCNLI in 1.1.
var together = map[string]string{"mnli-mm": "mnli", "ocnli": "cmnli"}

// Overall is the score of a benchmark, the mean over its tasks of their scores, and which tasks it lacks. Sources: Wang et al. 2018 (GLUE), section 3;
// Xu et al. 2020 (CLUE), table 4.
func Overall(b tasks.Benchmark, scores map[string]float64) (mean float64, missing []string) {
	sums, counts := map[string]float64{}, map[string]int{}
	for _, t := range tasks.Of(b) {
		if v, ok := scores[t.Name]; ok {
			key := t.Name
			if other, ok := together[key]; ok {
				key = other
			}
			sums[key] += v
			counts[key]++
		}
	}
	n := 0
	for _, t := range tasks.Of(b) {
		switch {
		case together[t.Name] != "":
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
