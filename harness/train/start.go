package train

import (
	"fmt"
	"maps"
	"slices"

	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// StartFrom makes all runs on the data start from the parameters in a file that a job left in KeepParameters. It is
// closed with the data.
func (d *Data) StartFrom(path string) (err error) {
	d.start, err = safetensors.Open(path)
	return err
}

// readStart reads a parameter of the model to start from, if that has it.
func (d *Data) readStart(t tensor.Tensor, into []float32) (found bool, err error) {
	if d.start == nil {
		return false, nil
	}
	stored, ok := d.start.Tensor(t.Name)
	if !ok {
		return false, nil
	}
	if !slices.Equal(stored.Shape, t.Shape) {
		return false, fmt.Errorf("start model %s: %s has shape %v, want %v", d.start.Name(), t.Name, stored.Shape, t.Shape)
	}
	return true, stored.ReadFloat32s(into)
}

// keepParameters remembers the parameters that a phase leaves, for KeepParameters: a later phase may lack its head.
func (p *phase) keepParameters() {
	if p.KeepParameters == "" {
		return
	}
	if p.kept == nil {
		p.kept = map[string]weights.Content{}
	}
	for _, t := range p.memory.Layout.Tensors() {
		p.kept[t.Name] = weights.Of(t.Name, t.Shape, slices.Clone(t.Of(p.memory.Params)))
	}
}

// writeParameters writes what the phases left.
func (r *run) writeParameters() error {
	if r.KeepParameters == "" {
		return nil
	}
	return safetensors.Write(r.KeepParameters, slices.Collect(maps.Values(r.kept)), nil)
}
