package backendtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/agreement"
	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// Case is a small model with parameters and one batch, and what an independent program computed from them in
// float64 without dropout: outputs, losses, and gradients of the mean loss.
type Case struct {
	Name  string
	Model *bert.Model
	Batch *bert.Batch

	Params    []float32            // in the model's layout
	Outputs   map[string][]float64 // by the names of backend.Outputs
	Losses    map[string]float64   // mlm, nsp, start, end, total
	Gradients map[string][]float64 // by parameter; those that the file has
}

// ReadCase reads a case from a safetensors file: tensors param.NAME (parameters with Hugging Face's names),
// input.NAME (fields of the batch), out.NAME, loss.NAME and grad.NAME; metadata task, and config as JSON with
// Hugging Face's keys. Outputs and gradients may be left out; a grad of no parameter is an error.
func ReadCase(path string) (c *Case, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	c = &Case{Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), Outputs: map[string][]float64{},
		Losses: map[string]float64{}, Gradients: map[string][]float64{}}
	if err := c.readModel(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := c.readBatch(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range f.Names() {
		kind, rest, _ := strings.Cut(name, ".")
		if kind != "out" && kind != "loss" && kind != "grad" {
			continue
		}
		values, err := f.Float64s(name)
		if err != nil {
			return nil, err
		}
		switch kind {
		case "out":
			c.Outputs[rest] = values
		case "grad":
			if _, ok := f.Tensor("param." + rest); !ok {
				return nil, fmt.Errorf("%s: %s is the gradient of no parameter", path, name)
			}
			c.Gradients[rest] = values
		case "loss":
			if len(values) != 1 {
				return nil, fmt.Errorf("%s: %s has %d values, want 1", path, name, len(values))
			}
			c.Losses[rest] = values[0]
		}
	}
	return c, nil
}

func (c *Case) readModel(f *weights.File) error {
	meta := f.Metadata()
	config := struct {
		bert.Config
		Labels int `json:"num_labels"`
	}{Config: bert.Defaults()}
	if err := json.Unmarshal([]byte(meta["config"]), &config); err != nil {
		return fmt.Errorf("metadata config: %w", err)
	}
	config.HiddenDropoutProb, config.AttentionProbsDropoutProb = 0, 0
	head := bert.Head{Task: bert.Task(meta["task"])}
	if head.Task == bert.Classification || head.Task == bert.TokenClassification {
		head.Labels = config.Labels
	}
	model, err := bert.New(config.Config, head)
	if err != nil {
		return err
	}
	c.Model, c.Params = model, make([]float32, model.Layout.Len())
	for _, t := range model.Layout.Tensors() {
		stored, ok := f.Tensor("param." + t.Name)
		if ok && !slices.Equal(stored.Shape, t.Shape) {
			return fmt.Errorf("param.%s has shape %v, want %v", t.Name, stored.Shape, t.Shape)
		}
		if err := f.ReadFloat32s("param."+t.Name, t.Of(c.Params)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Case) readBatch(f *weights.File) error {
	ids, ok := f.Tensor("input.input_ids")
	if !ok || len(ids.Shape) != 2 {
		return fmt.Errorf("input.input_ids is missing or not of shape [batch, length]")
	}
	b := &bert.Batch{Size: ids.Shape[0], Length: ids.Shape[1]}
	for name, values := range map[string]*[]int32{
		"input_ids": &b.InputIDs, "token_type_ids": &b.TokenTypeIDs, "attention_mask": &b.AttentionMask,
		"masked_lm_positions": &b.MaskedLMPositions, "masked_lm_ids": &b.MaskedLMIDs, "next_sentence_labels": &b.NextSentenceLabels,
		"start_positions": &b.StartPositions, "end_positions": &b.EndPositions, "labels": &b.Labels,
	} {
		if err := readField(f, "input."+name, values, f.Int32s); err != nil {
			return err
		}
	}
	for name, values := range map[string]*[]float32{"masked_lm_weights": &b.MaskedLMWeights, "targets": &b.Targets} {
		if err := readField(f, "input."+name, values, f.Float32s); err != nil {
			return err
		}
	}
	if b.Size > 0 {
		b.Predictions = len(b.MaskedLMPositions) / b.Size
	}
	c.Batch = b
	return b.Validate(c.Model.Config, c.Model.Head, true)
}

// readField reads a field of the batch, which may be missing.
func readField[T any](f *weights.File, name string, values *[]T, read func(string) ([]T, error)) (err error) {
	if _, ok := f.Tensor(name); ok {
		*values, err = read(name)
	}
	return err
}

// vanishing is the share of the whole gradient's norm below which a reference tensor is zero, apart from rounding
// in float64. One such is the gradient of the keys' bias, which shifts all scores of a query equally.
const vanishing = 1e-12

// GradientError is the relative error of the gradient of a parameter. Where the true gradient vanishes, it is the
// norm of got over the norm of the whole gradient.
func (c *Case) GradientError(name string, got []float32) float64 {
	want := c.Gradients[name]
	whole := c.gradientNorm()
	if norm(want) > vanishing*whole {
		return agreement.RelError(got, want)
	}
	return agreement.RelError(got, make([]float64, len(got))) / whole
}

// gradientNorm is the norm of the whole gradient, as far as the file has it.
func (c *Case) gradientNorm() float64 {
	var sum float64
	for _, t := range c.Tensors() {
		n := norm(c.Gradients[t.Name])
		sum += n * n
	}
	return math.Sqrt(sum)
}

func norm(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

// Shape is the shape of the whole batch as one micro-batch.
func (c *Case) Shape() bert.Shape {
	return bert.Shape{Size: c.Batch.Size, Length: c.Batch.Length, Predictions: c.Batch.Predictions}
}

// Objective is the mean loss over the case's batch.
func (c *Case) Objective() bert.Objective {
	return bert.Objective{Scale: 1, Sequences: float64(c.Batch.Size), MaskedWeight: c.Batch.MaskedWeight(),
		LabelWeight: c.Batch.LabelWeight()}
}

// LossOf returns a loss by its name in a case.
func LossOf(l bert.Losses, name string) (float64, bool) {
	switch name {
	case "mlm":
		return l.MaskedLM.Mean(), true
	case "nsp":
		return l.NextSentence.Mean(), true
	case "start":
		return l.Start.Mean(), true
	case "end":
		return l.End.Mean(), true
	case "labels":
		return l.Labels.Mean(), true
	case "total":
		return l.Total(), true
	}
	return 0, false
}

// Tensors returns the parameters of the model, with their names and places.
func (c *Case) Tensors() []tensor.Tensor { return c.Model.Layout.Tensors() }
