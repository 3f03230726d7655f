package wordpiece_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"harness.invalid/core/wordpiece"
	"harness.invalid/core/wordpiece/pystring"
)

// plainBasic is BasicTokenizer of google-research/bert as its source has it, step by step over whole strings.
func plainBasic(text string, lower bool) []string {
	var clean strings.Builder
	for _, r := range text {
		switch {
		case r == 0 || r == 0xfffd || r != '\t' && r != '\n' && r != '\r' && unicode.In(r, unicode.Cc, unicode.Cf):
		case r == ' ' || r == '\t' || r == '\n' || r == '\r' || unicode.Is(unicode.Zs, r):
			clean.WriteByte(' ')
		case 0x4E00 <= r && r <= 0x9FFF || 0x3400 <= r && r <= 0x4DBF || 0x20000 <= r && r <= 0x2A6DF || 0x2A700 <= r && r <= 0x2B73F ||
			0x2B740 <= r && r <= 0x2B81F || 0x2B820 <= r && r <= 0x2CEAF || 0xF900 <= r && r <= 0xFAFF || 0x2F800 <= r && r <= 0x2FA1F:
			clean.WriteString(" " + string(r) + " ")
		default:
			clean.WriteRune(r)
		}
	}
	var words []string
	for _, token := range pystring.Fields(clean.String()) {
		if lower {
			token = strings.Map(func(r rune) rune {
				if unicode.Is(unicode.Mn, r) {
					return -1
				}
				return r
			}, norm.NFD.String(pystring.Lower(token)))
		}
		var split strings.Builder
		for _, r := range token {
			if strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r) || unicode.IsPunct(r) {
				split.WriteString(" " + string(r) + " ")
			} else {
				split.WriteRune(r)
			}
		}
		words = append(words, pystring.Fields(split.String())...)
	}
	return words
}

// plainPieces is WordpieceTokenizer of google-research/bert.
func plainPieces(v *wordpiece.Vocab, words []string, limit int) []string {
	var out []string
	for _, word := range words {
		chars := []rune(word)
		if len(chars) > limit {
			out = append(out, wordpiece.Unk)
			continue
		}
		var pieces []string
		for start := 0; start < len(chars); {
			end, found := len(chars), ""
			for ; end > start && found == ""; end-- {
				s := string(chars[start:end])
				if start > 0 {
					s = "##" + s
				}
				if _, ok := v.ID(s); ok {
					found = s
					start = end
					break
				}
			}
			if found == "" {
				pieces = []string{wordpiece.Unk}
				break
			}
			pieces = append(pieces, found)
		}
		out = append(out, pieces...)
	}
	return out
}

// small is a vocabulary in which words break in all ways: whole, in pieces, and not at all.
var small = []string{
	"[UNK]", "a", "ab", "abc", "##b", "##bc", "##c", "##d", "d", "i", "e", "##e", "##é", "é", "o",
	"##σ", "##ς", "σ", "ο", "##ο", "中", "##中", "한", "ᄒ", "##ᅡ", "##ᆫ", "##한", ".", "!", "=", "##", "##\u0307",
	"E", "##E", "A", "##B", "—", "ж", "##ж", "и", "й", "##й",
}

func tokenizers(t testing.TB) (ts []*wordpiece.Tokenizer, os []wordpiece.Options) {
	v, err := wordpiece.NewVocab("small", small)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []wordpiece.Options{
		wordpiece.Google(true), wordpiece.Google(false), wordpiece.HuggingFace(true), wordpiece.HuggingFace(false),
	} {
		o.MaxCharsPerWord = 6
		tok, err := wordpiece.New(v, o)
		if err != nil {
			t.Fatal(err)
		}
		ts, os = append(ts, tok), append(os, o)
	}
	return ts, os
}

// letters are characters that the tokenizer's steps treat differently.
var letters = []rune("aAbBcCdDeEiI éÉİΣσΟο\u0301\u0307\u0338中한ж\u0439.!#-'—≠=\t\n\r\v\x00\x7f" +
	"\u200b\u00a0\u2028\u2029\u3000\ufeff\ufffd\U00020000\U0001f600\ue000\u037e\u212a豈")

// TestAgainstPlain: the tokens are those of the reference's own steps.
func TestAgainstPlain(t *testing.T) {
	ts, os := tokenizers(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom(letters), 0, 40, -1).Draw(t, "text")
		for i := range 2 { // Google's
			words := plainBasic(text, os[i].Lower)
			if got := ts[i].Basic().Tokens(text); !slices.Equal(got, words) {
				t.Fatalf("words of %q, lower %v:\n got %q\nwant %q", text, os[i].Lower, got, words)
			}
			want := plainPieces(ts[i].Vocab(), words, os[i].MaxCharsPerWord)
			if got := ts[i].Tokens(text); !slices.Equal(got, want) {
				t.Fatalf("tokens of %q, lower %v:\n got %q\nwant %q", text, os[i].Lower, got, want)
			}
		}
	})
}

// TestEveryCharacter: each character of Unicode alone, between letters and behind one comes out as from the
// reference's steps. Beyond the alphabets it takes a sample when time is short.
func TestEveryCharacter(t *testing.T) {
	step := rune(1)
	if testing.Short() || raceEnabled {
		step = 61
	}
	for _, lower := range []bool{true, false} {
		basic := wordpiece.NewBasic(wordpiece.Google(lower))
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if !utf8.ValidRune(r) || r > 0x20100 && r%256 != 0 || r > 0x2000 && r%step != 0 {
				continue // beyond plane 1 there are ideographs and nothing else
			}
			text := "X" + string(r) + "b " + string(r) + " c" + string(r)
			if got, want := basic.Tokens(text), plainBasic(text, lower); !slices.Equal(got, want) {
				t.Errorf("%U, lower %v: got %q, want %q", r, lower, got, want)
			}
		}
	}
}

func TestDifferencesOfReferences(t *testing.T) {
	google, hugging := wordpiece.NewBasic(wordpiece.Google(true)), wordpiece.NewBasic(wordpiece.HuggingFace(true))
	for _, c := range []struct {
		text            string
		google, hugging []string
	}{
		{"ΟΔΟΣ", []string{"οδος"}, []string{"οδοσ"}},
		{"a\ue000b", []string{"a\ue000b"}, []string{"ab"}},
		{"a\U000e0fffb", []string{"a\U000e0fffb"}, []string{"ab"}},
		{"a\u2028b", []string{"a", "b"}, []string{"a", "b"}},
	} {
		if got := google.Tokens(c.text); !slices.Equal(got, c.google) {
			t.Errorf("Google: %q: got %q, want %q", c.text, got, c.google)
		}
		if got := hugging.Tokens(c.text); !slices.Equal(got, c.hugging) {
			t.Errorf("Hugging Face: %q: got %q, want %q", c.text, got, c.hugging)
		}
	}
}

func TestPieces(t *testing.T) {
	ts, _ := tokenizers(t)
	for _, c := range []struct {
		text string
		want []string // token=text
	}{
		{"Abcd  d.", []string{"abc=Abc", "##d=d", "d=d", ".=."}},
		{"xyz a", []string{"[UNK]=xyz", "a=a"}},
		{"a\u200bb É!", []string{"ab=a\u200bb", "e=É", "!=!"}},
		{"\u0301ae\u0301 ", []string{"a=a", "##e=e"}},
		{"한중", []string{"[UNK]=한중"}},
		{"한a중", []string{"[UNK]=한a중"}},
		{"한", []string{"ᄒ=한", "##ᅡ=한", "##ᆫ=한"}},
		{"a中b", []string{"a=a", "中=中", "[UNK]=b"}},
		{"≠", []string{"==≠"}},
		{"aaaaaaa abcbcbc", []string{"[UNK]=aaaaaaa", "[UNK]=abcbcbc"}}, // more than 6 characters
		{"éééeeeé", []string{"[UNK]=éééeeeé"}},
		{"éeé\xffe", []string{"e=é", "##e=e", "##e=é", "##e=e"}},
	} {
		var got []string
		for _, p := range ts[0].AppendPieces(nil, c.text) {
			got = append(got, ts[0].Vocab().Token(p.ID)+"="+c.text[p.Start:p.End])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// checkPieces holds what is true of every text: ids agree with AppendIDs, places never go back nor leave the text,
// and each token's place in the text has that token's words.
func checkPieces(t interface {
	Fatalf(string, ...any)
}, tok *wordpiece.Tokenizer, text string) {
	ids := tok.AppendIDs(nil, text)
	pieces := tok.AppendPieces(nil, text)
	if len(ids) != len(pieces) {
		t.Fatalf("%q: %d ids, %d pieces", text, len(ids), len(pieces))
	}
	words := tok.Basic().Tokens(text)
	joined, start, end := "", 0, 0
	for i, p := range pieces {
		if p.ID != ids[i] {
			t.Fatalf("%q: piece %d has id %d, want %d", text, i, p.ID, ids[i])
		}
		if p.Start < start || p.End < end || p.Start >= p.End || p.End > len(text) {
			t.Fatalf("%q: piece %d is [%d:%d] after [%d:%d] of %d bytes", text, i, p.Start, p.End, start, end, len(text))
		}
		start, end = p.Start, p.End
		token := tok.Vocab().Token(p.ID)
		if token == wordpiece.Unk {
			joined, words = "", words[1:]
			continue
		}
		if joined == "" {
			joined = token
		} else {
			joined += strings.TrimPrefix(token, "##")
		}
		if joined == words[0] {
			joined, words = "", words[1:]
		}
	}
	if len(words) > 0 || joined != "" {
		t.Fatalf("%q: the pieces don't join to the words: %q and %q are left", text, words, joined)
	}
}

func FuzzPieces(f *testing.F) {
	ts, _ := tokenizers(f)
	f.Add("Abcd  xyz a\u200bb É! 한중 \xff\xc3")
	f.Add(string(letters))
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range ts {
			checkPieces(t, tok, text)
		}
	})
}

func TestPiecesProperties(t *testing.T) {
	ts, _ := tokenizers(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom(letters), 0, 40, -1).Draw(t, "text")
		text += string(rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(t, "bytes"))
		for _, tok := range ts {
			checkPieces(t, tok, text)
		}
	})
}

// TestTrie: in any vocabulary, the longest token at each place is found, as by looking up every prefix.
func TestTrie(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(rapid.StringMatching(`(##)?[abcxyzé中]{1,5}`), 1, 200, rapid.ID).Draw(t, "tokens")
		v, err := wordpiece.NewVocab("drawn", append(list, wordpiece.Unk))
		if err != nil {
			t.Fatal(err)
		}
		o := wordpiece.Google(false)
		o.SplitChinese = false
		tok, err := wordpiece.New(v, o)
		if err != nil {
			t.Fatal(err)
		}
		words := rapid.SliceOf(rapid.StringMatching(`[abcxyzé中]{1,12}`)).Draw(t, "words")
		want := plainPieces(v, words, o.MaxCharsPerWord)
		if got := tok.Tokens(strings.Join(words, " ")); !slices.Equal(got, want) {
			t.Fatalf("%q:\n got %q\nwant %q", words, got, want)
		}
	})
}

func TestNoAllocation(t *testing.T) {
	ts, _ := tokenizers(t)
	text := strings.Repeat("Abcd É 中 한 xyz. ", 20)
	ids, pieces := ts[0].AppendIDs(nil, text), ts[0].AppendPieces(nil, text)
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop what it holds")
	}
	if n := testing.AllocsPerRun(100, func() { ids = ts[0].AppendIDs(ids[:0], text) }); n >= 1 {
		t.Errorf("AppendIDs allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { pieces = ts[0].AppendPieces(pieces[:0], text) }); n >= 1 {
		t.Errorf("AppendPieces allocates %v times", n)
	}
}

func TestVocabErrors(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"", "vocabulary v.txt: no token"},
		{"a\nb\na\n", `vocabulary v.txt:3: token "a" is on line 1 already`},
		{"a\n\nb\n", "vocabulary v.txt:2: empty token"},
		{"a\n\xff\n", `vocabulary v.txt:2: token "\xff" is not UTF-8`},
		{"a\n" + strings.Repeat("x", 1<<17), "vocabulary v.txt: line 2 has more than 65536 bytes: want a token a line"},
	} {
		if _, err := wordpiece.Read(strings.NewReader(c.file), "v.txt"); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.20q: error %v, want %s", c.file, err, c.want)
		}
	}
	if _, err := wordpiece.Load("no/such/vocab.txt"); err == nil || !strings.Contains(err.Error(), "no/such/vocab.txt") {
		t.Errorf("missing file: %v", err)
	}
	v, err := wordpiece.Read(strings.NewReader("a\r\n[UNK]\r\n"), "v.txt")
	if err != nil || v.Len() != 2 {
		t.Fatalf("CR LF: %v", err)
	}
	if _, err := v.Special(wordpiece.Mask); !errors.Is(err, wordpiece.ErrInvalid) ||
		!strings.Contains(err.Error(), "v.txt") || !strings.Contains(err.Error(), "[MASK]") {
		t.Errorf("no [MASK]: %v", err)
	}
	if id, err := v.Special(wordpiece.Unk); err != nil || id != 1 {
		t.Errorf("[UNK]: %d, %v", id, err)
	}
	if _, err := wordpiece.New(v, wordpiece.Options{}); err == nil {
		t.Error("no error for words of at most 0 characters")
	}
	v, err = wordpiece.NewVocab("v", []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wordpiece.New(v, wordpiece.Google(true)); err == nil {
		t.Error("no error for a vocabulary without [UNK]")
	}
}
