package emulator

import (
	"math/rand/v2"
	"testing"

	"harness.invalid/core/bert"
)

// TestPlanSaysWhatRuns holds what a plan says, and a model of the machine prices, against the work that the pipeline is
// built of: random stages, schedules and recomputations.
func TestPlanSaysWhatRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 2))
	c := bert.Config{
		VocabSize: 30, HiddenSize: 4, NumHiddenLayers: 3, NumAttentionHeads: 1, IntermediateSize: 4, HiddenAct: bert.GELU,
		MaxPositionEmbeddings: 8, TypeVocabSize: 2, LayerNormEps: 1e-12, InitializerRange: 0.02, AttentionMask: -1000,
	}
	m, err := bert.New(c, bert.Head{Task: bert.Pretraining})
	if err != nil {
		t.Fatal(err)
	}
	params, grads := make([]float32, m.Layout.Len()), make([]float32, m.Layout.Len())
	pick := func(names []string) string { return names[r.IntN(len(names))] }
	for range 300 {
		plan := Plan{Schedule: Schedule(pick(Schedules())), Recompute: bert.Recompute(pick(Recomputes()))}
		for first := 0; first < c.Units(); {
			end := first + 1 + r.IntN(c.Units()-first)
			plan.Stages = append(plan.Stages, Stage{First: first, End: end, Device: r.IntN(3)})
			first = end
		}
		micro := plan.MinAccumulation() + r.IntN(3)
		if plan, err = plan.Complete(&c, micro); err != nil {
			t.Fatal(err)
		}
		p, err := newPipeline(m, plan, params, grads, bert.Shape{Size: 1, Length: 4, Predictions: 1}, micro)
		if err != nil {
			t.Fatal(err)
		}
		stash, forward, backward := plan.Stash(), 0, 0
		for i, st := range p.stages {
			again := map[int]bool{}
			for _, w := range st.slots[0].backward {
				if !w.Backward {
					again[w.Unit] = true
				}
			}
			first, end := plan.Again(&c, i)
			for u := range c.Units() {
				if want := u >= first && u < end; again[u] != want {
					t.Fatalf("%+v: stage %d recomputes %s: %v, the plan says %v", plan, i, c.UnitName(u), again[u], want)
				}
			}
			if len(st.slots) != stash[i] {
				t.Fatalf("%+v: stage %d holds %d micro-batches, the plan says %d", plan, i, len(st.slots), stash[i])
			}
		}
		visits := plan.Visits()
		for v, visit := range visits {
			if visit.Forward {
				forward++
			}
			if visit.Backward {
				backward++
			}
			if m, busy := p.table.at(plan.Period()*(micro-1)+v, v, micro); !busy || m != micro-1 {
				t.Fatalf("%+v: the last micro-batch does not make visit %d", plan, v)
			}
		}
		if forward != len(p.stages) || backward != len(p.stages) || plan.Cycles(micro) != plan.Period()*(micro-1)+len(visits) {
			t.Fatalf("%+v: %d visits forward, %d backward, %d cycles", plan, forward, backward, plan.Cycles(micro))
		}
	}
}
