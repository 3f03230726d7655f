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
	// VectorCycles a tile takes for one pass over an element in FP16: load, compute, store, and the overhead of
	// vertices.
	VectorCycles float64 `yaml:"vector_cycles"`
	// HostBytesPerSecond at which the data loader prepares a global batch while the IPUs wait.
	HostBytesPerSecond float64 `yaml:"host_bytes_per_second"`
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
	return &machine.Checked{Rows: rows, Chips: chips, Errors: fitted().UnseenErrors}
})
