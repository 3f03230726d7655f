package transformers

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
)

// write makes the recipe's file.
func (m *importer) write() []byte {
	var model, vocab settings
	size := m.modelSize(&model, &vocab)
	if len(m.layersPerIPU) > 0 {
		if stages, err := pipeline(m.layersPerIPU, size.NumHiddenLayers); err != nil {
			m.refuse("IPUConfig layers_per_ipu", err.Error())
		} else {
			m.ipuOptions.set("pipeline", strconv.Quote(stages))
		}
	}
	var out bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("# Imported from a command line of %s. With the seed of its run: --seed %s", m.command.Script, cmp.Or(m.seed, "42"))
	for _, list := range []struct {
		title string
		lines []string
	}{{"Not honoured", m.refused}, {"Mind that", m.notes}} {
		if len(list.lines) > 0 {
			line("# %s:", list.title)
		}
		for _, l := range list.lines {
			line("#   %s", oneLine(l))
		}
	}
	if len(m.harmless) > 0 {
		line("# Without a part in what is computed: %s", oneLine(strings.Join(m.harmless, ", ")))
	}
	line("doc: |")
	line("  %s of %s, as %s fine-tunes it.", m.dataset, oneLine(path.Base(m.model)), m.command.Script)
	line("source: |")
	line("  %s", m.commandLine())
	line("")
	line("model: %s", model.flow())
	line("vocab: %s", vocab.flow())
	line("data:")
	line("  kind: files")
	m.writeFiles(line)
	line("")
	line("phases:")
	line("- name: %s", m.dataset)
	line("  dataset: %s", m.dataset)
	line("  length: %d", m.length)
	line("  micro_batch: %d", m.batch)
	line("  accumulation: %d", m.accumulation)
	line("  replicas: %d", m.replicas)
	if m.maxSteps != "" {
		line("  steps: %s", m.maxSteps)
	} else {
		line("  epochs: %s", m.epochs)
	}
	line("  schedule: %s", m.schedule.flow())
	if m.optimizerName == "lamb" {
		m.optimizer.set("max_grad_norm", "0")
	}
	line("  optimizer: {name: %s, options: %s}", m.optimizerName, m.optimizer.flow())
	if len(m.answering.keys) > 0 {
		line("  question_answering: %s", m.answering.flow())
	}
	var evaluation settings
	if m.evaluates {
		if m.every == "" {
			m.every = "500" // logging_steps, which eval_steps follows
		}
		evaluation.set("every", m.every)
	}
	evaluation.set("batch", strconv.Itoa(m.evalBatch))
	if m.sequences != "" {
		evaluation.set("sequences", m.sequences)
	}
	if m.metric != "" {
		evaluation.set("metric", m.metric)
	}
	if m.best {
		evaluation.set("keep_best", "true")
	}
	line("  evaluation: %s", evaluation.flow())
	if m.onIPU || m.gpuPrecision != "" {
		line("")
		line("backends:")
	}
	if m.onIPU {
		m.ipuOptions.set("attention_mask_value", "model")
		line("  ipu:")
		line("    precision: %s", m.ipuPrecision)
		line("    options: %s", m.ipuOptions.flow())
	}
	if m.gpuPrecision != "" {
		line("  gpu-ref: {precision: %s}", m.gpuPrecision)
	}
	return out.Bytes()
}

// modelSize fills in the shape that the model's name stands for, and returns it.
func (m *importer) modelSize(model, vocab *settings) bert.Config {
	config := bert.Defaults()
	name := path.Base(m.model)
	found := false
	for _, known := range models {
		if !strings.HasPrefix(name, known.prefix) {
			continue
		}
		found = true
		model.set("size", known.size)
		model.set("vocab_size", strconv.Itoa(known.vocab))
		vocab.set("size", strconv.Itoa(known.vocab))
		vocab.set("lowercase", strconv.FormatBool(known.lowercase))
		config, _ = config.Size(known.size) // which is in the table
		break
	}
	if !found {
		model.set("size", "base")
		vocab.set("lowercase", strconv.FormatBool(!strings.Contains(name, "-cased")))
		if m.modelFolder == "" {
			m.refuse("--model_name_or_path "+m.model, "its shape is not known: taken for one of BERT-Base; a folder given by "+
				"--data model=FOLDER goes before")
		}
	}
	if m.modelFolder == "" {
		m.notes = append(m.notes, "the weights of "+m.model+" are not downloaded: give their folder by --data model=FOLDER, "+
			"or training starts from random ones")
	}
	model.set("hidden_act", "gelu") // with erf, as Hugging Face's BERT has it
	model.set("initializer", "normal")
	model.set("layer_norm_eps", "1e-12")
	mask := "-10000"
	if m.onIPU {
		mask = "-1000"
	}
	model.set("attention_mask_value", mask)
	return config
}

// writeFiles names the files that the command line names.
func (m *importer) writeFiles(line func(string, ...any)) {
	var files, of settings
	if m.modelFolder != "" {
		files.set("model", strconv.Quote(m.modelFolder))
	}
	if m.train != "" {
		of.set("train", strconv.Quote(m.train))
	}
	if m.dev != "" {
		of.set("dev", strconv.Quote(m.dev))
	}
	switch {
	case len(of.keys) == 0:
	case m.dataset == "squad":
		files.set("squad", of.flow())
	default:
		files.set("tasks", "{"+m.dataset+": "+of.flow()+"}")
	}
	if len(files.keys) > 0 {
		line("  files: %s", files.flow())
	}
}

// commandLine is the script's part of the command line, in one line.
func (m *importer) commandLine() string {
	words := []string{m.command.Script}
	for _, o := range m.command.Options {
		words = append(words, strings.TrimSpace("--"+oneLine(o.Name)+" "+oneLine(o.Value)))
	}
	return strings.Join(words, " ")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
