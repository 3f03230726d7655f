package wire

import (
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/plugin/internal/pb"
)

// EncodeProgram writes what a backend is asked to run.
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
		Head:           &pb.Head{Task: string(p.Head.Task), NumLabels: int64(p.Head.Labels), MaskPadding: p.Head.MaskPadding},
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

// DecodeProgram is the inverse of EncodeProgram. It does not validate the program.
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
		Head: bert.Head{Task: bert.Task(w.GetHead().GetTask()), Labels: int(w.GetHead().GetNumLabels()),
			MaskPadding: w.GetHead().GetMaskPadding()},
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
