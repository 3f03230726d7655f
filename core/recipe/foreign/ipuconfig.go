package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/jsonerror"
)

// published are IPU configurations of the Hugging Face hub, by name. Source:
// huggingface.co/Graphcore/bert-base-ipu and bert-large-ipu, ipu_config.json; of the latter the fields that say how
// the model lies on its IPUs.
var published = map[string]string{
	"Graphcore/bert-base-ipu": `{
		"embedding_serialization_factor": 2,
		"enable_half_first_order_momentum": true,
		"gradient_accumulation_steps": 512,
		"inference_device_iterations": 4,
		"layers_per_ipu": [0, 4, 4, 4],
		"matmul_proportion": 0.22,
		"optimizer_state_offchip": false,
		"recompute_checkpoint_every_layer": true,
		"replicated_tensor_sharding": true,
		"replication_factor": 4,
		"seed": 42
	}`,
	"Graphcore/bert-large-ipu": `{
		"embedding_serialization_factor": 2,
		"layers_per_ipu": [3, 7, 7, 7],
		"optimizer_state_offchip": true
	}`,
}

// pods maps the deprecated option pod_type to replicas of four IPUs.
var pods = map[string]int{"pod4": 1, "pod8": 2, "pod16": 4, "pod32": 8, "pod64": 16}

// modelledPods are the pods that plugins/ipu models under the name ipu-POD.
var modelledPods = []string{"pod4", "pod16", "pod64"}

// configured holds the fields of an IPUConfig.
type configured map[string]any

// parseConfig reads an IPUConfig, ipu_config.json.
func parseConfig(name string, text []byte) (configured, error) {
	var c configured
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, jsonerror.Explain(text, err))
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

// ofPod resolves fields with a value for each type of pod to this pod's value, or their default. Source:
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

// number, flag and list read a field, or return the default if it is missing.
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

// list reads a list of numbers, or a single number, as text.
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

// configReader reads fields of a configuration up to the first error.
type configReader struct {
	configured
	err error
}

func (r *configReader) number(key string, byDefault int) (n int) {
	if r.err == nil {
		n, r.err = r.configured.number(key, byDefault)
	}
	return n
}

func (r *configReader) flag(key string, byDefault bool) (on bool) {
	if r.err == nil {
		on, r.err = r.configured.flag(key, byDefault)
	}
	return on
}

// either turns a flag, false by default, into one of two words.
func (r *configReader) either(key, on, off string) string {
	if r.flag(key, false) {
		return on
	}
	return off
}

// empty reports whether a field has no content.
func empty(v any) bool {
	fields, isObject := v.(map[string]any)
	return v == nil || isObject && len(fields) == 0
}
