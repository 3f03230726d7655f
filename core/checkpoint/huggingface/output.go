package huggingface

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// output is a Folder's content in the form of the target.
type output struct {
	architecture string
	labels       int // of a classifier
	dtype        tensor.DType
	contents     []weights.Content // sorted by name
	optimizer    []weights.Content
	aliases      map[string]string // second names of tied parameters, for formats that store them for free
}

// parts lists the prefixes of an architecture's parameters besides embeddings and encoder.
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

// architecture derives the class of transformers from the parameters, and from the configuration where several
// classes have the same ones.
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

// output collects what to write, under the target's names.
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
			return true // google-research/bert always has one
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
			// A BertModel may lack the pooler, like models that never use it.
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

// observe reports progress to the target.
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
		for _, c := range m.contents { // data are read twice
			n, _ := c.Check()
			total += n
		}
	}
	return nil
}

// slotContents adds the optimizer's slots and step counter.
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

// googleContent converts a parameter, or its slot, to google-research/bert's name and layout.
func googleContent(c weights.Content, suffix string) weights.Content {
	name, transposed := toTensorFlow(c.Name)
	if transposed {
		c = c.Transposed()
	}
	c.Name = name + suffix
	return c
}

// content returns a stored tensor as a parameter of a shape, and whether its vocabulary was cut or padded.
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

// shapes returns the shapes of all parameters that the configuration and the file's heads imply.
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

// dtype returns the type in which a parameter of a stored type is written.
func (t Target) dtype(stored tensor.DType) tensor.DType {
	switch {
	case t.DType != "":
		return t.DType
	case stored == tensor.F64:
		return tensor.F32
	}
	return stored
}

// some lists the first few of many names.
func some(names []string) string {
	const few = 4
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few-1], ", "), len(names)-few+1)
}
