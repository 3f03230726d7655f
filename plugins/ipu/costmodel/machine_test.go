package costmodel

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// system loads a built-in system.
func system(t testing.TB, name string) *System {
	t.Helper()
	s, err := Systems.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// large is BERT-Large at 128 tokens as PopART runs it on four replicas.
func large(t testing.TB) (backend.Program, Settings) {
	t.Helper()
	c, err := bert.Defaults().Size("large")
	if err != nil {
		t.Fatal(err)
	}
	c.VocabSize, c.AttentionProbsDropoutProb = 30400, 0
	p := backend.Program{
		Model: c, Head: bert.Head{Task: bert.Pretraining}, Precision: "fp16.16", Length: 128, MaxPredictions: 20, MicroBatch: 8, Accumulation: 2048, Replicas: 4,
	}
	return p, Settings{LayersPerIPU: []float64{3, 7, 7, 7}}
}

// TestPeak rebuilds what is published of chips and systems from their parts: 250 and 350 teraFLOPS FP16.16, 900 MB, 15.978 and 89.23 petaFLOPS.
func TestPeak(t *testing.T) {
	for name, want := range map[string]float64{"ipu-pod4": 4 * 250e12, "bow-pod4": 4 * 350e12, "ipu-pod64": 15.978e15, "ipu-pod128": 31.955e15, "bow-pod256": 89.23e15} {
		s := system(t, name)
		if got := float64(s.IPUs) * s.Chip.PeakFlops(); math.Abs(got/want-1) > 0.01 {
			t.Errorf("%s: %.4g FLOPS, published %.4g", name, got, want)
		}
		if got := float64(s.Chip.SRAMBytes()); math.Abs(got/900e6-1) > 0.05 {
			t.Errorf("%s: %.4g bytes a chip, published 900 MB", name, got)
		}
	}
}

// TestSystems: every description has a doc and sources, and its name is that of its file.
func TestSystems(t *testing.T) {
	names := Systems.Names()
	if len(names) != 10 {
		t.Errorf("%d systems: %v", len(names), names)
	}
	for _, name := range names {
		if s := system(t, name); s.Name != name || s.Doc == "" || len(s.Sources) == 0 {
			t.Errorf("%s: name %q, doc %q, %d sources", name, s.Name, s.Doc, len(s.Sources))
		}
	}
	for text, want := range map[string]string{
		"extends: bow-pod46\nipus: 8":         "did you mean bow-pod16?",
		"extends: bow-pod16\nipu: 8":          "ipu",
		"extends: bow-pod16\nipus: 0":         "ipus is 0, want a positive number",
		"ipus: 4":                             "want a positive number",
		"extends: bow-pod16\nlinks: [1, 2]\n": "links",
	} {
		if _, err := Systems.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	if s, err := Systems.Parse("extends: bow-pod16\nname: mine\nipus: 32"); err != nil || s.IPUs != 32 || s.Chip.ClockHz != 1.85e9 {
		t.Errorf("a system that extends another: %+v, %v", s, err)
	}
}

// TestMemory rebuilds the memory arithmetic of the four IPU pipeline: weights and gradients of seven layers 176 MB each, stashes of depth 9, 7, 5 and 3,
// 103 MB on the second IPU and 75 MB on the first; 705 MB of optimizer state do not fit beside them.
func TestMemory(t *testing.T) {
	p, s := large(t)
	s.State = OffChip
	e, err := Estimate(p, s, system(t, "bow-pod16"), withLAMB(t, p))
	if err != nil {
		t.Fatal(err)
	}
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
	if len(depths) != 4 || depths[0] != 9 || depths[1] != 7 || depths[2] != 5 || depths[3] != 3 {
		t.Errorf("stash depths %v, want 9 7 5 3", depths)
	}
	s.State, s.Unsharded = OnChip, true
	if e, err = Estimate(p, s, system(t, "bow-pod16"), withLAMB(t, p)); err != nil {
		t.Fatal(err)
	}
	err = e.Err()
	if !errors.Is(err, backend.ErrOutOfMemory) || !strings.Contains(err.Error(), "IPU 1 needs") || !strings.Contains(err.Error(), "has 940.6 MB") || !strings.Contains(e.Advice, "Streaming Memory") {
		t.Errorf("the whole state on chip: %v, advice %q", err, e.Advice)
	}
}

// TestRemedy: what is said to make a program fit does, with the same global batch, when its options are read as a user's are. Where one change is not enough
// it is two, and phases are for what no pipeline holds.
func TestRemedy(t *testing.T) {
	bow, planner := system(t, "bow-pod16"), newPlanner(fitted)
	for _, c := range []struct {
		micro   int
		layers  int
		options map[string]string
		want    string
	}{
		{64, 24, nil, "micro-batch"},
		{8, 24, map[string]string{"optimizer_state": "onchip", "replicated_tensor_sharding": "false"}, "optimizer_state:offchip"},
		{8, 24, map[string]string{"optimizer_state": "onchip", "replicated_tensor_sharding": "false", "recomputation": "none"}, "optimizer_state:offchip recomputation:layer"},
		{16, 24, map[string]string{"pipeline": "all"}, "pipeline:"},
		{8, 24, map[string]string{"pipeline": "3,7,7,7", "recomputation": "none", "available_memory_proportion": "0.15,0.25,0.25,0.25"}, "recomputation:layer"},
		{2, 240, map[string]string{"pipeline": "60,60,60,60"}, "execution:phased"},
		{16, 24, map[string]string{"execution": "phased", "layers_per_phase": "12"}, ""},
	} {
		p, _ := large(t)
		p.MicroBatch, p.Accumulation, p.Model.NumHiddenLayers = c.micro, 2048*8/c.micro, c.layers
		of := func(p backend.Program) backend.Estimate {
			t.Helper()
			s, err := ReadSettings(p.Options, p.Model.NumHiddenLayers)
			if err != nil {
				t.Fatal(err)
			}
			e, err := estimate(p, s, bow, withLAMB(t, p), planner)
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
	p, s := large(t)
	p.Model.MaxPositionEmbeddings = 1 << 20
	if e, err := estimate(p, s, bow, backend.Machine{}, planner); err != nil || e.Remedy != nil || !strings.Contains(e.Advice, "a smaller model") {
		t.Errorf("what can't fit: %v, %q, %+v", err, e.Advice, e.Remedy)
	}
}

// TestSchedule: G + P - 1 cycles with P = 9 stages for five forward ones, the bubble is the share (P-1)/(G+P-1), and the parts of a step are its whole.
func TestSchedule(t *testing.T) {
	p, s := large(t)
	for _, g := range []int{9, 512, 2048} {
		p.Accumulation = g
		e, err := Estimate(p, s, system(t, "bow-pod16"), withLAMB(t, p))
		if err != nil {
			t.Fatal(err)
		}
		if e.Pipeline.Cycles != g+8 {
			t.Errorf("accumulation %d: %d cycles, want %d", g, e.Pipeline.Cycles, g+8)
		}
		sum, bubble, tail := 0., 0., 0.
		for _, b := range e.Breakdown {
			if sum += b.Seconds; b.Name == "bubble" {
				bubble = b.Seconds
			}
			if b.Seconds < 0 {
				t.Errorf("%s takes %g s", b.Name, b.Seconds)
			}
		}
		for _, u := range e.Pipeline.Update {
			tail += u.Seconds
		}
		if math.Abs(sum/e.StepSeconds-1) > 1e-12 {
			t.Errorf("the parts take %g s, the step %g s", sum, e.StepSeconds)
		}
		if want := 8 / float64(g+8); math.Abs(bubble/(e.StepSeconds-tail)/want-1) > 1e-9 {
			t.Errorf("accumulation %d: bubble %g of the cycles, want %g", g, bubble/(e.StepSeconds-tail), want)
		}
	}
	p.Accumulation = 8
	if _, err := Estimate(p, s, system(t, "bow-pod16"), backend.Machine{}); err == nil || !strings.Contains(err.Error(), "needs at least 9") {
		t.Errorf("accumulation 8: %v", err)
	}
	p.Accumulation, p.Replicas = 9, 5
	if _, err := Estimate(p, s, system(t, "bow-pod16"), backend.Machine{}); err == nil || !strings.Contains(err.Error(), "want at most 4 replicas") {
		t.Errorf("5 replicas: %v", err)
	}
	p.Replicas, s.LayersPerIPU = 4, []float64{3, 7, 7, 6}
	if _, err := Estimate(p, s, system(t, "bow-pod16"), backend.Machine{}); err == nil || !strings.Contains(err.Error(), "are 23 layers, the model has 24") {
		t.Errorf("23 layers: %v", err)
	}
}

// TestOrder: what must be faster is. A faster clock helps by no more than its ratio, since links and host keep theirs; more recomputation, FP32 sums
// and a sequential schedule cost.
func TestOrder(t *testing.T) {
	p, s := large(t)
	rate := func(p backend.Program, s Settings, name string) float64 {
		e, err := Estimate(p, s, system(t, name), withLAMB(t, p))
		if err != nil {
			t.Fatal(err)
		}
		return e.SequencesPerSecond
	}
	gc200, bow := rate(p, s, "ipu-pod16"), rate(p, s, "bow-pod16")
	if r := bow / gc200; r < 1.3 || r > 1.85/1.33 {
		t.Errorf("Bow is %.3f times as fast as GC200, want up to the ratio of the clocks, 1.391", r)
	}
	q := p
	q.Replicas, q.Accumulation = 16, 512
	if r := rate(q, s, "bow-pod64") / bow; r < 3.5 || r > 4 {
		t.Errorf("four times the IPUs are %.2f times as fast", r)
	}
	q = p
	if q.Precision = "fp16.32"; rate(q, s, "bow-pod16") >= bow {
		t.Error("FP32 partial sums cost nothing")
	}
	u := s
	if u.Schedule = Sequential; rate(p, u, "bow-pod16") > bow/3 {
		t.Error("four IPUs that take turns are more than a third as fast as a pipeline")
	}
}

// TestInterleaved: G + F - 1 cycles of two turns each, in which neighbours work in opposite directions. Fewer micro-batches are kept than with the
// schedule grouped, and a cycle is longer.
func TestInterleaved(t *testing.T) {
	p, s := large(t)
	bow := system(t, "bow-pod16")
	grouped, err := Estimate(p, s, bow, withLAMB(t, p))
	if err != nil {
		t.Fatal(err)
	}
	s.Schedule = Interleaved
	e, err := Estimate(p, s, bow, withLAMB(t, p))
	if err != nil {
		t.Fatal(err)
	}
	if want := p.Accumulation + 5 - 1; e.Pipeline.Cycles != want || e.Pipeline.CycleSeconds <= grouped.Pipeline.CycleSeconds {
		t.Errorf("%d cycles of %g s, want %d and more than %g s", e.Pipeline.Cycles, e.Pipeline.CycleSeconds, want, grouped.Pipeline.CycleSeconds)
	}
	for d := range e.Memory {
		if e.Memory[d].Total() >= grouped.Memory[d].Total() {
			t.Errorf("IPU %d needs %d bytes, grouped %d", d, e.Memory[d].Total(), grouped.Memory[d].Total())
		}
	}
	for i, st := range e.Pipeline.Stages[:5] {
		if st.Stash != 5-i || st.Offset != i/2 {
			t.Errorf("stage %d keeps %d micro-batches from cycle %d on, want %d from %d on", i, st.Stash, st.Offset, 5-i, i/2)
		}
	}
}

// TestPhased: one IPU goes through a model whose weights alone are two thirds of its memory. Micro-batches that are as large as memory allows share the way
// of the weights; those that are added up have it each.
func TestPhased(t *testing.T) {
	p, _ := large(t)
	p.MicroBatch, p.Accumulation, p.Replicas = 4, 1, 16
	s, err := ReadSettings(map[string]string{"execution": "phased"}, p.Model.NumHiddenLayers)
	if err != nil {
		t.Fatal(err)
	}
	bow := system(t, "bow-pod16")
	of := func(p backend.Program, s Settings) backend.Estimate {
		t.Helper()
		e, err := Estimate(p, s, bow, withLAMB(t, p))
		if err != nil {
			t.Fatal(err)
		}
		sum, inCycles := 0., 0.
		for _, b := range e.Breakdown {
			sum += b.Seconds
		}
		for _, st := range e.Pipeline.Stages {
			inCycles += seconds(st.Parts)
		}
		if math.Abs(sum/e.StepSeconds-1) > 1e-12 || math.Abs(inCycles/e.Pipeline.CycleSeconds-1) > 1e-12 {
			t.Errorf("the parts take %g s, the step %g s; the phases %g s, a micro-batch %g s", sum, e.StepSeconds, inCycles, e.Pipeline.CycleSeconds)
		}
		if all := float64(e.Pipeline.Cycles)*e.Pipeline.CycleSeconds + seconds(e.Pipeline.Update); math.Abs(all/e.StepSeconds-1) > 1e-12 {
			t.Errorf("cycles and update take %g s, the step %g s", all, e.StepSeconds)
		}
		return e
	}
	small := of(p, s)
	if err := small.Err(); err != nil || len(small.Memory) != 1 || len(small.Pipeline.Stages) != 2*14-1 {
		t.Errorf("%v, %d IPUs, %d stages, want 14 phases forward and back", err, len(small.Memory), len(small.Pipeline.Stages))
	}
	q := p
	q.MicroBatch = 16
	if large := of(q, s); large.SequencesPerSecond < 3*small.SequencesPerSecond || !large.Fits() {
		t.Errorf("micro-batches of 16: %g sequences/s, of 4: %g", large.SequencesPerSecond, small.SequencesPerSecond)
	}
	q = p
	q.Accumulation = 4
	if added := of(q, s); added.SequencesPerSecond > small.SequencesPerSecond {
		t.Errorf("4 micro-batches added up: %g sequences/s, one: %g", added.SequencesPerSecond, small.SequencesPerSecond)
	}
	u := s
	u.LayersPerPhase = 12
	if long := of(p, u); long.Memory[0].Total() <= small.Memory[0].Total() || long.Fits() {
		t.Errorf("phases of 12 layers need %d bytes, of 2 %d", long.Memory[0].Total(), small.Memory[0].Total())
	}
	// Without shares every replica reads all weights and all of the state by itself.
	u = s
	u.Unsharded = true
	if whole := of(p, u); whole.StepSeconds < 4*small.StepSeconds {
		t.Errorf("unsharded: %g s a step, sharded %g", whole.StepSeconds, small.StepSeconds)
	}
	s.LayersPerIPU = []float64{24}
	s.LayersPerPhase = 0
	if whole := of(p, s); whole.Fits() {
		t.Error("BERT-Large fits on one IPU without phases")
	}
	if _, err := ReadSettings(map[string]string{"execution": "phased", "pipeline": "3,7,7,7"}, 24); err == nil || !strings.Contains(err.Error(), "want pipeline=all") {
		t.Errorf("phases in a pipeline: %v", err)
	}
}

// TestWithoutPipeline: where nobody asks for a pipeline and the published one would never be full, one IPU takes the model, if it can.
func TestWithoutPipeline(t *testing.T) {
	p, _ := large(t)
	p.Accumulation, p.Replicas = 1, 1
	if _, err := Estimate(p, Settings{}, system(t, "bow-pod16"), backend.Machine{}); err == nil || !strings.Contains(err.Error(), "needs at least 9 micro-batches") {
		t.Errorf("BERT-Large, which does not fit on an IPU: %v", err)
	}
	p.Model, p.MicroBatch = bert.Defaults(), 1
	e, err := Estimate(p, Settings{}, system(t, "bow-pod16"), withLAMB(t, p))
	if err != nil || len(e.Memory) != 1 || !e.Fits() || len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "0,4,4,4") {
		t.Errorf("BERT-Base: %v, %d IPUs, notes %q", err, len(e.Memory), e.Notes)
	}
	if _, err := Estimate(p, Settings{LayersPerIPU: []float64{0, 4, 4, 4}}, system(t, "bow-pod16"), backend.Machine{}); err == nil {
		t.Error("a pipeline that was asked for is never full")
	}
}

// TestFamilies: ipu-pod and bow-pod are the smallest that has the IPUs, or the largest that there is.
func TestFamilies(t *testing.T) {
	p, s := large(t)
	for replicas, want := range map[int]string{1: "pod4", 2: "pod16", 4: "pod16", 5: "pod64", 17: "pod128", 64: "pod256", 128: "pod256"} {
		p.Replicas = replicas
		for _, family := range []string{"ipu", "bow"} {
			found, err := Find(backend.Machine{System: family + "-pod"}, "bow-pod16", p, s)
			if err != nil || found.Name != family+"-"+want {
				t.Errorf("%d replicas of 4 IPUs: %+v, %v, want %s-%s", replicas, found, err, family, want)
			}
		}
	}
	if _, err := Find(backend.Machine{System: "box-pod"}, "", p, s); err == nil || !strings.Contains(err.Error(), "no system is named") {
		t.Errorf("box-pod: %v", err)
	}
	if found, err := Find(backend.Machine{}, "ipu-pod64", p, s); err != nil || found.Name != "ipu-pod64" {
		t.Errorf("the option: %+v, %v", found, err)
	}
}

func FuzzReadSettings(f *testing.F) {
	f.Add("pipeline", "3,7,7,7")
	f.Add("available_memory_proportion", "0.1,auto")
	f.Add("schedule", "grouped")
	f.Add("execution", "phased")
	f.Fuzz(func(t *testing.T, name, value string) {
		s, err := ReadSettings(map[string]string{name: value}, 24)
		if err != nil {
			return
		}
		for _, n := range s.LayersPerIPU {
			if !(n >= 0) {
				t.Errorf("%s=%s: %v layers", name, value, n)
			}
		}
	})
}
