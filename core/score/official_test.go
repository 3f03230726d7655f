package score

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// officialCase is a case of testdata/oracle.py.
type officialCase struct {
	Questions []struct {
		ID      string
		Answers []string
	}
	Predictions map[string]string
	Odds        [][2]any
	Threshold   float64
	Want        map[string]float64
}

func (c *officialCase) questions() []Question {
	var list []Question
	for _, q := range c.Questions {
		list = append(list, Question{ID: q.ID, Answers: q.Answers})
	}
	return list
}

func readOfficial(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatal(err)
	}
}

// equal allows for the rounding of a few dozen additions in another order.
func equal(a, b float64) bool { return math.Abs(a-b) <= 1e-10 }

func TestSQuAD2(t *testing.T) {
	var cases []officialCase
	readOfficial(t, "testdata/squad2.json", &cases)
	for i, c := range cases {
		var odds []Odds
		for _, o := range c.Odds {
			odds = append(odds, Odds{o[0].(string), o[1].(float64)})
		}
		s, err := SQuAD2(slices.Values(c.questions()), c.Predictions, odds, c.Threshold)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{"exact": s.ExactMatch, "f1": s.F1, "total": float64(s.Total),
			"HasAns_exact": s.HasAns.ExactMatch, "HasAns_f1": s.HasAns.F1, "HasAns_total": float64(s.HasAns.Total),
			"NoAns_exact": s.NoAns.ExactMatch, "NoAns_f1": s.NoAns.F1, "NoAns_total": float64(s.NoAns.Total)}
		if s.Best != nil {
			got["best_exact"], got["best_exact_thresh"] = s.Best.ExactMatch, s.Best.ExactMatchThreshold
			got["best_f1"], got["best_f1_thresh"] = s.Best.F1, s.Best.F1Threshold
		}
		if len(got) != len(c.Want) || s.Missing+s.Total != len(c.Questions) {
			t.Errorf("case %d: %v, want %v", i, got, c.Want)
		}
		for name, want := range c.Want {
			if !equal(got[name], want) {
				t.Errorf("case %d: %s is %v, want %v", i, name, got[name], want)
			}
		}
	}
	questions := []Question{{ID: "1"}, {ID: "2", Answers: []string{"x"}}}
	if _, err := SQuAD2(slices.Values(questions), map[string]string{"1": ""}, []Odds{{"2", 1}}, 0); err == nil {
		t.Error("a question without odds is no error")
	}
	if _, err := SQuAD2(slices.Values(questions), nil, nil, 0); err == nil {
		t.Error("no prediction at all is no error")
	}
}

func TestCMRC(t *testing.T) {
	var file struct {
		Cases []officialCase
		Words [][2]json.RawMessage
	}
	readOfficial(t, "testdata/cmrc.json", &file)
	for i, c := range file.Cases {
		s, err := CMRC(slices.Values(c.questions()), c.Predictions)
		if err != nil {
			t.Fatal(err)
		}
		if !equal(s.F1, c.Want["F1"]) || !equal(s.ExactMatch, c.Want["EM"]) || s.Total != len(c.Questions) ||
			s.Missing != len(c.Questions)-len(c.Predictions) {
			t.Errorf("case %d: %v and %v, want %v", i, s.F1, s.ExactMatch, c.Want)
		}
	}
	for _, w := range file.Words {
		var text string
		var want []string
		if err := json.Unmarshal(w[0], &text); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(w[1], &want); err != nil {
			t.Fatal(err)
		}
		if got := treebank(text); !slices.Equal(got, want) {
			t.Errorf("%q is cut into %q, want %q", text, got, want)
		}
	}
	if _, err := CMRC(slices.Values([]Question{{ID: "q"}}), nil); err == nil {
		t.Error("a question without answers is no error")
	}
	// By hand: of 东京在1964 and 东京, 2 characters in common; 2/3 and 2/2.
	if got := RunF1("东京在", "《东京》"); !equal(got, 0.8) {
		t.Errorf("RunF1 is %v, want 0.8", got)
	}
}
