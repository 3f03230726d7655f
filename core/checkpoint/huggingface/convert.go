package huggingface

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/pytorch"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/tensorflow"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// Format is what a model is written as.
type Format string

// The formats.
const (
	Safetensors Format = "safetensors" // model.safetensors, in shards if wanted
	PyTorch     Format = "pytorch"     // pytorch_model.bin
	TensorFlow  Format = "tensorflow"  // bert_model.ckpt, with google-research/bert's names
)

// Formats are all of them.
func Formats() []string { return []string{string(Safetensors), string(PyTorch), string(TensorFlow)} }

// Target says how a model is written.
type Target struct {
	Format     Format
	DType      tensor.DType // of the parameters: F32, F16 or BF16; "": as they are, doubles as F32
	ShardBytes int64        // greatest size of a file of safetensors; 0: one file
	Tokenizer  *Tokenizer   // nil: the files beside the source are copied, and what they lack is made
	// Progress is told now and then how many bytes are done; its error stops the writing. nil: nobody is told.
	Progress func(done, total int64) error
}

// checkpointName is what google-research/bert calls its checkpoints.
const checkpointName = "bert_model.ckpt"

// Write writes the model as a folder that transformers loads without a warning, or google-research/bert: tensors
// under the names of today, tied ones once, configuration, tokenizer, and an optimizer's slots beside it.
// Parameters that the architecture wants and the source lacks are an error; what the architecture has no use for is
// left out, and named in the Report.
func (f *Folder) Write(dir string, t Target) (Report, error) {
	fail := func(rep Report, err error) (Report, error) { return rep, fmt.Errorf("model %s: %w", dir, err) }
	m, rep, err := f.output(t)
	if err != nil {
		return rep, err
	}
	config, configName := []byte(nil), configFile
	if t.Format == TensorFlow {
		configName = googleConfigFile
		if f.Config.Model.HiddenAct != bert.GELUNew {
			rep.Notes = append(rep.Notes, `hidden_act is the erf form of GELU, and "gelu" of google-research/bert is the tanh form: it computes slightly other values`)
		}
		config, err = f.Config.marshalGoogle()
	} else {
		config, err = f.Config.marshal(m.architecture, m.labels, dtypes[m.dtype])
	}
	if err != nil {
		return fail(rep, err)
	}
	tokenizer, err := f.tokenizer(t)
	if err != nil {
		return fail(rep, err)
	}
	if tokenizer != nil && tokenizer.Vocab.Len() > f.Config.Model.VocabSize {
		rep.Notes = append(rep.Notes, fmt.Sprintf("the vocabulary has %d entries and the model %d: text may have ids that it does not know",
			tokenizer.Vocab.Len(), f.Config.Model.VocabSize))
	}
	// What was there in another format would be loaded instead, or by chance.
	if other, err := modelIn(dir); err == nil && formatOf(other) != t.Format {
		return fail(rep, fmt.Errorf("the folder holds a model in another format, %s: write to another folder", filepath.Base(other)))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fail(rep, err)
	}
	switch t.Format {
	case TensorFlow:
		err = tensorflow.Write(filepath.Join(dir, checkpointName), append(m.contents, m.optimizer...))
	case PyTorch:
		err = pytorch.Write(filepath.Join(dir, binFile), m.contents, m.aliases)
	default:
		err = saveTensors(dir, m.contents, t.ShardBytes)
	}
	if err != nil {
		return fail(rep, err)
	}
	if t.Format != TensorFlow {
		if err := saveOptimizer(filepath.Join(dir, optimizerFile), m.optimizer); err != nil {
			return fail(rep, err)
		}
	}
	if err := saveFile(filepath.Join(dir, configName), config); err != nil {
		return fail(rep, err)
	}
	if tokenizer == nil {
		return rep, nil
	}
	from := f.dir
	if t.Tokenizer != nil {
		from = ""
	}
	if t.Format == TensorFlow {
		err = copyFile(from, dir, vocabFile, *tokenizer)
	} else {
		err = copyTokenizer(from, dir, *tokenizer)
	}
	if err != nil {
		return fail(rep, err)
	}
	return rep, nil
}

// WriteFile writes the parameters alone as one file, or as the two of a TensorFlow checkpoint.
func (f *Folder) WriteFile(path string, t Target) (Report, error) {
	m, rep, err := f.output(t)
	if err != nil {
		return rep, err
	}
	return rep, m.writeFile(path, t)
}

func (m *output) writeFile(path string, t Target) error {
	switch t.Format {
	case TensorFlow:
		return tensorflow.Write(tensorflow.Prefix(path), append(m.contents, m.optimizer...))
	case PyTorch:
		return pytorch.Write(path, m.contents, m.aliases)
	}
	return safetensors.Write(path, m.contents, modelMetadata)
}

// Copy writes all tensors of a file into another one, under the names and with the shapes that they have: what can
// be done without a configuration. Numbers that are whole keep their type.
func Copy(from *weights.File, path string, t Target) error {
	var m output
	for _, stored := range from.Tensors() {
		c := stored.Content()
		switch c.DType {
		case tensor.F64, tensor.F32, tensor.F16, tensor.BF16:
			if t.DType != "" {
				c = c.As(t.DType)
			}
		}
		m.contents = append(m.contents, c)
	}
	if err := m.observe(t); err != nil {
		return err
	}
	return m.writeFile(path, t)
}

// formatOf is the format of a file that modelIn found.
func formatOf(path string) Format {
	switch name := filepath.Base(path); {
	case strings.HasPrefix(name, modelFile):
		return Safetensors
	case strings.HasPrefix(name, binFile):
		return PyTorch
	}
	return TensorFlow
}

// tokenizer is what is written beside the model; nil: the source has none.
func (f *Folder) tokenizer(t Target) (*Tokenizer, error) {
	if t.Tokenizer != nil {
		return t.Tokenizer, nil
	}
	found, err := ReadTokenizer(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if found.MaxLength == 0 {
		found.MaxLength = f.Config.Model.MaxPositionEmbeddings
	}
	return &found, nil
}

// saveOptimizer writes the slots, or removes those of another model.
func saveOptimizer(path string, contents []weights.Content) error {
	if len(contents) == 0 {
		return removeAll([]string{path})
	}
	return safetensors.Write(path, contents, nil)
}

// output is what is written of a Folder.
type output struct {
	architecture string
	labels       int // of a classifier
	dtype        tensor.DType
	contents     []weights.Content // sorted by name
	optimizer    []weights.Content
	aliases      map[string]string // second names of tied parameters, for formats where that costs nothing
}

// parts are the prefixes of the parameters that an architecture of transformers has beside the embeddings and the
// encoder.
var parts = map[string][]string{
	"BertForPreTraining":            {"bert.pooler.", "cls.predictions.", "cls.seq_relationship."},
	"BertForMaskedLM":               {"cls.predictions."},
	"BertForNextSentencePrediction": {"bert.pooler.", "cls.seq_relationship."},
	"BertForQuestionAnswering":      {"qa_outputs."},
	"BertForSequenceClassification": {"bert.pooler.", "classifier."},
	"BertForMultipleChoice":         {"bert.pooler.", "classifier."},
	"BertForTokenClassification":    {"classifier."},
	"BertModel":                     {"bert.pooler."},
}

// architecture tells from the parameters what class of transformers they are, and from the configuration where
// several have the same.
func (f *Folder) architecture() string {
	has := func(prefix string) bool {
		for name := range f.parameters {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return false
	}
	switch {
	case has("qa_outputs."):
		return "BertForQuestionAnswering"
	case has("classifier."):
		var stated []string
		if json.Unmarshal(f.Config.Other["architectures"], &stated) == nil && len(stated) == 1 &&
			slices.Contains(parts[stated[0]], "classifier.") {
			return stated[0]
		}
		return "BertForSequenceClassification"
	case has("cls.seq_relationship.") && has("cls.predictions."):
		return "BertForPreTraining"
	case has("cls.predictions."):
		return "BertForMaskedLM"
	case has("cls.seq_relationship."):
		return "BertForNextSentencePrediction"
	}
	return "BertModel"
}

// output collects what is written, in the names of the target.
func (f *Folder) output(t Target) (m output, rep Report, err error) {
	rep.Unexpected = slices.Clone(f.unexpected)
	m.architecture = f.architecture()
	shapes, err := f.shapes()
	if err != nil {
		return m, rep, fmt.Errorf("model %s: %w", f.file.Name(), err)
	}
	used := make(map[string]bool)
	wanted := func(name string) bool {
		if t.Format == TensorFlow && strings.HasPrefix(name, "bert.pooler.") {
			return true // google-research/bert has one always
		}
		return strings.HasPrefix(name, "bert.embeddings.") || strings.HasPrefix(name, "bert.encoder.") ||
			slices.ContainsFunc(parts[m.architecture], func(p string) bool { return strings.HasPrefix(name, p) })
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		if !wanted(name) {
			continue
		}
		stored, ok, err := f.find(f.parameters, name, used)
		if err != nil {
			return m, rep, err
		}
		if !ok {
			// A BertModel may be without a pooler, and so are those that never use it.
			if !strings.HasPrefix(name, "bert.pooler.") || m.architecture != "BertModel" && t.Format != TensorFlow {
				rep.Missing = append(rep.Missing, name)
			}
			continue
		}
		c, padded, err := f.content(f.parameters[stored], name, shapes[name])
		if err != nil {
			return m, rep, err
		}
		if padded {
			rep.Padded = append(rep.Padded, name)
		}
		if c = c.As(t.dtype(c.DType)); name == "bert.embeddings.word_embeddings.weight" {
			m.dtype = c.DType
		}
		if name == "classifier.bias" && m.architecture != "BertForMultipleChoice" {
			m.labels = c.Shape[0]
		}
		m.contents = append(m.contents, c)
	}
	if len(rep.Missing) > 0 {
		return m, rep, fmt.Errorf("model %s: as a %s with %d layers it lacks %s", f.file.Name(), m.architecture,
			f.Config.Model.NumHiddenLayers, some(rep.Missing))
	}
	for name, stored := range f.parameters {
		if !used[name] {
			rep.Unexpected = append(rep.Unexpected, stored.Name)
		}
	}
	m.aliases = make(map[string]string)
	for name, second := range tied {
		if slices.Contains(parts[m.architecture], "cls.predictions.") {
			m.aliases[second] = name
		}
	}
	if err := f.slotContents(&m, &rep, shapes, t.Format == TensorFlow); err != nil {
		return m, rep, err
	}
	for i, c := range m.contents {
		switch {
		case t.Format == TensorFlow:
			m.contents[i] = googleContent(c, "")
		case m.architecture == "BertModel":
			m.contents[i].Name = strings.TrimPrefix(c.Name, "bert.") // as transformers itself saves an encoder alone
		}
	}
	slices.Sort(rep.Unexpected)
	return m, rep, m.observe(t)
}

// observe lets the target know of the progress.
func (m *output) observe(t Target) error {
	if t.Progress == nil {
		return nil
	}
	all, total, done := [][]weights.Content{m.contents, m.optimizer}, int64(0), int64(0)
	for _, contents := range all {
		for i, c := range contents {
			n, err := c.Check()
			if err != nil {
				return err
			}
			total += n
			contents[i] = c.Observed(func(n int) error {
				done += int64(n)
				return t.Progress(done, total)
			})
		}
	}
	if t.Format == PyTorch {
		for _, c := range m.contents { // which takes two passes
			n, _ := c.Check()
			total += n
		}
	}
	return nil
}

// slotContents are the optimizer's slots and steps.
func (f *Folder) slotContents(m *output, rep *Report, shapes map[string]tensor.Shape, google bool) error {
	for _, slot := range f.Slots() {
		suffix := slices.IndexFunc(slotSuffixes, func(s struct{ slot, suffix string }) bool { return s.slot == slot })
		for _, name := range slices.Sorted(maps.Keys(f.slots[slot])) {
			t := f.slots[slot][name]
			shape, ok := shapes[name]
			if !ok || google && suffix < 0 {
				rep.Unexpected = append(rep.Unexpected, t.Name)
				continue
			}
			c, _, err := f.content(t, name, shape)
			if err != nil {
				return err
			}
			if google {
				c = googleContent(c, slotSuffixes[suffix].suffix)
			} else {
				c.Name = slot + "/" + name
			}
			m.optimizer = append(m.optimizer, c)
		}
	}
	if f.step != nil && len(m.optimizer) > 0 {
		m.optimizer = append(m.optimizer, f.step.Named(step).Content())
	}
	return nil
}

// googleContent is a parameter's content, or that of its slot, as google-research/bert stores it.
func googleContent(c weights.Content, suffix string) weights.Content {
	name, transposed := toTensorFlow(c.Name)
	if transposed {
		c = c.Transposed()
	}
	c.Name = name + suffix
	return c
}

// content is a stored tensor as a parameter of a shape, and whether its vocabulary was cut or filled up.
func (f *Folder) content(t weights.Tensor, name string, want tensor.Shape) (weights.Content, bool, error) {
	cut, zeros, err := f.fit(t, name, want)
	if err != nil {
		return weights.Content{}, false, err
	}
	c := cut.Named(name).Content()
	if zeros > 0 {
		c = c.Padded(want[0])
	}
	return c, !slices.Equal(t.Shape, want), nil
}

// shapes are those of all parameters that the configuration and the heads in the file make.
func (f *Folder) shapes() (map[string]tensor.Shape, error) {
	heads := []bert.Head{{Task: bert.Pretraining}, {Task: bert.QuestionAnswering}}
	if t, ok := f.parameters["classifier.bias"]; ok && len(t.Shape) == 1 && t.Shape[0] > 0 {
		heads = append(heads, bert.Head{Task: bert.Classification, Labels: t.Shape[0]})
	}
	shapes := make(map[string]tensor.Shape)
	for _, h := range heads {
		l, err := bert.Parameters(f.Config.Model, h)
		if err != nil {
			return nil, err
		}
		for _, p := range l.Tensors() {
			shapes[p.Name] = p.Shape
		}
	}
	return shapes, nil
}

// dtype is the type in which a parameter of a type is written.
func (t Target) dtype(stored tensor.DType) tensor.DType {
	switch {
	case t.DType != "":
		return t.DType
	case stored == tensor.F64:
		return tensor.F32
	}
	return stored
}

// some are a few of many names.
func some(names []string) string {
	const few = 4
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few-1], ", "), len(names)-few+1)
}
