package bert_test

import (
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
)

// TestOperators: operators have sites and names of their own and read only operators before them; every parameter
// of every task belongs to an operator, and is in its unit; what computes the gradient of a result is a later
// operator, several of them, or the loss.
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
			for _, name := range o.Reads {
				if !slices.Contains(names, name) {
					t.Errorf("%s: %s reads %q, which is no operator before it", task, o.Name, name)
				}
			}
			names, sites[o.Site] = append(names, o.Name), true
		}
		l, err := bert.Parameters(c, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range l.Tensors() {
			name := bert.OperatorOf(p.Name)
			i := slices.Index(names, name)
			if i < 0 {
				t.Errorf("%s: parameter %s belongs to %q, which is no operator", task, p.Name, name)
			} else if u := c.UnitOf(p.Name); u != operators[i].Unit {
				t.Errorf("%s: parameter %s is in unit %d, its operator in %d", task, p.Name, u, operators[i].Unit)
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
	for _, name := range []string{"", "bias", "bert.encoder.layer.0.bias", "bert.encoder.layer.0.qa_outputs.bias", "query.weight"} {
		if o, u := bert.OperatorOf(name), c.UnitOf(name); o != "" || u != -1 {
			t.Errorf("parameter %q belongs to operator %q and unit %d, want none", name, o, u)
		}
	}
	tokens := bert.Operators(c, bert.Head{Task: bert.Pretraining})[0].Shape(bert.Shape{Size: 3, Length: 5})
	if !slices.Equal(tokens, []int{15, c.HiddenSize}) {
		t.Errorf("embeddings of 3 sequences of 5 tokens have shape %v", tokens)
	}
}

// TestMultiplyAdds: the count from the table is that of the formulas of papers: a layer takes 4H²+2HI+2SH a token.
func TestMultiplyAdds(t *testing.T) {
	c := bert.Defaults()
	B, S, P := 3., 128., 20.
	L, H, I, V := float64(c.NumHiddenLayers), float64(c.HiddenSize), float64(c.IntermediateSize), float64(c.VocabSize)
	layers := B * S * L * (4*H*H + 2*H*I + 2*S*H)
	for task, heads := range map[bert.Task]float64{
		bert.Pretraining:       B*P*H*(H+V) + B*H*(H+2),
		bert.QuestionAnswering: B * S * H * 2,
		bert.Classification:    B * H * (H + 5),
		bert.MultipleChoice:    B * H * (H + 1),
	} {
		got := bert.MultiplyAdds(c, bert.Head{Task: task, Labels: 5}, bert.Shape{Size: 3, Length: 128, Predictions: 20})
		if want := layers + heads; got != want {
			t.Errorf("%s: %g multiply-adds, want %g", task, got, want)
		}
	}
}
