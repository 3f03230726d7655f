package ipu

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/option"
	"harness.invalid/plugins/ipu/machine"
)

var _ backend.Estimator = (*Backend)(nil)

// Estimate implements backend.Estimator. Options that are not given leave the modelled machine free: it then runs the program as published
// configurations do, or as fast as fits.
func (*Backend) Estimate(_ context.Context, p backend.Program, on backend.Machine) (backend.Estimate, error) {
	e, err := estimate(p, on)
	if err != nil {
		return e, fmt.Errorf("ipu: %w", err)
	}
	return e, nil
}

func estimate(p backend.Program, on backend.Machine) (backend.Estimate, error) {
	precision, err := info.Precision(p.Precision)
	if err != nil {
		return backend.Estimate{}, err
	}
	p.Precision = precision.Name
	v, err := option.Read(info.Options, p.Options)
	if err != nil {
		return backend.Estimate{}, err
	}
	if err := checkModelled(v); err != nil {
		return backend.Estimate{}, err
	}
	settings, err := machineSettings(p.Options, v, p.Model.NumHiddenLayers)
	if err != nil {
		return backend.Estimate{}, err
	}
	system, err := machine.Systems.Find(on, v.Text("system"))
	if err != nil {
		return backend.Estimate{}, err
	}
	return machine.Estimate(p, settings, system, on)
}

// machineSettings are the options that were given.
func machineSettings(given map[string]string, v *option.Values, layers int) (machine.Settings, error) {
	var s machine.Settings
	for name := range given {
		var err error
		switch name {
		case "pipeline":
			if v.Text(name) == wholeModel {
				s.LayersPerIPU = []float64{float64(layers)}
			} else {
				s.LayersPerIPU, err = numbers(v.Text(name))
			}
		case "available_memory_proportion":
			if v.Text(name) != "auto" {
				s.Proportions, err = numbers(v.Text(name))
			}
		case "schedule":
			s.Schedule = machine.Schedule(v.OneOf(name, string(machine.Grouped), string(machine.Interleaved), string(machine.Sequential)))
		case "recomputation":
			s.Recompute = machine.Recompute(v.OneOf(name, string(machine.NoRecompute), string(machine.LayerRecompute), string(machine.StageRecompute)))
		case "optimizer_state":
			s.State = machine.State(v.OneOf(name, "auto", string(machine.OnChip), string(machine.OffChip)))
			if s.State == "auto" {
				s.State = ""
			}
		case "replicated_tensor_sharding":
			s.Unsharded = !v.Bool(name)
		case "embedding_serialization":
			s.EmbeddingParts = v.Int(name, 1, 1<<10)
		case "execution":
			if v.OneOf(name, "pipelined", "phased") == "phased" {
				err = fmt.Errorf("option execution=phased: the machine model knows pipelines only: %w", backend.ErrUnsupported)
			}
		}
		if err != nil {
			return s, err
		}
	}
	return s, v.Err()
}

// numbers reads a list such as 3,7,7,7.
func numbers(text string) ([]float64, error) {
	var list []float64
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil || !(n >= 0 && n < 1<<12) {
			return nil, fmt.Errorf("%q is not a list of numbers such as 3,7,7,7", text)
		}
		list = append(list, n)
	}
	return list, nil
}
