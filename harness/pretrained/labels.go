package pretrained

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/huggingface"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/jsonerror"
)

// named reports whether a configuration has names for the labels of a task.
func named(t *tasks.Task) bool {
	return t.Kind == bert.Classification || t.Kind == bert.TokenClassification
}

// addLabels writes the names of a task's labels where transformers looks for them.
func addLabels(c *huggingface.Config, t *tasks.Task) error {
	if !named(t) {
		return nil
	}
	fields := map[string]any{"problem_type": "regression"}
	if !t.Regression() {
		names, ids := map[string]string{}, map[string]int{}
		for i, label := range t.Labels {
			names[strconv.Itoa(i)], ids[label] = label, i
		}
		fields = map[string]any{"problem_type": "single_label_classification", "id2label": names, "label2id": ids}
	}
	if t.Kind == bert.TokenClassification {
		delete(fields, "problem_type") // which transformers does not look at there
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		text, err := json.Marshal(fields[key])
		if err != nil {
			return err
		}
		c.Other[key] = text
	}
	return nil
}

// labelsOf are the labels in a configuration, by their numbers.
func labelsOf(config map[string]json.RawMessage) ([]string, error) {
	var names map[string]string
	if err := json.Unmarshal(config["id2label"], &names); err != nil {
		return nil, fmt.Errorf("id2label in config.json: want the names of the labels by their numbers: %w",
			jsonerror.Explain(config["id2label"], err))
	}
	labels := make([]string, len(names))
	for i := range labels {
		name, ok := names[strconv.Itoa(i)]
		if !ok {
			return nil, fmt.Errorf("id2label in config.json has %d labels, but none with the number %d", len(names), i)
		}
		labels[i] = name
	}
	return labels, nil
}

// checkLabels compares the labels in a configuration with those of a task. The placeholders LABEL_0, LABEL_1 and so
// on match any label.
func checkLabels(config map[string]json.RawMessage, t *tasks.Task) error {
	var names map[string]string
	if !named(t) || t.Regression() || json.Unmarshal(config["id2label"], &names) != nil {
		return nil
	}
	for i, label := range t.Labels {
		name := names[strconv.Itoa(i)]
		if name != label && name != fmt.Sprintf("LABEL_%d", i) {
			return fmt.Errorf("label %d is %q in id2label, the task %s has %q there", i, name, t.Name, label)
		}
	}
	return nil
}
