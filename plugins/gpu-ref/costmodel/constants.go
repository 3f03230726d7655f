package costmodel

//go:generate go test -run ^TestPublished$ . -update

import (
	_ "embed"
	"sync"

	"github.com/goccy/go-yaml"

	"harness.invalid/core/machine"
)

// constants are fitted to published throughput, everything else is counted or has a source.
type constants struct {
	// MatmulEfficiency is the share of their peak arithmetic that tensor cores get in large matrix products: the
	// clock under load, and what kernels lose.
	MatmulEfficiency float64 `yaml:"matmul_efficiency"`
	// ElementsPerCycle that a multiprocessor reads or writes in kernels on elements, besides the time of the bytes.
	ElementsPerCycle float64 `yaml:"elements_per_cycle"`
	// SQuADSeconds that the GPU waits for the host at every update of the software nvidia-squad.
	SQuADSeconds float64 `yaml:"squad_seconds"`
	// UnseenErrors of the rows of published.yaml, modelled/published - 1, by a model that was fitted without them.
	UnseenErrors []float64 `yaml:"unseen_errors"`
}

//go:embed constants.yaml
var constantsYAML []byte

// fitted are the constants in constants.yaml.
var fitted = sync.OnceValue(func() constants {
	var c constants
	if err := yaml.UnmarshalWithOptions(constantsYAML, &c, yaml.Strict()); err != nil {
		panic(err)
	}
	return c
})

//go:embed published.yaml
var publishedYAML []byte

// published is what the model was held against.
var published = sync.OnceValue(func() *machine.Checked {
	rows, err := machine.ReadRows(publishedYAML)
	if err != nil {
		panic(err)
	}
	chips, err := Systems.Chips(rows, func(s *System) string { return s.Chip.Name })
	if err != nil {
		panic(err)
	}
	return &machine.Checked{Rows: rows, Chips: chips, Errors: fitted().UnseenErrors, Format: formatOf}
})
