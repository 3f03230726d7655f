package index

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"harness.invalid/core/spelling"
)

// A filter is a condition on runs:
//
//	filter     = and { "or" and }
//	and        = not { "and" not }
//	not        = [ "not" ] ( "(" filter ")" | comparison )
//	comparison = NAME ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" ) VALUE
//
// A NAME is a column (backend, precision, optimizer, recipe, seed, status, started ...), a metric (f1,
// phase1.masked_lm_loss), or tag. ~ asks whether the text contains the value. A value with blanks or punctuation needs
// quotes. A run that lacks a metric, or whose metric is not a number, meets neither a condition on it nor the opposite.

// condition translates a filter into SQL.
func (x *Index) condition(ctx context.Context, where string) (string, []any, error) {
	if strings.TrimSpace(where) == "" {
		return "1 = 1", nil, nil
	}
	names, err := x.known(ctx)
	if err != nil {
		return "", nil, err
	}
	return translate(where, names)
}

func translate(where string, known []string) (string, []any, error) {
	p := parser{text: where, known: known}
	p.next()
	out := p.or()
	if p.err == nil && p.token != "" {
		p.fail("want and, or, or the end")
	}
	return out, p.args, p.err
}

// parser reads a filter from left to right. After an error its token is empty, and stays so.
type parser struct {
	text   string
	known  []string
	at     int    // behind token
	start  int    // of token
	token  string // "" at the end
	quoted bool
	depth  int
	args   []any
	err    error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		seen := "the end"
		if p.token != "" {
			seen = strconv.Quote(p.token)
		}
		p.err = fmt.Errorf("filter %q: at character %d: %s: %s", p.text, utf8.RuneCountInString(p.text[:min(p.start, len(p.text))])+1,
			seen, fmt.Sprintf(format, args...))
	}
	p.token, p.at = "", len(p.text)
}

// wordRune reports whether a letter may be part of a name, or of a value without quotes.
func wordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_.:+-/@", r)
}

func (p *parser) next() {
	p.quoted = false
	rest := strings.TrimLeftFunc(p.text[p.at:], unicode.IsSpace)
	p.start = len(p.text) - len(rest)
	switch {
	case rest == "":
		p.token, p.at = "", len(p.text)
		return
	case rest[0] == '\'' || rest[0] == '"':
		end := strings.IndexByte(rest[1:], rest[0])
		if end < 0 {
			p.token = rest
			p.fail("the quote is not closed")
			return
		}
		p.token, p.quoted, p.at = rest[1:1+end], true, p.start+end+2
		return
	}
	n := strings.IndexFunc(rest, func(r rune) bool { return !wordRune(r) })
	switch {
	case n < 0:
		n = len(rest)
	case n == 0:
		n = 1
		for _, op := range []string{"!=", "<>", "<=", ">=", "=="} {
			if strings.HasPrefix(rest, op) {
				n = 2
			}
		}
		if rest[0] >= utf8.RuneSelf {
			_, n = utf8.DecodeRuneInString(rest)
		}
	}
	p.token, p.at = rest[:n], p.start+n
}

// is reports whether the token is a keyword or a sign.
func (p *parser) is(word string) bool { return !p.quoted && strings.EqualFold(p.token, word) }

func (p *parser) or() string  { return p.chain("or", p.and) }
func (p *parser) and() string { return p.chain("and", p.not) }

func (p *parser) chain(word string, part func() string) string {
	parts := []string{part()}
	for p.is(word) {
		p.next()
		parts = append(parts, part())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + strings.Join(parts, " "+strings.ToUpper(word)+" ") + ")"
}

// deepest is how many brackets may be open at once.
const deepest = 100

func (p *parser) not() string {
	if p.depth++; p.depth > deepest {
		p.fail("more than %d nested brackets and nots", deepest)
		return ""
	}
	defer func() { p.depth-- }()
	switch {
	case p.is("not"):
		p.next()
		return "NOT (" + p.not() + ")"
	case p.is("("):
		p.next()
		inner := p.or()
		if !p.is(")") {
			p.fail("want a closing bracket")
			return ""
		}
		p.next()
		return inner
	}
	return p.comparison()
}

var operators = map[string]string{"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "~": "~"}

func (p *parser) comparison() string {
	name := p.token
	if name == "" || p.quoted || !wordRune(rune(name[0])) {
		p.fail("want a name, such as backend or f1")
		return ""
	}
	if !slices.Contains(p.known, name) {
		p.fail("no run has that%s", spelling.Hint(name, p.known))
		return ""
	}
	p.next()
	op, ok := operators[p.token]
	if !ok || p.quoted {
		p.fail("want =, !=, <, <=, >, >= or ~ behind %s", name)
		return ""
	}
	p.next()
	if p.token == "" && !p.quoted || !p.quoted && !wordRune(firstRune(p.token)) {
		p.fail("want a value to compare %s with", name)
		return ""
	}
	value := p.token
	out := p.sql(name, op, value)
	if p.err == nil {
		p.next()
	}
	return out
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// sql is a comparison, with its value as an argument.
func (p *parser) sql(name, op, value string) string {
	i := slices.IndexFunc(columns, func(c struct {
		name   string
		number bool
	}) bool {
		return c.name == name
	})
	switch {
	case name == "tag":
		has := "EXISTS (SELECT 1 FROM tags t WHERE t.run = r.id AND " + p.compare("t.tag", strings.Replace(op, "<>", "=", 1), value) + ")"
		if op == "<>" {
			return "NOT " + has
		}
		return has
	case name == "backend" && strings.Contains(value, ":"):
		return p.compare("r.spec", op, value) // with its precision, as it was asked for
	case i >= 0 && !columns[i].number:
		return p.compare("r."+name, op, value)
	case op == "~":
		p.fail("~ is for texts, and %s is a number", name)
		return ""
	case name == "seed":
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			p.fail("a seed is a whole number")
			return ""
		}
		return fmt.Sprintf("r.seed %s %s", op, p.arg(ordered(n)))
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || n != n {
		p.fail("%s is a number: want a number to compare it with", name)
		return ""
	}
	if i >= 0 {
		return fmt.Sprintf("r.%s %s %s", name, op, p.arg(n))
	}
	return fmt.Sprintf("(SELECT m.value FROM metrics m WHERE m.run = r.id AND m.name = %s) %s %s", p.arg(name), op, p.arg(n))
}

// compare compares text, byte by byte.
func (p *parser) compare(column, op, value string) string {
	if op == "~" {
		escape := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
		return fmt.Sprintf(`%s LIKE %s ESCAPE '\'`, column, p.arg("%"+escape.Replace(value)+"%"))
	}
	return fmt.Sprintf("%s %s %s", column, op, p.arg(value))
}

func (p *parser) arg(v any) string {
	p.args = append(p.args, v)
	return fmt.Sprintf("$%d", len(p.args))
}
