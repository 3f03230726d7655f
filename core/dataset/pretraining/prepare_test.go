package pretraining_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/durable"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/wordpiece"
)

func preparation() pretraining.Preparation {
	return pretraining.Preparation{
		PrepareSettings: pretraining.PrepareSettings{Length: 16, ShortProb: 0.1, DupeFactor: 3, HeldOut: 0.1, Seed: 5,
			Lowercase: true}, Shards: 4,
	}
}

// prepare prepares a text of n documents and returns the folder.
func prepare(t testing.TB, n int, p pretraining.Preparation) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := pretraining.Prepare(t.Context(), dir, open(t, write(t, "text.txt", small(n))), words(t), p); err != nil {
		t.Fatal(err)
	}
	return dir
}

// contents are the files of a folder.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d files, want %d", what, len(got), len(want))
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %s is another file", what, name)
		}
	}
}

// TestPreparedIsDeterministic: the same bytes with any number of workers, and after any number of interruptions.
func TestPreparedIsDeterministic(t *testing.T) {
	defer pretraining.NoteEvery(0)()
	p := preparation()
	p.Workers = 1
	text := write(t, "text.txt", small(2500)) // three blocks for training
	c := open(t, text)
	make := func(p pretraining.Preparation, dir string) {
		t.Helper()
		if _, err := pretraining.Prepare(t.Context(), dir, c, words(t), p); err != nil {
			t.Fatal(err)
		}
	}
	whole := filepath.Join(t.TempDir(), "whole")
	make(p, whole)
	want := contents(t, whole)
	if len(want) != 4+1+2 {
		t.Errorf("the folder has %d files, want 4 shards, what is held out, a vocabulary and a manifest", len(want))
	}
	p.Workers = 3
	dir := filepath.Join(t.TempDir(), "parallel")
	make(p, dir)
	same(t, "three workers", contents(t, dir), want)

	dir = filepath.Join(t.TempDir(), "cut")
	for attempt := 1; ; attempt++ {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		p.Progress = func(string, int64, int64) {
			if calls++; calls == 1 {
				cancel()
			}
		}
		_, err := pretraining.Prepare(ctx, dir, c, words(t), p)
		cancel()
		if err == nil {
			if attempt < 3 {
				t.Errorf("it was done at attempt %d, want several", attempt)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if attempt > 50 {
			t.Fatal("attempts make no progress")
		}
		if _, err := pretraining.OpenPrepared(dir); err == nil || !strings.Contains(err.Error(), "not complete") {
			t.Errorf("a folder that is not complete: error is %v", err)
		}
		// What a crash leaves behind the last note is not used.
		f, err := os.OpenFile(filepath.Join(dir, "progress", "spill-00000"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("what was not noted"); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if bytes.Contains(must(os.ReadFile(filepath.Join(dir, "progress", "journal.json"))), []byte("held-out.shard")) {
			break // spill files are no more cut to size when shards are made of them
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "manifest.json")); err == nil {
		same(t, "interrupted", contents(t, dir), want)
	}
	// A complete folder is left as it is; another text or other settings are refused.
	p.Progress = nil
	make(p, whole)
	same(t, "again", contents(t, whole), want)
	p.Seed++
	if _, err := pretraining.Prepare(t.Context(), whole, c, words(t), p); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("other settings: error is %v", err)
	}
	if _, err := pretraining.Prepare(t.Context(), filepath.Dir(text), c, words(t), p); err == nil ||
		!strings.Contains(err.Error(), "not empty") {
		t.Errorf("a folder with other files: error is %v", err)
	}
}

// TestPrepareKilled kills processes that prepare a folder. While one lives it has the folder to itself; then the
// next goes on where it was, and the bytes come out the same.
func TestPrepareKilled(t *testing.T) {
	defer pretraining.NoteEvery(0)()
	p := preparation()
	p.Workers = 2
	if stop := os.Getenv("PREPARE_UNTIL"); stop != "" {
		prepareUntil(t, p, stop)
	}
	text := write(t, "text.txt", small(2500)) // three blocks for training
	c := open(t, text)
	whole := filepath.Join(t.TempDir(), "whole")
	if _, err := pretraining.Prepare(t.Context(), whole, c, words(t), p); err != nil {
		t.Fatal(err)
	}
	want := contents(t, whole)
	dir := filepath.Join(t.TempDir(), "killed")
	for _, test := range []struct {
		stop           string
		blocks, shards int // in the journal: a block is noted after Progress is told, a shard before
	}{
		{"tokenize 2", 1, 0},
		{"tokenize 2", 2, 0},
		{"shuffle 1", 4, 1},
		{"shuffle 2", 4, 3},
	} {
		kill := startPreparing(t, test.stop, text, dir)
		if _, err := pretraining.Prepare(t.Context(), dir, c, words(t), p); !errors.Is(err, durable.ErrLocked) {
			t.Errorf("until %q: beside the other process: error is %v, want %v", test.stop, err, durable.ErrLocked)
		}
		kill()
		if _, err := pretraining.OpenPrepared(dir); err == nil {
			t.Errorf("until %q: a folder that is not complete is opened", test.stop)
		}
		if blocks, shards := noted(t, dir); blocks != test.blocks || shards != test.shards {
			t.Errorf("until %q: %d blocks and %d shards are noted, want %d and %d",
				test.stop, blocks, shards, test.blocks, test.shards)
		}
	}
	if _, err := pretraining.Prepare(t.Context(), dir, c, words(t), p); err != nil {
		t.Fatal(err)
	}
	same(t, "killed", contents(t, dir), want)
	if _, err := os.Stat(filepath.Join(dir, "progress")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("progress is still there: %v", err)
	}
}

// prepareUntil prepares in a process of its own up to a call of Progress, where it says "here" and waits to be
// killed. It waits in a system call: once all goroutines of a process sleep, the runtime ends it as a deadlock, and
// the lock would be free before the kill.
func prepareUntil(t *testing.T, p pretraining.Preparation, stop string) {
	told := map[string]int{}
	p.Progress = func(stage string, _, _ int64) {
		if told[stage]++; fmt.Sprint(stage, " ", told[stage]) == stop {
			fmt.Println("here")
			io.Copy(io.Discard, os.Stdin)
		}
	}
	_, err := pretraining.Prepare(t.Context(), os.Getenv("PREPARE_TO"), open(t, os.Getenv("PREPARE_FROM")), words(t), p)
	t.Fatal("the preparation was not killed: ", err)
}

// startPreparing starts a process that runs prepareUntil, and returns once it waits.
func startPreparing(t *testing.T, stop, text, dir string) (kill func()) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestPrepareKilled$")
	child.Env = append(os.Environ(), "PREPARE_UNTIL="+stop, "PREPARE_FROM="+text, "PREPARE_TO="+dir)
	in, err := child.StdinPipe() // stays open as long as this process lives
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "here\n" {
		t.Fatalf("until %q: the process said %q, %v", stop, line, err)
	}
	return func() {
		t.Helper()
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := child.Wait(); err == nil {
			t.Fatalf("until %q: the process was not killed", stop)
		}
		in.Close()
	}
}

// noted is what the journal of a folder says is done.
func noted(t *testing.T, dir string) (blocks, shards int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "progress", "journal.json"))
	if err != nil {
		t.Fatal(err)
	}
	var journal struct {
		Blocks int
		Done   []struct{ File string }
	}
	if err := json.Unmarshal(text, &journal); err != nil {
		t.Fatal(err)
	}
	for _, d := range journal.Done {
		if d.File != "" {
			shards++
		}
	}
	return journal.Blocks, shards
}

// BenchmarkPrepare is bytes of text that are prepared in a second, on all CPUs, with five duplicates.
func BenchmarkPrepare(b *testing.B) {
	path := reference.Path(b, "data", "corpus", "sample_text.txt")
	text := strings.Repeat(string(must(os.ReadFile(path))), 200)
	v := must(wordpiece.Load(reference.Path(b, "data", "vocab", "bert-base-uncased-vocab.txt")))
	t := must(wordpiece.New(v, wordpiece.Google(true)))
	c := open(b, write(b, "text.txt", text))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		p := pretraining.Preparation{PrepareSettings: pretraining.PrepareSettings{Length: 128, ShortProb: 0.1, DupeFactor: 5,
			HeldOut: 0.01, Lowercase: true}}
		if _, err := pretraining.Prepare(b.Context(), filepath.Join(b.TempDir(), "d"+fmt.Sprint(time.Now().UnixNano())), c, t, p); err != nil {
			b.Fatal(err)
		}
	}
}
