package recipe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"harness.invalid/core/bounded"
)

// node is a value of a recipe file with its position. Files stay trees until they are merged, so that errors about
// the result name the place that they come from, and options keep their original text.
type node struct {
	kind   kind
	text   string  // of a scalar, as it was written
	items  []*node // of a list
	fields []field // of an object, in order
	pos    position
}

type kind uint8

const (
	null kind = iota
	scalar
	list
	object
)

func (k kind) String() string { return [...]string{"nothing", "a value", "a list", "an object"}[k] }

type field struct {
	key   string
	pos   position // of the key
	value *node
}

// get returns the value under a key, nil when there is none.
func (n *node) get(key string) *node {
	if i := n.find(key); i >= 0 {
		return n.fields[i].value
	}
	return nil
}

func (n *node) find(key string) int {
	return slices.IndexFunc(n.fields, func(f field) bool { return f.key == key })
}

// name is the text under the key name, which identifies an item of a list.
func (n *node) name() string {
	if v := n.get("name"); v != nil && v.kind == scalar {
		return v.text
	}
	return ""
}

func (n *node) clone() *node {
	c := *n
	c.items = make([]*node, len(n.items))
	for i, item := range n.items {
		c.items[i] = item.clone()
	}
	c.fields = make([]field, len(n.fields))
	for i, f := range n.fields {
		c.fields[i] = field{f.key, f.pos, f.value.clone()}
	}
	return &c
}

// source is a text that nodes come from.
type source struct {
	name  string   // a file, or an override's text
	lines []string // nil: its lines are not shown
}

// position is a place in a source. Line and column count from 1; 0 is the source as a whole.
type position struct {
	source       *source
	line, column int
}

// errorf makes an error that names and shows the position.
func (p position) errorf(format string, args ...any) error {
	return &Error{Position: p.String(), Message: fmt.Sprintf(format, args...), Excerpt: p.excerpt()}
}

func (p position) String() string {
	switch {
	case p.source == nil:
		return "recipe"
	case p.line == 0:
		return p.source.name
	}
	return fmt.Sprintf("%s:%d:%d", p.source.name, p.line, p.column)
}

// excerpt is the line at the position, the one before it, and a mark under the column.
func (p position) excerpt() string {
	if p.source == nil || p.line < 1 || p.line > len(p.source.lines) {
		return ""
	}
	var b strings.Builder
	from := max(0, p.column-mostColumns) // of long lines the part around the place
	for i := max(1, p.line-1); i <= p.line; i++ {
		fmt.Fprintf(&b, "%5d | %s\n", i, part(p.source.lines[i-1], from))
	}
	line := []rune(part(p.source.lines[p.line-1], from))
	p.column -= from
	mark := slices.Clone(line[:min(p.column-1, len(line))])
	for i, r := range mark {
		if r != '\t' {
			mark[i] = ' '
		}
	}
	return b.String() + "      | " + string(mark) + "^"
}

// mostColumns is how much of a line is shown before and behind a place.
const mostColumns = 160

// part is what is shown of a line, from a column on.
func part(line string, from int) string {
	shown := []rune(line)
	shown = shown[min(from, len(shown)):]
	return string(shown[:min(2*mostColumns, len(shown))])
}

// Error is a mistake in a recipe. Its text has the position, the mistake and the lines around it.
type Error struct {
	Position string // file:line:column
	Message  string
	Excerpt  string // of the file, with a mark under the place
}

func (e *Error) Error() string {
	if e.Excerpt == "" {
		return e.Position + ": " + e.Message
	}
	return e.Position + ": " + e.Message + "\n" + e.Excerpt
}

// withoutExcerpts takes the lines of files out of errors.
func withoutExcerpts(err error) error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var all []error
		for _, err := range joined.Unwrap() {
			all = append(all, withoutExcerpts(err))
		}
		return errors.Join(all...)
	}
	var e *Error
	if errors.As(err, &e) {
		return &Error{Position: e.Position, Message: e.Message}
	}
	return err
}

// forget makes errors about the file of a node show none of its lines.
func (n *node) forget() { n.pos.source.lines = nil }

// parse reads one YAML document.
func parse(name string, text []byte) (*node, error) {
	if err := bounded.YAML(text); err != nil {
		return nil, position{source: &source{name: name}}.errorf("%v", err)
	}
	src := &source{name, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, syntaxError(src, err)
	}
	var docs []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			docs = append(docs, d.Body)
		}
	}
	if len(docs) == 0 {
		return nil, position{source: src}.errorf("the file is empty, want a recipe")
	}
	root, err := convert(src, docs[0], 0)
	if err == nil && len(docs) > 1 {
		return nil, position{src, place(src, docs[1].GetToken()).line, 1}.errorf("a second document begins here, want one")
	}
	return root, err
}

func syntaxError(src *source, err error) error {
	var y yaml.Error
	if !errors.As(err, &y) {
		return position{source: src}.errorf("%v", err)
	}
	message := y.GetMessage()
	for _, m := range plainly {
		if strings.Contains(message, m.said) {
			message = m.means
		}
	}
	return place(src, y.GetToken()).errorf("%s", message)
}

// plainly says what the parser's words mean to somebody who does not know how it works.
var plainly = []struct{ said, means string }{
	{"tab character", "a tab: YAML is indented with spaces"},
	{"',' or ']' must be specified", "the list that begins with [ has no end: want , or ]"},
	{"',' or '}' must be specified", "the object that begins with { has no end: want , or }"},
	{"could not find end character of double-quoted text", `the text that begins with " has no end`},
	{"could not find end character of single-quoted text", "the text that begins with ' has no end"},
	{"could not find flow map content", "the object that begins with { has no end: want , or }"},
	{"could not find flow mapping end token '}'", "the object that begins with { has no end: want , or }"},
	{"sequence end token ']' not found", "the list that begins with [ has no end: want , or ]"},
	{"non-map value is specified", "this line is no KEY: VALUE, or is indented further than it belongs"},
	{"value is not allowed in this context", "a value where YAML takes none: is the indentation right?"},
	{"mapping value is not allowed in this context", "a second colon in a line: put the value in quotes, or the key in a line of its own"},
	{"unexpected key name", "this line is no KEY: VALUE"},
}

func place(src *source, t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{source: src}
	}
	return position{src, t.Position.Line, t.Position.Column}
}

// Limits far above what a recipe needs.
const (
	maxDepth = 32   // of nesting
	mostKey  = 1024 // bytes of a key, which errors show
	mostKeys = 1024 // of an object
)

func convert(src *source, n ast.Node, depth int) (*node, error) {
	out := &node{pos: place(src, n.GetToken())}
	if depth > maxDepth {
		return nil, out.pos.errorf("more than %d levels", maxDepth)
	}
	switch n := n.(type) {
	case *ast.NullNode:
		return out, nil
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
		return out, nil
	case *ast.LiteralNode:
		out.kind, out.text = scalar, n.Value.Value
		return out, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = scalar, n.GetToken().Value
		return out, nil
	case *ast.SequenceNode:
		out.kind = list
		for _, v := range n.Values {
			item, err := convert(src, v, depth+1)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, item)
		}
		return out, nil
	case *ast.MappingNode:
		out.kind = object
		if len(n.Values) > 0 && !n.IsFlowStyle {
			out.pos = place(src, n.Values[0].Key.GetToken())
		}
		for _, v := range n.Values {
			if err := convertField(src, out, v, depth); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *ast.MappingValueNode:
		out.kind, out.pos = object, place(src, n.Key.GetToken())
		return out, convertField(src, out, n, depth)
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return nil, out.pos.errorf("anchors and aliases are not supported: what phases have in common goes under defaults, what " +
			"recipes have in common into one that they extend")
	case *ast.TagNode:
		return nil, out.pos.errorf("tags are not supported")
	}
	return nil, out.pos.errorf("%s is not taken", n.Type())
}

func convertField(src *source, out *node, v *ast.MappingValueNode, depth int) error {
	key, err := convert(src, v.Key, depth)
	if err != nil {
		return err
	}
	if key.kind != scalar {
		return key.pos.errorf("a key is %v, want text", key.kind)
	}
	if len(key.text) > mostKey {
		return key.pos.errorf("a key has %d bytes, want at most %d", len(key.text), mostKey)
	}
	if len(out.fields) == mostKeys {
		return key.pos.errorf("an object has more than %d keys", mostKeys)
	}
	if i := out.find(key.text); i >= 0 {
		return key.pos.errorf("key %s occurs twice, first in line %d", strconv.Quote(key.text), out.fields[i].pos.line)
	}
	value, err := convert(src, v.Value, depth+1)
	if err != nil {
		return err
	}
	out.fields = append(out.fields, field{key.text, key.pos, value})
	return nil
}
