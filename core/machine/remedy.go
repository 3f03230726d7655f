package machine

import (
	"maps"
	"slices"
	"strings"

	"harness.invalid/core/backend"
)

// Change is one thing that may be done to a program that is too large, and to the settings S that a backend has read from its options.
type Change[S any] struct {
	Words   string            // what it does
	Options map[string]string // that do it; a cut of the global batch is in the program
	Apply   func(p *backend.Program, s *S)
}

// Remedy looks for the fewest changes with which a program fits, of each kind one at most, and among as many for those that leave it fastest. Two that only
// help together are found as well. rate is the throughput of a changed program, and false when it does not fit or can't run. The words are empty when
// nothing helps.
func Remedy[S any](p backend.Program, s S, kinds [][]Change[S], rate func(p backend.Program, s S) (sequencesPerSecond float64, fits bool)) (words string, found *backend.Remedy) {
	fastest := 0.
	var try func(p backend.Program, s S, kinds [][]Change[S], left int, done []Change[S])
	try = func(p backend.Program, s S, kinds [][]Change[S], left int, done []Change[S]) {
		if left == 0 {
			r, fits := rate(p, s)
			if !fits || r <= fastest {
				return
			}
			fastest, found = r, &backend.Remedy{MicroBatch: p.MicroBatch, Accumulation: p.Accumulation, Replicas: p.Replicas, Options: map[string]string{}}
			list := make([]string, len(done))
			for i, c := range done {
				list[i] = c.Words
				maps.Copy(found.Options, c.Options)
			}
			words = strings.Join(list, ", with ")
			return
		}
		for i, kind := range kinds {
			for _, c := range kind {
				q, t := p, s
				c.Apply(&q, &t)
				try(q, t, kinds[i+1:], left-1, append(slices.Clip(done), c))
			}
		}
	}
	for n := 1; n <= len(kinds) && found == nil; n++ {
		try(p, s, kinds, n, nil)
	}
	return words, found
}

// Smaller are the micro-batches that divide a program's, largest first, with as many more of them a step.
func Smaller(p *backend.Program) []int {
	var list []int
	for n := p.MicroBatch / 2; n >= 1; n-- {
		if p.MicroBatch%n == 0 {
			list = append(list, n)
		}
	}
	return list
}
