package huggingface

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/core/jsonerror"
	"harness.invalid/core/wordpiece"
)

// The files of a tokenizer.
const (
	vocabFile           = "vocab.txt"
	tokenizerFile       = "tokenizer.json"
	tokenizerConfigFile = "tokenizer_config.json"
	specialTokensFile   = "special_tokens_map.json"
)

var tokenizerFiles = []string{vocabFile, tokenizerFile, tokenizerConfigFile, specialTokensFile}

// Tokenizer is a model's vocabulary and the options of its tokenizer.
type Tokenizer struct {
	Vocab     *wordpiece.Vocab
	Options   wordpiece.Options
	MaxLength int // longest sequence of the model; 0: not given
}

// New returns the tokenizer itself.
func (t Tokenizer) New() (*wordpiece.Tokenizer, error) { return wordpiece.New(t.Vocab, t.Options) }

// tokenizerConfig is a tokenizer_config.json. Source: transformers, BertTokenizer's arguments and their defaults.
type tokenizerConfig struct {
	Lower        *bool    `json:"do_lower_case"`
	StripAccents *bool    `json:"strip_accents"`
	SplitChinese *bool    `json:"tokenize_chinese_chars"`
	MaxLength    *float64 `json:"model_max_length"` // 1e30 stands for no limit
	Class        string   `json:"tokenizer_class"`
}

// tokenizerJSON is the part of a BERT's tokenizer.json that matters here. Source: the tokenizers library,
// BertNormalizer and WordPiece.
type tokenizerJSON struct {
	Normalizer *struct {
		Type         string `json:"type"`
		SplitChinese *bool  `json:"handle_chinese_chars"`
		StripAccents *bool  `json:"strip_accents"`
		Lower        *bool  `json:"lowercase"`
	} `json:"normalizer"`
	Model struct {
		Type    string         `json:"type"`
		Unknown string         `json:"unk_token"`
		Prefix  string         `json:"continuing_subword_prefix"`
		Max     *int           `json:"max_input_chars_per_word"`
		Vocab   map[string]int `json:"vocab"`
	} `json:"model"`
}

// ReadTokenizer reads the tokenizer of a model folder: vocab.txt or, without one, tokenizer.json. The options come
// from tokenizer_config.json and tokenizer.json; without them text is lower-cased unless the vocabulary has
// upper-case letters. A folder of google-research/bert, which has neither file, gets the options of its own
// program.
func ReadTokenizer(dir string) (Tokenizer, error) {
	fail := func(err error) (Tokenizer, error) { return Tokenizer{}, fmt.Errorf("tokenizer %s: %w", dir, err) }
	var full tokenizerJSON
	fullErr := readJSON(filepath.Join(dir, tokenizerFile), &full)
	if fullErr != nil && !errors.Is(fullErr, fs.ErrNotExist) {
		return fail(fullErr)
	}
	var config tokenizerConfig
	configErr := readJSON(filepath.Join(dir, tokenizerConfigFile), &config)
	if configErr != nil && !errors.Is(configErr, fs.ErrNotExist) {
		return fail(configErr)
	}
	var t Tokenizer
	var err error
	if t.Vocab, err = wordpiece.Load(filepath.Join(dir, vocabFile)); errors.Is(err, fs.ErrNotExist) {
		if fullErr != nil {
			return fail(bounded.As(fs.ErrNotExist, "there is no %s and no %s", vocabFile, tokenizerFile))
		}
		t.Vocab, err = full.vocab(filepath.Join(dir, tokenizerFile))
	}
	if err != nil {
		return fail(err)
	}
	lower := !hasUpper(t.Vocab)
	if n := full.Normalizer; n != nil && n.Lower != nil {
		lower = *n.Lower
	} else if config.Lower != nil {
		lower = *config.Lower
	}
	if fullErr != nil && configErr != nil {
		t.Options = wordpiece.Google(lower)
		return t, nil
	}
	t.Options = wordpiece.HuggingFace(lower)
	if n := full.Normalizer; n != nil {
		set(&t.Options.StripAccents, n.StripAccents)
		set(&t.Options.SplitChinese, n.SplitChinese)
	} else {
		set(&t.Options.StripAccents, config.StripAccents)
		set(&t.Options.SplitChinese, config.SplitChinese)
	}
	if full.Model.Max != nil {
		t.Options.MaxCharsPerWord = *full.Model.Max
	}
	if n := config.MaxLength; n != nil && *n >= 1 && *n < 1<<30 {
		t.MaxLength = int(*n)
	}
	return t, nil
}

func set(dst *bool, v *bool) {
	if v != nil {
		*dst = *v
	}
}

// mostTokenizer is the size of a file of a tokenizer that is read.
const mostTokenizer = 256 * bounded.MiB

func readJSON(path string, v any) error {
	text, err := bounded.ReadFile(path, mostTokenizer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", path, jsonerror.Explain(text, err))
	}
	return nil
}

// vocab is the vocabulary of a tokenizer.json, whose ids must be 0 to n-1.
func (t *tokenizerJSON) vocab(path string) (*wordpiece.Vocab, error) {
	m := t.Model
	is := func(got, want string) bool { return got == "" || got == want }
	if !is(m.Type, "WordPiece") || !is(m.Prefix, wordpiece.Continuing) || !is(m.Unknown, wordpiece.Unk) {
		return nil, fmt.Errorf("%s: model is %q with the prefix %q and %q for unknown words, want WordPiece with %q and %q",
			path, m.Type, m.Prefix, m.Unknown, wordpiece.Continuing, wordpiece.Unk)
	}
	tokens := make([]string, len(m.Vocab))
	for token, id := range m.Vocab {
		if id < 0 || id >= len(tokens) || tokens[id] != "" {
			return nil, fmt.Errorf("%s: token %q has the id %d, want each of 0 to %d once", path, token, id, len(tokens)-1)
		}
		tokens[id] = token
	}
	return wordpiece.NewVocab(path, tokens)
}

// hasUpper reports whether a vocabulary has upper-case letters, which lower-cased text never needs.
func hasUpper(v *wordpiece.Vocab) bool {
	for id := range v.Len() {
		if token := v.Token(int32(id)); !strings.HasPrefix(token, "[") && strings.ToLower(token) != token {
			return true
		}
	}
	return false
}

// Save writes a tokenizer's files into a folder, as transformers' BertTokenizerFast does.
func (t Tokenizer) Save(dir string) error {
	fail := func(err error) error { return fmt.Errorf("tokenizer %s: %w", dir, err) }
	files, err := t.files()
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fail(err)
	}
	for _, name := range tokenizerFiles {
		if err := saveFile(filepath.Join(dir, name), files[name]); err != nil {
			return fail(err)
		}
	}
	return nil
}

// special lists the tokens that a model needs under transformers' names.
var special = []struct{ key, token string }{
	{"cls_token", wordpiece.Cls},
	{"mask_token", wordpiece.Mask},
	{"pad_token", wordpiece.Pad},
	{"sep_token", wordpiece.Sep},
	{"unk_token", wordpiece.Unk},
}

// files are the contents of a tokenizer's files by name.
func (t Tokenizer) files() (map[string][]byte, error) {
	ids := make(map[string]int32)
	names := make(map[string]any)
	for _, s := range special {
		id, err := t.Vocab.Special(s.token)
		if err != nil {
			return nil, err
		}
		ids[s.token], names[s.key] = id, s.token
	}
	specials, err := marshalIndent(names)
	if err != nil {
		return nil, err
	}
	config := map[string]any{
		"clean_up_tokenization_spaces": true,
		"do_lower_case":                t.Options.Lower,
		"tokenize_chinese_chars":       t.Options.SplitChinese,
		"strip_accents":                nil,
		"tokenizer_class":              "BertTokenizer",
	}
	if t.Options.StripAccents != t.Options.Lower {
		config["strip_accents"] = t.Options.StripAccents
	}
	for key, token := range names {
		config[key] = token
	}
	if t.MaxLength > 0 {
		config["model_max_length"] = t.MaxLength
	}
	configText, err := marshalIndent(config)
	if err != nil {
		return nil, err
	}
	full, err := t.marshal(ids)
	if err != nil {
		return nil, err
	}
	var vocab bytes.Buffer
	if _, err := t.Vocab.WriteTo(&vocab); err != nil {
		return nil, err
	}
	return map[string][]byte{
		vocabFile:           vocab.Bytes(),
		tokenizerFile:       full,
		tokenizerConfigFile: configText,
		specialTokensFile:   specials,
	}, nil
}

// marshal and marshalIndent write JSON without encoding/json's HTML escapes.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

func marshalIndent(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return out.Bytes(), err
}

// copyTokenizer copies a folder's tokenizer files unchanged and makes the missing ones. Without a folder it makes
// all.
func copyTokenizer(from, to string, t Tokenizer) error {
	for _, name := range tokenizerFiles {
		if err := copyFile(from, to, name, t); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to, name string, t Tokenizer) error {
	if from != "" {
		text, err := bounded.ReadFile(filepath.Join(from, name), mostTokenizer)
		if err == nil {
			return saveFile(filepath.Join(to, name), text)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	made, err := t.files()
	if err != nil {
		return err
	}
	return saveFile(filepath.Join(to, name), made[name])
}
