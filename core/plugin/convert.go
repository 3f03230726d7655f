package plugin

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/option"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/tensor"
)

// toBytes and toFloats look at the same memory in another type. The wire is little-endian, as are all processors that harness is built for.
func toBytes(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*4)
}

// copyFloats copies little-endian numbers, which need not be aligned, into dst.
func copyFloats(dst []float32, values []byte) { copy(toBytes(dst), values) }

func layoutToWire(l *tensor.Layout) []*pb.Tensor {
	tensors := make([]*pb.Tensor, len(l.Tensors()))
	for i, t := range l.Tensors() {
		tensors[i] = &pb.Tensor{Name: t.Name, Shape: shapeToWire(t.Shape), Kind: pb.Kind(t.Kind)}
	}
	return tensors
}

func layoutFromWire(tensors []*pb.Tensor) (*tensor.Layout, error) {
	ts := make([]tensor.Tensor, len(tensors))
	for i, t := range tensors {
		if t.GetKind() < 0 || t.GetKind() > math.MaxUint8 {
			return nil, fmt.Errorf("tensor %s has unknown kind %d", t.GetName(), t.GetKind())
		}
		ts[i] = tensor.Tensor{Name: t.GetName(), Shape: shapeFromWire(t.GetShape()), Kind: tensor.Kind(t.GetKind())}
	}
	return tensor.NewLayout(ts...)
}

func shapeToWire(s tensor.Shape) []int64 {
	w := make([]int64, len(s))
	for i, d := range s {
		w[i] = int64(d)
	}
	return w
}

func shapeFromWire(w []int64) tensor.Shape {
	s := make(tensor.Shape, len(w))
	for i, d := range w {
		s[i] = int(d)
	}
	return s
}

func optionsToWire(options []option.Option) []*pb.Option {
	w := make([]*pb.Option, len(options))
	for i, o := range options {
		w[i] = &pb.Option{Name: o.Name, DefaultValue: o.Default, Doc: o.Doc}
	}
	return w
}

func optionsFromWire(w []*pb.Option) []option.Option {
	options := make([]option.Option, len(w))
	for i, o := range w {
		options[i] = option.Option{Name: o.GetName(), Default: o.GetDefaultValue(), Doc: o.GetDoc()}
	}
	return options
}

func programToWire(p backend.Program) *pb.Program {
	m := p.Model
	return &pb.Program{
		Model: &pb.Model{
			VocabSize:                 int64(m.VocabSize),
			HiddenSize:                int64(m.HiddenSize),
			NumHiddenLayers:           int64(m.NumHiddenLayers),
			NumAttentionHeads:         int64(m.NumAttentionHeads),
			IntermediateSize:          int64(m.IntermediateSize),
			HiddenAct:                 string(m.HiddenAct),
			HiddenDropoutProb:         m.HiddenDropoutProb,
			AttentionProbsDropoutProb: m.AttentionProbsDropoutProb,
			MaxPositionEmbeddings:     int64(m.MaxPositionEmbeddings),
			TypeVocabSize:             int64(m.TypeVocabSize),
			InitializerRange:          m.InitializerRange,
			LayerNormEps:              m.LayerNormEps,
			AttentionMaskValue:        m.AttentionMask,
		},
		Head:           &pb.Head{Task: string(p.Head.Task), NumLabels: int64(p.Head.Labels)},
		Precision:      p.Precision,
		Options:        p.Options,
		Seed:           p.Seed,
		Length:         int64(p.Length),
		MaxPredictions: int64(p.MaxPredictions),
		MicroBatch:     int64(p.MicroBatch),
		Accumulation:   int64(p.Accumulation),
		Replicas:       int64(p.Replicas),

		SequencesPerPack: int64(p.SequencesPerPack),
	}
}

func programFromWire(w *pb.Program) backend.Program {
	m := w.GetModel()
	return backend.Program{
		Model: bert.Config{
			VocabSize:                 int(m.GetVocabSize()),
			HiddenSize:                int(m.GetHiddenSize()),
			NumHiddenLayers:           int(m.GetNumHiddenLayers()),
			NumAttentionHeads:         int(m.GetNumAttentionHeads()),
			IntermediateSize:          int(m.GetIntermediateSize()),
			HiddenAct:                 bert.Activation(m.GetHiddenAct()),
			HiddenDropoutProb:         m.GetHiddenDropoutProb(),
			AttentionProbsDropoutProb: m.GetAttentionProbsDropoutProb(),
			MaxPositionEmbeddings:     int(m.GetMaxPositionEmbeddings()),
			TypeVocabSize:             int(m.GetTypeVocabSize()),
			InitializerRange:          m.GetInitializerRange(),
			LayerNormEps:              m.GetLayerNormEps(),
			AttentionMask:             m.GetAttentionMaskValue(),
		},
		Head:           bert.Head{Task: bert.Task(w.GetHead().GetTask()), Labels: int(w.GetHead().GetNumLabels())},
		Precision:      w.GetPrecision(),
		Options:        w.GetOptions(),
		Seed:           w.GetSeed(),
		Length:         int(w.GetLength()),
		MaxPredictions: int(w.GetMaxPredictions()),
		MicroBatch:     int(w.GetMicroBatch()),
		Accumulation:   int(w.GetAccumulation()),
		Replicas:       int(w.GetReplicas()),

		SequencesPerPack: int(w.GetSequencesPerPack()),
	}
}

func lossesToWire(l bert.Losses) *pb.Losses {
	of := func(l bert.Loss) *pb.Loss { return &pb.Loss{Sum: l.Sum, Weight: l.Weight, Correct: l.Correct} }
	return &pb.Losses{MaskedLm: of(l.MaskedLM), NextSentence: of(l.NextSentence), Start: of(l.Start), End: of(l.End), Labels: of(l.Labels)}
}

func lossesFromWire(w *pb.Losses) bert.Losses {
	of := func(w *pb.Loss) bert.Loss {
		return bert.Loss{Sum: w.GetSum(), Weight: w.GetWeight(), Correct: w.GetCorrect()}
	}
	return bert.Losses{
		MaskedLM: of(w.GetMaskedLm()), NextSentence: of(w.GetNextSentence()),
		Start: of(w.GetStart()), End: of(w.GetEnd()), Labels: of(w.GetLabels()),
	}
}

// batchToWire yields the messages of a batch: one, or several when it is large.
func batchToWire(b *bert.Batch, send func(*pb.Batch) error) error {
	rows := max(1, batchElements/max(1, b.Length))
	for i := 0; i < b.Size; i += rows {
		part := b
		if rows < b.Size {
			part = b.Slice(i, min(i+rows, b.Size))
		}
		if err := send(&pb.Batch{
			Size: int64(part.Size), Length: int64(part.Length), Sample: int64(part.Sample), More: i+rows < b.Size,
			InputIds: part.InputIDs, TokenTypeIds: part.TokenTypeIDs, AttentionMask: part.AttentionMask,
			Predictions: int64(part.Predictions), MaskedLmPositions: part.MaskedLMPositions, MaskedLmIds: part.MaskedLMIDs,
			MaskedLmWeights: part.MaskedLMWeights, NextSentenceLabels: part.NextSentenceLabels,
			StartPositions: part.StartPositions, EndPositions: part.EndPositions, Labels: part.Labels, Targets: part.Targets,
			Sequences: int64(part.Sequences), PositionIds: part.PositionIDs, FirstPositions: part.FirstPositions, NextSentenceWeights: part.NextSentenceWeights,
		}); err != nil {
			return err
		}
	}
	return nil
}

func batchFromWire(w *pb.Batch) *bert.Batch {
	return &bert.Batch{
		Size: int(w.GetSize()), Length: int(w.GetLength()), Sample: int(w.GetSample()),
		InputIDs: w.GetInputIds(), TokenTypeIDs: w.GetTokenTypeIds(), AttentionMask: w.GetAttentionMask(),
		Predictions: int(w.GetPredictions()), MaskedLMPositions: w.GetMaskedLmPositions(), MaskedLMIDs: w.GetMaskedLmIds(),
		MaskedLMWeights: w.GetMaskedLmWeights(), NextSentenceLabels: w.GetNextSentenceLabels(),
		StartPositions: w.GetStartPositions(), EndPositions: w.GetEndPositions(), Labels: w.GetLabels(), Targets: w.GetTargets(),
		Sequences: int(w.GetSequences()), PositionIDs: w.GetPositionIds(), FirstPositions: w.GetFirstPositions(), NextSentenceWeights: w.GetNextSentenceWeights(),
	}
}

// join appends the sequences of the next part of a batch.
func join(b, part *bert.Batch) error {
	if part.Length != b.Length || part.Predictions != b.Predictions || part.Sequences != b.Sequences || part.Sample != b.Sample+b.Size {
		return errors.New("parts of a batch don't fit together")
	}
	b.Size += part.Size
	b.InputIDs = slices.Concat(b.InputIDs, part.InputIDs)
	b.TokenTypeIDs = slices.Concat(b.TokenTypeIDs, part.TokenTypeIDs)
	b.AttentionMask = slices.Concat(b.AttentionMask, part.AttentionMask)
	b.MaskedLMPositions = slices.Concat(b.MaskedLMPositions, part.MaskedLMPositions)
	b.MaskedLMIDs = slices.Concat(b.MaskedLMIDs, part.MaskedLMIDs)
	b.MaskedLMWeights = slices.Concat(b.MaskedLMWeights, part.MaskedLMWeights)
	b.NextSentenceLabels = slices.Concat(b.NextSentenceLabels, part.NextSentenceLabels)
	b.StartPositions = slices.Concat(b.StartPositions, part.StartPositions)
	b.EndPositions = slices.Concat(b.EndPositions, part.EndPositions)
	b.Labels = slices.Concat(b.Labels, part.Labels)
	b.Targets = slices.Concat(b.Targets, part.Targets)
	b.PositionIDs = slices.Concat(b.PositionIDs, part.PositionIDs)
	b.FirstPositions = slices.Concat(b.FirstPositions, part.FirstPositions)
	b.NextSentenceWeights = slices.Concat(b.NextSentenceWeights, part.NextSentenceWeights)
	return nil
}

func scheduleToWire(s *backend.Schedule) *pb.Schedule {
	if s == nil {
		return nil
	}
	w := &pb.Schedule{Name: s.Name, Recompute: s.Recompute, Fill: int64(s.Fill), Drain: int64(s.Drain)}
	for _, st := range s.Stages {
		w.Stages = append(w.Stages, &pb.ScheduledStage{Device: int64(st.Device), Forward: st.Forward, Backward: st.Backward, Units: st.Units, Stash: int64(st.Stash)})
	}
	for _, cycle := range s.Cycles {
		for _, m := range cycle {
			w.MicroBatches = append(w.MicroBatches, uint32(m+1))
		}
	}
	return w
}

func scheduleFromWire(w *pb.Schedule) (*backend.Schedule, error) {
	if w == nil {
		return nil, nil
	}
	s := &backend.Schedule{Name: w.GetName(), Recompute: w.GetRecompute(), Fill: int(w.GetFill()), Drain: int(w.GetDrain())}
	for _, st := range w.GetStages() {
		s.Stages = append(s.Stages, backend.ScheduledStage{Device: int(st.GetDevice()), Forward: st.GetForward(), Backward: st.GetBackward(), Units: st.GetUnits(), Stash: int(st.GetStash())})
	}
	cells, stages := w.GetMicroBatches(), len(s.Stages)
	if stages == 0 || len(cells)%stages != 0 {
		return nil, localError{fmt.Errorf("its schedule has %d entries for %d stages, want one for each in every cycle", len(cells), stages)}
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
