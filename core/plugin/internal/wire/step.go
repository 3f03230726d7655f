package wire

import (
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/plugin/internal/pb"
)

// EncodeStepResult writes the result of a step, without Seconds. A gradient norm is not sent: the host computes its
// own.
func EncodeStepResult(r backend.StepResult) *pb.BackendStepResponse {
	return &pb.BackendStepResponse{
		Losses: EncodeLosses(r.Losses), Finite: r.Finite, LossScale: r.LossScale, Overflows: r.Overflows, Invalid: r.Invalid,
		Phases: encodePhases(r.Phases), Schedule: encodeSchedule(r.Schedule), Quantised: encodeQuantised(r.Quantised),
	}
}

// DecodeStepResult is the inverse of EncodeStepResult. A schedule that does not fit its stages is an error.
func DecodeStepResult(w *pb.BackendStepResponse) (backend.StepResult, error) {
	schedule, err := decodeSchedule(w.GetSchedule())
	return backend.StepResult{
		Losses: DecodeLosses(w.GetLosses()), Finite: w.GetFinite(), LossScale: w.GetLossScale(),
		Overflows: w.GetOverflows(), Invalid: w.GetInvalid(),
		Phases: decodePhases(w.GetPhases()), Schedule: schedule, Quantised: decodeQuantised(w.GetQuantised()),
	}, err
}

// EncodeLosses writes the losses of a step or an evaluation.
func EncodeLosses(l bert.Losses) *pb.Losses {
	of := func(l bert.Loss) *pb.Loss { return &pb.Loss{Sum: l.Sum, Weight: l.Weight, Correct: l.Correct} }
	return &pb.Losses{MaskedLm: of(l.MaskedLM), NextSentence: of(l.NextSentence), Start: of(l.Start), End: of(l.End), Labels: of(l.Labels)}
}

// DecodeLosses is the inverse of EncodeLosses.
func DecodeLosses(w *pb.Losses) bert.Losses {
	of := func(w *pb.Loss) bert.Loss {
		return bert.Loss{Sum: w.GetSum(), Weight: w.GetWeight(), Correct: w.GetCorrect()}
	}
	return bert.Losses{
		MaskedLM: of(w.GetMaskedLm()), NextSentence: of(w.GetNextSentence()),
		Start: of(w.GetStart()), End: of(w.GetEnd()), Labels: of(w.GetLabels()),
	}
}

func encodePhases(phases []backend.Phase) []*pb.Phase {
	w := make([]*pb.Phase, len(phases))
	for i, p := range phases {
		w[i] = &pb.Phase{Name: p.Name, Seconds: p.Seconds}
	}
	return w
}

func decodePhases(w []*pb.Phase) []backend.Phase {
	phases := make([]backend.Phase, len(w))
	for i, p := range w {
		phases[i] = backend.Phase{Name: p.GetName(), Seconds: p.GetSeconds()}
	}
	return phases
}

func encodeQuantised(list []backend.Quantised) []*pb.Quantised {
	var w []*pb.Quantised
	for _, q := range list {
		w = append(w, &pb.Quantised{
			Operator: q.Operator, Operand: q.Operand, Format: q.Format, Values: q.Values, Saturated: q.Saturated, Flushed: q.Flushed,
			Subnormal: q.Subnormal, Largest: q.Largest, Scale: q.Scale, RelError: q.RelError, Cosine: q.Cosine,
		})
	}
	return w
}

func decodeQuantised(w []*pb.Quantised) []backend.Quantised {
	var list []backend.Quantised
	for _, q := range w {
		list = append(list, backend.Quantised{
			Operator: q.GetOperator(), Operand: q.GetOperand(), Format: q.GetFormat(), Values: q.GetValues(), Saturated: q.GetSaturated(),
			Flushed: q.GetFlushed(), Subnormal: q.GetSubnormal(), Largest: q.GetLargest(), Scale: q.GetScale(), RelError: q.GetRelError(),
			Cosine: q.GetCosine(),
		})
	}
	return list
}

func encodeSchedule(s *backend.Schedule) *pb.Schedule {
	if s == nil {
		return nil
	}
	w := &pb.Schedule{Name: s.Name, Recompute: s.Recompute, Fill: int64(s.Fill), Drain: int64(s.Drain)}
	for _, st := range s.Stages {
		w.Stages = append(w.Stages, &pb.ScheduledStage{
			Device: int64(st.Device), Forward: st.Forward, Backward: st.Backward, Units: st.Units, Stash: int64(st.Stash),
		})
	}
	for _, cycle := range s.Cycles {
		for _, m := range cycle {
			w.MicroBatches = append(w.MicroBatches, uint32(m+1))
		}
	}
	return w
}

func decodeSchedule(w *pb.Schedule) (*backend.Schedule, error) {
	if w == nil {
		return nil, nil
	}
	s := &backend.Schedule{Name: w.GetName(), Recompute: w.GetRecompute(), Fill: int(w.GetFill()), Drain: int(w.GetDrain())}
	for _, st := range w.GetStages() {
		s.Stages = append(s.Stages, backend.ScheduledStage{
			Device: int(st.GetDevice()), Forward: st.GetForward(), Backward: st.GetBackward(),
			Units: st.GetUnits(), Stash: int(st.GetStash()),
		})
	}
	cells, stages := w.GetMicroBatches(), len(s.Stages)
	if stages == 0 || len(cells)%stages != 0 {
		return nil, fmt.Errorf("its schedule has %d entries for %d stages, want one for each in every cycle", len(cells), stages)
	}
	for i := 0; i < len(cells); i += stages {
		cycle := make([]int, stages)
		for j, m := range cells[i : i+stages] {
			cycle[j] = int(m) - 1
		}
		s.Cycles = append(s.Cycles, cycle)
	}
	return s, nil
}
