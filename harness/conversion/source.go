package conversion

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"harness.invalid/core/checkpoint"
	"harness.invalid/core/checkpoint/huggingface"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/recipe"
	"harness.invalid/core/wordpiece"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/pretrained"
	"harness.invalid/results"
)

// Open opens a model in any format, or the model of a run. A run has no tokenizer's files of its own, so its
// tokenizer is returned as well. config is a file with the configuration; "": it lies beside the model. say tells
// which parameters of a run these are.
func Open(from, config string, say func(format string, args ...any)) (*huggingface.Folder, *huggingface.Tokenizer, error) {
	if config != "" {
		c, err := huggingface.ReadConfig(config)
		if err != nil {
			return nil, nil, err
		}
		f, err := huggingface.OpenWith(from, c)
		return f, nil, err
	}
	if run, at, ok := checkpointOf(from); ok {
		return openRun(run, at, say)
	}
	f, err := huggingface.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		if _, missing := os.Stat(from); missing == nil {
			err = hint.With(err, "name the configuration with --config")
		}
	}
	return f, nil, err
}

// OpenTensors opens the tensors of a model, whatever its format; of a run those of its newest checkpoint.
func OpenTensors(from string) (*weights.File, error) {
	if run, at, ok := checkpointOf(from); ok {
		c, err := openCheckpoint(run, at, func(string, ...any) {})
		if err != nil {
			return nil, err
		}
		from = c.ModelFile()
		if err := c.Close(); err != nil {
			return nil, err
		}
	}
	return huggingface.OpenTensors(from)
}

// checkpointOf finds the folder of a run and one of its checkpoints: from itself, or the newest of the run from.
func checkpointOf(from string) (run, at string, ok bool) {
	isFile := func(elem ...string) bool {
		info, err := os.Stat(filepath.Join(elem...))
		return err == nil && info.Mode().IsRegular()
	}
	switch {
	case isFile(from, "config.json"):
		return "", "", false
	case isFile(from, "state.json") && isFile(from, "..", "..", "recipe.yaml"):
		return filepath.Join(from, "..", ".."), from, true
	case isFile(from, "run.json"):
		return from, "", true
	}
	return "", "", false
}

// openCheckpoint opens the checkpoint at, or the newest one of a run that is intact.
func openCheckpoint(run, at string, say func(format string, args ...any)) (*checkpoint.Checkpoint, error) {
	if at != "" {
		return checkpoint.Open(at)
	}
	c, damaged, err := checkpoint.Latest(filepath.Join(run, "checkpoints"))
	if err == nil {
		for _, d := range damaged {
			say("a newer checkpoint was not used: %v", d)
		}
	}
	return c, err
}

// openRun opens a checkpoint of a run as a model. The recipe gives its configuration, and the place of the vocabulary.
func openRun(run, at string, say func(format string, args ...any)) (*huggingface.Folder, *huggingface.Tokenizer, error) {
	c, err := openCheckpoint(run, at, say)
	if err != nil {
		return nil, nil, err
	}
	at = c.ModelFile()
	if err := c.Close(); err != nil {
		return nil, nil, err
	}
	if c.Averaged {
		say("the parameters are the average that %s evaluates with, not those that it trains at", c.Optimizer.Name)
	}
	record, err := results.Open(run)
	if err != nil {
		return nil, nil, err
	}
	r := record.Recipe
	if c.PhaseIndex < 0 || c.PhaseIndex >= len(r.Phases) {
		return nil, nil, fmt.Errorf("checkpoint %s is of phase %d, and the recipe of the run has %d", c.Path, c.PhaseIndex+1, len(r.Phases))
	}
	config, err := runConfig(r, &r.Phases[c.PhaseIndex], at)
	if err != nil {
		return nil, nil, err
	}
	f, err := huggingface.OpenWith(at, config)
	if err != nil {
		return nil, nil, err
	}
	t, err := runTokenizer(r, run)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, t, nil
}

// runTokenizer returns the tokenizer that a run was trained with, from where the run had it; nil if it is no longer
// there.
func runTokenizer(r *recipe.Recipe, run string) (t *huggingface.Tokenizer, err error) {
	files := r.Data.Files
	vocab := filepath.Join(run, "..", "data", "vocab.txt") // learned from the text
	switch {
	case files.Vocab != "":
		vocab = files.Vocab
	case len(files.Prepared) > 0:
		vocab = filepath.Join(files.Prepared[0], "vocab.txt")
	case files.Model != "":
		vocab = ""
	}
	t = &huggingface.Tokenizer{Options: wordpiece.HuggingFace(r.Vocab.Lowercase)}
	if vocab == "" {
		*t, err = huggingface.ReadTokenizer(files.Model)
	} else {
		t.Vocab, err = wordpiece.Load(vocab)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return t, err
}

// runConfig returns the configuration of a run's model. The vocabulary has the length that it has in the checkpoint.
func runConfig(r *recipe.Recipe, p *recipe.Phase, at string) (huggingface.Config, error) {
	const words = "bert.embeddings.word_embeddings.weight"
	f, err := huggingface.OpenTensors(at)
	if err != nil {
		return huggingface.Config{}, err
	}
	t, ok := f.Tensor(words)
	if err := f.Close(); err != nil {
		return huggingface.Config{}, err
	}
	if !ok || len(t.Shape) != 2 {
		return huggingface.Config{}, fmt.Errorf("checkpoint %s holds no %s", at, words)
	}
	model, err := r.ModelConfig(t.Shape[0])
	if err != nil {
		return huggingface.Config{}, err
	}
	return pretrained.Config(p, p.PhaseModel(model))
}
