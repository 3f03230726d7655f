package costmodel

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/machine"
	"harness.invalid/plugins/ipu/execution"
)

// System is a description of IPUs with their links, their memory and their host.
type System struct {
	Name    string   `yaml:"name"`
	Doc     string   `yaml:"doc"`
	Extends string   `yaml:"extends,omitempty"`
	Sources []string `yaml:"sources"`
	// IPUs in the system.
	IPUs      int       `yaml:"ipus"`
	Chip      Chip      `yaml:"chip"`
	Links     Links     `yaml:"links"`
	Streaming Streaming `yaml:"streaming"`
}

// Chip is one IPU.
type Chip struct {
	Name string `yaml:"name"`
	// Tiles compute; each has its own memory and runs Workers threads by turns.
	Tiles            int     `yaml:"tiles"`
	Workers          int     `yaml:"workers"`
	SRAMPerTileBytes int     `yaml:"sram_per_tile_bytes"`
	ClockHz          float64 `yaml:"clock_hz"`
	// MACsPerCycle of a tile's matrix unit in FP16.16.
	MACsPerCycle int `yaml:"macs_per_cycle"`
	// ExchangeBytesPerSecond between all tiles.
	ExchangeBytesPerSecond float64 `yaml:"exchange_bytes_per_second"`
}

// Links join IPUs. Rates are of one direction.
type Links struct {
	IPUsPerMachine int     `yaml:"ipus_per_machine"`
	BytesPerSecond float64 `yaml:"bytes_per_second"` // of one IPU-Link
	Efficiency     float64 `yaml:"efficiency"`       // of what a link carries, the share that is data
	WithinPair     int     `yaml:"within_pair"`      // links between the IPUs of a pair
	BetweenPairs   int     `yaml:"between_pairs"`    // links of an IPU to the next pair, and to the next machine
	HopSeconds     float64 `yaml:"hop_seconds"`      // latency of a link
	// IPUsPerRack are joined by IPU-Links; racks by the gateways' links, GatewayBytesPerSecond a machine.
	IPUsPerRack           int     `yaml:"ipus_per_rack"`
	GatewayBytesPerSecond float64 `yaml:"gateway_bytes_per_second"`
}

// Streaming is the DRAM of a machine.
type Streaming struct {
	// Bytes that an IPU has of it.
	Bytes float64 `yaml:"bytes"`
	// BytesPerSecond of an IPU, either way.
	BytesPerSecond float64 `yaml:"bytes_per_second"`
}

// SRAMBytes is the memory of a chip.
func (c *Chip) SRAMBytes() int64 { return int64(c.Tiles) * int64(c.SRAMPerTileBytes) }

// PeakFlops is the arithmetic of a chip in FP16.16, a multiply-add counted as two.
func (c *Chip) PeakFlops() float64 {
	return 2 * float64(c.Tiles) * float64(c.MACsPerCycle) * c.ClockHz
}

// Validate implements machine.System.
func (s *System) Validate() error {
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"ipus", float64(s.IPUs)}, {"chip.tiles", float64(s.Chip.Tiles)}, {"chip.workers", float64(s.Chip.Workers)},
		{"chip.sram_per_tile_bytes", float64(s.Chip.SRAMPerTileBytes)}, {"chip.clock_hz", s.Chip.ClockHz},
		{"chip.macs_per_cycle", float64(s.Chip.MACsPerCycle)},
		{"chip.exchange_bytes_per_second", s.Chip.ExchangeBytesPerSecond}, {"links.ipus_per_machine", float64(s.Links.IPUsPerMachine)},
		{"links.bytes_per_second", s.Links.BytesPerSecond}, {"links.efficiency", s.Links.Efficiency},
		{"links.within_pair", float64(s.Links.WithinPair)},
		{"links.between_pairs", float64(s.Links.BetweenPairs)}, {"links.ipus_per_rack", float64(s.Links.IPUsPerRack)},
		{"links.gateway_bytes_per_second", s.Links.GatewayBytesPerSecond}, {"streaming.bytes_per_second", s.Streaming.BytesPerSecond},
		{"streaming.bytes", s.Streaming.Bytes},
	} {
		if !(f.value > 0 && f.value < 1e18) {
			return fmt.Errorf("%s is %g, want a positive number", f.name, f.value)
		}
	}
	if s.Links.Efficiency > 1 {
		return fmt.Errorf("links.efficiency is %g, want at most 1", s.Links.Efficiency)
	}
	if s.Chip.Tiles > 1<<14 {
		return fmt.Errorf("chip.tiles is %d, want at most %d", s.Chip.Tiles, 1<<14)
	}
	return nil
}

// Line implements machine.System.
func (s *System) Line() string { return s.Doc }

//go:embed systems
var files embed.FS

// Systems are those that are built in.
var Systems = machine.Catalog[System, *System]{Files: sub(files, "systems")}

// Find returns the system that a host asks for. The name of a family, ipu-pod or bow-pod, is that of its smallest
// system with the IPUs of the program.
func Find(on backend.Machine, option string, p backend.Program, plan execution.Plan) (*System, error) {
	name := cmp.Or(on.System, option)
	if on.Description != "" || !strings.HasSuffix(name, "-pod") {
		return Systems.Find(on, option)
	}
	if found := ofFamily(name, plan.IPUs()*p.Replicas); found != nil {
		return found, nil
	}
	return Systems.Load(name) // the error says which names there are
}

// Larger is the smallest system of the same family with the IPUs of a program, or else the largest; nil: the system
// is of no family.
func Larger(sys *System, p backend.Program, plan execution.Plan) *System {
	return ofFamily(strings.TrimRight(sys.Name, "0123456789"), plan.IPUs()*p.Replicas)
}

// ofFamily is the smallest system of a family, such as bow-pod, that has enough IPUs, or else the largest; nil:
// there is no such family.
func ofFamily(name string, ipus int) *System {
	var found *System
	for _, member := range Systems.Names() {
		if strings.TrimRight(member, "0123456789") != name {
			continue
		}
		system, err := Systems.Load(member)
		if err != nil {
			continue
		}
		if found == nil || found.IPUs < ipus && system.IPUs > found.IPUs || system.IPUs >= ipus && system.IPUs < found.IPUs {
			found = system
		}
	}
	return found
}

func sub(f fs.FS, dir string) fs.FS {
	s, err := fs.Sub(f, dir)
	if err != nil {
		panic(err)
	}
	return s
}
