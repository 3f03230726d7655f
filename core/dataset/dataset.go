// Package dataset is what all kinds of training data have in common: a Source deals global batches, and a Position
// says where it is.
//
// Each kind of data has its own package: pretraining turns text into masked LM and next sentence prediction, squad
// turns questions about passages into spans, tasks covers classification, regression, multiple choice and named entities, and
// synthetic writes a generated corpus in the file formats of pretraining and squad. Files go in, bert.Batch comes
// out; the batch of a step is a function of the files, the settings and the seed alone.
package dataset

import "harness.invalid/core/bert"

// Source deals an endless series of batches. It is not safe for concurrent use.
type Source interface {
	// Next returns the next global batch: always the same number of sequences, Sample 0. The batch belongs to the caller.
	Next() (*bert.Batch, error)
	// Position says where Next continues.
	Position() Position
	// Seek makes Next continue at a position of this source or of another one with the same files, settings and
	// seed.
	Seek(Position) error
}

// Position is a place in the endless sequence of a Source. The zero Position is its beginning.
type Position struct {
	Epoch int `json:"epoch"` // complete passes over the data
	Block int `json:"block"` // complete blocks of the epoch; 0 in sources without blocks
	Index int `json:"index"` // sequences of the block dealt so far
	// Row is the number of packed rows dealt from the sequences that follow; 0 without packing.
	Row int `json:"row,omitempty"`
}
