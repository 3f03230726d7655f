// Package wikipedia turns a dump of Wikipedia into text for pre-training: one sentence a line, a blank line after each
// article. A dump flows in as XML, compressed or not (Open, Reader); pages flow to Page.Sentences, which removes the
// markup; Extract writes what they give into shards.
//
// The choices are those of BERT's data and of WikiExtractor, which made it. Devlin et al. 2018 (arXiv:1810.04805,
// section 3.1): "we extract only the text passages and ignore lists, tables, and headers". attardi/wikiextractor,
// README and extract.py: articles alone, no redirects; templates are not expanded; references, galleries, tables and
// small print go with their content; italics become quotation marks. Differences: a link whose title has a colon is
// text unless it leads to a namespace or another language, formulas leave no placeholder, and brackets that a template
// left empty go.
package wikipedia

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"iter"
	"strconv"
	"strings"

	"harness.invalid/core/bounded"
)

// ErrInvalid is wrapped by errors about the content of a dump.
var ErrInvalid = errors.New("invalid dump")

// mostPage is the size of a page. MediaWiki's limit is 2 MiB of text.
const mostPage = 64 * bounded.MiB

// Reader reads the pages of a dump in order. The parts of a dump that it needs are found by their tags: in a dump, no
// '<' of a page's text stands for itself.
type Reader struct {
	scanner    *bufio.Scanner
	namespaces map[string]bool
	ended      bool // </mediawiki> was there
	pages      int64
}

// NewReader begins to read a dump, up to its first page.
func NewReader(r io.Reader) (*Reader, error) {
	d := &Reader{scanner: bufio.NewScanner(r), namespaces: map[string]bool{"file": true, "image": true, "category": true}}
	d.scanner.Buffer(make([]byte, 1<<20), mostPage)
	d.scanner.Split(d.split)
	if !d.scanner.Scan() {
		if err := d.scanner.Err(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the file does not begin with <mediawiki>, as an XML dump of a wiki does: %w", ErrInvalid)
	}
	d.siteinfo(d.scanner.Bytes())
	return d, nil
}

var (
	pageStart, pageEnd = []byte("<page>"), []byte("</page>")
	dumpStart, dumpEnd = []byte("<mediawiki"), []byte("</mediawiki>")
)

// split cuts a dump into its head and its pages.
func (d *Reader) split(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if d.pages == 0 {
		if !bytes.Contains(data[:min(len(data), 1024)], dumpStart) {
			if len(data) < 1024 && !atEOF {
				return 0, nil, nil
			}
			return len(data), nil, bufio.ErrFinalToken
		}
		at := bytes.Index(data, pageStart)
		if at < 0 {
			if at = bytes.Index(data, dumpEnd); at < 0 {
				return d.incomplete(atEOF, "its first page")
			}
		}
		d.pages++
		return at, data[:at], nil
	}
	at := bytes.Index(data, pageStart)
	before := data
	if at >= 0 {
		before = data[:at]
	}
	if bytes.Contains(before, dumpEnd) {
		d.ended = true
		return len(data), nil, bufio.ErrFinalToken
	}
	if at < 0 {
		return d.incomplete(atEOF, "</mediawiki>")
	}
	size := bytes.Index(data[at:], pageEnd)
	if size < 0 {
		return d.incomplete(atEOF, "the end of its page")
	}
	d.pages++
	return at + size + len(pageEnd), data[at : at+size], nil
}

func (d *Reader) incomplete(atEOF bool, before string) (int, []byte, error) {
	if !atEOF {
		return 0, nil, nil
	}
	return 0, nil, fmt.Errorf("the dump breaks off before %s, after %d pages: it was not downloaded in full: %w", before,
		max(0, d.pages-1), ErrInvalid)
}

// siteinfo reads the names of namespaces.
func (d *Reader) siteinfo(head []byte) {
	for {
		_, rest, ok := bytes.Cut(head, []byte("<namespace "))
		if !ok {
			return
		}
		tag, after, ok := bytes.Cut(rest, []byte(">"))
		if !ok {
			return
		}
		head = after
		if name, _, ok := bytes.Cut(after, []byte("<")); ok && !bytes.HasSuffix(tag, []byte("/")) {
			d.namespaces[strings.ToLower(html.UnescapeString(string(name)))] = true
		}
	}
}

// Namespaces are the dump's, in lower case: File and Category in its language among them.
func (d *Reader) Namespaces() map[string]bool { return d.namespaces }

// Pages yields the pages. Their texts are copies. An error is the last thing that comes.
func (d *Reader) Pages() iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for d.scanner.Scan() {
			if d.ended {
				return
			}
			p, err := parsePage(d.scanner.Bytes())
			if err != nil {
				err = fmt.Errorf("page %d: %w: %w", d.pages-1, err, ErrInvalid)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
		err := d.scanner.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = bounded.As(bounded.ErrTooLarge, "page %d has more than %d bytes", d.pages, mostPage)
		}
		if err != nil {
			yield(Page{}, err)
		}
	}
}

// parsePage reads what is between <page> and </page>.
func parsePage(data []byte) (p Page, err error) {
	title, ok := between(data, "<title>", "</title>")
	if !ok {
		return p, errors.New("it has no <title>")
	}
	p.Title = html.UnescapeString(string(title))
	ns, ok := between(data, "<ns>", "</ns>")
	if !ok {
		return p, fmt.Errorf("%.80q has no <ns>", p.Title)
	}
	if p.Namespace, err = strconv.Atoi(string(ns)); err != nil {
		return p, fmt.Errorf("%.80q has the namespace %.20q, want a number", p.Title, ns)
	}
	head, rest, found := bytes.Cut(data, []byte("<text"))
	p.Redirect = bytes.Contains(head, []byte("<redirect "))
	if !found {
		return p, nil // a deleted revision
	}
	tag, text, ok := bytes.Cut(rest, []byte(">"))
	if ok && !bytes.HasSuffix(tag, []byte("/")) {
		text, _, _ = bytes.Cut(text, []byte("</text>"))
		p.Text = bytes.Clone(text)
	}
	return p, nil
}

func between(data []byte, start, end string) ([]byte, bool) {
	_, rest, ok := bytes.Cut(data, []byte(start))
	if !ok {
		return nil, false
	}
	inner, _, ok := bytes.Cut(rest, []byte(end))
	return inner, ok
}
