package shrink_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/shrink"
)

func load(t *testing.T, name string, sets ...string) *recipe.Recipe {
	t.Helper()
	r, err := recipe.Load(name, sets...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mayChange are the fields that are scaled. All others stay: optimizer and its options, precision, all options of
// backends but the pipeline's layers, packing, masking, dropout, carried state, the shape of the schedule and its rate.
var mayChange = regexp.MustCompile(`^(name|doc|counterpart\..*|verdict\..*|vocab\.size|data\..*|start\..*` +
	`|model\.(size|vocab_size|hidden_size|num_hidden_layers|num_attention_heads|intermediate_size|max_position_embeddings|initializer_range)` +
	`|phases\.[^.]+\.(steps|epochs|length|max_predictions|global_batch|micro_batch|accumulation|replicas|checkpoint_every)` +
	`|phases\.[^.]+\.(schedule\.(warmup_steps|decay_every)|evaluation\.(every|batch|sequences)|target\..*)` +
	`|phases\.[^.]+\.question_answering\.(doc_stride|max_query_length|max_answer_length)` +
	`|backends\.[^.]+\.(phases\.[^.]+\.)?(micro_batch|accumulation|replicas|options\.pipeline|options_by_step\..*))$`)

// TestKeeps: whatever is not scaled is kept, in every built-in recipe, and so is what scaling must not lose: replicas,
// accumulation, the IPUs of a pipeline, and two lengths that differ.
func TestKeeps(t *testing.T) {
	for _, name := range recipe.Names() {
		big := load(t, name)
		sequences := 64
		if n := big.Phases[0].NumLabels; big.Phases[0].Task == bert.MultipleChoice {
			sequences = 64 / n * n
		}
		small, err := shrink.Recipe(big, shrink.Settings{Sequences: sequences, Steps: 200})
		if err != nil {
			t.Error(err)
			continue
		}
		for _, d := range recipe.Diff(big, small) {
			if !mayChange.MatchString(d.Path) {
				t.Errorf("%s: %s", name, d)
			}
			if strings.HasSuffix(d.Path, ".pipeline") && strings.Count(d.A, ",") != strings.Count(d.B, ",") {
				t.Errorf("%s: %s: not the same number of IPUs", name, d)
			}
		}
		if tuned := strings.HasSuffix(name, "squad-large"); tuned && (small.Start == nil || small.Data.Kind != recipe.GeneratedData) {
			t.Errorf("%s has no model to start from, or none of the world's questions", name)
		}
		if was, is := lengths(big), lengths(small); len(was) != len(is) {
			t.Errorf("%s: lengths %v became %v", name, was, is)
		}
		for i := range big.Phases {
			was, is := &big.Phases[i], &small.Phases[i]
			if is.GlobalBatch > 64 || is.Steps > max(200, was.Steps) || is.Steps < 1 || is.Length > was.Length {
				t.Errorf("%s, %s: %d sequences of %d tokens, %d steps", name, is.Name, is.GlobalBatch, is.Length, is.Steps)
			}
			if (was.Replicas > 1) != (is.Replicas > 1) || (was.Accumulation > 1) != (is.Accumulation > 1) {
				t.Errorf("%s, %s: %d replicas and an accumulation of %d became %d and %d", name, is.Name,
					was.Replicas, was.Accumulation, is.Replicas, is.Accumulation)
			}
		}
		if small.Model.HiddenSize > 128 || small.Model.NumHiddenLayers > 8 || small.Model.MaxPositionEmbeddings > 256 {
			t.Errorf("%s: the model is %+v", name, small.Model.Config)
		}
	}
}

// lengths are those of a recipe's phases, each once.
func lengths(r *recipe.Recipe) []int {
	var list []int
	for i := range r.Phases {
		list = append(list, r.Phases[i].Length)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestSays: the doc says what was scaled from what to what, and the file that holds it is the recipe.
func TestSays(t *testing.T) {
	big := load(t, "graphcore/popart/packed-large-phase1")
	small, err := shrink.Recipe(big, shrink.Settings{Sequences: 64, Steps: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"phase1: global batch 54784 to 64", "phase1: micro-batch 8 to 2", "phase1: accumulation 1712 to 16", "phase1: replicas 4 to 2",
		"phase1: steps 7038 to 200", "phase1: warm-up steps 2000 to 57", "phase1: length 128 to 64", "pipeline 3,7,7,7 to 1,1,1,1",
		"layers 24 to 4", "hidden size 1024 to 128", "standard deviation 0.02 to 0.0566", "vocabulary 30400 to 1500",
		"learning rate is kept",
	} {
		if !strings.Contains(small.Doc, want) {
			t.Errorf("the doc has no %q:\n%s", want, small.Doc)
		}
	}
	if p := small.Phases[0]; p.Schedule.LearningRate != 0.006 || p.Optimizer.Name != "lamb" || p.SequencesPerPack != 3 {
		t.Errorf("the phase is %+v", p)
	}
	if v := small.Verdict; v.Primary != "masked_lm_loss" || v.Margins[v.Primary] != 0.1 || v.Plan.Kind != recipe.SequentialPlan {
		t.Errorf("the verdict is %+v", v)
	}
	if c := small.Counterpart; c == nil || !slices.Equal(c.Backends["ipu"].Recipes, []string{big.Name}) {
		t.Errorf("the counterpart is %+v", c)
	}
	var text bytes.Buffer
	if err := small.Write(&text); err != nil {
		t.Fatal(err)
	}
	read, err := recipe.Parse("small.yaml", text.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if d := recipe.Diff(small, read); len(d) > 0 {
		t.Errorf("the file is another recipe: %v", d)
	}
	if big.Phases[0].GlobalBatch != 54784 || big.Backends["ipu"].Options["pipeline"] != "3,7,7,7" {
		t.Error("the recipe that was given has changed")
	}
}

// TestCuts: how the sequences of a step are divided, for one backend's own cut too, and what is refused.
func TestCuts(t *testing.T) {
	for _, c := range []struct {
		name, set        string
		sequences        int
		want, pipeline   string // micro-batch x accumulation x replicas of the first phase
		backend, cutThen string // a backend with a cut of its own
	}{
		{"graphcore/popart/large-phase1", "", 64, "2x16x2", "1,1,1,1", "", ""},
		{"graphcore/popart/large-phase1", "", 18, "1x9x2", "1,1,1,1", "", ""},
		{"graphcore/popart/large-phase1", "backends.ipu.options.schedule=interleaved", 64, "4x8x2", "1,1,1,1", "", ""},
		{"graphcore/popart/large-phase1", "backends.ipu.options.schedule=sequential", 64, "8x4x2", "1,1,1,1", "", ""},
		{"graphcore/popart/large-phase1", "backends.ipu.options.pipeline=5.5,6,6,6.5", 64, "2x16x2", "0.5,1,1,0.5", "", ""},
		{"graphcore/popart/large-phase1", "backends.ipu.phases={phase1: {options: {pipeline: '24'}}}", 64, "8x4x2", "1,1,1,1", "", ""},
		{"graphcore/popart/large-phase1-pod64", "", 64, "2x16x2", "1,1,1,1", "", ""},
		{"graphcore/popart/base-phase1", "", 64, "2x16x2", "0,1,1,1", "", ""},
		{"graphcore/popart/squad-large", "", 32, "1x16x2", "1,1,1,1,1,1,1,1", "", ""},
		{"graphcore/tensorflow/glue-base", "", 64, "1x10x4", "0,1,1,1", "", ""}, // 40 sequences as they are
		{"nvidia/large-phase1", "", 64, "16x2x2", "", "gpu-ref:tf32", "16x2x2"},
		{"large-phase1", "", 36, "2x9x2", "1,1,1,1", "gpu-ref", "9x2x2"},
		{"graphcore/popart/large-phase1", "", 16,
			"at least 18: 2 replicas x 9 micro-batches, which fill its pipeline of 5 stages on 4 IPUs", "", "", ""},
		{"graphcore/popart/large-phase1", "", 65, "want a multiple of 2", "", "", ""},
		{"nvidia/large-phase1", "", 2, "at least 4: 2 replicas x 2 micro-batches, the fewest that accumulate", "", "", ""},
		{"nvidia/large-phase1", "", -8, "-8 sequences a step", "", "", ""},
		{"graphcore/popart/large-phase1", "backends.ipu.options.pipeline=published", 64, "want the layers of each IPU", "", "", ""},
	} {
		var sets []string
		if c.set != "" {
			sets = []string{c.set}
		}
		small, err := shrink.Recipe(load(t, c.name, sets...), shrink.Settings{Sequences: c.sequences, Steps: 10})
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.name) {
				t.Errorf("%s %s, %d sequences: error %v, want %q in it", c.name, c.set, c.sequences, err, c.want)
			}
			continue
		}
		p := &small.Phases[0]
		if got := fmt.Sprintf("%dx%dx%d", p.MicroBatch, p.Accumulation, p.Replicas); got != c.want {
			t.Errorf("%s %s, %d sequences: cut %s, want %s", c.name, c.set, c.sequences, got, c.want)
		}
		if got := small.Backends["ipu"].Options["pipeline"]; got != c.pipeline {
			t.Errorf("%s %s: pipeline %s, want %s", c.name, c.set, got, c.pipeline)
		}
		if c.backend != "" {
			base, precision, _ := strings.Cut(c.backend, ":")
			cut, err := p.Cut(small.ForBackend(base, precision, p.Name))
			if got := fmt.Sprintf("%dx%dx%d", cut.MicroBatch, cut.Accumulation, cut.Replicas); err != nil || got != c.cutThen {
				t.Errorf("%s: cut of %s %s (%v), want %s", c.name, c.backend, got, err, c.cutThen)
			}
		}
	}
	if _, err := shrink.Recipe(load(t, "quick"), shrink.Settings{Sequences: 64}); err == nil {
		t.Error("no steps are taken")
	}
}

// TestSteps: phases keep their shares of the steps, and what counts in steps moves with them.
func TestSteps(t *testing.T) {
	small, err := shrink.Recipe(load(t, "nvidia/large"), shrink.Settings{Sequences: 64, Steps: 100})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := small.Phases[0].Steps, small.Phases[1].Steps; a != 100 || b != 22 {
		t.Errorf("7038 and 1563 steps became %d and %d, want 100 and 22", a, b)
	}
	small, err = shrink.Recipe(load(t, "graphcore/tensorflow/large-phase1-pod128"), shrink.Settings{Sequences: 64, Steps: 704})
	if err != nil {
		t.Fatal(err)
	}
	b := small.ForBackend("ipu", "", "phase1")
	if len(b.OptionsByStep) != 2 || b.OptionsAt(100)["loss_scale"] != "128" || b.OptionsAt(250)["loss_scale"] != "64" ||
		b.OptionsAt(400)["loss_scale"] != "128" {
		t.Errorf("loss scales change so: %v", b.OptionsByStep)
	}
}
