package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"harness.invalid/core/checkpoint"
	"harness.invalid/core/checkpoint/huggingface"
	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
	"harness.invalid/core/tensor"
	"harness.invalid/core/wordpiece"
	"harness.invalid/harness/pretrained"
)

func newConvert() *cobra.Command {
	var o conversion
	cmd := &cobra.Command{
		Use:   "convert FROM TO",
		Short: "Convert a model between the formats of Hugging Face, PyTorch and TensorFlow",
		Long: `Convert reads a model in whatever format it is and writes it in another one, or in another type. FROM is

  a folder of Hugging Face's    config.json with model.safetensors, shards with an index, or pytorch_model.bin
  a folder of Google's          bert_config.json with bert_model.ckpt.index and its data, or the checkpoint's prefix
  a file of tensors             safetensors, or what torch.save wrote, with the configuration beside it or given by --config
  a run of harness              or one of its checkpoints

TO is a folder that transformers loads without a warning (or, with --format tensorflow, google-research/bert), or a file by its ending: .safetensors,
.bin, .pt, .pth or .ckpt, which gets the parameters alone; without a configuration a file gets all tensors as they are. Parameters go by today's names, tied ones are stored once, vocabularies that were padded
have the length that the configuration says. Optimizer slots that are stored with the model go along: optimizer.safetensors, or NAME/adam_m and
NAME/adam_v in a TensorFlow checkpoint. What is left out is told. Files of torch.save are read without running the code that they may hold.`,
		Example: `  harness convert uncased_L-2_H-128_A-2 bert-tiny
  harness convert pytorch_model.bin bert-base --config config.json --vocab vocab.txt
  harness convert bert-tiny bert-tiny-bf16 --dtype bf16
  harness convert bert-tiny google/bert-tiny --format tensorflow`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0], args[1]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.format, "format", "", "safetensors, pytorch or tensorflow (default: by the ending of TO, else safetensors)")
	f.StringVar(&o.dtype, "dtype", "", "fp32, fp16 or bf16 (default: as they are)")
	f.StringVar(&o.config, "config", "", "configuration, when it is not beside FROM: a config.json or bert_config.json")
	f.StringVar(&o.vocab, "vocab", "", "vocabulary, when it is not beside FROM: one token a line")
	f.BoolVar(&o.cased, "cased", false, "say in the tokenizer's files that case and accents are kept")
	f.StringVar(&o.shard, "shard-size", "", "greatest size of a file of safetensors, such as 5GB (default: one file)")
	f.BoolVar(&o.quiet, "quiet", false, "errors only")
	return cmd
}

// conversion are the flags of convert.
type conversion struct {
	format, dtype, config, vocab, shard string
	cased, quiet                        bool
}

// dtypes are the types that parameters are stored in, by the names that recipes and other programs have for them.
var dtypes = map[string]tensor.DType{
	"fp32": tensor.F32, "float32": tensor.F32, "fp16": tensor.F16, "float16": tensor.F16, "bf16": tensor.BF16, "bfloat16": tensor.BF16,
}

// endings are the formats of files by the ends of their names.
var endings = map[string]huggingface.Format{
	".safetensors": huggingface.Safetensors, ".bin": huggingface.PyTorch, ".pt": huggingface.PyTorch, ".pth": huggingface.PyTorch, ".ckpt": huggingface.TensorFlow,
}

func (o *conversion) run(cmd *cobra.Command, from, to string) (err error) {
	target, file, err := o.target(to)
	if err != nil {
		return err
	}
	show := newProgress(cmd.ErrOrStderr(), o.quiet)
	defer show.close()
	observe, done := show.task("convert")
	defer done()
	target.Progress = func(now, total int64) error {
		observe(now, total)
		return cmd.Context().Err()
	}
	model, tokenizer, err := openModel(from, o.config, show.say)
	if file && o.config == "" && errors.Is(err, fs.ErrNotExist) {
		if plain, plainErr := huggingface.OpenTensors(from); plainErr == nil {
			show.say("no configuration lies beside %s: all tensors go as they are, by their own names", from)
			return errors.Join(huggingface.Copy(plain, to, target), plain.Close())
		}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	if target.Tokenizer, err = o.tokenizer(model, tokenizer); err != nil {
		return err
	}
	var rep huggingface.Report
	if file {
		rep, err = model.WriteFile(to, target)
	} else {
		rep, err = model.Write(to, target)
	}
	if err != nil {
		return err
	}
	if len(rep.Unexpected) > 0 {
		show.say("left out: %s", listed(rep.Unexpected))
	}
	if len(rep.Padded) > 0 {
		show.say("cut or filled up to a vocabulary of %d: %s", model.Config.Model.VocabSize, strings.Join(rep.Padded, ", "))
	}
	for _, note := range rep.Notes {
		show.say("%s", note)
	}
	if _, err := os.Stat(filepath.Join(to, "vocab.txt")); !file && errors.Is(err, fs.ErrNotExist) {
		show.say("no vocabulary was found, so %s has no tokenizer: name one with --vocab", to)
	}
	show.say("%s: %s from %s", to, target.Format, model.Format())
	return nil
}

// listed are names in a line; of more than a few those at the start.
func listed(names []string) string {
	const few = 10
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// target is what the flags and the name of TO ask for, and whether TO is a file.
func (o *conversion) target(to string) (t huggingface.Target, file bool, err error) {
	t.Format, file = endings[filepath.Ext(to)]
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		t.Format, file = "", false
	}
	switch wanted := huggingface.Format(o.format); {
	case wanted == "" && !file:
		t.Format = huggingface.Safetensors
	case wanted == "":
	case !slices.Contains(huggingface.Formats(), o.format):
		return t, file, fmt.Errorf("--format is %q, want one of %s%s", o.format, strings.Join(huggingface.Formats(), ", "), spelling.Hint(o.format, huggingface.Formats()))
	case file && wanted != t.Format:
		return t, file, fmt.Errorf("--format is %s, and %s is a file of %s: name a folder, or a file with another ending", wanted, to, t.Format)
	default:
		t.Format = wanted
	}
	if o.dtype != "" {
		if t.DType = dtypes[strings.ToLower(o.dtype)]; t.DType == "" {
			known := []string{"fp32", "fp16", "bf16"}
			return t, file, fmt.Errorf("--dtype is %q, want one of %s%s", o.dtype, strings.Join(known, ", "), spelling.Hint(o.dtype, known))
		}
	}
	if o.shard != "" {
		if t.ShardBytes, err = parseBytes(o.shard); err != nil {
			return t, file, fmt.Errorf("--shard-size is %q, %w", o.shard, err)
		}
		if file || t.Format != huggingface.Safetensors {
			return t, file, errors.New("--shard-size is for a folder with safetensors")
		}
	}
	return t, file, nil
}

// parseBytes reads a size such as 5GB or 512MiB.
func parseBytes(s string) (int64, error) {
	number := strings.TrimRightFunc(s, func(r rune) bool { return r != '.' && !unicode.IsDigit(r) })
	unit, ok := map[string]float64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}[strings.ToUpper(strings.TrimSpace(s[len(number):]))]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || !(n*unit >= 1 && n*unit < 1<<60) {
		return 0, errors.New("want a size such as 500MB or 5GB")
	}
	return int64(n * unit), nil
}

// tokenizer is what --vocab and --cased ask for; nil leaves it to what lies beside the model.
func (o *conversion) tokenizer(model *huggingface.Folder, found *huggingface.Tokenizer) (*huggingface.Tokenizer, error) {
	length := model.Config.Model.MaxPositionEmbeddings
	switch {
	case o.vocab != "":
		v, err := wordpiece.Load(o.vocab)
		if err != nil {
			return nil, err
		}
		return &huggingface.Tokenizer{Vocab: v, Options: wordpiece.HuggingFace(!o.cased), MaxLength: length}, nil
	case found != nil:
		found.MaxLength = length
	case o.cased:
		t, err := huggingface.ReadTokenizer(model.Dir())
		if err != nil {
			return nil, withHint(err, "name the vocabulary with --vocab")
		}
		t.MaxLength = length
		found = &t
	}
	if found != nil && o.cased {
		found.Options = wordpiece.HuggingFace(false)
	}
	return found, nil
}

// openModel opens a model in any format, or one of a run. A tokenizer is returned for the latter, which has no files of its own. say tells what of a run it is.
func openModel(from, config string, say func(format string, args ...any)) (*huggingface.Folder, *huggingface.Tokenizer, error) {
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
			err = withHint(err, "name the configuration with --config")
		}
	}
	return f, nil, err
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

// openCheckpoint opens the checkpoint at, or the newest one of a run.
func openCheckpoint(run, at string) (*checkpoint.Checkpoint, error) {
	if at != "" {
		return checkpoint.Open(at)
	}
	c, _, err := checkpoint.Latest(filepath.Join(run, "checkpoints"))
	return c, err
}

// openRun opens a checkpoint of a run as a model. The recipe says what its configuration is, and where the vocabulary lies.
func openRun(run, at string, say func(format string, args ...any)) (*huggingface.Folder, *huggingface.Tokenizer, error) {
	c, err := openCheckpoint(run, at)
	if err != nil {
		return nil, nil, err
	}
	at = c.ModelFile()
	if err := c.Close(); err != nil {
		return nil, nil, err
	}
	if c.Averaged {
		say("the parameters are the average of %s that evaluations are of, not those that it trained at", c.Optimizer.Name)
	}
	r, err := recipe.Load(filepath.Join(run, "recipe.yaml"))
	if err != nil {
		return nil, nil, err
	}
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

// runTokenizer is what a run was trained with, from where the run had it; nil when that is no longer there.
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

// runConfig is the configuration of a run's model. Its vocabulary is as long as the checkpoint has it.
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
