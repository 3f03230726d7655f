package costmodel

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"harness.invalid/core/backend"
)

// TestRemedy: what is said to make a program fit does, with the same global batch, when its options are read as a
// user's are. Where one change is not enough it is two, and phases are for what no pipeline holds.
func TestRemedy(t *testing.T) {
	bow, planner := system(t, "bow-pod16"), newPlanner(fitted())
	for _, c := range []struct {
		micro   int
		layers  int
		options map[string]string
		want    string
	}{
		{64, 24, map[string]string{"pipeline": "published"}, "micro-batch"},
		{8, 24, map[string]string{
			"pipeline": "3,7,7,7", "optimizer_state": "onchip", "replicated_tensor_sharding": "false",
		}, "optimizer_state:offchip"},
		{8, 24, map[string]string{
			"pipeline": "3,7,7,7", "optimizer_state": "onchip", "replicated_tensor_sharding": "false", "recomputation": "none",
		}, "optimizer_state:offchip recomputation:layer"},
		{16, 24, nil, "pipeline:"},
		{8, 24, map[string]string{
			"pipeline": "3,7,7,7", "recomputation": "none", "available_memory_proportion": "0.15,0.25,0.25,0.25",
		}, "recomputation:layer"},
		{2, 240, map[string]string{"pipeline": "60,60,60,60"}, "execution:phased"},
		{16, 24, map[string]string{"execution": "phased", "layers_per_phase": "12"}, ""},
	} {
		p := large(t)
		p.MicroBatch, p.Accumulation, p.Model.NumHiddenLayers = c.micro, 2048*8/c.micro, c.layers
		of := func(p backend.Program) backend.Estimate {
			t.Helper()
			e, err := estimate(p, parsed(t, p), bow, withLAMB(t, p), planner)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		p.Options = c.options
		e := of(p)
		if e.Fits() || e.Remedy == nil {
			t.Errorf("%v, micro-batch %d: fits %v, remedy %v", c.options, c.micro, e.Fits(), e.Remedy)
			continue
		}
		q, r := p, e.Remedy
		q.MicroBatch, q.Accumulation, q.Replicas, q.Options = r.MicroBatch, r.Accumulation, r.Replicas, map[string]string{}
		maps.Copy(q.Options, p.Options)
		maps.Copy(q.Options, r.Options)
		if cured := of(q); !cured.Fits() || q.GlobalBatch() != p.GlobalBatch() {
			t.Errorf("%v, micro-batch %d: %s: %+v does not fit, or has another global batch", c.options, c.micro, e.Advice, r)
		}
		if said := fmt.Sprint(e.Advice, " ", r.Options); !strings.Contains(said, c.want) {
			t.Errorf("%v, micro-batch %d: %s, want %s", c.options, c.micro, said, c.want)
		}
	}
	p := large(t)
	p.Model.MaxPositionEmbeddings = 1 << 20
	e, err := estimate(p, parsed(t, p), bow, backend.Machine{}, planner)
	if err != nil || e.Remedy != nil || !strings.Contains(e.Advice, "a smaller model") {
		t.Errorf("what can't fit: %v, %q, %+v", err, e.Advice, e.Remedy)
	}
}
