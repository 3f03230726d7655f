package costmodel

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"harness.invalid/core/machine"
)

// System is a description of a node of GPUs, and of how nodes are joined.
type System struct {
	Name    string   `yaml:"name"`
	Doc     string   `yaml:"doc"`
	Extends string   `yaml:"extends,omitempty"`
	Sources []string `yaml:"sources"`
	Chip    Chip     `yaml:"chip"`
	Node    Node     `yaml:"node"`
	// Nodes is the greatest number of nodes.
	Nodes int `yaml:"nodes"`
}

// Chip is one GPU.
type Chip struct {
	Name            string  `yaml:"name"`
	Multiprocessors int     `yaml:"multiprocessors"`
	ClockHz         float64 `yaml:"clock_hz"`
	// Flops are dense peak rates by precision; a precision that is not there can't be computed in.
	Flops map[string]float64 `yaml:"flops"`
	// MemoryBytes and MemoryBytesPerSecond of the device memory, L2BytesPerSecond between the second-level cache and
	// the multiprocessors.
	MemoryBytes          int64   `yaml:"memory_bytes"`
	MemoryBytesPerSecond float64 `yaml:"memory_bytes_per_second"`
	L2BytesPerSecond     float64 `yaml:"l2_bytes_per_second"`
	// MemoryEfficiency is the share of MemoryBytesPerSecond that kernels get.
	MemoryEfficiency float64 `yaml:"memory_efficiency"`
	// AsynchronousCopies bring operands into shared memory while the tensor cores compute. A chip without them,
	// before Ampere, brings them through registers.
	AsynchronousCopies bool `yaml:"asynchronous_copies"`
}

// Node is a number of GPUs in one machine. Rates are of one direction.
type Node struct {
	GPUs int `yaml:"gpus"`
	// LinkBytesPerSecond of a GPU to the others of its node, NetworkBytesPerSecond of a node to other nodes;
	// Efficiency of either is the share of it that a ring gets.
	LinkBytesPerSecond    float64 `yaml:"link_bytes_per_second"`
	NetworkBytesPerSecond float64 `yaml:"network_bytes_per_second"`
	Efficiency            float64 `yaml:"efficiency"`
	// StepSeconds is the latency of a step of a ring, within the node and between nodes.
	StepSeconds        float64 `yaml:"step_seconds"`
	NetworkStepSeconds float64 `yaml:"network_step_seconds"`
}

// rates are the keys of Chip.Flops.
var rates = []string{"fp16", "bf16", "tf32", "fp32", "fp8", "mxfp8", "mxfp6", "mxfp4", "nvfp4"}

// Validate implements machine.System.
func (s *System) Validate() error {
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"chip.multiprocessors", float64(s.Chip.Multiprocessors)}, {"chip.clock_hz", s.Chip.ClockHz},
		{"chip.memory_bytes", float64(s.Chip.MemoryBytes)}, {"chip.memory_bytes_per_second", s.Chip.MemoryBytesPerSecond},
		{"chip.l2_bytes_per_second", s.Chip.L2BytesPerSecond}, {"node.gpus", float64(s.Node.GPUs)},
		{"chip.memory_efficiency", s.Chip.MemoryEfficiency}, {"node.link_bytes_per_second", s.Node.LinkBytesPerSecond},
		{"node.network_bytes_per_second", s.Node.NetworkBytesPerSecond},
		{"node.efficiency", s.Node.Efficiency}, {"nodes", float64(s.Nodes)}, {"chip.flops", float64(len(s.Chip.Flops))},
	} {
		if !(f.value > 0 && f.value < 1e18) {
			return fmt.Errorf("%s is %g, want a positive number", f.name, f.value)
		}
	}
	for name, flops := range s.Chip.Flops {
		if !slices.Contains(rates, name) {
			return fmt.Errorf("chip.flops.%s: want some of %s", name, strings.Join(rates, ", "))
		}
		if !(flops > 0 && flops < 1e18) {
			return fmt.Errorf("chip.flops.%s is %g, want a positive number", name, flops)
		}
	}
	for name, share := range map[string]float64{"node.efficiency": s.Node.Efficiency, "chip.memory_efficiency": s.Chip.MemoryEfficiency} {
		if share > 1 {
			return fmt.Errorf("%s is %g, want at most 1", name, share)
		}
	}
	return nil
}

// Line implements machine.System.
func (s *System) Line() string { return s.Doc }

//go:embed systems
var files embed.FS

// Systems are those that are built in.
var Systems = machine.Catalog[System, *System]{Files: sub(files, "systems")}

func sub(f fs.FS, dir string) fs.FS {
	s, err := fs.Sub(f, dir)
	if err != nil {
		panic(err)
	}
	return s
}
