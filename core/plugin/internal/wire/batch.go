package wire

import (
	"errors"
	"io"
	"iter"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/plugin/internal/pb"
)

// EncodeBatch sends the messages of a batch: one, or several if it is large.
func EncodeBatch(b *bert.Batch, send func(*pb.Batch) error) error {
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
			Sequences: int64(part.Sequences), PositionIds: part.PositionIDs, FirstPositions: part.FirstPositions,
			NextSentenceWeights: part.NextSentenceWeights,
		}); err != nil {
			return err
		}
	}
	return nil
}

func decodeBatch(w *pb.Batch) *bert.Batch {
	return &bert.Batch{
		Size: int(w.GetSize()), Length: int(w.GetLength()), Sample: int(w.GetSample()),
		InputIDs: w.GetInputIds(), TokenTypeIDs: w.GetTokenTypeIds(), AttentionMask: w.GetAttentionMask(),
		Predictions: int(w.GetPredictions()), MaskedLMPositions: w.GetMaskedLmPositions(), MaskedLMIDs: w.GetMaskedLmIds(),
		MaskedLMWeights: w.GetMaskedLmWeights(), NextSentenceLabels: w.GetNextSentenceLabels(),
		StartPositions: w.GetStartPositions(), EndPositions: w.GetEndPositions(), Labels: w.GetLabels(), Targets: w.GetTargets(),
		Sequences: int(w.GetSequences()), PositionIDs: w.GetPositionIds(), FirstPositions: w.GetFirstPositions(),
		NextSentenceWeights: w.GetNextSentenceWeights(),
	}
}

// join appends the sequences of the next part of a batch.
func join(b, part *bert.Batch) error {
	sameWidth := part.Length == b.Length && part.Predictions == b.Predictions && part.Sequences == b.Sequences
	if !sameWidth || part.Sample != b.Sample+b.Size {
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

// Batches joins the parts of batches as they arrive. An error, such as a batch that the program cannot take, ends the
// sequence. labels says that the batches must have labels.
func Batches(p backend.Program, labels bool, receive func() (*pb.Batch, error)) iter.Seq2[*bert.Batch, error] {
	next := func() (*bert.Batch, error) {
		var whole *bert.Batch
		for {
			part, err := receive()
			if err != nil {
				if whole != nil && errors.Is(err, io.EOF) {
					return nil, errors.New("the stream ended within a batch")
				}
				return nil, err
			}
			if part == nil {
				return nil, errors.New("a message of the stream is not a batch")
			}
			b := decodeBatch(part)
			// Each part is validated before it is joined, so that its arrays have the lengths that it claims.
			if err := b.Validate(p.Model, p.Head, labels); err != nil {
				return nil, err
			}
			if whole == nil {
				whole = b
			} else if err := join(whole, b); err != nil {
				return nil, err
			}
			if !part.GetMore() {
				return whole, nil
			}
		}
	}
	return func(yield func(*bert.Batch, error) bool) {
		for {
			b, err := next()
			if errors.Is(err, io.EOF) || !yield(b, err) || err != nil {
				return
			}
		}
	}
}
