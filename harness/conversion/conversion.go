// Package conversion converts models between the formats of Hugging Face, PyTorch and TensorFlow, and opens them in
// any of these, or from a run.
package conversion

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

	"harness.invalid/core/checkpoint/huggingface"
	"harness.invalid/core/spelling"
	"harness.invalid/core/tensor"
	"harness.invalid/core/wordpiece"
	"harness.invalid/harness/hint"
)

// Conversion says what is converted, and into what.
type Conversion struct {
	From, To string // see harness convert --help

	Format string // safetensors, pytorch or tensorflow; "": by the ending of To, or else safetensors
	DType  string // fp32, fp16 or bf16; "": as the parameters are
	Config string // file with the configuration; "": beside From
	Vocab  string // file with the vocabulary; "": beside From
	Cased  bool   // the tokenizer keeps case and accents
	Shard  string // greatest size of a file of safetensors, such as 5GB; "": one file

	Progress func(done, total int64) error    // see huggingface.Target
	Say      func(format string, args ...any) // gets notes for people, such as what is left out
}

// dtypes are the types that parameters are stored in, by the names that recipes and other programs have for them.
var dtypes = map[string]tensor.DType{
	"fp32": tensor.F32, "float32": tensor.F32, "fp16": tensor.F16, "float16": tensor.F16, "bf16": tensor.BF16, "bfloat16": tensor.BF16,
}

// endings are the formats of files by the ends of their names.
var endings = map[string]huggingface.Format{
	".safetensors": huggingface.Safetensors, ".ckpt": huggingface.TensorFlow,
	".bin": huggingface.PyTorch, ".pt": huggingface.PyTorch, ".pth": huggingface.PyTorch,
}

// Run converts the model.
func (c *Conversion) Run() (err error) {
	target, file, err := c.target()
	if err != nil {
		return err
	}
	if err := c.spares(); err != nil {
		return err
	}
	target.Progress = c.Progress
	model, tokenizer, err := Open(c.From, c.Config, c.Say)
	if file && c.Config == "" && errors.Is(err, fs.ErrNotExist) {
		if plain, plainErr := huggingface.OpenTensors(c.From); plainErr == nil {
			c.Say("no configuration lies beside %s: all tensors are copied under their own names", c.From)
			return errors.Join(huggingface.Copy(plain, c.To, target), plain.Close())
		}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	if target.Tokenizer, err = c.tokenizer(model, tokenizer); err != nil {
		return err
	}
	write := model.Write
	if file {
		write = model.WriteFile
	}
	report, err := write(c.To, target)
	if err != nil {
		return err
	}
	c.tell(model, &report)
	if _, err := os.Stat(filepath.Join(c.To, "vocab.txt")); !file && errors.Is(err, fs.ErrNotExist) {
		c.Say("no vocabulary was found, so %s has no tokenizer: name one with --vocab", c.To)
	}
	c.Say("%s: %s from %s", c.To, target.Format, model.Format())
	return nil
}

// spares reports a To that would replace From, or files of a run, whose parameters are there in no other place. From and
// To may be written differently, or be links.
func (c *Conversion) spares() error {
	to, err := os.Stat(c.To)
	if err != nil {
		return nil // there is nothing to replace; what else is wrong with it will show when it is written
	}
	same := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && os.SameFile(info, to)
	}
	for _, source := range []string{c.From, filepath.Dir(c.From)} {
		if same(source) {
			return fmt.Errorf("%s would be replaced by what is made of it: name another place for the result than %s", c.From, c.To)
		}
	}
	if !to.IsDir() {
		to, err = os.Stat(filepath.Dir(c.To))
		if err == nil && same(c.From) {
			return fmt.Errorf("%s is a part of %s: name another place for the result", c.To, c.From)
		}
		return nil
	}
	for _, name := range []string{"run.json", "state.json"} {
		if _, err := os.Stat(filepath.Join(c.To, name)); err == nil {
			return fmt.Errorf("%s belongs to a run (it has %s): name another place for the result", c.To, name)
		}
	}
	return nil
}

// tell says how the result differs from the source.
func (c *Conversion) tell(model *huggingface.Folder, r *huggingface.Report) {
	if len(r.Unexpected) > 0 {
		c.Say("left out: %s", listed(r.Unexpected))
	}
	if len(r.Padded) > 0 {
		c.Say("cut or padded to a vocabulary of %d: %s", model.Config.Model.VocabSize, strings.Join(r.Padded, ", "))
	}
	for _, note := range r.Notes {
		c.Say("%s", note)
	}
}

// listed joins names, of many only the first.
func listed(names []string) string {
	const few = 10
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// target returns what the fields and the name of To ask for, and whether To is a file.
func (c *Conversion) target() (t huggingface.Target, file bool, err error) {
	t.Format, file = endings[filepath.Ext(c.To)]
	if info, err := os.Stat(c.To); err == nil && info.IsDir() {
		t.Format, file = "", false
	}
	switch wanted := huggingface.Format(c.Format); {
	case wanted == "" && !file:
		t.Format = huggingface.Safetensors
	case wanted == "":
	case !slices.Contains(huggingface.Formats(), c.Format):
		known := huggingface.Formats()
		return t, file, fmt.Errorf("--format is %q, want one of %s%s", c.Format, strings.Join(known, ", "), spelling.Hint(c.Format, known))
	case file && wanted != t.Format:
		return t, file, fmt.Errorf("--format is %s, and %s is a file of %s: name a folder, or a file with another ending", wanted, c.To, t.Format)
	default:
		t.Format = wanted
	}
	if c.DType != "" {
		if t.DType = dtypes[strings.ToLower(c.DType)]; t.DType == "" {
			known := []string{"fp32", "fp16", "bf16"}
			return t, file, fmt.Errorf("--dtype is %q, want one of %s%s", c.DType, strings.Join(known, ", "), spelling.Hint(c.DType, known))
		}
	}
	if c.Shard != "" {
		if t.ShardBytes, err = parseBytes(c.Shard); err != nil {
			return t, file, fmt.Errorf("--shard-size is %q, %w", c.Shard, err)
		}
		if file || t.Format != huggingface.Safetensors {
			return t, file, errors.New("--shard-size is for a folder with safetensors")
		}
	}
	return t, file, nil
}

// byteUnits are the units of sizes, in capitals.
var byteUnits = map[string]float64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}

// parseBytes reads a size such as 5GB or 512MiB.
func parseBytes(s string) (int64, error) {
	number := strings.TrimRightFunc(s, func(r rune) bool { return r != '.' && !unicode.IsDigit(r) })
	unit, ok := byteUnits[strings.ToUpper(strings.TrimSpace(s[len(number):]))]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || !(n*unit >= 1 && n*unit < 1<<60) {
		return 0, errors.New("want a size such as 500MB or 5GB")
	}
	return int64(n * unit), nil
}

// tokenizer returns the tokenizer to write; nil stands for the files that lie beside the model.
func (c *Conversion) tokenizer(model *huggingface.Folder, found *huggingface.Tokenizer) (*huggingface.Tokenizer, error) {
	length := model.Config.Model.MaxPositionEmbeddings
	switch {
	case c.Vocab != "":
		v, err := wordpiece.Load(c.Vocab)
		if err != nil {
			return nil, err
		}
		return &huggingface.Tokenizer{Vocab: v, Options: wordpiece.HuggingFace(!c.Cased), MaxLength: length}, nil
	case found != nil:
		found.MaxLength = length
	case c.Cased:
		t, err := huggingface.ReadTokenizer(model.Dir())
		if err != nil {
			return nil, hint.With(err, "name the vocabulary with --vocab")
		}
		t.MaxLength = length
		found = &t
	}
	if found != nil && c.Cased {
		found.Options = wordpiece.HuggingFace(false)
	}
	return found, nil
}
