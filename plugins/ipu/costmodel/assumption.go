package costmodel

import (
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/plugins/ipu/execution"
)

// assumptions are what the estimate of the closed plan takes for granted: choices that the plan left open, and what the
// machine does and the run does not.
func (m *model) assumptions(open *execution.Plan) []backend.Assumption {
	var list []backend.Assumption
	if open.OpenRecompute && m.plan.Recompute != bert.RecomputeNone {
		reason := "with auto the run keeps all activations; published pipelines recompute layers"
		if m.plan.Devices() == 1 {
			reason = "with auto the run keeps all activations; on one IPU the model takes what fits"
		}
		list = append(list, backend.Assumption{
			Setting: "recomputation", Modelled: string(m.plan.Recompute), Run: string(open.Recompute), Reason: reason,
		})
	}
	if open.State == execution.AnyState {
		reason := "auto is where the program fits and is fastest"
		if m.plan.LayersPerPhase > 0 {
			reason = "phases keep it in Streaming Memory"
		}
		list = append(list, backend.Assumption{Setting: "optimizer_state", Modelled: string(m.plan.State), Reason: reason})
	}
	if open.Proportions == nil {
		list = append(list, backend.Assumption{
			Setting: "available_memory_proportion", Modelled: fmt.Sprint(m.plan.Proportions[0]),
			Reason: "auto is what the program fits with, and at most what is published for the length",
		})
	}
	if taken, used := m.plan.IPUs(), m.plan.Devices(); taken > used {
		list = append(list, backend.Assumption{
			Setting: "replicas", Modelled: fmt.Sprintf("%d IPUs each", taken), Run: fmt.Sprintf("%d IPUs each", used),
			Reason: "IPUs are attached by powers of two; those left over do nothing",
		})
	}
	if m.guessed {
		list = append(list, backend.Assumption{
			Setting: "packing", Modelled: fmt.Sprint(m.packing),
			Reason: "sequences of Wikipedia in one sequence of the program, as published for the length",
		})
	}
	return append(list, m.updateAssumptions...)
}
