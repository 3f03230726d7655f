package wikipedia

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Page is a page of a dump.
type Page struct {
	Title     string
	Namespace int
	Redirect  bool
	Text      []byte // as the dump has it, escaped for XML
}

// Sentences are the sentences of a page's running text, without headings, lists, tables and notes. namespaces are
// those of the dump, in lower case. There are none for a page that is no article.
func (p *Page) Sentences(namespaces map[string]bool) []string {
	if p.Namespace != 0 || p.Redirect {
		return nil
	}
	var all []string
	text := strip([]byte(html.UnescapeString(string(p.Text))), namespaces)
	for line := range strings.Lines(string(text)) {
		if line = paragraph(line); line != "" {
			all = Split(all, line)
		}
	}
	return all
}

// paragraph is a line as text, empty if it is a heading, an item of a list, what is left of a table, an
// introduction of a list, or has no letter.
func paragraph(line string) string {
	line = strings.TrimLeft(strings.TrimSpace(line), ":")
	if line == "" || strings.ContainsRune("*#;={|!", rune(line[0])) || strings.HasSuffix(line, "}") {
		return ""
	}
	line = plain([]byte(line))
	last, _ := utf8.DecodeLastRuneInString(line)
	switch {
	case last == ':' || last == '：', strings.HasPrefix(line, "(") && last == ')' && strings.Count(line, "(") == 1,
		strings.IndexFunc(line, unicode.IsLetter) < 0:
		return ""
	}
	return line
}

// ends end a sentence. After those of the first kind comes a blank and the beginning of another; after those of the
// second, which Chinese and Japanese have, comes the next sentence at once.
const (
	ends     = ".!?…"
	fullEnds = "。！？"
	closers  = `"'”’»)]」』）】〉》`
	openers  = `"'“‘«([¿¡「『（`
)

// Split appends the sentences of a paragraph. A sentence ends after ends and closers if a blank and then, maybe after
// openers, an upper-case letter, a digit, or a letter of a script without cases follow. It does not end after an
// abbreviation, or after a single letter, as in J. S. Bach, where another word goes on; nor after the number that
// begins it.
func Split(all []string, text string) []string {
	start := 0
	add := func(end int) {
		if s := strings.TrimSpace(text[start:end]); s != "" {
			all = append(all, s)
		}
		start = end
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		at := i
		i += n
		full := strings.ContainsRune(fullEnds, r)
		if !full && !strings.ContainsRune(ends, r) {
			continue
		}
		for i < len(text) {
			c, n := utf8.DecodeRuneInString(text[i:])
			if !strings.ContainsRune(ends+fullEnds+closers, c) {
				break
			}
			i += n
		}
		next := i < len(text) && text[i] == ' ' && begins(text[i+1:])
		if full || next && (r != '.' || !abbreviates(text[start:at], i == at+n)) {
			add(i)
		}
	}
	add(len(text))
	return all
}

// begins reports whether text can begin a sentence.
func begins(text string) bool {
	for _, r := range text {
		if !strings.ContainsRune(openers, r) {
			return unicode.IsDigit(r) || unicode.IsLetter(r) && !unicode.IsLower(r)
		}
	}
	return false
}

// abbreviates reports whether the last word of what is before a full stop is an abbreviation. bare: nothing but the
// full stop follows the word.
func abbreviates(before string, bare bool) bool {
	if !bare {
		return false
	}
	word := before[strings.LastIndexAny(before, " \u00a0")+1:]
	word = strings.TrimLeft(word, openers)
	if word == before && strings.Trim(word, "0123456789") == "" {
		return true // 1. begins an item
	}
	if utf8.RuneCountInString(word) == 1 {
		r, _ := utf8.DecodeRuneInString(word)
		return unicode.IsUpper(r) && r != 'I'
	}
	return abbreviations[strings.ToLower(word)] || strings.Contains(word, ".") && initials(word)
}

// initials reports whether a word is single letters between full stops, as U.S or e.g.
func initials(word string) bool {
	for part := range strings.SplitSeq(word, ".") {
		if utf8.RuneCountInString(part) != 1 {
			return false
		}
	}
	return true
}

// abbreviations after which a sentence goes on, in lower case, without their last full stop: titles, and what stands
// before names and numbers.
var abbreviations = words(`
	mr mrs ms dr prof st ste mt ft sr jr messrs mme mlle rev hon fr gen col lt cpt capt cmdr adm maj
	sgt cpl gov sen rep pres vs v no nos vol vols pp p fig figs ed eds trans ca c cf approx est al viz
	etc op cit ch art sec jan feb mar apr jun jul aug sep sept oct nov dec b d r fl inc ltd co corp
	bros dept univ assn ave blvd rd hr min max ph phd ph.d m.d d.c`)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}
