package wikipedia

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStrip: what is left of each piece of markup, as MediaWiki shows it or as the package says.
func TestStrip(t *testing.T) {
	namespaces := map[string]bool{"file": true, "image": true, "category": true}
	for markup, want := range map[string]string{
		"'''Ada''' wrote ''Notes''":                           `Ada wrote "Notes"`,
		"an ''open italic\nnext":                              "an open italic\nnext",
		"[[Ada]], [[Ada Lovelace|she]] and [[poem]]s":         "Ada, she and poems",
		"[[File:a.jpg|thumb|A [[mill]] in {{flag|x}} [[y]]]]": "",
		"[[Category:Poets]][[de:Ada]][[:Category:Poets|all]]": "all",
		"[[Star Trek: Voyager]]":                              "Star Trek: Voyager",
		"[[Help:Link (wiki)|]]":                               "Link",
		"[http://a.org/b the site] [http://a.org] [1] x]":     "the site  [1] x]",
		"[http://a.org open\nnext]":                           "open\nnext]",
		"a{{cite|{{x}}|y={{{1|}}}}}b":                         "ab",
		"a {{open b":                                          "a open b",
		"a }} b ]] c":                                         "a  b  c",
		"{| class=x\n| a {{x}}\n|-\n{|\n| in\n|}\n|}\nafter":  "\nafter",
		"not {| a table |}":                                   "not {| a table |}",
		"{{a|\n{| x\n|}}}b":                                   "b",
		"a<ref name=x>{{cite}} note</ref>b<ref name=x />c":    "abc",
		"a<REF>n</ref >b":                                     "ab",
		"a <b>bold</b> <span style=\"x\">s</span> 1<2 <3":     "a bold s 1<2 <3",
		"a<!-- {{ -->b<!-- open":                              "ab",
		"<nowiki>[[x]] {{y}}</nowiki>!":                       "[[x]] {{y}}!",
		"<math>\\{{x}\\}</math>y":                             "y",
		"a<br/>b<br>c":                                        "ab c",
		"__NOTOC__a __b__ c":                                  "a __b__ c",
		"x -{zh-hans:计算机; zh-hant:電腦}- y -{H|zh-cn:a;zh-tw:b}--{只}-": "x 计算机 y 只",
		"<ref>open [[a]]": "open a",
		"[[a {{b]] c}}":   "a b c",
	} {
		if got := string(strip([]byte(markup), namespaces)); got != want {
			t.Errorf("%q becomes %q, want %q", markup, got, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string]string{
		"It was. She wrote? Yes! So.":                 "It was.|She wrote?|Yes!|So.",
		"Dr. Ada met J. S. Bach in St. Ives. He sat.": "Dr. Ada met J. S. Bach in St. Ives.|He sat.",
		"The U.S. Army left at 5 p.m. It rained.":     "The U.S. Army left at 5 p.m. It rained.",
		"It cost 3.50 in 1999. 20 came.":              "It cost 3.50 in 1999.|20 came.",
		`He said "Go." Then he left.`:                 `He said "Go."|Then he left.`,
		"So am I. You too.":                           "So am I.|You too.",
		"Wait... now. (See below.) Done":              "Wait... now.|(See below.)|Done",
		"他来了。她说：“走！”然后呢？走了":                           "他来了。|她说：“走！”|然后呢？|走了",
		"v. lower goes on. e.g. this":                 "v. lower goes on. e.g. this",
	} {
		if got := strings.Join(Split(nil, text), "|"); got != want {
			t.Errorf("%q is split into %q, want %q", text, got, want)
		}
	}
}

// dumpOf writes pages as a dump does.
func dumpOf(pages ...Page) string {
	var b strings.Builder
	b.WriteString("<mediawiki xmlns=\"x\" xml:lang=\"de\">\n  <siteinfo>\n    <namespaces>\n" +
		"      <namespace key=\"0\" case=\"first-letter\" />\n" +
		"      <namespace key=\"6\" case=\"first-letter\">Datei</namespace>\n    </namespaces>\n  </siteinfo>\n")
	for i, p := range pages {
		redirect := ""
		if p.Redirect {
			redirect = "    <redirect title=\"x\" />\n"
		}
		fmt.Fprintf(&b, "  <page>\n    <title>%s</title>\n    <ns>%d</ns>\n    <id>%d</id>\n%s    <revision>\n"+
			"      <text bytes=\"1\" xml:space=\"preserve\">%s</text>\n    </revision>\n  </page>\n",
			html.EscapeString(p.Title), p.Namespace, i, redirect, html.EscapeString(string(p.Text)))
	}
	return b.String() + "</mediawiki>\n"
}

const mill = `{{Infobox mill|name={{PAGENAME}}}}
[[Datei:Mill.jpg|thumb|The mill]]
'''The mill''' (; born 1800) is a [[mill]]&nbsp;in [[Ives]].<ref>Page 3. See.</ref> It grinds &lt;corn&gt;.

== History ==
* a list
# of things
: It was built by [http://a.org Ada].
It had:
{| class="wikitable"
| a cell
|}
(see also)
`

var pages = []Page{
	{Title: "Mill & co", Text: []byte(mill)},
	{Title: "Windmill", Redirect: true, Text: []byte("#REDIRECT [[Mill]]")},
	{Title: "Talk:Mill", Namespace: 1, Text: []byte("Nonsense. More of it.")},
	{Title: "A copy", Text: []byte(mill)},
	{Title: "Short", Text: []byte("One sentence.")},
	{Title: "Last", Text: []byte("First here. Second here.")},
}

const millText = "The mill (born 1800) is a mill in Ives.\nIt grinds <corn>.\nIt was built by Ada.\n"

// TestExtract extracts a small dump, in one go and after interruptions at each page: the same shards come out.
func TestExtract(t *testing.T) {
	dir := t.TempDir()
	dump := filepath.Join(dir, "wiki.xml")
	if err := os.WriteFile(dump, []byte(dumpOf(pages...)), 0o666); err != nil {
		t.Fatal(err)
	}
	s := Settings{Least: 2, ShardBytes: 1 << 20}
	out := filepath.Join(dir, "text")
	r, err := Extract(t.Context(), dump, out, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "text-00000.txt"))
	if want := millText + "\nFirst here.\nSecond here.\n"; err != nil || string(text) != want {
		t.Errorf("the text is %q, %v, want %q", text, err, want)
	}
	if r.Pages != 6 || r.Others != 2 || r.Short != 1 || r.Duplicates != 1 || r.Articles != 2 || r.Sentences != 5 ||
		r.Bytes != int64(len(text)) {
		t.Errorf("the report is %+v", r)
	}
	again, err := Extract(t.Context(), dump, out, s, nil)
	if err != nil || fmt.Sprint(again) != fmt.Sprint(r) {
		t.Errorf("once more: %+v, %v", again, err)
	}
	s.ShardBytes = 1
	if _, err := Extract(t.Context(), dump, out, s, nil); err == nil || !strings.Contains(err.Error(), "choose another folder") {
		t.Errorf("other settings: %v", err)
	}
}

// TestResume: an extraction that broke off with a damaged dump goes on with the whole one, and knows what it saw.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	dump, out := filepath.Join(dir, "wiki.xml"), filepath.Join(dir, "text")
	whole := dumpOf(pages...)
	cut := strings.Index(whole, "<title>Short")
	broken := []byte(whole)
	for i := range broken[cut:] { // of the same size
		broken[cut+i] = ' '
	}
	s := Settings{Least: 2, ShardBytes: 1}
	if err := os.WriteFile(dump, broken, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Extract(t.Context(), dump, out, s, nil); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "breaks off") {
		t.Fatalf("a dump that breaks off: %v", err)
	}
	if err := os.WriteFile(dump, []byte(whole), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Extract(t.Context(), dump, out, s, nil)
	if err != nil || r.Duplicates != 1 || r.Articles != 2 || !slices.Equal(r.Shards, []string{"text-00000.txt", "text-00001.txt"}) {
		t.Errorf("resumed: %+v, %v", r, err)
	}
}

func TestExtractStops(t *testing.T) {
	dir := t.TempDir()
	dump := filepath.Join(dir, "wiki.xml")
	if err := os.WriteFile(dump, []byte(dumpOf(pages...)), 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Extract(ctx, dump, filepath.Join(dir, "text"), Settings{1, 1}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestReaderRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "does not begin with <mediawiki>",
		"<html>":                      "does not begin with <mediawiki>",
		"<mediawiki>":                 "before its first page",
		"<mediawiki><page><ns>0</ns>": "before the end of its page",
		"<mediawiki><page></page>":    "it has no <title>",
		"<mediawiki><page><title>a</title><ns>x</ns></page>": `"a" has the namespace "x"`,
		"<mediawiki><page><title>a</title><ns>0</ns></page>": "before </mediawiki>",
	} {
		r, err := NewReader(strings.NewReader(text))
		for err == nil {
			for _, e := range r.Pages() {
				err = e
			}
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestSeen(t *testing.T) {
	var s seen
	for i := range 1000 {
		text := fmt.Appendf(nil, "%d", i)
		if !s.add(text) || s.add(text) {
			t.Fatalf("text %d", i)
		}
	}
}

// FuzzStrip: any markup comes to an end, with no more text than it has and nothing that is not UTF-8 from text that is.
func FuzzStrip(f *testing.F) {
	f.Add(mill)
	f.Add("{{{{[[[[<ref><!--'''''|}}}]]-{a|b}-")
	f.Add(strings.Repeat("[[a|", 100) + strings.Repeat("]]", 100))
	f.Fuzz(func(t *testing.T, text string) {
		out := strip([]byte(text), map[string]bool{"file": true})
		if len(out) > len(text) {
			t.Errorf("%q becomes %q", text, out)
		}
		for line := range strings.Lines(string(out)) {
			line = paragraph(line)
			if joined := strings.Join(Split(nil, line), " "); strings.ReplaceAll(joined, " ", "") != strings.ReplaceAll(line, " ", "") {
				t.Errorf("%q is split into %q", line, joined)
			}
		}
	})
}

// FuzzReader: any file is read to an end or an error.
func FuzzReader(f *testing.F) {
	f.Add([]byte(dumpOf(pages...)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		for p, err := range r.Pages() {
			if err == nil {
				p.Sentences(r.Namespaces())
			}
		}
	})
}

// BenchmarkSentences: a core should do 20 MB of a dump a second.
func BenchmarkSentences(b *testing.B) {
	p := Page{Text: []byte(html.EscapeString(strings.Repeat(mill, 50)))}
	b.SetBytes(int64(len(p.Text)))
	for b.Loop() {
		p.Sentences(map[string]bool{"datei": true})
	}
}
