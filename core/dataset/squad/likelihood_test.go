package squad

import (
	"math"
	"testing"

	"harness.invalid/core/bert"
)

// TestLikelihood: even logits give the logarithms of the numbers of tokens; one that is higher by log 3 is as three of
// them. Windows overlap, and an answer counts in the one where it has the most context.
func TestLikelihood(t *testing.T) {
	const context = "zero one two three four five six seven eight nine"
	parse := func(answers string) *Data {
		d, err := Parse([]byte(`{"version": "v1.1", "data": [{"title": "t", "paragraphs": [{"context": "`+context+`", "qas": [
			{"id": "a", "question": "one", `+answers+`}]}]}]}`), "f.json")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	tok := chinese(t, "") // every word is [UNK], one token
	for name, c := range map[string]struct {
		answers    string
		impossible bool
		window     int // [CLS] one [SEP] zero ... seven [SEP], or [CLS] one [SEP] three ... nine [SEP] [PAD]
		from, to   int // positions with a logit of log 3
		want       float64
		none       bool
	}{
		"even":         {answers: `"answers": [{"text": "two", "answer_start": 9}]`, want: 2 * math.Log(12)},
		"likely start": {answers: `"answers": [{"text": "two", "answer_start": 9}]`, from: 5, want: math.Log(14/3.) + math.Log(12)},
		"whole span":   {answers: `"answers": [{"text": "one two", "answer_start": 5}]`, from: 4, to: 5, want: 2 * math.Log(14/3.)},
		"second window": {answers: `"answers": [{"text": "eight", "answer_start": 40}]`,
			window: 1, from: 8, to: 8, want: 2 * math.Log(13/3.)},
		"best of two": {answers: `"answers": [{"text": "one", "answer_start": 5}, {"text": "two", "answer_start": 9}]`, from: 5, to: 5,
			want: 2 * math.Log(14/3.)},
		"across the end": {answers: `"answers": [{"text": "one two three four five six seven eight nine", "answer_start": 5}]`,
			none: true},
		"elsewhere":       {answers: `"answers": [{"text": "ten", "answer_start": 5}]`, none: true},
		"no label":        {answers: `"answers": []`, none: true},
		"impossible":      {answers: `"answers": [], "is_impossible": true`, impossible: true, want: math.Log(12) + math.Log(11)},
		"not that likely": {answers: `"answers": [{"text": "two", "answer_start": 9}]`, from: 6, to: 6, want: 2 * math.Log(14)},
	} {
		s := Settings{MaxLength: 12, DocStride: 3, MaxQueryLength: 3, Impossible: c.impossible}
		set, err := NewSet(parse(c.answers), tok, s, false)
		if err != nil {
			t.Fatal(err)
		}
		if set.Len() != 2 {
			t.Fatalf("%s: %d windows, want 2", name, set.Len())
		}
		dec, err := NewDecoder(set, Decoding{NBest: 2, MaxAnswerLength: 4})
		if err != nil {
			t.Fatal(err)
		}
		starts, ends := make([]float32, 2*s.MaxLength), make([]float32, 2*s.MaxLength)
		starts[23], ends[23] = 100, 100 // padding, which has no part
		if at := c.window * s.MaxLength; c.from > 0 {
			starts[at+c.from] = float32(math.Log(3))
			if c.to > 0 {
				ends[at+c.to] = float32(math.Log(3))
			}
		}
		if err := dec.Add(&bert.Batch{Size: 2, Length: s.MaxLength}, starts, ends); err != nil {
			t.Fatal(err)
		}
		got, ok := dec.Likelihood()
		// log 3 as a float32.
		if ok == c.none || ok && math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v %v, want %v", name, got, ok, c.want)
		}
	}
}
