package export_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"harness.invalid/harness/export"
	"harness.invalid/harness/series/seriestest"
)

// losses are the values of trained/loss in an event file, by step, in the order in which they were written.
func losses(t *testing.T, b []byte) (steps []uint64, values []float32) {
	t.Helper()
	for len(b) >= 12 {
		n := binary.LittleEndian.Uint64(b)
		if uint64(len(b)) < 16+n {
			break // it is being written
		}
		message := b[12 : 12+n]
		b = b[16+n:]
		var step uint64
		for _, f := range fields(t, message) {
			switch f.number {
			case 2:
				step = f.value
			case 5:
				for _, v := range fields(t, f.bytes) {
					parts := fields(t, v.bytes)
					if string(parts[0].bytes) == "trained/loss" {
						steps, values = append(steps, step), append(values, math.Float32frombits(uint32(parts[1].value)))
					}
				}
			}
		}
	}
	return steps, values
}

// within waits for something, for a minute at most.
func within(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it has not come within a minute")
		}
	}
}

// TestLive: an event file grows with its run in place, each step is in it once and in order, and in the end it has what
// an export of the run has. The next process begins a file anew.
func TestLive(t *testing.T) {
	dir := t.TempDir()
	arm := ipu
	arm.Skip = 0 // a skipped step has no loss
	more := seriestest.Begun(t, dir, arm, 1, 5)
	follow := func(during func(file string)) []byte {
		live := export.Live{From: dir, To: filepath.Join(dir, "tensorboard"), Every: time.Millisecond}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			live.Follow(ctx, func(err error) { t.Error(err) })
		}()
		pattern := filepath.Join(dir, "tensorboard", "ipu-adamw-seed1", "*tfevents*")
		var files []string
		within(t, func() bool {
			files, _ = filepath.Glob(pattern)
			return len(files) == 1
		})
		during(files[0])
		end()
		<-done
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) != 1 {
			t.Fatalf("files %v, %v", files, err)
		}
		return readFile(t, files[0])
	}
	whole := follow(func(file string) {
		before, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer before.Close()
		for until := 10; until <= 40; until += 10 {
			more(until)
			within(t, func() bool {
				has, _ := losses(t, readFile(t, file))
				return len(has) == until
			})
			now, err := os.Stat(file)
			was, err2 := before.Stat()
			if err != nil || err2 != nil || !os.SameFile(now, was) {
				t.Fatal("a reader who has the file open does not get what is new", err, err2)
			}
		}
	})
	steps, _ := losses(t, whole)
	for i, s := range steps {
		if s != uint64(i+1) {
			t.Fatalf("steps %v, want 1 to 40 in this order", steps)
		}
	}
	if again := follow(func(string) {}); !bytes.Equal(again, whole) {
		t.Error("a process that begins later writes another file of the same run")
	}
}
