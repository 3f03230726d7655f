package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/bounded"
)

// readConfig reads the IPU's configuration: a file, a folder with an ipu_config.json, or a known name of the hub.
func (m *importer) readConfig() error {
	c := configured{}
	if m.ipuConfig != "" {
		name := m.ipuConfig
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			name = filepath.Join(name, "ipu_config.json")
		}
		text, err := bounded.ReadFile(name, bounded.MiB)
		if errors.Is(err, fs.ErrNotExist) && published[m.ipuConfig] != "" {
			text, err = []byte(published[m.ipuConfig]), nil
			if strings.Contains(m.ipuConfig, "large") {
				m.notes = append(m.notes, "of "+m.ipuConfig+" only the pipeline, the embedding's serialization and the place of the "+
					"optimizer's state are known: give the file by --ipu-config")
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			m.refuse("--ipu_config_name "+m.ipuConfig, "neither a file nor a known configuration: give it by --ipu-config FILE")
			text, err = []byte("{}"), nil
		}
		if err != nil {
			return err
		}
		if c, err = parseConfig(name, text); err != nil {
			return err
		}
	}
	if m.overrides != "" {
		if err := c.override(m.overrides); err != nil {
			return err
		}
	}
	if err := c.ofPod(m.pod); err != nil {
		return err
	}
	if err := m.ipu(c); err != nil {
		return err
	}
	if perReplica := max(1, len(m.layersPerIPU)); m.ipus > 0 && m.ipus%perReplica == 0 {
		m.replicas = m.ipus / perReplica // n_ipu overrides the configuration
	}
	if m.ipus > 1 && len(m.layersPerIPU) == 0 {
		m.refuse(fmt.Sprintf("--n_ipu %d", m.ipus),
			fmt.Sprintf("how many of them a replica has is not known: %d replicas are assumed", m.replicas))
	}
	return nil
}

// takenFields are the fields that the recipe honours, see importer.ipu.
var takenFields = []string{
	"replication_factor", "gradient_accumulation_steps", "layers_per_ipu", "ipus_per_replica", "seed",
	"optimizer_state_offchip", "replicated_tensor_sharding", "recompute_checkpoint_every_layer",
	"embedding_serialization_factor", "matmul_proportion",
	"enable_half_partials", "enable_half_first_order_momentum", "auto_loss_scaling",
}

// harmlessFields change no number of a training run: how the host calls, what it caches, how inference is
// distributed.
var harmlessFields = []string{
	"device_iterations", "executable_cache_dir", "explicit_ir_inference", "output_mode", "profile_dir",
	"optimum_version", "transformers_version",
	"inference_device_iterations", "inference_replication_factor", "inference_parallelize_kwargs",
	"inference_layers_per_ipu", "inference_ipus_per_replica", "inference_matmul_proportion",
	"inference_embedding_serialization_factor", "inference_projection_serialization_factor",
	"inference_serialized_embedding_splits_per_ipu", "inference_serialized_projection_splits_per_ipu",
}

// ipu turns an IPUConfig into settings of the phase and of the backend.
func (m *importer) ipu(c configured) error {
	if err := m.ipuNumbers(c); err != nil {
		return err
	}
	if err := m.ipuLists(c); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(c)) {
		switch {
		case slices.Contains(harmlessFields, key):
			m.harmless = append(m.harmless, "IPUConfig "+key)
		case !slices.Contains(takenFields, key) && !empty(c[key]):
			text, err := json.Marshal(c[key])
			if err != nil {
				return err
			}
			m.refuse(fmt.Sprintf("IPUConfig %s %s", key, text), "there is no such setting")
		}
	}
	return nil
}

// ipuNumbers takes the fields that are a number or a flag.
func (m *importer) ipuNumbers(c configured) error {
	r := configReader{configured: c}
	m.replicas = r.number("replication_factor", 1)
	if n := r.number("gradient_accumulation_steps", 1); m.accumulation == 0 {
		m.accumulation = n
	}
	o := m.ipuOptions
	o.set("optimizer_state", r.either("optimizer_state_offchip", "offchip", "onchip"))
	o.set("replicated_tensor_sharding", r.either("replicated_tensor_sharding", "true", "false"))
	o.set("recomputation", r.either("recompute_checkpoint_every_layer", "layer", "stage"))
	if n := r.number("embedding_serialization_factor", 1); n > 1 {
		o.set("embedding_serialization", strconv.Itoa(n))
	}
	if r.flag("auto_loss_scaling", false) {
		o.set("loss_scale", "auto")
	}
	if !r.flag("enable_half_partials", true) && m.ipuPrecision == "fp16.16" {
		m.ipuPrecision = "fp16.32"
	}
	if r.flag("enable_half_first_order_momentum", false) {
		m.halfMoment()
	}
	m.ipuSeed(r.number("seed", 0))
	return r.err
}

// halfMoment keeps the first moment in FP16. It is stored times the loss scale.
func (m *importer) halfMoment() {
	m.optimizer.set("first_moment", "fp16")
	text := m.ipuOptions.values["loss_scale"]
	scale, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return
	}
	if frac, _ := math.Frexp(scale); frac == 0.5 {
		m.optimizer.set("first_moment_scale", text)
	} else {
		m.refuse("IPUConfig enable_half_first_order_momentum with --loss_scaling "+text,
			"the moment's scale is a power of two: it stays 4096")
	}
}

// ipuSeed takes the configuration's seed unless the command line has one.
func (m *importer) ipuSeed(n int) {
	if n <= 0 {
		return
	}
	seed := strconv.Itoa(n)
	if m.seed == "" {
		m.seed = seed
	} else if m.seed != seed {
		m.notes = append(m.notes, "IPUConfig seed "+seed+" is for the IPU's random numbers only: a run here has one seed, "+
			"the command line's")
	}
}

// ipuLists takes the fields that are lists: a value for each IPU.
func (m *importer) ipuLists(c configured) error {
	proportion, err := c.list("matmul_proportion")
	if err != nil {
		return err
	}
	if len(proportion) > 0 {
		m.ipuOptions.set("available_memory_proportion", strconv.Quote(strings.Join(proportion, ",")))
	}
	layers, err := c.list("layers_per_ipu")
	if err != nil {
		return err
	}
	// A single -1 shares the layers among ipus_per_replica; otherwise the list names each IPU.
	perReplica, err := c.number("ipus_per_replica", len(layers))
	if err != nil {
		return err
	}
	if slices.Equal(layers, []string{"-1"}) && perReplica > 1 {
		layers = slices.Repeat(layers, perReplica)
	}
	if len(layers) == 0 {
		return nil
	}
	m.layersPerIPU = layers
	if perReplica != len(layers) {
		m.refuse(fmt.Sprintf("IPUConfig ipus_per_replica %d", perReplica),
			fmt.Sprintf("layers_per_ipu is of %d IPUs", len(layers)))
	}
	return nil
}

// pipeline resolves the wildcards of layers_per_ipu. They share the remaining layers; if those do not divide
// evenly, the last wildcards get one more.
func pipeline(layers []string, total int) (string, error) {
	rest, wild := total, 0
	counts := make([]int, len(layers))
	for i, text := range layers {
		n, err := strconv.Atoi(text)
		if err != nil || n < -1 {
			return "", fmt.Errorf("IPUConfig: layers_per_ipu has %q, want numbers of layers, or -1", text)
		}
		if counts[i] = n; n == -1 {
			wild++
		} else {
			rest -= n
		}
	}
	if rest < wild || wild == 0 && rest != 0 {
		return "", fmt.Errorf("IPUConfig: layers_per_ipu is [%s], which does not add up to the model's %d layers",
			strings.Join(layers, ", "), total)
	}
	for i := range counts {
		if counts[i] == -1 {
			counts[i] = rest / wild
			rest -= counts[i]
			wild--
		}
		layers[i] = strconv.Itoa(counts[i])
	}
	return strings.Join(layers, ","), nil
}
