package machine

//go:generate go test -run ^TestPublished$ . -update

import (
	_ "embed"

	"github.com/goccy/go-yaml"
)

// constants are fitted to published throughput, everything else is counted or has a source.
type constants struct {
	// MatmulEfficiency is the share of peak arithmetic that large matrix products get: the clock under load, and what kernels lose.
	MatmulEfficiency float64 `yaml:"matmul_efficiency"`
	// ElementsPerCycle that a multiprocessor reads or writes in kernels on elements, besides the time of the bytes.
	ElementsPerCycle float64 `yaml:"elements_per_cycle"`
	// HostSecondsPerTensor that the GPU waits for the host at every update, for each tensor of the model: the optimizer's loop, the loss read back, the
	// next batch.
	HostSecondsPerTensor float64 `yaml:"host_seconds_per_tensor"`
}

// Figures that are not fitted. The share of peak bandwidth is what STREAM-like kernels get on these chips; a launch takes the host some microseconds.
const (
	memoryEfficiency = 0.9
	launchSeconds    = 6e-6
)

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
