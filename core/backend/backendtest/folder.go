package backendtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"harness.invalid/core/bert"
	"harness.invalid/core/bounded"
	"harness.invalid/core/checkpoint/huggingface"
)

// Names of the files in a folder with a model and its outputs.
const goldenFile = "golden.json"

// golden is the token ids of a text and the hidden states that another program computed from them.
type golden struct {
	InputIDs        []int32     `json:"input_ids"`
	TokenTypeIDs    []int32     `json:"token_type_ids"`
	AttentionMask   []int32     `json:"attention_mask"`
	LastHiddenState [][]float64 `json:"last_hidden_state"`
	PoolerOutput    []float64   `json:"pooler_output"`
}

// ReadFolder reads a case from a Hugging Face folder with golden.json beside the model. It has outputs of the
// encoder and the pooler for one sequence, but no losses or gradients. The head is a classifier with zero weights.
func ReadFolder(dir string) (c *Case, err error) {
	f, err := huggingface.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	config := f.Config.Model
	config.HiddenDropoutProb, config.AttentionProbsDropoutProb = 0, 0
	model, err := bert.New(config, bert.Head{Task: bert.Classification, Labels: 2})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	c = &Case{Name: filepath.Base(dir), Model: model, Params: make([]float32, model.Layout.Len())}
	report, err := f.Load(model.Layout, c.Params)
	if err != nil {
		return nil, err
	}
	for _, name := range report.Missing {
		if name != "classifier.weight" && name != "classifier.bias" {
			return nil, fmt.Errorf("%s: the model lacks %s", dir, name)
		}
	}
	path := filepath.Join(dir, goldenFile)
	text, err := bounded.ReadFile(path, 64*bounded.MiB)
	if err != nil {
		return nil, err
	}
	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.Batch = &bert.Batch{Size: 1, Length: len(g.InputIDs), InputIDs: g.InputIDs, TokenTypeIDs: g.TokenTypeIDs, AttentionMask: g.AttentionMask}
	c.Outputs = map[string][]float64{"sequence_output": slices.Concat(g.LastHiddenState...)}
	if g.PoolerOutput != nil {
		c.Outputs["pooler_output"] = g.PoolerOutput
	}
	if err := c.Batch.Validate(config, model.Head, false); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
