package costmodel

//go:generate go test -run ^TestPublished$ . -update

import (
	_ "embed"

	"github.com/goccy/go-yaml"
)

// constants are fitted to published throughput, everything else is counted or has a source.
type constants struct {
	// VectorCycles a tile takes for one pass over an element in FP16: load, compute, store, and the overhead of
	// vertices.
	VectorCycles float64 `yaml:"vector_cycles"`
	// HostBytesPerSecond at which the host prepares a global batch while the IPUs wait.
	HostBytesPerSecond float64 `yaml:"host_bytes_per_second"`
}

//go:embed constants.yaml
var constantsYAML []byte

// fitted are the constants in constants.yaml.
var fitted = func() constants {
	var c constants
	if err := yaml.UnmarshalWithOptions(constantsYAML, &c, yaml.Strict()); err != nil {
		panic(err)
	}
	return c
}()
