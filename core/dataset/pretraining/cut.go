package pretraining

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"

	"harness.invalid/core/dataset/internal/draw"
)

// cutBlock is the result of one block: the sequences of each shard, each after its length.
type cutBlock struct {
	number int
	shards [][]byte
	err    error
}

// cut tokenizes the remaining blocks on all workers and appends their sequences to the spill files in the order of
// the blocks.
func (w *preparation) cut(ctx context.Context) (err error) {
	if w.journal.Blocks == len(w.blocks) {
		return nil
	}
	for i := range w.Shards + 1 {
		f, err := os.OpenFile(w.spillPath(i), os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Truncate(w.journal.Sizes[i]); err != nil {
			return err
		}
		if _, err := f.Seek(w.journal.Sizes[i], io.SeekStart); err != nil {
			return err
		}
		w.spills = append(w.spills, f)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := w.work(ctx)
	defer func() {
		cancel()
		for r := range results { // wait until no worker uses the corpus
			<-r
		}
	}()
	var total, done int64
	sizes := make([]int64, len(w.blocks))
	for i, block := range w.blocks {
		for _, d := range block {
			sizes[i] += w.source.corpus.documents[d].end - w.source.corpus.documents[d].start
		}
		total += sizes[i]
		if i < w.journal.Blocks {
			done += sizes[i]
		}
	}
	noted := time.Now()
	for r := range results {
		b := <-r
		if b.err != nil {
			return errors.Join(b.err, w.sync())
		}
		for i, data := range b.shards {
			if _, err := w.spills[i].Write(data); err != nil {
				return err
			}
			w.journal.Sizes[i] += int64(len(data))
		}
		w.journal.Blocks = b.number + 1
		done += sizes[b.number]
		w.Progress("tokenize", done, total)
		if time.Since(noted) >= journalEvery {
			noted = time.Now()
			if err := w.sync(); err != nil {
				return err
			}
		}
	}
	return errors.Join(w.sync(), context.Cause(ctx))
}

// sync flushes the spill files and then writes the journal.
func (w *preparation) sync() error {
	for _, f := range w.spills {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return w.note()
}

// work starts the workers. Results come in the order of the blocks; workers run at most a few blocks ahead.
func (w *preparation) work(ctx context.Context) <-chan chan cutBlock {
	type job struct {
		number int
		result chan cutBlock
	}
	jobs, results := make(chan job), make(chan chan cutBlock, 2*w.Workers)
	for range w.Workers {
		go func() {
			for j := range jobs {
				j.result <- w.block(j.number)
			}
		}()
	}
	go func() {
		defer close(results)
		defer close(jobs)
		for number := w.journal.Blocks; number < len(w.blocks); number++ {
			j := job{number, make(chan cutBlock, 1)}
			select {
			case jobs <- j:
				results <- j.result
			case <-ctx.Done():
				return
			}
		}
	}()
	return results
}

// block makes the sequences of a block.
func (w *preparation) block(number int) cutBlock {
	out := cutBlock{number: number, shards: make([][]byte, w.Shards+1)}
	docs, err := w.source.corpus.read(w.tokenizer, w.blocks[number])
	if err != nil {
		out.err = err
		return out
	}
	m, err := newMaker(w.tokenizer.Vocab(), w.source.maker.Settings)
	if err != nil {
		out.err = err
		return out
	}
	m.plain = true
	training := len(w.source.blocks)
	held, duplicates, use, minor := number >= training, w.DupeFactor, draw.Instances, number
	if held {
		duplicates, use, minor = 1, draw.Evaluation, number-training
	}
	for d := range duplicates {
		r := draw.New(w.Seed, use, d, minor)
		shards := draw.New(w.Seed, draw.Shards, d, minor)
		for i := range docs {
			m.document(docs, i, r, func(instance Instance) {
				to := w.Shards
				if !held {
					to = shards.IntN(w.Shards)
				}
				s := out.shards[to]
				at := len(s)
				s = appendSequence(append(s, 0, 0, 0, 0), w.width, &instance)
				binary.LittleEndian.PutUint32(s[at:], uint32(len(s)-at-4))
				out.shards[to] = s
			})
		}
	}
	return out
}
