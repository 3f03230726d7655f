package wikipedia

import (
	"bytes"
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is what an opening mark of the markup opens.
type kind uint8

const (
	template  kind = iota // {{ }}
	parameter             // {{{ }}}
	table                 // {| |}, at the beginning of lines
	link                  // [[ ]]
	external              // [http:// ], on one line
	variant               // -{ }-, the spellings of Chinese
	element               // the elements in dropped, <name> </name>; their numbers follow
)

// mostDepth is how deep marks nest. A deeper mark goes alone, so hostile markup costs no more than long markup.
const mostDepth = 64

// dropped are the elements that go with their content. All other tags go alone.
var dropped = []string{
	"ref", "references", "gallery", "timeline", "table", "tr", "td", "th", "caption", "div", "form", "select", "textarea",
	"ul", "ol", "li", "dl", "dt", "dd", "menu", "dir", "imagemap", "small", "pre", "noinclude",
	"math", "chem", "ce", "code", "syntaxhighlight", "source", "score", "hiero", "graph", "mapframe", "maplink", "templatestyles",
	"style", "script", "indicator", "inputbox", "categorytree",
}

// verbatim are those in which marks are text, so that the first end tag ends them.
var verbatim = []string{"math", "chem", "ce", "code", "syntaxhighlight", "source", "score", "hiero", "graph", "mapframe", "timeline",
	"pre", "style", "script", "inputbox", "nowiki"}

// frame is an opening mark whose end has not come, and where the output stood.
type frame struct {
	kind kind
	at   int
}

// stripper writes the text of an article without its markup.
type stripper struct {
	namespaces map[string]bool // in lower case, whose links are not text: File, Category
	in, out    []byte
	at         int // in in
	frames     []frame
	open       []int           // frames of each kind
	lineStart  bool            // only blanks and colons since the last line break
	italic     int             // where in out the quotation mark of an italic text of this line is, or -1
	unclosed   map[string]bool // verbatim elements of which no end tag follows
}

// strip removes markup. Templates are not expanded. Marks without a partner go alone. It takes time in proportion to
// the text.
func strip(text []byte, namespaces map[string]bool) []byte {
	s := &stripper{namespaces: namespaces, in: text, out: make([]byte, 0, len(text)), lineStart: true, italic: -1,
		open: make([]int, int(element)+len(dropped))}
	for s.at < len(s.in) {
		s.step()
	}
	return s.out
}

// has reports whether the input goes on with a mark.
func (s *stripper) has(mark string) bool {
	return len(s.in)-s.at >= len(mark) && string(s.in[s.at:s.at+len(mark)]) == mark
}

// step reads a mark or a character.
func (s *stripper) step() {
	start := s.lineStart
	c := s.in[s.at]
	s.lineStart = c == '\n' || start && (c == ' ' || c == ':' || c == '\t')
	switch c {
	case '\n':
		s.endLine()
	case '{':
		if start && s.has("{|") {
			s.push(table, 2)
			return
		} else if s.has("{{{") && !s.has("{{{{") {
			s.push(parameter, 3)
			return
		} else if s.has("{{") {
			s.push(template, 2)
			return
		}
	case '|':
		if start && s.has("|}") && (!s.has("|}}") || s.has("|}}}")) {
			s.pop(table, 2)
			return
		}
	case '}':
		if n := len(s.frames); n > 0 && s.frames[n-1].kind == parameter && s.has("}}}") {
			s.pop(parameter, 3)
			return
		} else if s.has("}}") {
			s.pop(template, 2)
			return
		} else if s.open[variant] > 0 && s.has("}-") {
			s.pop(variant, 2)
			return
		}
	case '-':
		if s.has("-{") && !s.has("-{{") {
			s.push(variant, 2)
			return
		}
	case '[', ']':
		if s.bracket(c) {
			return
		}
	case '\'':
		if s.has("''") {
			s.quotes()
			return
		}
	case '<':
		if s.tag() {
			return
		}
	case '_':
		if n := magicWord(s.in[s.at:]); n > 0 {
			s.at += n
			return
		}
	}
	end := s.at + 1
	for !s.lineStart && end < len(s.in) && !special[s.in[end]] {
		end++
	}
	s.out = append(s.out, s.in[s.at:end]...)
	s.at = end
}

// special are the bytes with which marks begin.
var special = func() (set [256]bool) {
	for _, c := range []byte("\n{|}-[]'<_") {
		set[c] = true
	}
	return set
}()

// endLine ends what does not go beyond a line.
func (s *stripper) endLine() {
	for n := len(s.frames); n > 0 && s.frames[n-1].kind == external; n-- {
		s.forget()
	}
	if s.italic >= 0 && s.italic < len(s.out) && s.out[s.italic] == '"' {
		s.out = slices.Delete(s.out, s.italic, s.italic+1)
		for i := range s.frames {
			if s.frames[i].at > s.italic {
				s.frames[i].at--
			}
		}
	}
	s.italic = -1
}

// forget takes the last frame for text.
func (s *stripper) forget() {
	n := len(s.frames) - 1
	s.open[s.frames[n].kind]--
	s.frames = s.frames[:n]
}

func (s *stripper) push(k kind, size int) {
	s.at += size
	if len(s.frames) == mostDepth {
		return
	}
	s.frames = append(s.frames, frame{k, len(s.out)})
	s.open[k]++
}

// pop ends the last frame of a kind. Frames within that have not ended are text.
func (s *stripper) pop(k kind, size int) {
	s.at += size
	if s.open[k] == 0 {
		return
	}
	for s.frames[len(s.frames)-1].kind != k {
		s.forget()
	}
	from := s.frames[len(s.frames)-1].at
	s.forget()
	inner := s.out[from:]
	switch k {
	case link:
		inner = s.label(inner)
	case external:
	case variant:
		inner = spelling(inner)
	default:
		inner = nil
	}
	s.out = append(s.out[:from], inner...) // inner lies behind from, so nothing is overwritten before it is copied
}

// bracket reads a mark of a link.
func (s *stripper) bracket(c byte) bool {
	switch {
	case s.has("[["):
		s.push(link, 2)
	case c == '[':
		n := address(s.in[s.at+1:])
		if n == 0 {
			return false
		}
		s.push(external, 1+n)
		if s.has(" ") {
			s.at++
		}
	case len(s.frames) > 0 && s.frames[len(s.frames)-1].kind == external:
		s.pop(external, 1)
	case s.has("]]"):
		s.pop(link, 2)
	default:
		return false
	}
	return true
}

// protocols begin addresses in external links.
var protocols = []string{"//", "http:", "https:", "ftp:", "mailto:", "news:", "irc:", "tel:", "urn:"}

// address is the length of an address at the beginning of text, 0 if there is none.
func address(text []byte) int {
	if !slices.ContainsFunc(protocols, func(p string) bool { return bytes.HasPrefix(text, []byte(p)) }) {
		return 0
	}
	for i, c := range text {
		if c <= ' ' || c == ']' || c == '[' || c == '<' || c == '"' {
			return i
		}
	}
	return len(text)
}

// quotes reads the marks of bold and italic text. Italics become quotation marks, bold text has none.
func (s *stripper) quotes() {
	n := 0
	for s.at < len(s.in) && s.in[s.at] == '\'' {
		s.at, n = s.at+1, n+1
	}
	switch {
	case n == 4:
		s.out = append(s.out, '\'')
	case n > 5:
		s.out = append(s.out, s.in[s.at-n+5:s.at]...)
	case n == 2 && s.italic >= 0:
		s.out, s.italic = append(s.out, '"'), -1
	case n == 2:
		s.italic = len(s.out)
		s.out = append(s.out, '"')
	}
}

// label is the text of a link: what follows the last bar, or its target. Those to files, categories and other languages
// have none.
func (s *stripper) label(inner []byte) []byte {
	target, text, named := bytes.Cut(inner, []byte("|"))
	target = bytes.TrimSpace(target)
	shown := bytes.HasPrefix(target, []byte(":")) // [[:Category:X]] is a link to the page of the category
	target = bytes.TrimPrefix(target, []byte(":"))
	if prefix, _, ok := bytes.Cut(target, []byte(":")); ok && !shown {
		name := strings.ToLower(strings.TrimSpace(strings.ReplaceAll(string(prefix), "_", " ")))
		if s.namespaces[name] || languageCode(name) && string(prefix) == name {
			return nil
		}
	}
	if !named {
		return target
	}
	if i := bytes.LastIndexByte(text, '|'); i >= 0 {
		text = text[i+1:]
	}
	if text = bytes.TrimSpace(text); len(text) > 0 {
		return text
	}
	// The pipe trick: [[Namespace:Title (kind)|]] shows Title.
	if i := bytes.LastIndexByte(target, ':'); i >= 0 {
		target = target[i+1:]
	}
	if i := bytes.LastIndex(target, []byte(" (")); i >= 0 {
		target = target[:i]
	}
	return target
}

// languageCode reports whether a prefix is that of a Wikipedia in another language: de, nds, zh-min-nan.
func languageCode(prefix string) bool {
	first, rest, dashed := strings.Cut(prefix, "-")
	if len(first) < 2 || len(first) > 3 || dashed && rest == "" {
		return false
	}
	for _, c := range prefix {
		if (c < 'a' || c > 'z') && c != '-' {
			return false
		}
	}
	return true
}

// spelling is what a reader of simplified Chinese sees of -{flags|zh-hans:a;zh-hant:b}-. Rules that are not for this
// place show nothing.
func spelling(inner []byte) []byte {
	flags, text, ok := bytes.Cut(inner, []byte("|"))
	if !ok {
		text = flags
	} else if f := strings.TrimSpace(string(flags)); f == "H" || f == "T" || f == "-" || f == "D" {
		return nil
	}
	var first []byte
	for part := range bytes.SplitSeq(text, []byte(";")) {
		code, value, ok := bytes.Cut(part, []byte(":"))
		name := strings.TrimSpace(string(code))
		if !ok || !strings.HasPrefix(name, "zh") {
			if first == nil {
				return text // no list of spellings
			}
			continue
		}
		if value = bytes.TrimSpace(value); name == "zh-hans" || name == "zh-cn" {
			return value
		} else if first == nil {
			first = value
		}
	}
	return first
}

// magicWord is the length of a switch such as __NOTOC__, 0 if there is none.
func magicWord(text []byte) int {
	if !bytes.HasPrefix(text, []byte("__")) {
		return 0
	}
	for i := 2; i < min(len(text), 40); i++ {
		if text[i] == '_' && i > 2 && i+1 < len(text) && text[i+1] == '_' {
			return i + 2
		}
		if text[i] < 'A' || text[i] > 'Z' {
			return 0
		}
	}
	return 0
}

// plain turns what is left of a line into text: entities become characters, blanks single, and brackets go that lost
// their content.
func plain(line []byte) string {
	text := string(line)
	if strings.Contains(text, "&") {
		text = html.UnescapeString(text)
	}
	var b strings.Builder
	blank := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			blank = b.Len() > 0
			continue
		case r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			continue
		}
		if blank {
			b.WriteByte(' ')
			blank = false
		}
		b.WriteRune(r)
	}
	text = b.String()
	for _, pair := range leftovers {
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return strings.TrimSpace(text)
}

// leftovers are what dropped templates and notes leave behind.
var leftovers = [][2]string{{`""`, `"`}, {"（）", ""}, {"( )", ""}, {" ()", ""}, {"()", ""}, {"(, ", "("}, {"(; ", "("}, {" ,", ","},
	{" .", "."}, {"（，", "（"}, {"（；", "（"}}
