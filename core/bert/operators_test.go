package bert_test

import (
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
)

// TestOperators: every parameter of every task belongs to an operator, operators have sites and names of their own, and what computes a gradient is an
// operator, a row of them, or the loss.
func TestOperators(t *testing.T) {
	c := bert.Defaults()
	c.NumHiddenLayers = 3
	for _, task := range bert.Tasks() {
		h := bert.Head{Task: task, Labels: 2}
		operators := bert.Operators(c, h)
		var names []string
		sites := map[bert.Site]bool{}
		for _, o := range operators {
			if slices.Contains(names, o.Name) || sites[o.Site] {
				t.Errorf("%s: operator %s at %v is there twice", task, o.Name, o.Site)
			}
			names, sites[o.Site] = append(names, o.Name), true
		}
		l, err := bert.Parameters(c, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range l.Tensors() {
			if name := bert.OperatorOf(p.Name); !slices.Contains(names, name) {
				t.Errorf("%s: parameter %s belongs to %q, which is no operator", task, p.Name, name)
			}
		}
		for i, o := range operators {
			for from := range strings.SplitSeq(o.From, ", ") {
				after := slices.ContainsFunc(names[i+1:], func(name string) bool { return name == from || strings.HasPrefix(name, from+".") })
				if from != "loss" && !after {
					t.Errorf("%s: the gradient of %s comes from %q, which is no operator after it", task, o.Name, from)
				}
			}
		}
	}
	tokens := bert.Operators(c, bert.Head{Task: bert.Pretraining})[0].Shape(bert.Shape{Size: 3, Length: 5})
	if !slices.Equal(tokens, []int{15, c.HiddenSize}) {
		t.Errorf("embeddings of 3 sequences of 5 tokens have shape %v", tokens)
	}
}
