package execution

import (
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

func of(options map[string]string) (Plan, error) {
	return Parse(&backend.Program{Model: bert.Defaults(), Accumulation: 3, Options: options})
}

// TestParse: one GPU has the whole model and one micro-batch at a time, whatever the options are.
func TestParse(t *testing.T) {
	plain, err := of(map[string]string{"loss_scale": "another's"})
	if err != nil || plain.Checkpointing() || plain.ReduceEach || plain.BucketBytes != 25<<20 || plain.LengthBins != 64 {
		t.Errorf("without options the plan is %+v, %v", plain, err)
	}
	other, err := of(map[string]string{
		"checkpoint_activations": "true", "allreduce_post_accumulation": "false", "bucket_cap_mb": "1", "length_bins": "0",
	})
	if err != nil || !other.Checkpointing() || !other.ReduceEach || other.BucketBytes != 1<<20 || other.LengthBins != 0 {
		t.Errorf("with other options the plan is %+v, %v", other, err)
	}
	for _, p := range []Plan{plain, other} {
		if len(p.Visits()) != 1 || p.Cycles(3) != 3 || p.Stash()[0] != 1 || p.Devices() != 1 {
			t.Errorf("%+v: %d visits, %d cycles, stash %v", p, len(p.Visits()), p.Cycles(3), p.Stash())
		}
	}
	for name, value := range map[string]string{
		"checkpoint_activations": "some", "allreduce_post_accumulation": "", "bucket_cap_mb": "0", "length_bins": "-1",
	} {
		if _, err := of(map[string]string{name: value}); err == nil || !strings.Contains(err.Error(), "option "+name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
