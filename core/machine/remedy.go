package machine

import (
	"maps"
	"slices"
	"strings"

	"harness.invalid/core/backend"
)

// Change is one thing that may be done to a program that is too large.
type Change struct {
	Words   string                   // what it does
	Options map[string]string        // that do it, in place of the program's
	Apply   func(p *backend.Program) // cuts the global batch another way; nil: it stays as it is
}

// apply returns a changed program.
func (c *Change) apply(p backend.Program) backend.Program {
	options := maps.Clone(p.Options)
	if options == nil {
		options = map[string]string{}
	}
	maps.Copy(options, c.Options)
	p.Options = options
	if c.Apply != nil {
		c.Apply(&p)
	}
	return p
}

// Remedy looks for the fewest changes with which a program fits, at most one of each kind, and among as many changes for
// those that leave the program fastest. It also finds two that help only together. rate is the throughput of a changed
// program, and false when that does not fit or cannot run. The words are empty when nothing helps.
func Remedy(
	p backend.Program, kinds [][]Change, rate func(p backend.Program) (sequencesPerSecond float64, fits bool),
) (words string, found *backend.Remedy) {
	fastest := 0.
	var try func(p backend.Program, kinds [][]Change, left int, done []Change)
	try = func(p backend.Program, kinds [][]Change, left int, done []Change) {
		if left == 0 {
			r, fits := rate(p)
			if !fits || r <= fastest {
				return
			}
			fastest = r
			found = &backend.Remedy{
				MicroBatch: p.MicroBatch, Accumulation: p.Accumulation, Replicas: p.Replicas, Options: map[string]string{},
			}
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
				try(c.apply(p), kinds[i+1:], left-1, append(slices.Clip(done), c))
			}
		}
	}
	for n := 1; n <= len(kinds) && found == nil; n++ {
		try(p, kinds, n, nil)
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
