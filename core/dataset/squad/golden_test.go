package squad

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/wordpiece"
)

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func tokenizer(t testing.TB, path string) *wordpiece.Tokenizer {
	t.Helper()
	v, err := wordpiece.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := wordpiece.New(v, wordpiece.Google(true))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// golden is what testdata/oracle.py wrote: features and answers of a transcription of run_squad.py, for text with
// everything that moves a span (accents, Chinese, ligatures, odd spaces, quotes, unknown words) and windows much
// shorter than the passages.
type golden struct {
	Settings struct {
		MaxSeqLength   int `json:"max_seq_length"`
		DocStride      int `json:"doc_stride"`
		MaxQueryLength int `json:"max_query_length"`
		NBestSize      int `json:"n_best_size"`
		MaxAnswer      int `json:"max_answer_length"`
	}
	Skipped  []string
	Features []struct {
		ID         string
		InputIDs   []int32 `json:"input_ids"`
		SegmentIDs []int32 `json:"segment_ids"`
		Start, End int32
	}
}

func goldenSet(t *testing.T, version string) (golden, *Set) {
	var g golden
	if err := json.Unmarshal(read(t, "testdata/golden"+version+".json"), &g); err != nil {
		t.Fatal(err)
	}
	d, err := Read("testdata/data" + version + ".json")
	if err != nil {
		t.Fatal(err)
	}
	s := Settings{MaxLength: g.Settings.MaxSeqLength, DocStride: g.Settings.DocStride, MaxQueryLength: g.Settings.MaxQueryLength,
		Impossible: version != ""}
	set, err := NewSet(d, tokenizer(t, "testdata/vocab.txt"), s, true)
	if err != nil {
		t.Fatal(err)
	}
	return g, set
}

// versions are the parts of file names for SQuAD v1.1 and v2.0.
var versions = []string{"", "-v2"}

func TestFeatures(t *testing.T) {
	for _, version := range versions {
		t.Run("squad"+version, func(t *testing.T) { testFeatures(t, version) })
	}
}

func testFeatures(t *testing.T, version string) {
	g, set := goldenSet(t, version)
	var skipped []string
	for _, s := range set.Skipped {
		skipped = append(skipped, s.ID)
	}
	if !slices.Equal(skipped, g.Skipped) {
		t.Errorf("skipped %v, want %v", skipped, g.Skipped)
	}
	if set.Len() != len(g.Features) {
		t.Fatalf("%d features, want %d", set.Len(), len(g.Features))
	}
	for b := range set.Batches(7) {
		for i := range b.Size {
			want := g.Features[b.Sample+i]
			n, row := len(want.InputIDs), i*b.Length
			got := b.Slice(i, i+1)
			if id := set.examples[set.features[b.Sample+i].example].id; id != want.ID {
				t.Errorf("feature %d is of question %s, want %s", b.Sample+i, id, want.ID)
			}
			if !slices.Equal(got.InputIDs[:n], want.InputIDs) || !slices.Equal(got.TokenTypeIDs[:n], want.SegmentIDs) {
				t.Errorf("feature %d is\n%v\n%v, want\n%v\n%v", b.Sample+i, got.InputIDs[:n], got.TokenTypeIDs[:n], want.InputIDs, want.SegmentIDs)
			}
			for j := range b.Length {
				if on := b.AttentionMask[row+j] == 1; on != (j < n) || !on && (b.InputIDs[row+j] != 0 || b.TokenTypeIDs[row+j] != 0) {
					t.Errorf("feature %d: padding begins before or after %d", b.Sample+i, n)
					break
				}
			}
			if got.StartPositions[0] != want.Start || got.EndPositions[0] != want.End {
				t.Errorf("feature %d: answer is %d to %d, want %d to %d", b.Sample+i, got.StartPositions[0], got.EndPositions[0], want.Start, want.End)
			}
		}
	}
}

// TestPredictions: the same logits give the files that Python writes, byte for byte but for the last bits of exp.
func TestPredictions(t *testing.T) {
	for _, version := range versions {
		t.Run("squad"+version, func(t *testing.T) { testPredictions(t, version) })
	}
}

func testPredictions(t *testing.T, version string) {
	g, set := goldenSet(t, version)
	d, err := NewDecoder(set, Decoding{NBest: g.Settings.NBestSize, MaxAnswerLength: g.Settings.MaxAnswer, NullThreshold: -25.75})
	if err != nil {
		t.Fatal(err)
	}
	logit := func(feature, position, which int) float32 {
		return float32((feature*7919+position*104729+which*1299709)%129-64) / 8
	}
	for b := range set.Batches(5) {
		var starts, ends []float32
		for i := range b.Size {
			for p := range b.Length {
				starts = append(starts, logit(b.Sample+i, p, 0))
				ends = append(ends, logit(b.Sample+i, p, 1))
			}
		}
		if err := d.Add(b, starts, ends); err != nil {
			t.Fatal(err)
		}
	}
	predictions, err := d.Predictions()
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]struct{ Probability float64 }
	if err := json.Unmarshal(read(t, "testdata/nbest_predictions"+version+".json"), &want); err != nil {
		t.Fatal(err)
	}
	for _, p := range predictions {
		for i := range min(len(p.NBest), len(want[p.ID])) {
			c := &p.NBest[i]
			w := want[p.ID][i].Probability
			// An exponential and a sum of twenty are good to a few units in the last place.
			if math.Abs(c.Probability-w) > 1e-14*w {
				t.Errorf("question %s: probability %d is %v, want %v", p.ID, i, c.Probability, w)
			}
			c.Probability = w
		}
	}
	dir := t.TempDir()
	files := map[string]func(string) error{"predictions" + version + ".json": predictions.Save,
		"nbest_predictions" + version + ".json": predictions.SaveNBest}
	if version != "" {
		files["null_odds-v2.json"] = predictions.SaveNullOdds
	}
	for name, save := range files {
		if err := save(dir + "/" + name); err != nil {
			t.Fatal(err)
		}
		if got, want := read(t, dir+"/"+name), read(t, "testdata/"+name); !bytes.Equal(got, want) {
			t.Errorf("%s differs:\n%s\nwant\n%s", name, got, want)
		}
	}
	if a := predictions.Answers(); len(a) != len(predictions) || a["q0"] != predictions[0].Text() {
		t.Errorf("answers are %v", a)
	}
}

// TestNotFinite: a model that has diverged gets answers, not an error.
func TestNotFinite(t *testing.T) {
	for _, version := range versions {
		t.Run("squad"+version, func(t *testing.T) { testNotFinite(t, version) })
	}
}

func testNotFinite(t *testing.T, version string) {
	_, set := goldenSet(t, version)
	d, err := NewDecoder(set, Decoding{NBest: 20, MaxAnswerLength: 30})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Predictions(); err == nil {
		t.Error("answers without logits are no error")
	}
	for b := range set.Batches(100) {
		if err := d.Add(b, nil, nil); err == nil {
			t.Error("a batch without logits is no error")
		}
		nan := slices.Repeat([]float32{float32(math.NaN())}, b.Size*b.Length)
		if err := d.Add(b, nan, nan); err != nil {
			t.Fatal(err)
		}
		if err := d.Add(&bert.Batch{Size: b.Size, Length: b.Length, Sample: set.Len()}, nan, nan); err == nil {
			t.Error("logits for features that do not exist are no error")
		}
	}
	predictions, err := d.Predictions()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range predictions {
		if p.Text() != "empty" || p.NBest[0].Text != "empty" || version == "" && len(p.NBest) != 1 || p.NBest[0].Probability != 1 {
			t.Errorf("question %s: candidates are %+v, want \"empty\" alone", p.ID, p.NBest)
		}
	}
}

func TestProject(t *testing.T) {
	basic := wordpiece.NewBasic(wordpiece.Google(true))
	for _, c := range []struct{ answer, words, want string }{
		{"steve smith", "Steve Smith's", "Steve Smith"}, // the example in get_final_text
		{"smith ' s", "Steve Smith's", "Smith's"},
		{"zurich", "(Zürich).", "Zürich"},
		{"zurich", "(Zu\u0308rich).", "(Zu\u0308rich)."}, // one character more than its tokens: no projection
		{"[UNK]", "Zürich.", "Zürich."},
		{"東 京", "在東京。", "東京"},
		{"", "x", "x"},
		{"3 . 2", "$3.2bn", "3.2"},
	} {
		if got := project(c.answer, c.words, basic); got != c.want {
			t.Errorf("project(%q, %q) = %q, want %q", c.answer, c.words, got, c.want)
		}
	}
}

func TestPythonForms(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 1: "1.0", -2.5: "-2.5", 0.1: "0.1", 1e-4: "0.0001", 1.25e-5: "1.25e-05", 1e15: "1000000000000000.0", 1e16: "1e+16",
		1e100: "1e+100", float64(float32(1.1)): "1.100000023841858",
	} {
		if got := pythonFloat(f); got != want {
			t.Errorf("pythonFloat(%v) = %s, want %s", f, got, want)
		}
	}
	if got, want := pythonString("a\"\\\n\t\r\b\f\x01\x7fé\u2028😀/<"), `"a\"\\\n\t\r\b\f\u0001\u007f\u00e9\u2028\ud83d\ude00/<"`; got != want {
		t.Errorf("pythonString gives %s, want %s", got, want)
	}
}
