package tasks_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"harness.invalid/core/dataset/tasks"
)

// TestFloors: what the one best label for all examples scores, by hand.
func TestFloors(t *testing.T) {
	ln := math.Log
	for _, c := range []struct {
		task, header, lines string
		want                map[string]float64
		loss                float64
	}{
		// 1 is right in three of four: precision 3/4, recall 1.
		{"mrpc", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "1\t1\t2\ta\tb|0\t1\t2\tc\td|1\t1\t2\te\tf|1\t1\t2\tg\th",
			map[string]float64{"accuracy": 0.75, "f1": 6. / 7}, -(0.75*ln(0.75) + 0.25*ln(0.25))},
		// Accuracy is that of label 0; F1 that of label 1, although it is the rarer one.
		{"qqp", "question1\tquestion2\tis_duplicate", "a\tb\t0|c\td\t0|e\tf\t1",
			map[string]float64{"accuracy": 2. / 3, "f1": 0.5}, -(2./3*ln(2./3) + 1./3*ln(1./3))},
		{"cola", "sentence\tlabel", "a b\t1|c d\t1|e f\t0", map[string]float64{"matthews_correlation": 0}, -(2./3*ln(2./3) + 1./3*ln(1./3))},
		{"sts-b", "sentence1\tsentence2\tscore", "a\tb\t1|c\td\t2|e\tf\t6", map[string]float64{"pearson": 0, "spearman": 0}, 14. / 3},
	} {
		task, err := tasks.Named(c.task)
		if err != nil {
			t.Fatal(err)
		}
		text := "index\t" + c.header + "\n"
		for i, line := range strings.Split(c.lines, "|") {
			text += fmt.Sprintf("%d\t%s\n", i, line)
		}
		d, err := tasks.Parse(task, []byte(text), c.task)
		if err != nil {
			t.Fatal(err)
		}
		got, loss, err := d.Floors()
		if err != nil || len(got) != len(c.want) || math.Abs(loss-c.loss) > 1e-12 {
			t.Errorf("%s: floors %v and loss %v, want %v and %v (%v)", c.task, got, loss, c.want, c.loss, err)
		}
		for name, want := range c.want {
			if math.Abs(got[name]-want) > 1e-12 {
				t.Errorf("%s: the floor of %s is %v, want %v", c.task, name, got[name], want)
			}
		}
	}
}
