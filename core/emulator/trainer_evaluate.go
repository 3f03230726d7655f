package emulator

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/spelling"
	"harness.invalid/core/tensor"
)

// Evaluate runs forward without dropout, rounding to nearest. A batch larger than a micro-batch is cut.
func (t *Trainer) Evaluate(
	ctx context.Context, e backend.Evaluation, batches iter.Seq2[*bert.Batch, error], yield func(backend.Outputs) error,
) (bert.Losses, error) {
	var losses bert.Losses
	if err := t.ready(ctx); err != nil {
		return losses, err
	}
	names := bert.OutputNames(t.program.Model, t.program.Head)
	for _, name := range e.Outputs {
		if !slices.Contains(names, name) {
			return losses, fmt.Errorf("no output is named %q%s (known: %s)",
				name, spelling.Hint(name, names), strings.Join(names, ", "))
		}
	}
	var o *bert.Objective
	if e.Labels {
		o = &bert.Objective{}
	}
	wanted := bert.Wants(t.program.Model, t.program.Head, e.Outputs)
	count := 0
	for b, err := range batches {
		if err != nil {
			return losses, err
		}
		if b == nil || b.Size < 1 {
			return losses, fmt.Errorf("evaluation batch %d has no sequences", count)
		}
		if err := b.Validate(t.program.Model, t.program.Head, e.Labels); err != nil {
			return losses, fmt.Errorf("evaluation batch %d: %w", count, err)
		}
		outputs := backend.Outputs{}
		for i := 0; i < b.Size; i += t.program.MicroBatch {
			l, err := t.predict(ctx, b.Slice(i, min(b.Size, i+t.program.MicroBatch)), o, wanted)
			if err != nil {
				return losses, fmt.Errorf("evaluation batch %d: %w", count, err)
			}
			losses.Add(l)
			t.collect(outputs, e.Outputs)
		}
		t.evaluate.TakeOverflows()
		if yield != nil {
			if err := yield(outputs); err != nil {
				return losses, err
			}
		}
		count++
	}
	return losses, nil
}

// collect appends the outputs of a micro-batch to those of its batch.
func (t *Trainer) collect(outputs backend.Outputs, names []string) {
	for _, name := range names {
		shape, values := t.output(name)
		o := outputs[name]
		if o.Shape == nil {
			o.Shape = append(tensor.Shape{0}, shape[1:]...)
		}
		o.Shape[0] += shape[0]
		o.Values = append(o.Values, values...)
		outputs[name] = o
	}
}

// output finds an output in the stage that has it.
func (t *Trainer) output(name string) (tensor.Shape, []float32) {
	for _, st := range t.pipeline.stages {
		if shape, values, ok := st.slots[0].network.Output(name); ok {
			return shape, values
		}
	}
	panic("emulator: an output that the model has is in no stage")
}

// predict runs the stages of the forward pass one after the other, without dropout.
func (t *Trainer) predict(
	ctx context.Context, b *bert.Batch, o *bert.Objective, wanted bert.Wanted,
) (losses bert.Losses, err error) {
	for i, st := range t.pipeline.stages {
		slot := st.slots[0]
		slot.pass = t.pass(0)
		slot.pass.Wanted = wanted
		if err := slot.network.Load(&slot.pass, b, o != nil); err != nil {
			return losses, err
		}
		if i > 0 {
			copy(slot.network.Input(), t.pipeline.stages[i-1].slots[0].network.Hidden())
		}
		if losses, err = slot.run(ctx, t.evaluate, o, slot.forward); err != nil {
			return losses, err
		}
	}
	return losses, nil
}
