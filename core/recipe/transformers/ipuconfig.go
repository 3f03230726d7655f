package transformers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// published are IPU configurations of the Hugging Face hub, by name. Source:
// huggingface.co/Graphcore/bert-base-ipu, ipu_config.json.
var published = map[string]string{
	"Graphcore/bert-base-ipu": `{"embedding_serialization_factor": 2, "enable_half_first_order_momentum": true, "gradient_accumulation_steps": 512,
		"inference_device_iterations": 4, "layers_per_ipu": [0, 4, 4, 4], "matmul_proportion": 0.22, "optimizer_state_offchip": false,
		"recompute_checkpoint_every_layer": true, "replicated_tensor_sharding": true, "replication_factor": 4, "seed": 42}`,
}

// pods are the replicas that the deprecated option pod_type stands for: IPUs over the four of a replica.
var pods = map[string]int{"pod4": 1, "pod8": 2, "pod16": 4, "pod32": 8, "pod64": 16}

// configured are the fields of an IPUConfig with all that follows them.
type configured map[string]any

// parseConfig reads an IPUConfig, ipu_config.json.
func parseConfig(name string, text []byte) (configured, error) {
	var c configured
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// override applies --ipu_config_overrides: KEY=VALUE,KEY=VALUE, where a list has blanks or brackets:
// layers_per_ipu=[0 4 4 4].
func (c configured) override(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return fmt.Errorf("ipu_config_overrides: %q, want KEY=VALUE", part)
		}
		var v any
		list, isList := strings.CutPrefix(value, "[")
		switch {
		case isList || strings.Contains(value, " "):
			var items []any
			for _, item := range strings.Fields(strings.Trim(list, "[]")) {
				items = append(items, json.Number(item))
			}
			v = items
		case value == "True" || value == "true":
			v = true
		case value == "False" || value == "false":
			v = false
		default:
			v = json.Number(value)
		}
		c[strings.TrimSpace(key)] = v
	}
	return nil
}

// ofPod takes of a field that has a value for each type of pod that of this one, or its default. Source:
// huggingface/optimum-graphcore, ipu_configuration.py, for_pod_type, up to v0.5.
func (c configured) ofPod(pod string) error {
	for _, key := range slices.Sorted(maps.Keys(c)) {
		values, ok := c[key].(map[string]any)
		_, byDefault := values["default"]
		if !ok || !byDefault && !slices.ContainsFunc(slices.Collect(maps.Keys(values)), func(k string) bool { return pods[k] > 0 }) {
			continue
		}
		v, ok := values[pod]
		if !ok {
			v, ok = values["default"]
		}
		if !ok {
			return fmt.Errorf("IPUConfig: %s has values for %s, and no default: name one with --pod_type", key,
				strings.Join(slices.Sorted(maps.Keys(values)), ", "))
		}
		c[key] = v
	}
	return nil
}

// number, flag and list read a field; what is not there has the default.
func (c configured) number(key string, byDefault int) (int, error) {
	v, ok := c[key]
	if !ok || v == nil {
		return byDefault, nil
	}
	n, err := strconv.Atoi(fmt.Sprint(v))
	if err != nil {
		return 0, fmt.Errorf("IPUConfig: %s is %v, want a whole number", key, v)
	}
	return n, nil
}

func (c configured) flag(key string, byDefault bool) (bool, error) {
	switch v := c[key].(type) {
	case nil:
		return byDefault, nil
	case bool:
		return v, nil
	default:
		return false, fmt.Errorf("IPUConfig: %s is %v, want true or false", key, v)
	}
}

// list is a list of numbers as text, or a single number.
func (c configured) list(key string) ([]string, error) {
	v, ok := c[key]
	if !ok || v == nil {
		return nil, nil
	}
	items, ok := v.([]any)
	if !ok {
		items = []any{v}
	}
	var out []string
	for _, item := range items {
		text := fmt.Sprint(item)
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return nil, fmt.Errorf("IPUConfig: %s has %v, want numbers", key, item)
		}
		out = append(out, text)
	}
	return out, nil
}

// harmlessFields change no number of a training run: how the host calls, what is cached, how inference is spread.
var harmlessFields = []string{
	"device_iterations", "inference_device_iterations", "inference_replication_factor", "executable_cache_dir",
	"explicit_ir_inference", "output_mode",
	"profile_dir", "inference_parallelize_kwargs", "inference_layers_per_ipu", "inference_ipus_per_replica", "inference_matmul_proportion",
	"optimum_version", "transformers_version", "inference_embedding_serialization_factor",
	"inference_projection_serialization_factor", "inference_serialized_embedding_splits_per_ipu",
	"inference_serialized_projection_splits_per_ipu",
}

// ipu turns an IPUConfig into settings of the backend.
func (m *importer) ipu(c configured) error {
	known := append([]string{
		"replication_factor", "gradient_accumulation_steps", "layers_per_ipu", "optimizer_state_offchip", "replicated_tensor_sharding",
		"matmul_proportion",
		"enable_half_partials", "embedding_serialization_factor", "recompute_checkpoint_every_layer", "seed", "auto_loss_scaling",
		"enable_half_first_order_momentum", "ipus_per_replica",
	}, harmlessFields...)
	var err error
	number := func(key string, byDefault int) (n int) {
		if err == nil {
			n, err = c.number(key, byDefault)
		}
		return n
	}
	flag := func(key string, byDefault bool) (b bool) {
		if err == nil {
			b, err = c.flag(key, byDefault)
		}
		return b
	}
	m.replicas = number("replication_factor", 1)
	if n := number("gradient_accumulation_steps", 1); m.accumulation == 0 {
		m.accumulation = n
	}
	o := m.ipuOptions
	offchip := flag("optimizer_state_offchip", false)
	o.set("optimizer_state", map[bool]string{true: "offchip", false: "onchip"}[offchip])
	o.set("replicated_tensor_sharding", strconv.FormatBool(flag("replicated_tensor_sharding", false)))
	recompute := flag("recompute_checkpoint_every_layer", false)
	o.set("recomputation", map[bool]string{true: "layer", false: "stage"}[recompute])
	if n := number("embedding_serialization_factor", 1); n > 1 {
		o.set("embedding_serialization", strconv.Itoa(n))
	}
	if flag("auto_loss_scaling", false) {
		o.set("loss_scale", "auto")
	}
	if !flag("enable_half_partials", true) && m.ipuPrecision == "fp16.16" {
		m.ipuPrecision = "fp16.32"
	}
	if flag("enable_half_first_order_momentum", false) {
		m.optimizer.set("first_moment", "fp16")
		// It is kept times the loss scale.
		if scale, err := strconv.ParseFloat(o.values["loss_scale"], 64); err == nil {
			if frac, _ := math.Frexp(scale); frac == 0.5 {
				m.optimizer.set("first_moment_scale", o.values["loss_scale"])
			} else {
				m.refuse("IPUConfig enable_half_first_order_momentum with --loss_scaling "+o.values["loss_scale"],
					"the moment's scale is a power of two: it stays 4096")
			}
		}
	}
	if err != nil {
		return err
	}
	if n := number("seed", 0); n > 0 && err == nil {
		if of := strconv.Itoa(n); m.seed == "" {
			m.seed = of
		} else if m.seed != of {
			m.notes = append(m.notes, "IPUConfig seed "+of+" is of the IPU's random numbers alone: a run here has one seed, "+
				"and the command line's is taken")
		}
	}
	proportion, err := c.list("matmul_proportion")
	if err != nil {
		return err
	}
	if len(proportion) > 0 {
		o.set("available_memory_proportion", strconv.Quote(strings.Join(proportion, ",")))
	}
	layers, err := c.list("layers_per_ipu")
	if err != nil {
		return err
	}
	// A single -1 shares the layers among ipus_per_replica, otherwise each IPU is in the list.
	perReplica, err := c.number("ipus_per_replica", len(layers))
	if err != nil {
		return err
	}
	if slices.Equal(layers, []string{"-1"}) && perReplica > 1 {
		layers = slices.Repeat(layers, perReplica)
	}
	if len(layers) > 0 {
		m.layersPerIPU = layers
	}
	if perReplica != len(layers) && len(layers) > 0 {
		m.refuse(fmt.Sprintf("IPUConfig ipus_per_replica %d", perReplica), fmt.Sprintf("layers_per_ipu is of %d IPUs", len(layers)))
	}
	for _, key := range slices.Sorted(maps.Keys(c)) {
		switch {
		case slices.Contains(harmlessFields, key):
			m.harmless = append(m.harmless, "IPUConfig "+key)
		case !slices.Contains(known, key) && !empty(c[key]):
			text, err := json.Marshal(c[key])
			if err != nil {
				return err
			}
			m.refuse(fmt.Sprintf("IPUConfig %s %s", key, text), "there is no such setting")
		}
	}
	return nil
}

// empty reports whether a field says nothing.
func empty(v any) bool {
	fields, isObject := v.(map[string]any)
	return v == nil || isObject && len(fields) == 0
}

// pipeline resolves the wildcards of layers_per_ipu, which share what the others leave, the last ones a layer more
// where it does not come out.
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
		return "", fmt.Errorf("IPUConfig: layers_per_ipu is [%s], which does not come to the %d layers of the model",
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
