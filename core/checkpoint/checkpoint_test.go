package checkpoint

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/tensor"
)

// run is a small model with two slots, and a state with every field set.
func run(t *testing.T) (State, Tensors) {
	t.Helper()
	c := bert.Config{VocabSize: 11, HiddenSize: 6, NumHiddenLayers: 1, NumAttentionHeads: 2, IntermediateSize: 7, HiddenAct: bert.GELU,
		MaxPositionEmbeddings: 5, TypeVocabSize: 2, InitializerRange: 0.02, LayerNormEps: 1e-12, AttentionMask: -10000}
	layout, err := bert.Parameters(c, bert.Head{Task: bert.Pretraining})
	if err != nil {
		t.Fatal(err)
	}
	section := func(seed uint64) []float32 {
		s := make([]float32, layout.Len())
		bert.Initialize(c, layout, s, seed)
		return s
	}
	s := State{
		Fingerprint: "f", DataDigest: "d", Seed: 1<<64 - 1, PhaseIndex: 1, Phase: "phase2", Step: 30, TotalSteps: 130, Updates: 29, Skipped: 1,
		BatchDigest: "b", Position: json.RawMessage(`{"epoch":3}`),
		Backend:   Plugin{Name: "ipu", Version: "1", Options: map[string]string{"loss_scale": "64"}, State: []byte{0, 255}},
		Optimizer: Plugin{Name: "lamb"}, Host: json.RawMessage(`[1]`),
	}
	return s, Tensors{layout, section(1), []Slot{{"m", section(2)}, {"v", section(3)}}, nil}
}

func TestSaveAndOpen(t *testing.T) {
	dir := t.TempDir()
	state, tensors := run(t)
	for range 2 { // the second time it replaces the first
		path, err := Save(dir, state, tensors)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(dir, "01-phase2-00000030"); path != want {
			t.Errorf("path is %s, want %s", path, want)
		}
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(state, c.State, cmp.Transformer("compact", compact)); diff != "" {
			t.Error(diff)
		}
		read := make([]float32, tensors.Layout.Len())
		if err := c.ReadParams(tensors.Layout, read); err != nil || !slices.Equal(read, tensors.Params) {
			t.Errorf("params differ (%v)", err)
		}
		for _, s := range tensors.Slots {
			if err := c.ReadSlot(s.Name, tensors.Layout, read); err != nil || !slices.Equal(read, s.Values) {
				t.Errorf("slot %s differs (%v)", s.Name, err)
			}
		}
		if err := c.ReadSlot("w", tensors.Layout, read); err == nil {
			t.Error("a slot that was not saved can be read")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		tensors.Params[3] = 7
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("folder holds %v, want one checkpoint", entries)
	}
}

func compact(m json.RawMessage) string {
	var v any
	if json.Unmarshal(m, &v) != nil {
		return string(m)
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// TestAverage: where the model is an average, both are stored, and the model's file is that of the average.
func TestAverage(t *testing.T) {
	state, tensors := run(t)
	tensors.Average = tensors.Slots[0].Values
	path, err := Save(t.TempDir(), state, tensors)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := make([]float32, tensors.Layout.Len())
	if err := c.ReadParams(tensors.Layout, read); err != nil || !slices.Equal(read, tensors.Params) {
		t.Errorf("params differ (%v)", err)
	}
	f, err := safetensors.Open(c.ModelFile())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range tensors.Layout.Tensors() {
		values := make([]float32, p.Len())
		if err := f.ReadFloat32s(p.Name, values); err != nil || !slices.Equal(values, p.Of(tensors.Average)) {
			t.Fatalf("average of %s differs (%v)", p.Name, err)
		}
	}
	tensors.Average = tensors.Average[1:]
	if _, err := Save(t.TempDir(), state, tensors); err == nil {
		t.Error("an average of another length is saved")
	}
}

// TestOtherModel: a checkpoint of one model is not read into another.
func TestOtherModel(t *testing.T) {
	state, tensors := run(t)
	path, err := Save(t.TempDir(), state, tensors)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	change := func(edit func([]tensor.Tensor) []tensor.Tensor) *tensor.Layout {
		l, err := tensor.NewLayout(edit(slices.Clone(tensors.Layout.Tensors()))...)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for want, l := range map[string]*tensor.Layout{
		"are stored, want":           change(func(ts []tensor.Tensor) []tensor.Tensor { return ts[1:] }),
		"is not stored":              change(func(ts []tensor.Tensor) []tensor.Tensor { ts[0].Name = "other"; return ts }),
		"is stored with shape [2 6]": change(func(ts []tensor.Tensor) []tensor.Tensor { ts[2].Shape = tensor.Shape{6, 2}; return ts }),
	} {
		if err := c.ReadParams(l, make([]float32, l.Len())); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
	if err := c.ReadParams(tensors.Layout, nil); err == nil {
		t.Error("a section that is too short is taken")
	}
}

// TestDamage: one byte changed, cut off or added anywhere, or a file gone, is noticed.
func TestDamage(t *testing.T) {
	state, tensors := run(t)
	path, err := Save(t.TempDir(), state, tensors)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(what string) {
		t.Helper()
		c, err := Open(path)
		if err == nil {
			c.Close()
			t.Errorf("%s: no error", what)
		} else if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: error is %v, want ErrDamaged", what, err)
		}
	}
	for _, name := range []string{modelFile, optimizerFile, stateFile, "SHA256SUMS"} {
		file := filepath.Join(path, name)
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		put := func(b []byte) {
			t.Helper()
			if err := os.WriteFile(file, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; i < len(whole); i += 1 + len(whole)/37 {
			changed := slices.Clone(whole)
			changed[i] ^= 0x11
			put(changed)
			damaged(name + " with a byte changed")
			put(whole[:i])
			damaged(name + " cut off")
		}
		put(append(slices.Clone(whole), 'x'))
		damaged(name + " with a byte more")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		damaged(name + " gone")
		put(whole)
	}
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestLatestAndPrune(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Latest(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want fs.ErrNotExist", err)
	}
	state, tensors := run(t)
	var paths []string
	for _, at := range []struct{ phase, step int }{{0, 9}, {0, 10}, {0, 100}, {1, 2}} {
		state.PhaseIndex, state.Step = at.phase, at.step
		path, err := Save(dir, state, tensors)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	// The newest was torn by a crash, and another write never finished.
	if err := os.Truncate(filepath.Join(paths[3], modelFile), 100); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".01-phase2-00000003.00000000.tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	c, damage, err := Latest(dir)
	if err != nil || c.PhaseIndex != 0 || c.Step != 100 || len(damage) != 1 {
		t.Fatalf("latest is %+v, damaged %v, %v, want step 100 of phase 0", c, damage, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := Prune(dir, 2); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || filepath.Join(dir, entries[0].Name()) != paths[2] {
		t.Errorf("%v are left (%v), want the two newest", entries, err)
	}
}

// TestForeignFolders: folders that a user puts beside the checkpoints are neither read nor removed, whatever their names.
func TestForeignFolders(t *testing.T) {
	dir := t.TempDir()
	state, tensors := run(t)
	save := func(step int) {
		t.Helper()
		state.Step = step
		if _, err := Save(dir, state, tensors); err != nil {
			t.Fatal(err)
		}
	}
	save(1)
	foreign := []string{".mine.tmp", "00-a-00000001-keep", "best-so-far", "keep", "zz-phase2-00000009", "99-best-00000001"}
	for _, name := range foreign[:len(foreign)-1] {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "99-best-00000001"), os.DirFS(filepath.Join(dir, state.Name()))); err != nil {
		t.Fatal(err)
	}
	var own []string
	for step := 2; step <= 5; step++ {
		save(step)
		if err := Prune(dir, 2); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []int{4, 5} {
		state.Step = step
		own = append(own, state.Name())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := slices.Sorted(slices.Values(append(own, foreign...)))
	if !slices.Equal(left, want) {
		t.Errorf("%v are left, want %v", left, want)
	}
	c, damaged, err := Latest(dir)
	if err != nil || c.Step != 5 || len(damaged) != 0 {
		t.Fatalf("latest is %+v, damaged %v, %v, want step 5", c, damaged, err)
	}
	c.Close()
	// With all of its own damaged, another's do not stand in.
	for _, name := range own {
		if err := os.WriteFile(filepath.Join(dir, name, stateFile), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, damaged, err := Latest(dir); !errors.Is(err, ErrNoneIntact) || errors.Is(err, fs.ErrNotExist) || len(damaged) != 2 {
		t.Errorf("error is %v with %d damaged, want %v", err, len(damaged), ErrNoneIntact)
	}
}

// TestSaveFails: a save that fails leaves nothing behind and does not touch what was there.
func TestSaveFails(t *testing.T) {
	dir := t.TempDir()
	state, tensors := run(t)
	path, err := Save(dir, state, tensors)
	if err != nil {
		t.Fatal(err)
	}
	for want, edit := range map[string]func(*State, *Tensors){
		"params have 1 elements": func(_ *State, t *Tensors) { t.Params = t.Params[:1] },
		"slot m has 0 elements":  func(_ *State, t *Tensors) { t.Slots = []Slot{{Name: "m"}} },
		`slot "a/b" can't`:       func(_ *State, t *Tensors) { t.Slots = []Slot{{Name: "a/b"}} },
		"two tensors are named":  func(_ *State, t *Tensors) { t.Slots = append(t.Slots, t.Slots[0]) },
		"no layout":              func(_ *State, t *Tensors) { t.Layout = nil },
		"can't name a folder":    func(s *State, _ *Tensors) { s.Phase = "../x" },
		"unexpected end of JSON": func(s *State, _ *Tensors) { s.Position = json.RawMessage("{") },
	} {
		s, ts := state, tensors
		edit(&s, &ts)
		if _, err := Save(dir, s, ts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("folder holds %v, want one checkpoint", entries)
	}
	if c, err := Open(path); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
}
