package wire

import (
	"harness.invalid/core/backend"
	"harness.invalid/core/plugin/internal/pb"
)

// EncodeMachine writes a request for an estimate, or for variations, of a program on a machine.
func EncodeMachine(p backend.Program, on backend.Machine) *pb.EstimateRequest {
	return &pb.EstimateRequest{
		Program: EncodeProgram(p), System: on.System, Description: on.Description, Grow: on.Grow,
		Update: EncodeCost(on.Update), Packing: on.Packing,
	}
}

// DecodeMachine is the inverse of EncodeMachine, without the program.
func DecodeMachine(r *pb.EstimateRequest) backend.Machine {
	return backend.Machine{
		System: r.GetSystem(), Description: r.GetDescription(), Grow: r.GetGrow(), Update: DecodeCost(r.GetUpdate()), Packing: r.GetPacking(),
	}
}

// EncodeSystems writes the systems that a backend models.
func EncodeSystems(systems []backend.System) *pb.SystemsResponse {
	w := &pb.SystemsResponse{}
	for _, s := range systems {
		w.Systems = append(w.Systems, &pb.System{Name: s.Name, Doc: s.Doc})
	}
	return w
}

// DecodeSystems is the inverse of EncodeSystems.
func DecodeSystems(w *pb.SystemsResponse) []backend.System {
	var systems []backend.System
	for _, s := range w.GetSystems() {
		systems = append(systems, backend.System{Name: s.GetName(), Doc: s.GetDoc()})
	}
	return systems
}

// EncodeVariations writes the variations that a backend lists.
func EncodeVariations(variations []backend.Variation) *pb.VariationsResponse {
	w := &pb.VariationsResponse{}
	for _, v := range variations {
		w.Variations = append(w.Variations, &pb.Variation{Varied: v.Varied, Value: v.Value, Options: v.Options})
	}
	return w
}

// DecodeVariations is the inverse of EncodeVariations.
func DecodeVariations(w *pb.VariationsResponse) []backend.Variation {
	var variations []backend.Variation
	for _, v := range w.GetVariations() {
		variations = append(variations, backend.Variation{Varied: v.GetVaried(), Value: v.GetValue(), Options: v.GetOptions()})
	}
	return variations
}

// EncodeEstimate writes a modelled step.
func EncodeEstimate(e backend.Estimate) *pb.EstimateResponse {
	w := &pb.EstimateResponse{
		System: e.System, SequencesPerSecond: e.SequencesPerSecond, StepSeconds: e.StepSeconds,
		GlobalBatch: int64(e.GlobalBatch), PeakShare: e.PeakShare,
		Breakdown: encodePhases(e.Breakdown), Advice: e.Advice,
		Pipeline: &pb.Pipeline{
			Cycles: int64(e.Pipeline.Cycles), CycleSeconds: e.Pipeline.CycleSeconds, Sequential: e.Pipeline.Sequential,
			Update: encodePhases(e.Pipeline.Update),
		},
	}
	for _, a := range e.Assumptions {
		w.Assumptions = append(w.Assumptions, &pb.Assumption{Setting: a.Setting, Modelled: a.Modelled, Run: a.Run, Reason: a.Reason})
	}
	if c := e.Confidence; c != nil {
		w.Confidence = &pb.Confidence{Low: c.Low, High: c.High, Level: c.Level, Inside: c.Inside, Why: c.Why}
	}
	if r := e.Remedy; r != nil {
		w.Remedy = &pb.Remedy{
			MicroBatch: int64(r.MicroBatch), Accumulation: int64(r.Accumulation), Replicas: int64(r.Replicas), Options: r.Options,
		}
	}
	for _, s := range e.Pipeline.Stages {
		w.Pipeline.Stages = append(w.Pipeline.Stages, &pb.Stage{
			Name: s.Name, Device: int64(s.Device), Offset: int64(s.Offset), Start: s.Start,
			Parts: encodePhases(s.Parts), Stash: int64(s.Stash),
		})
	}
	w.Memory, w.OffChip = encodeMemory(e.Memory), encodeMemory(e.OffChip)
	return w
}

func encodeMemory(list []backend.DeviceMemory) []*pb.DeviceMemory {
	var out []*pb.DeviceMemory
	for _, d := range list {
		m := &pb.DeviceMemory{Device: d.Device, Bytes: d.Bytes, Moved: d.Moved}
		for _, p := range d.Parts {
			m.Parts = append(m.Parts, &pb.MemoryPart{Name: p.Name, Bytes: p.Bytes})
		}
		out = append(out, m)
	}
	return out
}

func decodeMemory(list []*pb.DeviceMemory) []backend.DeviceMemory {
	var out []backend.DeviceMemory
	for _, m := range list {
		d := backend.DeviceMemory{Device: m.GetDevice(), Bytes: m.GetBytes(), Moved: m.GetMoved()}
		for _, p := range m.GetParts() {
			d.Parts = append(d.Parts, backend.MemoryPart{Name: p.GetName(), Bytes: p.GetBytes()})
		}
		out = append(out, d)
	}
	return out
}

// DecodeEstimate is the inverse of EncodeEstimate.
func DecodeEstimate(w *pb.EstimateResponse) backend.Estimate {
	p := w.GetPipeline()
	e := backend.Estimate{
		System: w.GetSystem(), SequencesPerSecond: w.GetSequencesPerSecond(), StepSeconds: w.GetStepSeconds(),
		GlobalBatch: int(w.GetGlobalBatch()), PeakShare: w.GetPeakShare(),
		Breakdown: decodePhases(w.GetBreakdown()), Advice: w.GetAdvice(),
		Pipeline: backend.Pipeline{
			Cycles: int(p.GetCycles()), CycleSeconds: p.GetCycleSeconds(), Sequential: p.GetSequential(),
			Update: decodePhases(p.GetUpdate()),
		},
	}
	for _, a := range w.GetAssumptions() {
		e.Assumptions = append(e.Assumptions, backend.Assumption{
			Setting: a.GetSetting(), Modelled: a.GetModelled(), Run: a.GetRun(), Reason: a.GetReason(),
		})
	}
	if c := w.GetConfidence(); c != nil {
		e.Confidence = &backend.Confidence{
			Low: c.GetLow(), High: c.GetHigh(), Level: c.GetLevel(), Inside: c.GetInside(), Why: c.GetWhy(),
		}
	}
	if r := w.GetRemedy(); r != nil {
		e.Remedy = &backend.Remedy{
			MicroBatch: int(r.GetMicroBatch()), Accumulation: int(r.GetAccumulation()), Replicas: int(r.GetReplicas()),
			Options: r.GetOptions(),
		}
	}
	for _, s := range p.GetStages() {
		e.Pipeline.Stages = append(e.Pipeline.Stages, backend.Stage{
			Name: s.GetName(), Device: int(s.GetDevice()), Offset: int(s.GetOffset()), Start: s.GetStart(),
			Parts: decodePhases(s.GetParts()), Stash: int(s.GetStash()),
		})
	}
	e.Memory, e.OffChip = decodeMemory(w.GetMemory()), decodeMemory(w.GetOffChip())
	return e
}
