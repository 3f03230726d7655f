package wire

import (
	"fmt"
	"math"
	"unsafe"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/option"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/tensor"
)

// Bytes and toFloats look at the same memory in another type. The wire is little-endian, as are all processors that harness is built for.
func Bytes(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*4)
}

// CopyFloats copies little-endian numbers, which need not be aligned, into dst.
func CopyFloats(dst []float32, values []byte) { copy(Bytes(dst), values) }

func EncodeLayout(l *tensor.Layout) []*pb.Tensor {
	tensors := make([]*pb.Tensor, len(l.Tensors()))
	for i, t := range l.Tensors() {
		tensors[i] = &pb.Tensor{Name: t.Name, Shape: EncodeShape(t.Shape), Kind: pb.Kind(t.Kind)}
	}
	return tensors
}

func DecodeLayout(tensors []*pb.Tensor) (*tensor.Layout, error) {
	ts := make([]tensor.Tensor, len(tensors))
	for i, t := range tensors {
		if t.GetKind() < 0 || t.GetKind() > math.MaxUint8 {
			return nil, fmt.Errorf("tensor %s has unknown kind %d", t.GetName(), t.GetKind())
		}
		ts[i] = tensor.Tensor{Name: t.GetName(), Shape: DecodeShape(t.GetShape()), Kind: tensor.Kind(t.GetKind())}
	}
	return tensor.NewLayout(ts...)
}

func EncodeShape(s tensor.Shape) []int64 {
	w := make([]int64, len(s))
	for i, d := range s {
		w[i] = int64(d)
	}
	return w
}

func DecodeShape(w []int64) tensor.Shape {
	s := make(tensor.Shape, len(w))
	for i, d := range w {
		s[i] = int(d)
	}
	return s
}

func EncodeOptions(options []option.Option) []*pb.Option {
	w := make([]*pb.Option, len(options))
	for i, o := range options {
		w[i] = &pb.Option{Name: o.Name, DefaultValue: o.Default, Doc: o.Doc}
	}
	return w
}

func DecodeOptions(w []*pb.Option) []option.Option {
	options := make([]option.Option, len(w))
	for i, o := range w {
		options[i] = option.Option{Name: o.GetName(), Default: o.GetDefaultValue(), Doc: o.GetDoc()}
	}
	return options
}

func EncodeProgram(p backend.Program) *pb.Program {
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

func DecodeProgram(w *pb.Program) backend.Program {
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

func EncodeLosses(l bert.Losses) *pb.Losses {
	of := func(l bert.Loss) *pb.Loss { return &pb.Loss{Sum: l.Sum, Weight: l.Weight, Correct: l.Correct} }
	return &pb.Losses{MaskedLm: of(l.MaskedLM), NextSentence: of(l.NextSentence), Start: of(l.Start), End: of(l.End), Labels: of(l.Labels)}
}

func DecodeLosses(w *pb.Losses) bert.Losses {
	of := func(w *pb.Loss) bert.Loss {
		return bert.Loss{Sum: w.GetSum(), Weight: w.GetWeight(), Correct: w.GetCorrect()}
	}
	return bert.Losses{
		MaskedLM: of(w.GetMaskedLm()), NextSentence: of(w.GetNextSentence()),
		Start: of(w.GetStart()), End: of(w.GetEnd()), Labels: of(w.GetLabels()),
	}
}

func EncodeSchedule(s *backend.Schedule) *pb.Schedule {
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

func DecodeSchedule(w *pb.Schedule) (*backend.Schedule, error) {
	if w == nil {
		return nil, nil
	}
	s := &backend.Schedule{Name: w.GetName(), Recompute: w.GetRecompute(), Fill: int(w.GetFill()), Drain: int(w.GetDrain())}
	for _, st := range w.GetStages() {
		s.Stages = append(s.Stages, backend.ScheduledStage{Device: int(st.GetDevice()), Forward: st.GetForward(), Backward: st.GetBackward(), Units: st.GetUnits(), Stash: int(st.GetStash())})
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
