package huggingface

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/wordpiece"
)

var huggingFaceOptions = wordpiece.HuggingFace(true)

// vocab has as many tokens as the model of the tests.
func vocab(t *testing.T) *wordpiece.Vocab {
	t.Helper()
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s", "<b>", "é", "\u2028"}
	for c := 'a'; len(tokens) < 24; c++ {
		tokens = append(tokens, string(c))
	}
	v, err := wordpiece.NewVocab("test", tokens)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func tokens(v *wordpiece.Vocab) []string {
	var all []string
	for id := range v.Len() {
		all = append(all, v.Token(int32(id)))
	}
	return all
}

// TestTokenizer: a saved tokenizer reads back the same, from all files together and from tokenizer.json alone.
func TestTokenizer(t *testing.T) {
	options := map[string]wordpiece.Options{"lower": wordpiece.HuggingFace(true), "cased": wordpiece.HuggingFace(false)}
	o := wordpiece.HuggingFace(true)
	o.StripAccents, o.SplitChinese = false, false
	options["lower with accents"] = o
	for name, o := range options {
		dir := t.TempDir()
		want := Tokenizer{Vocab: vocab(t), Options: o, MaxLength: 512}
		if err := want.Save(dir); err != nil {
			t.Fatal(err)
		}
		for _, gone := range []string{"", vocabFile, specialTokensFile} {
			if gone != "" {
				if err := os.Remove(filepath.Join(dir, gone)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := ReadTokenizer(dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Options, got.Options); diff != "" || !slices.Equal(tokens(got.Vocab), tokens(want.Vocab)) ||
				got.MaxLength != 512 {
				t.Errorf("%s without %q: %s %v", name, gone, diff, tokens(got.Vocab))
			}
		}
	}
}

// TestTokenizerJSON holds the file against the form of the tokenizers library.
func TestTokenizerJSON(t *testing.T) {
	dir := t.TempDir()
	if err := (Tokenizer{Vocab: vocab(t), Options: huggingFaceOptions}).Save(dir); err != nil {
		t.Fatal(err)
	}
	files := tree(t, dir)
	var got any
	if err := json.Unmarshal([]byte(files[tokenizerFile]), &got); err != nil {
		t.Fatal(err)
	}
	full := got.(map[string]any)
	for key, want := range map[string]string{
		"version":       `"1.0"`,
		"truncation":    "null",
		"padding":       "null",
		"normalizer":    `{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true}`,
		"pre_tokenizer": `{"type":"BertPreTokenizer"}`,
		"decoder":       `{"type":"WordPiece","prefix":"##","cleanup":true}`,
		"post_processor": `{
			"type": "TemplateProcessing",
			"single": [
				{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
				{"Sequence": {"id": "A", "type_id": 0}},
				{"SpecialToken": {"id": "[SEP]", "type_id": 0}}
			],
			"pair": [
				{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
				{"Sequence": {"id": "A", "type_id": 0}},
				{"SpecialToken": {"id": "[SEP]", "type_id": 0}},
				{"Sequence": {"id": "B", "type_id": 1}},
				{"SpecialToken": {"id": "[SEP]", "type_id": 1}}
			],
			"special_tokens": {
				"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
				"[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}
			}
		}`,
	} {
		var w any
		if err := json.Unmarshal([]byte(want), &w); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w, full[key]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
	if n := len(full["added_tokens"].([]any)); n != 5 {
		t.Errorf("%d added tokens, want 5", n)
	}
	// The vocabulary is in the order of its ids, and is not escaped for HTML.
	if !strings.Contains(strings.Join(strings.Fields(files[tokenizerFile]), ""), `"the":5,"##s":6,"<b>":7,"é":8,`) {
		t.Errorf("vocabulary is %s", files[tokenizerFile])
	}
}

// TestReadTokenizer: folders that say little, or something wrong.
func TestReadTokenizer(t *testing.T) {
	put := func(files ...string) string {
		dir := t.TempDir()
		for i := 0; i < len(files); i += 2 {
			if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	const lower, cased = "[PAD]\n[UNK]\nthe\n", "[PAD]\n[UNK]\nThe\n"
	for name, test := range map[string]struct {
		dir  string
		want wordpiece.Options
	}{
		"Google, lower":    {put(vocabFile, lower), wordpiece.Google(true)},
		"Google, cased":    {put(vocabFile, cased), wordpiece.Google(false)},
		"said to be cased": {put(vocabFile, lower, tokenizerConfigFile, `{"do_lower_case": false}`), wordpiece.HuggingFace(false)},
		"says nothing": {put(vocabFile, cased, tokenizerConfigFile, `{"model_max_length": 1000000000000000019884624838656}`),
			wordpiece.HuggingFace(false)},
		"normalizer first": {put(vocabFile, lower, tokenizerConfigFile, `{"do_lower_case": false}`, tokenizerFile,
			`{"normalizer": {"lowercase": true, "strip_accents": null}}`), wordpiece.HuggingFace(true)},
		"tokenizer.json": {put(tokenizerFile, `{"model": {"type": "WordPiece", "vocab": {"b": 1, "[UNK]": 0}}}`), wordpiece.HuggingFace(true)},
	} {
		got, err := ReadTokenizer(test.dir)
		if diff := cmp.Diff(test.want, got.Options); err != nil || diff != "" || got.MaxLength != 0 {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	for want, dir := range map[string]string{
		"there is no vocab.txt and no tokenizer.json": put(),
		"want each of 0 to 1 once":                    put(tokenizerFile, `{"model": {"vocab": {"a": 0, "b": 2}}}`),
		`"a " begins or ends with a space`:            put(tokenizerFile, `{"model": {"vocab": {"[UNK]": 0, "a ": 1}}}`),
		"want WordPiece":                              put(tokenizerFile, `{"model": {"type": "BPE", "vocab": {"a": 0}}}`),
		"ends in the middle of the JSON":              put(vocabFile, lower, tokenizerConfigFile, `{`),
	} {
		if _, err := ReadTokenizer(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
	if err := (Tokenizer{Vocab: mustVocab(t, "a", "b")}).Save(t.TempDir()); err == nil || !strings.Contains(err.Error(), "[CLS]") {
		t.Errorf("error is %v, want that [CLS] is missing", err)
	}
}

// FuzzTokenizer: no files make the reader panic, and what it made of them is saved so that it reads the same.
func FuzzTokenizer(f *testing.F) {
	const words = `{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 5}`
	f.Add("", `{"model": {"type": "WordPiece", "max_input_chars_per_word": 7, "vocab": `+words+`}}`,
		`{"model_max_length": 512, "do_lower_case": false}`)
	f.Add("", `{"model": {"vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a ": 5}}}`, `{}`)
	f.Add("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nA\n", `{"normalizer": {"lowercase": true, "strip_accents": false}}`,
		`{"model_max_length": 1e30}`)
	f.Add("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\r\n\u2028\n", "null", `{"tokenize_chinese_chars": false, "strip_accents": true}`)
	f.Fuzz(func(t *testing.T, vocab, full, config string) {
		dir := t.TempDir()
		for name, text := range map[string]string{vocabFile: vocab, tokenizerFile: full, tokenizerConfigFile: config} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		read, err := ReadTokenizer(dir)
		if err != nil || read.Save(dir) != nil { // which wants the special tokens
			return
		}
		again, err := ReadTokenizer(dir)
		if err != nil {
			t.Fatal(err)
		}
		if read.Options == wordpiece.Google(read.Options.Lower) { // of a vocab.txt alone; what is written is transformers'
			read.Options = wordpiece.HuggingFace(read.Options.Lower)
		}
		if diff := cmp.Diff(read.Options, again.Options); diff != "" || read.MaxLength != again.MaxLength ||
			!slices.Equal(tokens(read.Vocab), tokens(again.Vocab)) {
			t.Errorf("%s %d, %d, %q, %q", diff, read.MaxLength, again.MaxLength, tokens(read.Vocab), tokens(again.Vocab))
		}
	})
}

func mustVocab(t *testing.T, tokens ...string) *wordpiece.Vocab {
	t.Helper()
	v, err := wordpiece.NewVocab("test", tokens)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
