package pretraining

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"

	"harness.invalid/core/bounded"
	"harness.invalid/core/dataset/internal/draw"
	"harness.invalid/core/durable"
)

// shuffle makes a shard of each spill file.
func (w *preparation) shuffle(ctx context.Context) error {
	var todo []int
	for i, s := range w.journal.Done {
		if s.File == "" {
			todo = append(todo, i)
		}
	}
	type result struct {
		i    int
		info ShardInfo
		err  error
	}
	next, results := make(chan int, len(todo)), make(chan result)
	for _, i := range todo {
		next <- i
	}
	close(next)
	workers := min(w.Workers, len(todo))
	for range workers {
		go func() {
			for i := range next {
				if ctx.Err() != nil {
					results <- result{i, ShardInfo{}, context.Cause(ctx)}
					continue
				}
				info, err := w.shuffleShard(i)
				results <- result{i, info, err}
			}
		}()
	}
	var failed error
	for n := range todo {
		r := <-results
		if r.err != nil {
			failed = r.err
			continue
		}
		w.journal.Done[r.i] = r.info
		if err := w.note(); err != nil && failed == nil {
			failed = err
		}
		w.Progress("shuffle", int64(len(w.journal.Done)-len(todo)+n+1), int64(len(w.journal.Done)))
	}
	return failed
}

// shuffleShard writes a shard. Held-out sequences keep their order.
func (w *preparation) shuffleShard(i int) (ShardInfo, error) {
	name := fmt.Sprintf("train-%05d-of-%05d.shard", i, w.Shards)
	if i == w.Shards {
		name = "held-out.shard"
	}
	spill, err := bounded.ReadFile(w.spillPath(i), 64*bounded.GiB)
	if err != nil {
		return ShardInfo{}, err
	}
	if size := w.journal.Sizes[i]; int64(len(spill)) < size {
		return ShardInfo{}, fmt.Errorf("prepare: %s has %d bytes, but had %d: remove the folder and start again",
			w.spillPath(i), len(spill), size)
	}
	spill = spill[:w.journal.Sizes[i]]
	info := ShardInfo{File: name}
	var sequences [][]byte
	for rest := spill; len(rest) > 0; {
		if len(rest) < 4 || uint64(binary.LittleEndian.Uint32(rest)) > uint64(len(rest)-4) {
			return info, fmt.Errorf("prepare: %s is damaged: remove the folder and start again", w.spillPath(i))
		}
		n := 4 + int(binary.LittleEndian.Uint32(rest))
		sequences = append(sequences, rest[4:n])
		info.Tokens += int64((n - 6) / w.width)
		rest = rest[n:]
	}
	info.Sequences = int64(len(sequences))
	if i < w.Shards {
		draw.New(w.Seed, draw.Shuffle, 0, i).Shuffle(len(sequences), func(a, b int) { sequences[a], sequences[b] = sequences[b], sequences[a] })
	}
	hash := sha256.New()
	counted := &counter{w: hash}
	err = durable.WriteFile(filepath.Join(w.dir, name), func(out io.Writer) error {
		return writeShard(io.MultiWriter(out, counted), w.width, sequences)
	})
	info.Bytes, info.SHA256 = counted.n, hex.EncodeToString(hash.Sum(nil))
	return info, err
}
