package score_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"harness.invalid/core/internal/reference"
	"harness.invalid/core/score"
)

// TestNormalizeAnswer: the results are those of evaluate-v1.1.py under Python 3.11.
func TestNormalizeAnswer(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"The", ""},
		{"  The  Denver\tBroncos! ", "denver broncos"},
		{"A-the-an", "athean"}, // punctuation goes first
		{"a.k.a.", "aka"},
		{"a—b", "—b"}, // a dash that is not ASCII ends a word
		{"the—the", "—"},
		{"an\u00a0apple\u2028a\x1cday", "apple day"},
		{"a_b ~{|}`^$+<=>", "ab"},
		{"café theatre Anna", "café theatre anna"},
		{"a\u0301", "\u0301"}, // a mark is no word character
		{"a½ a² theⅣ", "a½ a² theⅳ"},
		{"ΟΔΟΣ a ΣΑΣ", "οδος σας"},
		{"一 a 二a", "一 二a"},
	} {
		if got := score.NormalizeAnswer(c.in); got != c.want {
			t.Errorf("NormalizeAnswer(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestTokenF1(t *testing.T) {
	for _, c := range []struct {
		prediction, gold string
		want             float64
	}{
		{"", "", 0},
		{"the", "a", 0}, // equal once normalised, yet no word is common
		{"x y", "x y", 1},
		{"x x y", "x z", 0.4},        // precision 1/3, recall 1/2
		{"x x y", "x x x z", 4. / 7}, // precision 2/3, recall 1/2
		{"The x", "x", 1},
	} {
		// One rounding of a quotient, a few ulp.
		if got := score.TokenF1(c.prediction, c.gold); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("TokenF1(%q, %q) = %v, want %v", c.prediction, c.gold, got, c.want)
		}
	}
	if !score.ExactMatch("the", "a") || !score.ExactMatch("An  X.", "x") || score.ExactMatch("x y", "xy") {
		t.Error("ExactMatch compares other than normalised answers")
	}
}

func TestSQuAD(t *testing.T) {
	questions := []score.Question{
		{ID: "1", Answers: []string{"y", "The X"}},
		{ID: "2", Answers: []string{"x y"}},
		{ID: "3", Answers: []string{"z"}},
	}
	got, err := score.SQuAD(slices.Values(questions), map[string]string{"1": "x", "2": "x", "other": "z"})
	if err != nil {
		t.Fatal(err)
	}
	wantF1 := 100 * (1 + 2./3) / 3
	if got.Total != 3 || got.Missing != 1 || math.Abs(got.ExactMatch-100./3) > 1e-12 || math.Abs(got.F1-wantF1) > 1e-12 {
		t.Errorf("got %+v, want 3 questions, 1 missing, exact match 33.3, f1 %v", got, wantF1)
	}
	if !got.Questions[0].ExactMatch || got.Questions[1].ExactMatch || !got.Questions[2].Missing || got.Questions[2].F1 != 0 {
		t.Errorf("questions: %+v", got.Questions)
	}
	if _, err := score.SQuAD(slices.Values(questions[:0]), nil); err == nil {
		t.Error("no error without questions")
	}
	if _, err := score.SQuAD(slices.Values([]score.Question{{ID: "q"}}), nil); err == nil {
		t.Error("no error for a question without answers")
	}
}

// TestGoldenSQuAD: published predictions have the scores that the official program gives them.
func TestGoldenSQuAD(t *testing.T) {
	var data struct {
		Data []struct {
			Paragraphs []struct {
				Qas []struct {
					ID      string
					Answers []struct{ Text string }
				}
			}
		}
	}
	decode(t, &data, "data", "squad", "dev-v1.1.json")
	var questions []score.Question
	for _, article := range data.Data {
		for _, p := range article.Paragraphs {
			for _, qa := range p.Qas {
				q := score.Question{ID: qa.ID}
				for _, a := range qa.Answers {
					q.Answers = append(q.Answers, a.Text)
				}
				questions = append(questions, q)
			}
		}
	}
	var want map[string]struct {
		ExactMatch float64 `json:"exact_match"`
		F1         float64
	}
	decode(t, &want, "golden", "squad", "expected.json")
	if len(want) == 0 {
		t.Fatal("expected.json is empty")
	}
	for name, w := range want {
		var predictions map[string]string
		decode(t, &predictions, "golden", "squad", name)
		got, err := score.SQuAD(slices.Values(questions), predictions)
		if err != nil {
			t.Fatal(err)
		}
		// The same sums in the same order: 1e-9 leaves room for the rounding of 10,570 additions.
		if math.Abs(got.ExactMatch-w.ExactMatch) > 1e-9 || math.Abs(got.F1-w.F1) > 1e-9 {
			t.Errorf("%s: exact match %v, f1 %v, want %v, %v", name, got.ExactMatch, got.F1, w.ExactMatch, w.F1)
		}
		t.Logf("%s: exact match %v (off by %g), f1 %v (off by %g)", name, got.ExactMatch, got.ExactMatch-w.ExactMatch, got.F1, got.F1-w.F1)
	}
}

func decode(t *testing.T, v any, elem ...string) {
	t.Helper()
	b, err := os.ReadFile(reference.PathOrExcerpt(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

func FuzzNormalizeAnswer(f *testing.F) {
	f.Add("The a—an  ΣΑΣ\xff")
	f.Fuzz(func(t *testing.T, s string) {
		if n := score.NormalizeAnswer(s); score.NormalizeAnswer(n) != n {
			t.Errorf("%q: normal form %q is not stable", s, n)
		}
	})
}
