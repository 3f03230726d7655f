package experiment_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/harness/experiment"
	"harness.invalid/results"
)

func TestArms(t *testing.T) {
	for _, c := range []struct{ backend, optimizer, want string }{
		{"ipu?loss_scale", "", `backend ipu?loss_scale: "loss_scale" is not an option`},
		{"?loss_scale=1", "", `backend "?loss_scale=1" names no plugin`},
		{"ipu", "adamw?weight_decay=0&weight_decay=1", "optimizer adamw?weight_decay=0&weight_decay=1: option weight_decay is given twice"},
		{"ipu", "adamw:fp32", "optimizer adamw:fp32: an optimizer has no precision"},
	} {
		if _, err := experiment.ParseArm(c.backend, c.optimizer); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: error %v, want %q in it", c.backend, c.optimizer, err, c.want)
		}
	}
	r := mini(t)
	for _, c := range []struct{ backend, optimizer, recorded string }{
		{"gpu-ref", "adamw", ""}, // the recipe's own
		{"ipu:fp16.16?loss_scale=1", "adamw?weight_decay=0", "adamw?weight_decay=0"},
	} {
		a, err := experiment.ArmOf(r, results.Arm{Backend: c.backend, Optimizer: c.optimizer})
		if err != nil || a.Spec().String() != c.backend || a.Optimizer != c.recorded {
			t.Errorf("%s, %s: arm %+v, error %v", c.backend, c.optimizer, a, err)
		}
	}
}

// TestOptionsOfArms: arms that differ in options alone are trained with them, recorded under names of their own, and
// can be compared.
func TestOptionsOfArms(t *testing.T) {
	e := experiment.Experiment{
		Recipe: mini(t, "phases.*.steps=2", "backends.gpu-ref.options.loss_scale=8"), FirstSeed: 1, Dir: t.TempDir(),
		Arms: arms(t, []string{"gpu-ref:fp16", "gpu-ref:fp16?loss_scale=2"}, []string{"adamw", "adamw?weight_decay=10"}),
	}
	o, err := experiment.Run(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	var names, folders []string
	scales := map[string]float64{}
	norms := map[string]float64{}
	for _, r := range o.Runs {
		names = append(names, r.Arm().String())
		folders = append(folders, filepath.Base(r.Dir))
		if r.Fingerprint != e.Recipe.Fingerprint() {
			t.Errorf("%s: fingerprint %s, want %s", r.Arm(), r.Fingerprint, e.Recipe.Fingerprint())
		}
		var norm float64
		for step, err := range r.Steps() {
			if err != nil {
				t.Fatal(err)
			}
			scales[r.Backend], norm = float64(step.LossScale), float64(step.GradientNorm)
		}
		norms[r.Optimizer] = norm
		recorded := r.Recipe.ForBackend("gpu-ref", "fp16", e.Recipe.Phases[0].Name).Options["loss_scale"]
		if want := map[string]string{"gpu-ref:fp16": "8", "gpu-ref:fp16?loss_scale=2": "2"}[r.Backend]; recorded != want {
			t.Errorf("%s: the recorded recipe has loss_scale %q, want %q", r.Arm(), recorded, want)
		}
	}
	want := []string{
		"gpu-ref:fp16/adamw", "gpu-ref:fp16/adamw?weight_decay=10",
		"gpu-ref:fp16?loss_scale=2/adamw", "gpu-ref:fp16?loss_scale=2/adamw?weight_decay=10",
	}
	if !slices.Equal(names, want) {
		t.Errorf("recorded %v, want %v", names, want)
	}
	slices.Sort(folders)
	if len(slices.Compact(folders)) != len(want) {
		t.Errorf("folders %v, want one for each arm", folders)
	}
	if scales["gpu-ref:fp16"] != 8 || scales["gpu-ref:fp16?loss_scale=2"] != 2 {
		t.Errorf("trained with loss scales %v", scales)
	}
	if norms["adamw"] == norms["adamw?weight_decay=10"] {
		t.Errorf("weight decay changed no gradient: %v", norms)
	}
	c, err := o.Compare()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Comparisons) != 3 || c.Comparisons[1].Arm.Backend != "gpu-ref:fp16?loss_scale=2" {
		t.Errorf("compared %+v", c.Comparisons)
	}
	e.Resume = true
	e.Recipe = mini(t, "phases.*.steps=2", "backends.gpu-ref.options.loss_scale=16")
	if _, err := experiment.Run(t.Context(), e); err == nil || !strings.Contains(err.Error(), "is another one") {
		t.Errorf("error %v after other options of the recipe", err)
	}
}
