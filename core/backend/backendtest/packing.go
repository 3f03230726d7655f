package backendtest

import (
	"fmt"
	"math"

	"harness.invalid/core/agreement"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
)

// packs compares short sequences in rows of two with the same sequences in rows of their own, without dropout. A
// backend that does not support packing must refuse it: if it took packed rows for single sequences, it would
// silently train on something else.
func (s *suite) packs() error {
	const perRow, rows = 2, 4
	plain := func(f *fixture) {
		f.program.Model.HiddenDropoutProb, f.program.Model.AttentionProbsDropoutProb = 0, 0
		f.program.Accumulation, f.program.Replicas = 1, 1
	}
	alone, err := s.fixture(bert.Pretraining)
	if err != nil {
		return err
	}
	plain(alone)
	alone.program.MicroBatch = rows * perRow
	b := alone.batch(1, rows*perRow)
	shorten(b, alone.program.Length/perRow)

	packed, err := s.fixture(bert.Pretraining)
	if err != nil {
		return err
	}
	plain(packed)
	packed.program.MicroBatch, packed.program.SequencesPerPack = rows, perRow
	packed.program.MaxPredictions *= perRow
	probe, err := s.b.Open(s.ctx, packed.program, packed.memory)
	if err != nil {
		return nil // it refuses
	}
	if err := probe.Close(); err != nil {
		return err
	}

	var want, got backend.StepResult
	if err := alone.run(func(session backend.Session) (err error) {
		want, err = session.Step(s.ctx, announce(1, b), cut(b, b.Size))
		return err
	}); err != nil {
		return err
	}
	p := packRows(b, perRow)
	if err := packed.run(func(session backend.Session) (err error) {
		step := announce(1, p)
		step.NextSentenceWeight = p.NextSentenceWeight()
		got, err = session.Step(s.ctx, step, cut(p, p.Size))
		return err
	}); err != nil {
		return fmt.Errorf("packed: %w", err)
	}
	if !want.Finite || !got.Finite {
		return nil // the loss scale is still too high to tell anything about packing
	}
	for _, name := range []string{"mlm", "nsp"} {
		x, _ := LossOf(got.Losses, name)
		y, _ := LossOf(want.Losses, name)
		if e := math.Abs(x/y - 1); !(e <= 2*s.precision.OutputTolerance) {
			return fmt.Errorf("the %s loss of packed rows is %g, unpacked %g", name, x, y)
		}
	}
	grads := make([]float64, len(alone.memory.Grads))
	for i, g := range alone.memory.Grads {
		grads[i] = float64(g)
	}
	// Both sides have the precision's error.
	if e := agreement.RelError(packed.memory.Grads, grads); !(e <= 2*s.precision.GradientTolerance) {
		return fmt.Errorf("the gradient of packed rows differs by %.3g from that of unpacked ones, want at most %g",
			e, 2*s.precision.GradientTolerance)
	}
	return nil
}

// shorten turns all tokens from a length on into padding.
func shorten(b *bert.Batch, length int) {
	for i := range b.AttentionMask {
		b.AttentionMask[i] = 0
		if i%b.Length < length-i/b.Length%2 {
			b.AttentionMask[i] = 1
		}
	}
	for i := range b.MaskedLMPositions {
		b.MaskedLMPositions[i] %= int32(length - 1)
	}
}

// packRows puts every perRow consecutive sequences into one row.
func packRows(b *bert.Batch, perRow int) *bert.Batch {
	S, P := b.Length, b.Predictions*perRow
	rows := b.Size / perRow
	p := &bert.Batch{Size: rows, Length: S, Predictions: P, Sequences: perRow,
		InputIDs: make([]int32, rows*S), TokenTypeIDs: make([]int32, rows*S), AttentionMask: make([]int32, rows*S),
		PositionIDs:       make([]int32, rows*S),
		MaskedLMPositions: make([]int32, rows*P), MaskedLMIDs: b.MaskedLMIDs, MaskedLMWeights: b.MaskedLMWeights,
		FirstPositions: make([]int32, b.Size), NextSentenceLabels: b.NextSentenceLabels, NextSentenceWeights: make([]float32, b.Size)}
	for row := range rows {
		at := 0
		for q := range perRow {
			i := row*perRow + q
			p.FirstPositions[i], p.NextSentenceWeights[i] = int32(at), 1
			for k := range b.Predictions {
				p.MaskedLMPositions[i*b.Predictions+k] = int32(at) + b.MaskedLMPositions[i*b.Predictions+k]
			}
			for j := 0; j < S && b.AttentionMask[i*S+j] == 1; j++ {
				to := row*S + at
				p.InputIDs[to], p.TokenTypeIDs[to] = b.InputIDs[i*S+j], b.TokenTypeIDs[i*S+j]
				p.AttentionMask[to], p.PositionIDs[to] = int32(q+1), int32(j)
				at++
			}
		}
	}
	return p
}
