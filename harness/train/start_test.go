package train_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/checkpoint/safetensors"
)

// TestStartFrom: the first phase begins with the parameters of the start model, and a later phase with its head, under
// which the encoder is that of the phase before.
func TestStartFrom(t *testing.T) {
	e := load(t, "phases.*.steps=2")
	path := filepath.Join(t.TempDir(), "start.safetensors")
	j := e.job("gpu-ref", t.TempDir())
	j.KeepParameters, j.Seed = path, 5
	e.run(j)
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := e.data.StartFrom(path); err != nil {
		t.Fatal(err)
	}
	// equal lists the parameters with which a phase began that are those of the start model.
	phase := -1
	equal := make([]map[string]bool, len(e.recipe.Phases))
	j = e.job("gpu-ref", t.TempDir())
	step := func(_ backend.Step, m backend.Memory, _ *backend.StepResult) error {
		if phase++; phase%2 == 1 { // two steps a phase
			return nil
		}
		equal[phase/2] = map[string]bool{}
		for _, p := range m.Layout.Tensors() {
			v, err := f.Float32s(p.Name)
			if err != nil {
				return err
			}
			equal[phase/2][p.Name] = slices.Equal(v, p.Of(m.Params))
		}
		return nil
	}
	j.Plugins = plugins{backend: &hooked{Backend: builtIn("gpu-ref"), step: step}}
	e.run(j)
	for i, names := range equal {
		for name, same := range names {
			if want := i == 0 || strings.HasPrefix(name, "qa_outputs."); same != want {
				t.Errorf("phase %d: %s is that of the start model: %v, want %v", i+1, name, same, want)
			}
		}
		if len(names) == 0 {
			t.Errorf("phase %d had no step", i+1)
		}
	}
}
