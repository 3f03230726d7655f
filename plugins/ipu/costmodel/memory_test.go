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

// TestStreamingMemory: with sharded tensors BERT-Large's optimizer moves 353 MB of state on a POD16 and 88 MB on a
// POD64 in and out of the IPU with seven layers, 2 x 8 bytes x 88 million parameters over 4 and 16 replicas; unsharded
// four times and sixteen times as much. An IPU-M2000 has 450 GB for four IPUs, on chip and off.
func TestStreamingMemory(t *testing.T) {
	p := with(large(t), "optimizer_state", "offchip", "replicated_tensor_sharding", "true")
	for replicas, megabytes := range map[int]float64{4: 353, 16: 88} {
		p.Replicas = replicas
		system := map[int]string{4: "ipu-pod16", 16: "ipu-pod64"}[replicas]
		of := func(p backend.Program) backend.DeviceMemory { return modelled(t, p, system).OffChip[1] }
		sharded, whole := of(p), of(with(p, "replicated_tensor_sharding", "false"))
		if got := float64(sharded.Moved) / 1e6; math.Abs(got-megabytes) > 0.01*megabytes || sharded.Total() != sharded.Moved/2 {
			t.Errorf("%d replicas: %.1f MB are moved and %d bytes kept, want %g MB and half", replicas, got, sharded.Total(), megabytes)
		}
		if r := float64(whole.Moved) / float64(sharded.Moved); math.Abs(r-float64(replicas)) > 1e-6 {
			t.Errorf("%d replicas: unsharded %g times as much", replicas, r)
		}
	}
	p.Replicas = 4
	e := modelled(t, with(p, "optimizer_state", "onchip"), "ipu-pod16")
	if off := e.OffChip[1]; off.Total() != 0 || off.Moved != 0 {
		t.Errorf("state on chip: %+v", off)
	}
	system, err := Systems.Load("ipu-pod4")
	if err != nil {
		t.Fatal(err)
	}
	if all := 4 * (float64(system.Chip.SRAMBytes()) + system.Streaming.Bytes); math.Abs(all-450e9) > 0.01*450e9 {
		t.Errorf("an IPU-M2000 has %g bytes, want 450 GB", all)
	}
	system.Streaming.Bytes, p.Replicas = 1e8, 1
	e, err = Estimate(p, parsed(t, p), system, withLAMB(t, p))
	if err != nil || e.Fits() || !strings.Contains(e.Err().Error(), "Streaming Memory of IPU") {
		t.Errorf("100 MB of Streaming Memory: %v, %v", err, e.Err())
	}
}
