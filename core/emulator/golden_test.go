package emulator_test

import (
	"testing"

	"harness.invalid/core/backend/backendtest"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/oracle"
)

// TestGolden holds the FP32 device against float64 results of an independent program: outputs and losses within 2e-5, gradients within 1e-4.
func TestGolden(t *testing.T) {
	for _, name := range []string{"pretraining_tanh", "pretraining_erf", "question_answering", "classification"} {
		t.Run(name, func(t *testing.T) {
			c, err := backendtest.ReadCase(reference.Path(t, "golden", "bert", name+".safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			grads := make([]float32, c.Model.Layout.Len())
			for i := range grads {
				grads[i] = 1e9 // every element must be set
			}
			n, err := bert.NewNetwork(c.Model, c.Params, grads, c.Shape())
			if err != nil {
				t.Fatal(err)
			}
			d := emulator.New(emulator.Policy{})
			o := c.Objective()
			if _, err := n.Forward(d, &bert.Pass{}, c.Batch, &o); err != nil {
				t.Fatal(err)
			}
			worst := 0.0
			for name, want := range c.Outputs {
				_, got, ok := n.Output(name)
				if !ok {
					t.Fatalf("no output %s", name)
				}
				e := oracle.RelError(got, want)
				if worst = max(worst, e); e > 2e-5 {
					t.Errorf("output %s: relative error %.2g, want at most 2e-5", name, e)
				}
			}
			p := &bert.Pass{Train: true}
			losses, err := n.Forward(d, p, c.Batch, &o)
			if err != nil {
				t.Fatal(err)
			}
			n.Backward(d, p)
			for name, want := range c.Losses {
				got, _ := backendtest.LossOf(losses, name)
				e := oracle.RelError([]float64{got}, []float64{want})
				if worst = max(worst, e); e > 2e-5 {
					t.Errorf("loss %s is %.9g, want %.9g", name, got, want)
				}
			}
			worstGrad := 0.0
			for _, tensor := range c.Tensors() {
				e := c.GradientError(tensor.Name, tensor.Of(grads))
				if worstGrad = max(worstGrad, e); e > 1e-4 {
					t.Errorf("gradient of %s: relative error %.2g, want at most 1e-4", tensor.Name, e)
				}
			}
			t.Logf("worst relative error: outputs and losses %.2g, gradients %.2g", worst, worstGrad)
		})
	}
}
