package huggingface

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"harness.invalid/core/wordpiece"
)

// The parts of a tokenizer.json, in the order in which the tokenizers library writes them.
type (
	writtenTokenizer struct {
		Version       string        `json:"version"`
		Truncation    any           `json:"truncation"`
		Padding       any           `json:"padding"`
		AddedTokens   []addedToken  `json:"added_tokens"`
		Normalizer    normalizer    `json:"normalizer"`
		PreTokenizer  object        `json:"pre_tokenizer"`
		PostProcessor postProcessor `json:"post_processor"`
		Decoder       decoder       `json:"decoder"`
		Model         wordPiece     `json:"model"`
	}
	addedToken struct {
		ID         int32  `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	}
	normalizer struct {
		Type         string `json:"type"`
		CleanText    bool   `json:"clean_text"`
		SplitChinese bool   `json:"handle_chinese_chars"`
		StripAccents any    `json:"strip_accents"` // null: as Lower
		Lower        bool   `json:"lowercase"`
	}
	postProcessor struct {
		Type    string   `json:"type"`
		Single  []object `json:"single"`
		Pair    []object `json:"pair"`
		Special object   `json:"special_tokens"`
	}
	decoder struct {
		Type    string `json:"type"`
		Prefix  string `json:"prefix"`
		Cleanup bool   `json:"cleanup"`
	}
	wordPiece struct {
		Type    string          `json:"type"`
		Unknown string          `json:"unk_token"`
		Prefix  string          `json:"continuing_subword_prefix"`
		Max     int             `json:"max_input_chars_per_word"`
		Vocab   json.RawMessage `json:"vocab"`
	}
	object = map[string]any
)

// marshal writes a tokenizer.json. ids are those of the special tokens.
func (t Tokenizer) marshal(ids map[string]int32) ([]byte, error) {
	vocab, err := marshalVocab(t.Vocab)
	if err != nil {
		return nil, err
	}
	var tokens []addedToken
	for token, id := range ids {
		tokens = append(tokens, addedToken{ID: id, Content: token, Special: true})
	}
	slices.SortFunc(tokens, func(a, b addedToken) int { return int(a.ID - b.ID) })
	var accents any
	if t.Options.StripAccents != t.Options.Lower {
		accents = t.Options.StripAccents
	}
	longest := t.Options.MaxCharsPerWord
	if !t.Options.DropUnassigned { // Google's tokenizer becomes transformers', and so does its limit
		longest = wordpiece.HuggingFace(t.Options.Lower).MaxCharsPerWord
	}
	return marshalIndent(writtenTokenizer{
		Version:       "1.0",
		AddedTokens:   tokens,
		Normalizer:    normalizer{"BertNormalizer", true, t.Options.SplitChinese, accents, t.Options.Lower},
		PreTokenizer:  object{"type": "BertPreTokenizer"},
		PostProcessor: template(ids),
		Decoder:       decoder{"WordPiece", wordpiece.Continuing, true},
		Model:         wordPiece{"WordPiece", wordpiece.Unk, wordpiece.Continuing, longest, vocab},
	})
}

// template puts [CLS] and [SEP] around one text or two.
func template(ids map[string]int32) postProcessor {
	piece := func(kind, id string, segment int) object { return object{kind: object{"id": id, "type_id": segment}} }
	named := func(token string) object {
		return object{"id": token, "ids": []int32{ids[token]}, "tokens": []string{token}}
	}
	single := []object{
		piece("SpecialToken", wordpiece.Cls, 0),
		piece("Sequence", "A", 0),
		piece("SpecialToken", wordpiece.Sep, 0),
	}
	return postProcessor{
		Type:    "TemplateProcessing",
		Single:  single,
		Pair:    append(slices.Clone(single), piece("Sequence", "B", 1), piece("SpecialToken", wordpiece.Sep, 1)),
		Special: object{wordpiece.Cls: named(wordpiece.Cls), wordpiece.Sep: named(wordpiece.Sep)},
	}
}

// marshalVocab writes a vocabulary as an object of ids by token, in the order of the ids.
func marshalVocab(v *wordpiece.Vocab) (json.RawMessage, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for id := range v.Len() {
		if id > 0 {
			out.WriteByte(',')
		}
		token, err := marshal(v.Token(int32(id)))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s:%d", token, id)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
