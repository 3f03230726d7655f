// Package checkpoint stores the state of a run on disk, so that a stopped run can continue bit for bit.
//
// The host owns all state of a run, so one folder holds all of it:
//
//	model.safetensors       parameters, FP32, with Hugging Face's names
//	average.safetensors     the averaged parameters that evaluations use; only with optimizers that average
//	optimizer.safetensors   the optimizer's slots, SLOT/PARAMETER, FP32; absent when it has none
//	state.json              counters, the position in the data, and the plugins' own state
//	SHA256SUMS              of these, as sha256sum -c reads it
//
// A folder is written under a temporary name and renamed once it is complete. Open checks its sums first, so that
// an interrupted write is an error that names the file, never a run with wrong numbers.
//
// The subpackages read and write other programs' formats: huggingface whole models, safetensors, pytorch and
// tensorflow one kind of file each; weights is what they share.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/sums"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// ErrDamaged is wrapped by every error about a folder that differs from what Save wrote.
var ErrDamaged = errors.New("checkpoint is damaged")

// State is the state of a run without its tensors.
type State struct {
	Fingerprint string `json:"fingerprint"` // of the recipe
	DataDigest  string `json:"data_digest"` // of the data's contents
	Seed        uint64 `json:"seed"`

	PhaseIndex int    `json:"phase_index"`
	Phase      string `json:"phase"`
	Step       int    `json:"step"`        // steps of the phase so far, including skipped ones
	TotalSteps int    `json:"total_steps"` // the same over all phases
	Updates    int    `json:"updates"`     // steps of the phase that updated the parameters
	Skipped    int    `json:"skipped"`     // steps of the phase that were skipped because a gradient was not finite

	BatchDigest string          `json:"batch_digest,omitempty"` // running digest of the batches so far
	Position    json.RawMessage `json:"position,omitempty"`     // of the data source, as it wrote it
	Backend     Plugin          `json:"backend"`
	Optimizer   Plugin          `json:"optimizer"`
	Host        json.RawMessage `json:"host,omitempty"` // the host's own state
}

// Plugin names a plugin of the run and holds its own state.
type Plugin struct {
	Name    string            `json:"name"`
	Version string            `json:"version,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	State   []byte            `json:"state,omitempty"`
}

// Tensors are the sections of a run's memory.
type Tensors struct {
	Layout  *tensor.Layout
	Params  []float32 // [Layout.Len()]
	Slots   []Slot
	Average []float32 // [Layout.Len()], averaged parameters (optimizer.Averager); nil: the optimizer does not average
}

// Slot is a section that belongs to the optimizer.
type Slot struct {
	Name   string    // m, v ...
	Values []float32 // [Layout.Len()]
}

// The files of a checkpoint.
const (
	modelFile     = "model.safetensors"
	averageFile   = "average.safetensors"
	optimizerFile = "optimizer.safetensors"
	stateFile     = "state.json"
)

// The most that is read of the files of a checkpoint, which may come from anybody.
const (
	mostState = bounded.GiB // the state of plugins is in it
)

// Name is the name of a checkpoint's folder. The names of a run's checkpoints sort in the order of time.
func (s State) Name() string { return fmt.Sprintf("%02d-%s-%08d", s.PhaseIndex, s.Phase, s.Step) }

// Save writes a checkpoint into the folder dir/State.Name() and returns its path. It replaces a checkpoint of the
// same name.
func Save(dir string, s State, t Tensors) (path string, err error) {
	path = filepath.Join(dir, s.Name())
	fail := func(err error) (string, error) { return "", fmt.Errorf("checkpoint %s: %w", path, err) }
	if strings.ContainsAny(s.Phase, `/\`) || s.PhaseIndex < 0 || s.Step < 0 {
		return fail(fmt.Errorf("phase %d %q, step %d can't name a folder", s.PhaseIndex, s.Phase, s.Step))
	}
	model, average, slots, err := contents(t)
	if err != nil {
		return fail(err)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fail(err)
	}
	err = replaceDir(path, func(w *sumWriter) error {
		if err := w.file(modelFile, func(out io.Writer) error {
			return safetensors.WriteTo(out, model, map[string]string{"format": "pt"})
		}); err != nil {
			return err
		}
		if len(average) > 0 {
			if err := w.file(averageFile, func(out io.Writer) error {
				return safetensors.WriteTo(out, average, map[string]string{"format": "pt"})
			}); err != nil {
				return err
			}
		}
		if len(slots) > 0 {
			if err := w.file(optimizerFile, func(out io.Writer) error { return safetensors.WriteTo(out, slots, nil) }); err != nil {
				return err
			}
		}
		return w.file(stateFile, func(out io.Writer) error {
			_, err := out.Write(append(text, '\n'))
			return err
		})
	})
	if err != nil {
		return fail(err)
	}
	return path, nil
}

// contents returns the tensors of each file.
func contents(t Tensors) (model, average, slots []weights.Content, err error) {
	fail := func(err error) (_, _, _ []weights.Content, _ error) { return nil, nil, nil, err }
	if t.Layout == nil {
		return fail(errors.New("tensors have no layout"))
	}
	if len(t.Params) != t.Layout.Len() || t.Average != nil && len(t.Average) != t.Layout.Len() {
		return fail(fmt.Errorf("params have %d elements and their average %d, want %d", len(t.Params), len(t.Average), t.Layout.Len()))
	}
	for _, p := range t.Layout.Tensors() {
		model = append(model, weights.Of(p.Name, p.Shape, p.Of(t.Params)))
		if t.Average != nil {
			average = append(average, weights.Of(p.Name, p.Shape, p.Of(t.Average)))
		}
	}
	for _, s := range t.Slots {
		if s.Name == "" || strings.Contains(s.Name, "/") {
			return fail(fmt.Errorf("slot %q can't be stored under that name", s.Name))
		}
		if len(s.Values) != t.Layout.Len() {
			return fail(fmt.Errorf("slot %s has %d elements, want %d", s.Name, len(s.Values), t.Layout.Len()))
		}
		for _, p := range t.Layout.Tensors() {
			slots = append(slots, weights.Of(s.Name+"/"+p.Name, p.Shape, p.Of(s.Values)))
		}
	}
	return model, average, slots, nil
}

// Checkpoint is an open checkpoint whose sums were checked.
type Checkpoint struct {
	State
	Path      string
	Averaged  bool // evaluations use an average; the trained parameters are stored beside it
	model     *weights.File
	optimizer *weights.File // nil: no slots
}

// Open checks a checkpoint's folder and reads its state. Tensors are read on demand.
func Open(path string) (*Checkpoint, error) {
	c := &Checkpoint{Path: path}
	if err := c.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("checkpoint %s: %w", path, err), c.Close())
	}
	return c, nil
}

func (c *Checkpoint) open() error {
	list, err := readSums(c.Path)
	if err != nil {
		return err
	}
	for _, name := range []string{modelFile, stateFile} {
		if _, ok := list[name]; !ok {
			return fmt.Errorf("%s does not list %s: %w", sums.File, name, ErrDamaged)
		}
	}
	text, err := bounded.ReadFile(filepath.Join(c.Path, stateFile), mostState)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &c.State); err != nil {
		return fmt.Errorf("%s: %w: %w", stateFile, err, ErrDamaged)
	}
	if c.model, err = safetensors.Open(filepath.Join(c.Path, modelFile)); err != nil {
		return err
	}
	_, c.Averaged = list[averageFile]
	if _, ok := list[optimizerFile]; ok {
		c.optimizer, err = safetensors.Open(filepath.Join(c.Path, optimizerFile))
	}
	return err
}

// Close closes the files.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, f := range []*weights.File{c.model, c.optimizer} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	c.model, c.optimizer = nil, nil
	return errors.Join(errs...)
}

// ModelFile is the file with the parameters that evaluations use.
func (c *Checkpoint) ModelFile() string {
	if c.Averaged {
		return filepath.Join(c.Path, averageFile)
	}
	return filepath.Join(c.Path, modelFile)
}

// ReadParams reads the trained parameters into a section. Names and shapes must be exactly those of the layout.
func (c *Checkpoint) ReadParams(l *tensor.Layout, params []float32) error {
	return c.read(c.model, "", l, params)
}

// ReadSlot reads an optimizer's slot into a section.
func (c *Checkpoint) ReadSlot(name string, l *tensor.Layout, values []float32) error {
	if c.optimizer == nil {
		return fmt.Errorf("checkpoint %s holds no slots, want %s", c.Path, name)
	}
	return c.read(c.optimizer, name+"/", l, values)
}

func (c *Checkpoint) read(f *weights.File, prefix string, l *tensor.Layout, values []float32) error {
	if len(values) != l.Len() {
		return fmt.Errorf("checkpoint %s: section of %d elements, want %d", c.Path, len(values), l.Len())
	}
	stored := 0
	for _, name := range f.Names() {
		if strings.HasPrefix(name, prefix) {
			stored++
		}
	}
	if n := len(l.Tensors()); stored != n {
		return fmt.Errorf("checkpoint %s: %d tensors %sNAME are stored, want %d", c.Path, stored, prefix, n)
	}
	for _, t := range l.Tensors() {
		info, ok := f.Tensor(prefix + t.Name)
		if !ok {
			return fmt.Errorf("checkpoint %s: tensor %s is not stored", c.Path, prefix+t.Name)
		}
		if !slices.Equal(info.Shape, t.Shape) {
			return fmt.Errorf("checkpoint %s: tensor %s is stored with shape %v, want %v", c.Path, info.Name, info.Shape, t.Shape)
		}
		if err := f.ReadFloat32s(info.Name, t.Of(values)); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	return nil
}
