package huggingface

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/tensorflow"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// Folder is an open model: its configuration, and its tensors under harness's names.
type Folder struct {
	Config Config

	dir        string
	file       *weights.File
	optimizer  *weights.File                        // optimizer.safetensors; nil: there is none
	parameters map[string]weights.Tensor            // by the name in bert.Parameters, including second names
	slots      map[string]map[string]weights.Tensor // of an optimizer: by slot and parameter
	step       *weights.Tensor                      // steps that the optimizer took; nil: not stored
	unexpected []string
}

// Open reads the configuration of a model and maps its tensors into memory. path is a folder, or the file in it
// that holds the tensors, in any format that OpenTensors knows. A folder with a list of sums, as Seal writes it, is checked.
func Open(path string) (*Folder, error) {
	dir := path
	if info, err := os.Stat(path); err != nil && !tensorflow.IsCheckpoint(path) {
		return nil, fmt.Errorf("model %w", err)
	} else if err != nil || !info.IsDir() {
		dir = filepath.Dir(path)
	}
	if err := checkSeal(dir); err != nil {
		return nil, fmt.Errorf("model %w", err)
	}
	config, err := readConfigIn(dir)
	if err != nil {
		return nil, fmt.Errorf("model %w", err)
	}
	return OpenWith(path, config)
}

// OpenWith is Open for a model whose configuration lies elsewhere.
func OpenWith(path string, c Config) (*Folder, error) {
	file, err := OpenTensors(path)
	if err != nil {
		return nil, fmt.Errorf("model %w", err)
	}
	f := &Folder{Config: c, dir: filepath.Dir(file.Name()), file: file}
	err = f.match()
	if err == nil {
		err = f.matchOptimizer()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("model %s: %w", path, err), f.Close())
	}
	return f, nil
}

// Close unmaps the tensors.
func (f *Folder) Close() error {
	err := f.file.Close()
	if f.optimizer != nil {
		err = errors.Join(err, f.optimizer.Close())
	}
	return err
}

// Dir is the folder that the tensors lie in.
func (f *Folder) Dir() string { return f.dir }

// Format describes the kind of file that holds the tensors.
func (f *Folder) Format() string { return f.file.Format() }

// match maps the file's tensors to parameters.
func (f *Folder) match() error {
	f.parameters, f.slots = make(map[string]weights.Tensor), make(map[string]map[string]weights.Tensor)
	if f.file.Format() == tensorflow.Format {
		return f.matchTensorFlow()
	}
	bare := !slices.ContainsFunc(f.file.Names(), func(name string) bool { return strings.HasPrefix(unwrapped(name), "bert.") })
	for _, stored := range f.file.Tensors() {
		for _, t := range split(stored.Named(canonical(unwrapped(stored.Name), bare))) {
			if slices.Contains(buffers, t.Name) {
				continue
			}
			if err := f.put("", t.Name, t.Named(stored.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Folder) matchTensorFlow() error {
	for _, t := range f.file.Tensors() {
		if t.Name == step {
			f.step = &t
			continue
		}
		parameter, slot, transposed, ok := fromTensorFlow(t.Name)
		if !ok || transposed && len(t.Shape) != 2 {
			f.unexpected = append(f.unexpected, t.Name)
			continue
		}
		if transposed {
			t = t.Transposed()
		}
		if err := f.put(slot, parameter, t); err != nil {
			return err
		}
	}
	return nil
}

// matchOptimizer opens the optimizer's slots that harness's checkpoints keep beside a model as SLOT/PARAMETER.
func (f *Folder) matchOptimizer() (err error) {
	path := filepath.Join(f.dir, optimizerFile)
	if f.file.Format() == tensorflow.Format || f.file.Name() == path {
		return nil
	}
	f.optimizer, err = safetensors.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		f.optimizer = nil
		return nil
	} else if err != nil {
		return err
	}
	for _, t := range f.optimizer.Tensors() {
		if t.Name == step {
			f.step = &t
			continue
		}
		slot, parameter, ok := strings.Cut(t.Name, "/")
		if !ok || slot == "" {
			f.unexpected = append(f.unexpected, t.Name)
			continue
		}
		if err := f.put(slot, parameter, t); err != nil {
			return err
		}
	}
	return nil
}

// put keeps a tensor as a parameter or as a slot of one.
func (f *Folder) put(slot, parameter string, t weights.Tensor) error {
	into := f.parameters
	if slot != "" {
		if f.slots[slot] == nil {
			f.slots[slot] = make(map[string]weights.Tensor)
		}
		into = f.slots[slot]
	}
	if other, ok := into[parameter]; ok {
		return fmt.Errorf("tensors %s and %s are both %s", weights.Quote(other.Name), weights.Quote(t.Name), parameter)
	}
	into[parameter] = t
	return nil
}

// Report lists the differences between a file and a model.
type Report struct {
	Missing    []string // parameters that the file lacks, which keep their values
	Unexpected []string // tensors that the model does not use, by their names in the file
	Padded     []string // parameters whose vocabulary has another length in the file: cut off, or padded with zeros
	Notes      []string // remarks for the reader
}

// maxPadding limits the padding of a vocabulary. Vocabularies are padded to multiples of 8, 64 or 128.
const maxPadding = 128

// Load reads the parameters of a layout into a section. A tensor of the wrong shape or type is an error; other
// differences are in the Report.
func (f *Folder) Load(l *tensor.Layout, params []float32) (Report, error) {
	return f.load(f.parameters, l, params)
}

// Slots lists the optimizer's slots stored with the model, such as m and v.
func (f *Folder) Slots() []string { return slices.Sorted(maps.Keys(f.slots)) }

// LoadSlot is Load for a slot of the optimizer.
func (f *Folder) LoadSlot(name string, l *tensor.Layout, values []float32) (Report, error) {
	if f.slots[name] == nil {
		return Report{}, fmt.Errorf("model %s holds no slot %s, but %v", f.file.Name(), name, f.Slots())
	}
	return f.load(f.slots[name], l, values)
}

func (f *Folder) load(stored map[string]weights.Tensor, l *tensor.Layout, section []float32) (Report, error) {
	if len(section) != l.Len() {
		return Report{}, fmt.Errorf("model %s: section of %d elements, want %d", f.file.Name(), len(section), l.Len())
	}
	rep := Report{Unexpected: slices.Clone(f.unexpected)}
	used := make(map[string]bool, len(stored))
	for _, p := range l.Tensors() {
		name, ok, err := f.find(stored, p.Name, used)
		if err != nil {
			return rep, err
		}
		if !ok {
			rep.Missing = append(rep.Missing, p.Name)
			continue
		}
		t, zeros, err := f.fit(stored[name], p.Name, p.Shape)
		if err != nil {
			return rep, err
		}
		dst := p.Of(section)
		if err := t.ReadFloat32s(dst[:len(dst)-zeros]); err != nil {
			return rep, fmt.Errorf("model %w", err)
		}
		clear(dst[len(dst)-zeros:])
		if !slices.Equal(stored[name].Shape, p.Shape) {
			rep.Padded = append(rep.Padded, p.Name)
		}
	}
	for name, t := range stored {
		if !used[name] && !slices.Contains(rep.Unexpected, t.Name) {
			rep.Unexpected = append(rep.Unexpected, t.Name)
		}
	}
	slices.Sort(rep.Unexpected)
	return rep, nil
}

// find returns the name under which a parameter is stored: its own, or the second name of a tied one. It marks all
// copies as used.
func (f *Folder) find(stored map[string]weights.Tensor, parameter string, used map[string]bool) (name string, ok bool, err error) {
	t, ok := stored[parameter]
	other, second := stored[tied[parameter]]
	switch {
	case !ok && !second:
		return "", false, nil
	case !ok:
		used[tied[parameter]] = true
		return tied[parameter], true, nil
	}
	used[parameter] = true
	if second {
		// harness trains no untied decoder.
		same, err := same(t, other)
		if err != nil {
			return "", false, fmt.Errorf("model %w", err)
		}
		used[tied[parameter]] = same
	}
	return parameter, true, nil
}

// fit returns the part of a stored tensor that a parameter of a shape takes, and the number of zeros that follow
// it: a vocabulary may be longer or shorter.
func (f *Folder) fit(t weights.Tensor, parameter string, want tensor.Shape) (weights.Tensor, int, error) {
	if slices.Equal(t.Shape, want) {
		return t, 0, nil
	}
	if _, vocabulary := tied[parameter]; !vocabulary || len(t.Shape) != len(want) || !slices.Equal(t.Shape[1:], want[1:]) ||
		abs(t.Shape[0]-want[0]) >= maxPadding {
		return t, 0, fmt.Errorf("model %s: tensor %s has shape %v, want %v", f.file.Name(), t.Name, t.Shape, want)
	}
	t = t.Rows(0, min(t.Shape[0], want[0]))
	return t, want.Len() - t.Shape.Len(), nil
}

// same reports whether two tensors have the same type and bytes.
func same(a, b weights.Tensor) (bool, error) {
	if a.SameData(b) {
		return true, nil
	}
	if a.DType != b.DType {
		return false, nil
	}
	x, err := a.Bytes()
	if err != nil {
		return false, err
	}
	y, err := b.Bytes()
	if err != nil {
		return false, err
	}
	return bytes.Equal(x, y), nil
}

func abs(n int) int { return max(n, -n) }
