package bench

import (
	"runtime"
	"strings"
	"testing"

	"harness.invalid/core/dataset/synthetic"
	"harness.invalid/core/wordpiece"
)

// Tokenizer is a benchmark of WordPiece on one thread over the lines of a text.
func Tokenizer(t *wordpiece.Tokenizer, text string) Benchmark {
	lines := strings.Split(text, "\n")
	return Benchmark{"Tokenizer", func(b *testing.B) (Figure, error) {
		var ids []int32
		var allocations, calls uint64
		var s samples
		s.pair(b, func() {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, line := range lines {
				ids = t.AppendIDs(ids[:0], line)
			}
			runtime.ReadMemStats(&after)
			allocations, calls = after.Mallocs-before.Mallocs, uint64(len(lines))
		}, func() {})
		f := s.figure()
		f.Threads = 1
		f.MBs = float64(len(text)) / 1e6 / (f.Time.Median / 1e3)
		f.AllocationsPerLine = float64(allocations) / float64(calls)
		return f, nil
	}}
}

// Text generates text, always the same, and a tokenizer whose vocabulary was learned from it.
func Text() (*wordpiece.Tokenizer, string, error) {
	var text strings.Builder
	if err := synthetic.Text(&text, synthetic.Settings{Seed: 1, People: 1200, Questions: 6000, DevQuestions: 400}); err != nil {
		return nil, "", err
	}
	v, err := wordpiece.Train(wordpiece.TrainOptions{Size: 1500, Options: wordpiece.Google(true)}, strings.NewReader(text.String()))
	if err != nil {
		return nil, "", err
	}
	t, err := wordpiece.New(v, wordpiece.Google(true))
	return t, text.String(), err
}
