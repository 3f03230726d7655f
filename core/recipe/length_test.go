package recipe

import (
	"slices"
	"strings"
	"testing"
)

// TestLength: an override of a phase's steps takes the place of its epochs, and the other way round, and says so; overrides
// of both are refused.
func TestLength(t *testing.T) {
	const text = `
model: {size: tiny}
defaults: {task: question_answering, length: 384, global_batch: 8, schedule: {learning_rate: 1e-4}, optimizer: {name: sgd}, epochs: 3}
phases:
- {name: one}
- {name: two, epochs: 2}
- {name: three, epochs: null, steps: 5}
`
	for _, c := range []struct {
		set    []string
		steps  []int
		epochs []float64
		notes  []string
	}{
		{nil, []int{0, 0, 5}, []float64{3, 2, 0}, nil},
		{[]string{"phases.*.steps=7"}, []int{7, 7, 7}, []float64{0, 0, 0},
			[]string{"phase one: steps=7 takes the place of epochs=3", "phase two: steps=7 takes the place of epochs=2"}},
		{[]string{"phases.three.epochs=1.5"}, []int{0, 0, 0}, []float64{3, 2, 1.5},
			[]string{"phase three: epochs=1.5 takes the place of steps=5"}},
		{[]string{"phases.1.steps=7", "phases.1.epochs="}, []int{0, 7, 5}, []float64{3, 0, 0},
			[]string{"phase two: steps=7 takes the place of epochs=2"}},
	} {
		r, err := Parse("r.yaml", []byte(text), c.set...)
		if err != nil {
			t.Errorf("%v: %v", c.set, err)
			continue
		}
		var steps []int
		var epochs []float64
		for _, p := range r.Phases {
			steps, epochs = append(steps, p.Steps), append(epochs, p.Epochs)
		}
		if !slices.Equal(steps, c.steps) || !slices.Equal(epochs, c.epochs) || !slices.Equal(r.Notes, c.notes) {
			t.Errorf("%v: steps %v, epochs %v, notes %q, want %v, %v, %q", c.set, steps, epochs, r.Notes, c.steps, c.epochs, c.notes)
		}
	}
	_, err := Parse("r.yaml", []byte(text), "phases.two.steps=7", "phases.two.epochs=1")
	if err == nil || !strings.Contains(err.Error(), "steps is 7 and epochs is 1, want one of the two") {
		t.Errorf("both: error %v", err)
	}
}

// TestWholeBatch: an error about a batch names what was given, not what follows from it.
func TestWholeBatch(t *testing.T) {
	for global, want := range map[int]string{
		100000000:   "global_batch 100000000 is cut into micro-batches of 100000000 sequences, want at most 65536",
		10000000000: "global_batch is 10000000000, want 1 to 1073741824",
	} {
		_, _, err := cut(global, 0, 0, 0)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d: error %v, want %s", global, err, want)
		}
	}
	if _, c, err := cut(100000000, 0, 1526, 0); err == nil {
		t.Errorf("an accumulation that leaves a rest makes %v", c)
	}
	if _, c, err := cut(1<<20, 0, 16, 0); err != nil || c.MicroBatch != 65536 {
		t.Errorf("%v, error %v", c, err)
	}
}
