package costmodel

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
)

// TestMemory rebuilds the memory arithmetic of the four IPU pipeline: weights and gradients of seven layers 176 MB
// each, stashes of depth 9, 7, 5 and 3, 103 MB on the second IPU and 75 MB on the first; 705 MB of optimizer state do
// not fit beside them.
func TestMemory(t *testing.T) {
	p := with(large(t), "optimizer_state", "offchip")
	e := modelled(t, p, "bow-pod16")
	if err := e.Err(); err != nil || e.Advice != "" {
		t.Errorf("a published configuration does not fit: %v, %q", err, e.Advice)
	}
	for _, w := range []struct {
		device int
		part   string
		mb     float64
	}{{1, "weights", 176}, {1, "gradients", 176}, {1, "stash", 103}, {0, "stash", 75}, {0, "weights", 143}} {
		for _, part := range e.Memory[w.device].Parts {
			if part.Name == w.part && math.Abs(float64(part.Bytes)/1e6-w.mb) > 1 {
				t.Errorf("IPU %d: %s take %.1f MB, want %g", w.device, w.part, float64(part.Bytes)/1e6, w.mb)
			}
		}
	}
	var depths []int
	for _, st := range e.Pipeline.Stages {
		if strings.HasSuffix(st.Name, "forward") {
			depths = append(depths, st.Stash)
		}
	}
	if !slices.Equal(depths, []int{9, 7, 5, 3}) {
		t.Errorf("stash depths %v, want 9 7 5 3", depths)
	}
	e = modelled(t, with(p, "optimizer_state", "onchip", "replicated_tensor_sharding", "false"), "bow-pod16")
	err := e.Err()
	if !errors.Is(err, backend.ErrOutOfMemory) || !strings.Contains(err.Error(), "IPU 1 needs") ||
		!strings.Contains(err.Error(), "has 940.6 MB") || !strings.Contains(e.Advice, "Streaming Memory") {
		t.Errorf("the whole state on chip: %v, advice %q", err, e.Advice)
	}
}

// TestOneIPU: without a pipeline layers can be computed again, which takes time and leaves their inputs.
func TestOneIPU(t *testing.T) {
	p := large(t)
	p.Model.NumHiddenLayers = 4
	p.Options = map[string]string{
		"recomputation": "none", "optimizer_state": "offchip", "available_memory_proportion": "0.05",
	}
	kept, again := modelled(t, p, "bow-pod16"), modelled(t, with(p, "recomputation", "layer"), "bow-pod16")
	if len(kept.Memory) != 1 || again.StepSeconds <= kept.StepSeconds || again.Memory[0].Total() >= kept.Memory[0].Total() {
		t.Errorf("recomputed: %g s, %d bytes; kept: %g s, %d bytes", again.StepSeconds, again.Memory[0].Total(),
			kept.StepSeconds, kept.Memory[0].Total())
	}
	hidden := int64(8 * 128 * 1024 * 2)
	for _, part := range again.Memory[0].Parts {
		// A layer with its scores, the inputs of four layers and of the embeddings, and both ends.
		want := 8*128*(8*1024+2*4096+16*128)*2 + 8*16*128*128*2 + 7*hidden
		if part.Name == "activations" && part.Bytes != want {
			t.Errorf("activations take %d bytes, want %d", part.Bytes, want)
		}
	}
}
