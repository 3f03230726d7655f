package costmodel

import (
	"fmt"
	"strconv"
	"strings"

	"harness.invalid/core/option"
)

// ReadSettings reads the options of the backend that were given for a model of so many layers; those that are not the machine's are passed over, and those that were not
// given stay open.
func ReadSettings(given map[string]string, layers int) (Settings, error) {
	known := make([]option.Option, 0, len(given))
	for name := range given {
		known = append(known, option.Option{Name: name})
	}
	v, err := option.Read(known, given)
	if err != nil {
		return Settings{}, err
	}
	var s Settings
	phased, perPhase := false, 2
	for name := range given {
		var err error
		switch name {
		case "pipeline":
			if v.Text(name) == "all" {
				s.LayersPerIPU = []float64{float64(layers)}
			} else {
				s.LayersPerIPU, err = numbers(name, v.Text(name))
			}
		case "available_memory_proportion":
			if v.Text(name) != "auto" {
				s.Proportions, err = numbers(name, v.Text(name))
			}
		case "schedule":
			s.Schedule = Schedule(v.OneOf(name, string(Grouped), string(Interleaved), string(Sequential)))
		case "recomputation":
			s.Recompute = Recompute(v.OneOf(name, string(NoRecompute), string(LayerRecompute), string(StageRecompute)))
		case "optimizer_state":
			if s.State = State(v.OneOf(name, "auto", string(OnChip), string(OffChip))); s.State == "auto" {
				s.State = ""
			}
		case "replicated_tensor_sharding":
			s.Unsharded = !v.Bool(name)
		case "embedding_serialization":
			s.EmbeddingParts = v.Int(name, 1, 1<<10)
		case "execution":
			phased = v.OneOf(name, "pipelined", "phased") == "phased"
		case "layers_per_phase":
			perPhase = v.Int(name, 1, 1<<10)
		}
		if err != nil {
			return s, err
		}
	}
	if phased {
		if pipeline := given["pipeline"]; pipeline != "" && pipeline != "all" {
			return s, fmt.Errorf("options execution=phased and pipeline=%s: phases follow each other on the same IPUs, want pipeline=all", pipeline)
		}
		s.LayersPerIPU, s.LayersPerPhase = []float64{float64(layers)}, perPhase
	}
	return s, v.Err()
}

// numbers reads a list such as 3,7,7,7.
func numbers(name, text string) ([]float64, error) {
	var list []float64
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil || !(n >= 0 && n < 1<<12) || 2*n != float64(int(2*n)) && name == "pipeline" {
			return nil, fmt.Errorf("option %s is %q, want a list of numbers such as 3,7,7,7", name, text)
		}
		list = append(list, n)
	}
	return list, nil
}
