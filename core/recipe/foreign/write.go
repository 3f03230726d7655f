package foreign

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
)

// write returns the recipe's file: the first command's model and data, and a phase of each.
func write(all []*importer) []byte {
	m := all[0]
	var model, vocab settings
	size := m.modelSize(&model, &vocab)
	w := &writer{}
	if len(m.layersPerIPU) > 0 {
		if stages, err := pipeline(m.layersPerIPU, size.NumHiddenLayers); err != nil {
			m.refuse("IPUConfig layers_per_ipu", err.Error())
		} else {
			m.ipuOptions.set("pipeline", strconv.Quote(stages))
		}
	}
	m.writeHeader(w)
	w.line("model: %s", model.flow())
	w.line("vocab: %s", vocab.flow())
	w.line("data:")
	w.line("  kind: files")
	m.writeFiles(w)
	if m.heldOut != "" {
		w.line("  held_out: %s", m.heldOut)
	}
	w.line("")
	w.line("phases:")
	for _, m := range all {
		m.writePhase(w)
	}
	m.writeBackends(w)
	return w.Bytes()
}

// writer writes lines.
type writer struct{ bytes.Buffer }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// writeHeader writes what was imported and what the recipe leaves out.
func (m *importer) writeHeader(w *writer) {
	w.line("# Imported from a command line of %s. With the seed of its run: --seed %s", m.command.Script,
		cmp.Or(m.seed, m.defaultSeed, "42"))
	for _, list := range []struct {
		title string
		lines []string
	}{{"Not honoured", m.refused}, {"Mind that", m.notes}} {
		if len(list.lines) > 0 {
			w.line("# %s:", list.title)
		}
		for _, l := range list.lines {
			w.line("#   %s", oneLine(l))
		}
	}
	if len(m.harmless) > 0 {
		w.line("# Without a part in what is computed: %s", oneLine(strings.Join(m.harmless, ", ")))
	}
	w.line("doc: |")
	if m.command.program.task == bert.Pretraining {
		w.line("  %s, as %s of %s pre-trains it.", oneLine(path.Base(m.shape)), m.command.Script, m.command.program.family.name)
	} else {
		w.line("  %s of %s, as %s of %s fine-tunes it.", m.dataset, oneLine(path.Base(m.shape)), m.command.Script,
			m.command.program.family.name)
	}
	w.line("source: |")
	w.line("  %s", m.commandLine())
	w.line("")
}

// writePhase writes a phase.
func (m *importer) writePhase(w *writer) {
	if m.command.program.task == bert.Pretraining {
		w.line("- name: %s", m.phase)
		w.line("  task: %s", bert.Pretraining)
		w.line("  max_predictions: %s", m.maxPredictions)
		w.line("  masking: %s", m.masking.flow())
	} else {
		w.line("- name: %s", m.dataset)
		w.line("  dataset: %s", m.dataset)
	}
	w.line("  length: %d", m.length)
	w.line("  micro_batch: %d", m.batch)
	w.line("  accumulation: %d", m.accumulation)
	w.line("  replicas: %d", m.replicas)
	if m.maxSteps != "" {
		w.line("  steps: %s", m.maxSteps)
	} else {
		w.line("  epochs: %s", m.epochs)
	}
	w.line("  schedule: %s", m.schedule.flow())
	if m.command.carries {
		w.line("  carry_optimizer_state: true")
	}
	if m.optimizerName == "lamb" && m.command.program.family == &transformers {
		m.optimizer.set("max_grad_norm", "0")
	}
	w.line("  optimizer: {name: %s, options: %s}", m.optimizerName, m.optimizer.flow())
	if len(m.answering.keys) > 0 {
		w.line("  question_answering: %s", m.answering.flow())
	}
	w.line("  evaluation: %s", m.evaluation().flow())
}

// evaluation returns the phase's settings of evaluation.
func (m *importer) evaluation() *settings {
	e := new(settings)
	if m.evaluates {
		e.set("every", cmp.Or(m.every, "500")) // without eval_steps the script uses logging_steps, 500 by default
	}
	e.set("batch", strconv.Itoa(m.evalBatch))
	if m.sequences != "" {
		e.set("sequences", m.sequences)
	}
	if m.metric != "" {
		e.set("metric", m.metric)
	}
	if m.best {
		e.set("keep_best", "true")
	}
	return e
}

// writeBackends writes the settings for an IPU or a GPU.
func (m *importer) writeBackends(w *writer) {
	if m.onIPU || m.gpuPrecision != "" {
		w.line("")
		w.line("backends:")
	}
	if m.onIPU {
		m.ipuOptions.set("attention_mask_value", "model")
		if m.ipuPrecision != "fp32" {
			// optimum-graphcore accumulates gradients in FP16, whose mean PopTorch then keeps running.
			m.ipuOptions.set("accumulation", "running_mean")
		}
		w.line("  ipu:")
		w.line("    precision: %s", m.ipuPrecision)
		w.line("    options: %s", m.ipuOptions.flow())
	}
	if m.gpuPrecision != "" {
		if m.gpuPrecision != "fp16" || len(m.gpuOptions.keys) == 0 {
			w.line("  gpu-ref: {precision: %s}", m.gpuPrecision)
		} else {
			w.line("  gpu-ref: {precision: %s, options: %s}", m.gpuPrecision, m.gpuOptions.flow())
		}
	}
}

// writeFiles names the files that the command line names.
func (m *importer) writeFiles(w *writer) {
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
	if m.vocabulary != "" && unset.FindString(m.vocabulary) == "" {
		files.set("vocab", strconv.Quote(m.vocabulary))
	}
	switch {
	case m.command.program.task == bert.Pretraining:
		if m.train != "" {
			files.set("text", "["+strconv.Quote(m.train)+"]")
		}
	case len(of.keys) == 0:
	case m.dataset == "squad":
		files.set("squad", of.flow())
	default:
		files.set("tasks", "{"+m.dataset+": "+of.flow()+"}")
	}
	if len(files.keys) > 0 {
		w.line("  files: %s", files.flow())
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
