package squad

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"harness.invalid/core/bounded"
)

// Read reads a file, or several as one. Errors about the content name the place, and the question if there is one.
func Read(paths ...string) (*Data, error) {
	all := new(Data)
	sum := sha256.New()
	from := map[string]string{} // file by question
	for i, path := range paths {
		text, err := bounded.ReadFile(path, 4*bounded.GiB)
		if err != nil {
			return nil, fmt.Errorf("squad: %w", err)
		}
		d, err := Parse(text, path)
		if err != nil {
			return nil, err
		}
		if len(paths) == 1 {
			return d, nil
		}
		for q := range d.all() {
			if first, ok := from[q.ID]; ok {
				return nil, fmt.Errorf("%s: the question is in %s already: %w", d.at(q), first, ErrInvalid)
			}
			from[q.ID] = path
		}
		if i == 0 {
			all.Version = d.Version
		}
		all.Articles = append(all.Articles, d.Articles...)
		io.WriteString(sum, d.Digest+"\n")
	}
	all.Name, all.Digest = strings.Join(paths, ", "), hex.EncodeToString(sum.Sum(nil))
	return all, nil
}

// Parse is Read of text that is in memory; name says in errors where it is from. Keys that SQuAD does not have are
// ignored.
func Parse(text []byte, name string) (*Data, error) {
	p := &parser{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), ids: map[string]Place{}}
	for i, c := range text {
		if c == '\n' {
			p.breaks = append(p.breaks, i)
		}
	}
	d, err := p.file()
	if err != nil {
		place := p.place(p.at)
		if p.question != "" {
			err = fmt.Errorf("question %s: %w", p.question, err)
		}
		return nil, fmt.Errorf("squad %s:%d:%d: %w: %w", name, place.Line, place.Column, err, ErrInvalid)
	}
	sum := sha256.Sum256(text)
	d.Name, d.Digest = name, hex.EncodeToString(sum[:])
	return d, nil
}

// parser reads JSON token by token, so that every error has its position. encoding/json's Unmarshal gives one only
// for wrong syntax, and treats a missing key as an empty value.
type parser struct {
	text     []byte
	decoder  *json.Decoder
	breaks   []int  // offsets of line breaks
	at       int    // offset of the token that was read last, or of what is wrong
	question string // id of the question that is being read
	ids      map[string]Place
}

func (p *parser) place(offset int) Place {
	line := sort.SearchInts(p.breaks, offset)
	start := 0
	if line > 0 {
		start = p.breaks[line-1] + 1
	}
	return Place{Line: line + 1, Column: offset - start + 1}
}

// token reads the next token and notes where it starts.
func (p *parser) token() (json.Token, error) {
	start := int(p.decoder.InputOffset())
	for start < len(p.text) && bytes.IndexByte([]byte(" \t\r\n,:"), p.text[start]) >= 0 {
		start++
	}
	p.at = start
	token, err := p.decoder.Token()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		p.at = p.syntaxError(start)
		if p.at == 0 {
			return nil, fmt.Errorf("the file is no JSON: it begins with %q", p.text[:min(len(p.text), 12)])
		}
		return nil, err
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		p.at = len(p.text)
		return nil, errors.New("the file ends within the JSON")
	}
	return token, err
}

// syntaxError returns the offset of the first character that is no JSON. The decoder's own offset is not always
// counted from the beginning.
func (p *parser) syntaxError(otherwise int) int {
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(p.text, new(json.RawMessage)), &syntax) {
		return int(syntax.Offset) - 1
	}
	return otherwise
}

func describe(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		return map[json.Delim]string{'{': "an object", '}': "the end of an object", '[': "a list", ']': "the end of a list"}[t]
	case string:
		return "a string"
	case float64:
		return fmt.Sprintf("the number %v", t)
	case nil:
		return "null"
	}
	return fmt.Sprint(t)
}

// object reads an object and calls value at each key; value reads the key's value. All wanted keys must be there.
func (p *parser) object(what string, wanted []string, value func(key string) error) error {
	if err := p.open('{', what); err != nil {
		return err
	}
	start := p.at
	var seen []string
	for p.decoder.More() {
		token, err := p.token()
		if err != nil {
			return err
		}
		key := token.(string) // the decoder accepts nothing else as a key
		if slices.Contains(seen, key) {
			return fmt.Errorf("key %q comes twice in %s", key, what)
		}
		seen = append(seen, key)
		if err := value(key); err != nil {
			return err
		}
	}
	if _, err := p.token(); err != nil {
		return err
	}
	for _, key := range wanted {
		if !slices.Contains(seen, key) {
			p.at = start
			return fmt.Errorf("%s has no key %q", what, key)
		}
	}
	return nil
}

// list reads a list and calls element for each of its elements.
func (p *parser) list(what string, element func() error) error {
	if err := p.open('[', what); err != nil {
		return err
	}
	for p.decoder.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := p.token()
	return err
}

func (p *parser) open(delim json.Delim, what string) error {
	token, err := p.token()
	if err != nil {
		return err
	}
	if token != delim {
		return fmt.Errorf("%s is %s, want %s", what, describe(token), describe(delim))
	}
	return nil
}

func (p *parser) string(what string) (string, error) {
	token, err := p.token()
	if err != nil {
		return "", err
	}
	s, ok := token.(string)
	if !ok {
		return "", fmt.Errorf("%s is %s, want a string", what, describe(token))
	}
	// The decoder would replace invalid UTF-8 by U+FFFD.
	if raw := p.text[p.at:p.decoder.InputOffset()]; !utf8.Valid(raw) {
		for i := 0; i < len(raw); {
			r, size := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError && size == 1 {
				p.at += i
				return "", fmt.Errorf("%s: byte %#02x is not UTF-8", what, raw[i])
			}
			i += size
		}
	}
	return s, nil
}

func (p *parser) integer(what string) (int, error) {
	token, err := p.token()
	if err != nil {
		return 0, err
	}
	f, ok := token.(float64)
	if !ok || f != float64(int32(f)) {
		return 0, fmt.Errorf("%s is %s, want an integer of 32 bits", what, describe(token))
	}
	return int(f), nil
}

// skip passes over a value of any kind.
func (p *parser) skip() error {
	for depth := 0; ; {
		token, err := p.token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

func (p *parser) file() (*Data, error) {
	d := new(Data)
	err := p.object("the file", []string{"data"}, func(key string) (err error) {
		switch key {
		case "data":
			return p.list("data", func() error {
				a, err := p.article()
				d.Articles = append(d.Articles, a)
				return err
			})
		case "version":
			d.Version, err = p.string(key)
			return err
		}
		return p.skip()
	})
	if err != nil {
		return nil, err
	}
	p.at = int(p.decoder.InputOffset())
	if _, err := p.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON")
	}
	if d.Questions() == 0 {
		p.at = 0
		return nil, errors.New("no question")
	}
	return d, nil
}

func (p *parser) article() (a Article, err error) {
	err = p.object("an article", []string{"paragraphs"}, func(key string) (err error) {
		switch key {
		case "title":
			a.Title, err = p.string(key)
			return err
		case "paragraphs":
			return p.list(key, func() error {
				paragraph, err := p.paragraph()
				a.Paragraphs = append(a.Paragraphs, paragraph)
				return err
			})
		}
		return p.skip()
	})
	return a, err
}

func (p *parser) paragraph() (g Paragraph, err error) {
	err = p.object("a paragraph", []string{"context", "qas"}, func(key string) (err error) {
		switch key {
		case "context":
			g.Context, err = p.string(key)
			return err
		case "qas":
			return p.list(key, func() error {
				q, err := p.questionObject()
				g.Questions = append(g.Questions, q)
				return err
			})
		}
		return p.skip()
	})
	return g, err
}

func (p *parser) questionObject() (q Question, err error) {
	err = p.object("a question", []string{"id", "question"}, func(key string) (err error) {
		if q.Place.Line == 0 {
			q.Place = p.place(p.at) // of the first key: within the object
		}
		switch key {
		case "id":
			if q.ID, err = p.string(key); err != nil {
				return err
			}
			p.question = q.ID
			if first, ok := p.ids[q.ID]; ok {
				return fmt.Errorf("the question at %d:%d has this id already", first.Line, first.Column)
			}
			p.ids[q.ID] = q.Place
			return nil
		case "question":
			q.Text, err = p.string(key)
			return err
		case "answers":
			return p.list(key, func() error {
				a, err := p.answer()
				q.Answers = append(q.Answers, a)
				return err
			})
		case "is_impossible":
			token, err := p.token()
			if err != nil {
				return err
			}
			var ok bool
			if q.Impossible, ok = token.(bool); !ok {
				return fmt.Errorf("%s is %s, want true or false", key, describe(token))
			}
			return nil
		}
		return p.skip()
	})
	if err == nil {
		p.question = ""
	}
	return q, err
}

func (p *parser) answer() (a Answer, err error) {
	err = p.object("an answer", []string{"answer_start", "text"}, func(key string) (err error) {
		switch key {
		case "answer_start":
			a.Start, err = p.integer(key)
			return err
		case "text":
			a.Text, err = p.string(key)
			return err
		}
		return p.skip()
	})
	return a, err
}
