package execution

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

var pretraining, answering = bert.Head{Task: bert.Pretraining}, bert.Head{Task: bert.QuestionAnswering}

// of is the plan of a model of some size with options, given as names and values.
func of(t testing.TB, size string, head bert.Head, options ...string) (Plan, error) {
	t.Helper()
	c, err := bert.Defaults().Size(size)
	if err != nil {
		t.Fatal(err)
	}
	p := backend.Program{Model: c, Head: head, Accumulation: 100, Options: map[string]string{"loss_scale": "another's"}}
	for i := 0; i < len(options); i += 2 {
		p.Options[options[i]] = options[i+1]
	}
	return Parse(&p)
}

// TestStages: the published placements of BERT-Large and Base.
func TestStages(t *testing.T) {
	type stages = [][3]int // first unit, end, IPU
	for _, c := range []struct {
		pipeline, size string
		head           bert.Head
		want           stages
	}{
		// Graphcore: embedding, 3 layers and all heads on IPU 0.
		{"3,7,7,7", "large", pretraining, stages{{0, 7, 0}, {7, 21, 1}, {21, 35, 2}, {35, 49, 3}, {49, 50, 0}}},
		{"published", "large", pretraining, stages{{0, 7, 0}, {7, 21, 1}, {21, 35, 2}, {35, 49, 3}, {49, 50, 0}}},
		{"3,7,7,7", "large", answering, stages{{0, 7, 0}, {7, 21, 1}, {21, 35, 2}, {35, 50, 3}}},
		{"0,4,4,4", "base", pretraining, stages{{0, 1, 0}, {1, 9, 1}, {9, 17, 2}, {17, 25, 3}, {25, 26, 0}}},
		{"published", "base", pretraining, stages{{0, 1, 0}, {1, 9, 1}, {9, 17, 2}, {17, 25, 3}, {25, 26, 0}}},
		// As it is written: the embeddings are with the first four layers.
		{"4,4,4", "base", pretraining, stages{{0, 9, 0}, {9, 17, 1}, {17, 25, 2}, {25, 26, 0}}},
		{"6, 6", "base", answering, stages{{0, 13, 0}, {13, 26, 1}}},
		{"12", "base", pretraining, stages{{0, 26, 0}}},
		{"all", "large", pretraining, stages{{0, 50, 0}}},
		{"published", "tiny", pretraining, stages{{0, 6, 0}}},
		// Attention and feed-forward of the layer between on two IPUs.
		{"5.5,6.5", "base", answering, stages{{0, 12, 0}, {12, 26, 1}}},
		{"2,3,3,3,3,3,3,4", "large", answering, stages{
			{0, 5, 0}, {5, 11, 1}, {11, 17, 2}, {17, 23, 3}, {23, 29, 4}, {29, 35, 5}, {35, 41, 6}, {41, 50, 7},
		}},
	} {
		got, err := of(t, c.size, c.head, "pipeline", c.pipeline)
		var units stages
		for _, s := range got.Stages {
			units = append(units, [3]int{s.First, s.End, s.Device})
		}
		if err != nil || !slices.Equal(units, c.want) {
			t.Errorf("%s for %s: %v, %v, want %v", c.pipeline, c.head.Task, units, err, c.want)
		}
	}
	fourteen, err := of(t, "large", pretraining, "pipeline", "0,2,2,2,2,2,2,2,2,2,2,1.5,1.5,1")
	if err != nil || len(fourteen.Stages) != 15 || fourteen.Devices() != 14 || fourteen.IPUs() != 16 {
		t.Errorf("14 IPUs: %d stages, %d of %d IPUs, %v, want 15 on 14 of 16",
			len(fourteen.Stages), fourteen.Devices(), fourteen.IPUs(), err)
	}
	phased, err := of(t, "large", pretraining, "execution", "phased", "layers_per_phase", "7")
	if got := phased.Stages; err != nil || len(got) != 6 || got[1] != (emulator.Stage{First: 1, End: 15}) ||
		got[4] != (emulator.Stage{First: 43, End: 49}) || got[5].End != 50 || phased.Schedule != emulator.Sequential {
		t.Errorf("phases of 7 layers are %+v, %v", phased, err)
	}
}

// TestDefaults: what is not given has one meaning.
func TestDefaults(t *testing.T) {
	got, err := of(t, "large", pretraining)
	if err != nil || len(got.Stages) != 1 || got.Schedule != emulator.Grouped || got.Recompute != bert.RecomputeNone ||
		!got.OpenRecompute || got.State != AnyState || !got.Sharded || got.Proportions != nil || got.EmbeddingParts != 1 {
		t.Errorf("a plan without options is %+v, %v", got, err)
	}
	given := map[string]string{}
	for _, o := range Options {
		given[o.Name] = o.Default
	}
	var list []string
	for name, value := range maps.All(given) {
		list = append(list, name, value)
	}
	same, err := of(t, "large", pretraining, list...)
	if err != nil || !slices.Equal(same.Stages, got.Stages) || same.Recompute != got.Recompute || same.State != got.State {
		t.Errorf("with all defaults given it is %+v, %v", same, err)
	}
}

// TestParseErrors: what can't be meant is an error that says what can.
func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"pipeline", "3,7,7", "that is 17 layers, the model has 24"},
		{"pipeline", "3,7,7,8", "that is 25 layers"},
		{"pipeline", "3,,7,14", `IPU 1 has ""`},
		{"pipeline", "12,0,12", `IPU 1 has "0"`},
		{"pipeline", "2.25,21.75", "whole or half numbers of layers"},
		{"pipeline", "x", `IPU 0 has "x"`},
		{"pipeline", "-1,25", `IPU 0 has "-1"`},
		{"pipeline", "", `IPU 0 has ""`},
		{"pipeline", "1e9", `IPU 0 has "1e9"`},
		{"pipeline", "NaN", `IPU 0 has "NaN"`},
		{"schedule", "group", "did you mean grouped?"},
		{"recomputation", "layers", "did you mean layer?"},
		{"available_memory_proportion", "0", "want a number above 0"},
		{"available_memory_proportion", "0.1,0.2", "has 2 numbers for 1 IPUs"},
		{"optimizer_state", "nowhere", "want one of auto, onchip, offchip"},
		{"embedding_serialization", "0", "want a whole number from 1"},
	} {
		if _, err := of(t, "large", pretraining, c.name, c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want an error with %q", c.name, c.value, err, c.want)
		}
	}
	_, err := of(t, "large", pretraining, "execution", "phased", "pipeline", "3,7,7,7")
	if err == nil || !strings.Contains(err.Error(), "want pipeline=all") {
		t.Errorf("phases in a pipeline: %v", err)
	}
}

// FuzzParse: whatever an option is, a plan that is no error has every unit in one stage.
func FuzzParse(f *testing.F) {
	f.Add("pipeline", "3,7,7,7")
	f.Add("available_memory_proportion", "0.1,auto")
	f.Add("schedule", "grouped")
	f.Add("execution", "phased")
	f.Fuzz(func(t *testing.T, name, value string) {
		plan, err := of(t, "large", pretraining, name, value)
		if err != nil {
			return
		}
		unit := 0
		for _, s := range plan.Stages {
			if s.First != unit {
				t.Fatalf("%s=%s: stages %+v", name, value, plan.Stages)
			}
			unit = s.End
		}
		if unit != 50 {
			t.Errorf("%s=%s: %d units", name, value, unit)
		}
	})
}
