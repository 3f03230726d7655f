package evaluation

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFloors: the best answers that do not depend on the question, each of them best in one of the data sets.
func TestFloors(t *testing.T) {
	type qa struct {
		context string
		answers string // one for each question, with ";" between them; "-": none
	}
	for _, c := range []struct {
		name, task string
		passages   []qa
		f1, exact  float64
	}{
		{"one text", "squad", []qa{{"It is red.", "red"}, {"Yes, red it is.", "red"}, {"They say red.", "red"},
			{"A blue one is it.", "blue"}}, 75, 75},
		{"one place", "squad", []qa{{"Ann has one dog.", "one dog"}, {"Bob has two cats.", "two cats"},
			{"Eve (who has red hair) sings.", "Eve"}}, 200 / 3., 200 / 3.},
		// Wherever Rome stands, it is the answer, and so is Oslo in passages without Rome.
		{"the likeliest text of a passage", "squad", []qa{{"In Rome we met.", "Rome"}, {"There is Rome.", "Rome"},
			{"On we go to see Rome.", "Rome"}, {"Oslo it is.", "Oslo"}, {"It was in Oslo.", "Oslo"}}, 100, 100},
		// Three questions about one passage have three answers, of which no other passage tells which is likely.
		{"own answers do not count", "squad", []qa{{"a1 b2 c3 d4 e5 f6", "b2;d4;f6"}}, 100 / 3., 100 / 3.},
		{"no answer", "squad2", []qa{{"It is red.", "red"}, {"It is not so.", "-"}, {"They did not say it.", "-"}}, 200 / 3., 200 / 3.},
		{"characters", "cmrc2018", []qa{{"东京在日本。", "日本"}, {"我们在法国。", "法国"}, {"他去过中国。", "中国"}}, 100, 100},
	} {
		var paragraphs []string
		for i, p := range c.passages {
			var questions []string
			for j, a := range strings.Split(p.answers, ";") {
				gold := ""
				if before, _, ok := strings.Cut(p.context, a); ok {
					gold = fmt.Sprintf(`{"text": %q, "answer_start": %d}`, a, utf8.RuneCountInString(before))
				}
				questions = append(questions, fmt.Sprintf(`{"id": "%d-%d", "question": "Which?", "answers": [%s], "is_impossible": %v}`,
					i, j, gold, gold == ""))
			}
			paragraphs = append(paragraphs, fmt.Sprintf(`{"id": "%d", "context": %q, "qas": [%s]}`, i, p.context, strings.Join(questions, ",")))
		}
		file := write(t, "dev.json", `{"version": "v", "data": [{"id": "d", "title": "t", "paragraphs": [`+strings.Join(paragraphs, ",")+`]}]}`)
		d, err := Read(named(t, c.task), file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Floors()
		if err != nil || math.Abs(got["f1"]-c.f1)+math.Abs(got["exact_match"]-c.exact) > 1e-9 {
			t.Errorf("%s: floors are %v, want F1 %.4g and exact match %.4g (%v)", c.name, got, c.f1, c.exact, err)
		}
	}
}
