package train

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"iter"
	"math"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset"
)

// loaded is a batch with the position after it, or an error in its place.
type loaded struct {
	batch *bert.Batch
	after dataset.Position
	err   error
}

// ahead is how many global batches are prepared while the backend computes.
const ahead = 2

// prefetch prepares the next n batches of a source concurrently with training. The source is in use until the
// channel is closed, which happens early if ctx is done and the channel is drained.
func prefetch(ctx context.Context, source dataset.Source, n int) <-chan loaded {
	c := make(chan loaded, ahead)
	go func() {
		defer close(c)
		for range n {
			b, err := source.Next()
			select {
			case c <- loaded{b, source.Position(), err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

// microBatches splits a global batch into micro-batches of size sequences, in order.
func microBatches(b *bert.Batch, size int) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) {
		for i := 0; i < b.Size; i += size {
			if !yield(b.Slice(i, min(i+size, b.Size)), nil) {
				return
			}
		}
	}
}

// each yields the batches of a slice.
func each(batches []*bert.Batch) iter.Seq2[*bert.Batch, error] {
	return func(yield func(*bert.Batch, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// batchDigest is a running SHA-256 over all batches of a run. Two runs with the same digest were trained on the
// same data in the same order, masks included.
type batchDigest struct {
	hash hash.Hash
	buf  []byte
}

func newBatchDigest() *batchDigest { return &batchDigest{hash: sha256.New()} }

func (d *batchDigest) add(b *bert.Batch) {
	d.buf = d.buf[:0]
	for _, s := range [][]int32{
		{int32(b.Size), int32(b.Length), int32(b.Predictions)}, b.InputIDs, b.TokenTypeIDs, b.AttentionMask,
		b.MaskedLMPositions, b.MaskedLMIDs, b.NextSentenceLabels, b.StartPositions, b.EndPositions,
		b.Labels, b.PositionIDs, b.FirstPositions,
	} {
		for _, v := range s {
			d.buf = binary.LittleEndian.AppendUint32(d.buf, uint32(v))
		}
	}
	for _, s := range [][]float32{b.MaskedLMWeights, b.Targets, b.NextSentenceWeights} {
		for _, v := range s {
			d.buf = binary.LittleEndian.AppendUint32(d.buf, math.Float32bits(v))
		}
	}
	d.hash.Write(d.buf)
}

func (d *batchDigest) sum() string { return hex.EncodeToString(d.hash.Sum(nil)) }

// save and load carry the digest through a checkpoint.
func (d *batchDigest) save() ([]byte, error) {
	return d.hash.(encoding.BinaryMarshaler).MarshalBinary()
}

func (d *batchDigest) load(state []byte) error {
	return d.hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(state)
}
