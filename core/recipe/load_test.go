package recipe

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// small is the least that makes a recipe.
const small = `name: small
data: {kind: files}
model: {size: tiny}
phases:
- name: one
  length: 64
  max_predictions: 8
  global_batch: 32
  steps: 10
  schedule: {learning_rate: 1e-3}
  optimizer: {name: adamw, options: {eps: 1e-6, bias_correction: false}}
`

func TestBuiltin(t *testing.T) {
	for _, name := range Names() {
		r, err := Load(name)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if r.Name != name {
			t.Errorf("recipe %s calls itself %s", name, r.Name)
		}
		if r.Doc == "" || r.Source == "" {
			t.Errorf("recipe %s has no doc or no source", name)
		}
		if r.Verdict.Primary == "" {
			t.Errorf("recipe %s has no primary metric", name)
		}
		var out bytes.Buffer
		if err := r.Write(&out); err != nil {
			t.Fatal(err)
		}
		again, err := Parse("again.yaml", out.Bytes())
		if err != nil {
			t.Errorf("recipe %s is written as what can't be read: %v\n%s", name, err, out.Bytes())
			continue
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Errorf("recipe %s is not the same when it is read again:\n%s", name, diff)
		}
	}
}

func TestParse(t *testing.T) {
	r, err := Parse("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	p := r.Phases[0]
	if p.MicroBatch != 32 || p.Accumulation != 1 || p.Replicas != 1 {
		t.Errorf("cut is %d x %d x %d, want 32 x 1 x 1", p.MicroBatch, p.Accumulation, p.Replicas)
	}
	// Options keep the text that was written.
	if diff := cmp.Diff(Options{"eps": "1e-6", "bias_correction": "false"}, p.Optimizer.Options); diff != "" {
		t.Error(diff)
	}
	if p.Masking == nil || p.Masking.MaskedLMProb != 0.15 || p.QuestionAnswering != nil {
		t.Errorf("masking %+v, question_answering %+v, want the published masking and nothing", p.Masking, p.QuestionAnswering)
	}
	if r.Model.HiddenSize != 128 || r.Model.NumHiddenLayers != 2 || r.Model.HiddenDropoutProb != 0.1 {
		t.Errorf("model is %+v, want BERT-Tiny", r.Model)
	}
}

func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		text, want string
	}{
		"unknown key": {strings.Replace(small, "steps: 10", "stepps: 10", 1),
			`r.yaml:9:3: unknown key "stepps" in phases.one, did you mean steps? (known: name, task, `},
		"unknown key at the top": {small + "phasse: []\n", `r.yaml:12:1: unknown key "phasse", did you mean phases?`},
		"unknown key of an inline": {strings.Replace(small, "size: tiny", "hidden_sise: 64", 1),
			`r.yaml:3:9: unknown key "hidden_sise" in model, did you mean hidden_size?`},
		"key twice": {strings.Replace(small, "  steps: 10\n", "  steps: 10\n  steps: 11\n", 1), `r.yaml:10:3: `},
		"not a number": {strings.Replace(small, "steps: 10", "steps: ten", 1),
			`r.yaml:9:10: phases.one.steps is "ten", want a whole number`},
		"fraction": {strings.Replace(small, "steps: 10", "steps: 1.5", 1),
			`r.yaml:9:10: phases.one.steps is "1.5", want a whole number`},
		"not a bool": {strings.Replace(small, "data: {kind: files}", "vocab: {lowercase: yes}", 1),
			`vocab.lowercase is "yes", want true or false`},
		"infinite": {strings.Replace(small, "1e-3", ".inf", 1), `phases.one.schedule.learning_rate is ".inf", want a number`},
		"list for an object": {strings.Replace(small, "{size: tiny}", "[tiny]", 1),
			`r.yaml:3:8: model is a list, want an object with size, vocab_size`},
		"object for a value": {strings.Replace(small, "length: 64", "length: {a: 1}", 1),
			`phases.one.length is an object, want a single value`},
		"no size": {strings.Replace(small, "tiny", "tinny", 1), `r.yaml:3:15: model.size: bert: no size is named "tinny"`},
		"bad value": {strings.Replace(small, "length: 64", "length: 640", 1),
			`r.yaml:6:11: phases.one.length: is 640, want 8 to 512`},
		"kind": {strings.Replace(small, "{learning_rate", "{kind: lineer, learning_rate", 1),
			`phases.one.schedule.kind: is "lineer", want one of constant, linear, polynomial, google, nvidia, did you mean linear?`},
		"no steps": {strings.Replace(small, "  steps: 10\n", "", 1),
			`phases.one.steps: steps is 0 and epochs is 0, want one of the two`},
		"epochs of text": {strings.Replace(small, "steps: 10", "epochs: 10", 1),
			`r.yaml:9:11: phases.one.epochs: is given, but the number of sequences`},
		"product": {strings.Replace(small, "global_batch: 32", "global_batch: 32\n  micro_batch: 3", 1),
			`global_batch 32 is not micro_batch 3 x accumulation 10 x replicas 1`},
		"anchor": {strings.Replace(small, "model: {size: tiny}", "model: &m {size: tiny}", 1),
			`anchors and aliases are not supported`},
		"merge key":          {strings.Replace(small, "  steps: 10", "  <<: {steps: 10}", 1), `r.yaml:9:`},
		"tag":                {strings.Replace(small, "name: small", "name: !!str small", 1), `tags are not supported`},
		"two documents":      {small + "---\n" + small, `r.yaml:13:1: a second document begins here`},
		"empty":              {"# nothing\n", `r.yaml: the file is empty`},
		"not an object":      {"- a\n", `the recipe is a list, want an object`},
		"broken":             {"name: [a\n", `r.yaml:1:`},
		"tab":                {"model:\n\tsize: tiny\n", `r.yaml:2:`},
		"phase without name": {strings.Replace(small, "- name: one\n  length", "- length", 1), `has no name`},
		"metric": {strings.Replace(small, "  steps: 10", "  steps: 10\n  target: {metric: f1, value: 80}", 1),
			`phases.one.target.metric: is "f1", want one of loss, masked_lm_loss`},
		"margin":  {small + "verdict: {margins: {f1: 1}}\n", `verdict.margins.f1: no phase measures "f1"`},
		"primary": {small + "verdict: {primary: loss}\n", `verdict.primary: is loss, which has no margin`},
		"plan": {small + "verdict: {plan: {kind: sequential}}\n",
			`and there is none: want primary, or fixed`},
		"plan without a primary metric": {small + "verdict: {plan: {kind: sequential}}\n", `and there is none: want primary, or fixed`},
		"plan at another alpha": {small + "verdict: {primary: loss, margins: {loss: 1}, alpha: 0.1, plan: {kind: sequential}}\n",
			`is sequential, which keeps to an alpha of 0.05, and alpha is 0.1`},
		"short plan": {small + "verdict: {primary: loss, margins: {loss: 1}, plan: {max_seeds: 5}}\n",
			`verdict.plan.max_seeds: is 5, want 6 to 40 in a sequential plan`},
		"plan's key": {small + "verdict: {plan: {seeds: 5}}\n", `unknown key "seeds" in verdict.plan`},
		"backend's phase": {small + "backends: {ipu: {phases: {two: {precision: fp32}}}}\n",
			`backends.ipu.phases.two: no phase has that name, want one of one`},
		"backend's cut":   {small + "backends: {ipu: {micro_batch: 5}}\n", `global_batch 32 is not micro_batch 5`},
		"extends nothing": {"extends: quikc\n" + small, `r.yaml:1:10: extends: no recipe is named "quikc", did you mean quick?`},
		"deep":            {"doc: " + strings.Repeat("[", 50) + strings.Repeat("]", 50), "levels"},
	} {
		_, err := Parse("r.yaml", []byte(test.text))
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is\n%v\nwant in it\n%s", name, err, test.want)
		}
	}
}

func TestErrorText(t *testing.T) {
	_, err := Parse("r.yaml", []byte(strings.Replace(small, "global_batch", "golbal_batch", 1)))
	want := `r.yaml:8:3: unknown key "golbal_batch" in phases.one, did you mean global_batch? (known: `
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("error is %v, want %s", err, want)
	}
	_, excerpt, _ := strings.Cut(err.Error(), "\n")
	if want := "    7 |   max_predictions: 8\n    8 |   golbal_batch: 32\n      |   ^"; excerpt != want {
		t.Errorf("excerpt is\n%s\nwant\n%s", excerpt, want)
	}
	// All mistakes of a file are told at once.
	_, err = Parse("r.yaml", []byte("nam: a\nfoo: b\n"))
	if err == nil || !strings.Contains(err.Error(), `"nam"`) || !strings.Contains(err.Error(), `"foo"`) {
		t.Errorf("error is %v, want both keys in it", err)
	}
}

func TestExtends(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("small.yaml", small)
	child := write("child.yaml", `extends: small.yaml
doc: more steps, then a second phase
model: {hidden_dropout_prob: 0}
defaults: {global_batch: 8, length: 32}
phases:
- name: two
  task: question_answering
  epochs: 2
  length: 128
  schedule: {learning_rate: 1e-4}
  optimizer: {name: lamb}
- {name: one, steps: 20, optimizer: {name: sgd}}
`)
	r, err := Load(child)
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "child" || len(r.Phases) != 2 || r.Model.HiddenSize != 128 || r.Model.HiddenDropoutProb != 0 {
		t.Fatalf("recipe is %+v", r)
	}
	one, two := r.Phases[0], r.Phases[1]
	if one.Name != "one" || one.Steps != 20 || one.Length != 64 || one.GlobalBatch != 32 || one.Schedule.LearningRate != 1e-3 {
		t.Errorf("phase one is %+v, want the parent's with 20 steps", one)
	}
	if one.Optimizer.Name != "sgd" || len(one.Optimizer.Options) != 0 {
		t.Errorf("optimizer of phase one is %+v, want sgd without the options of adamw", one.Optimizer)
	}
	if two.Name != "two" || two.GlobalBatch != 8 || two.Length != 128 || two.QuestionAnswering == nil || two.Masking != nil {
		t.Errorf("phase two is %+v, want the defaults where it says nothing", two)
	}
	// A mistake in the parent is told in the parent.
	write("small.yaml", strings.Replace(small, "steps:", "stepps:", 1))
	if _, err := Load(child); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, "small.yaml")+":9:3: ") {
		t.Errorf("error is %v, want the place in small.yaml", err)
	}
	// What extends itself ends.
	write("a.yaml", "extends: b.yaml\n")
	write("b.yaml", "extends: ./a.yaml\n")
	if _, err := Load(filepath.Join(dir, "a.yaml")); err == nil || !strings.Contains(err.Error(), "recipe extends itself") {
		t.Errorf("error is %v, want that the recipe extends itself", err)
	}
	if _, err := Load(filepath.Join(dir, "c.yaml")); err == nil || !strings.Contains(err.Error(), "there is no such file") {
		t.Errorf("error is %v", err)
	}
}

func TestSet(t *testing.T) {
	r, err := Load("scratch",
		"phases.0.steps=7", "phases.squad.length=96", "phases.*.global_batch=16", "phases.phase2.optimizer.name=lamb",
		"phases.phase2.optimizer.options.use_nvlamb=true", "phases.phase1.optimizer.options.eps=1e-7",
		"backends.ipu.options.stochastic_rounding=false", "backends.gpu-ref={precision: bf16}", "phases.squad.target=",
		"data.files.text=[a.txt, b.txt]",
		"model.hidden_act=gelu", "defaults.evaluation.batch=64", "verdict.margins.f1=3.5")
	if err != nil {
		t.Fatal(err)
	}
	one, two, squad := r.Phases[0], r.Phases[1], r.Phases[2]
	if one.Steps != 7 || squad.Length != 96 || one.GlobalBatch != 16 || two.GlobalBatch != 16 || squad.GlobalBatch != 16 ||
		one.Evaluation.Batch != 64 {
		t.Errorf("phases are %+v", r.Phases)
	}
	if diff := cmp.Diff(Optimizer{Name: "lamb", Options: Options{"use_nvlamb": "true"}}, two.Optimizer); diff != "" {
		t.Error(diff)
	}
	if one.Optimizer.Options["eps"] != "1e-7" || one.Optimizer.Options["weight_decay"] != "0.01" {
		t.Errorf("optimizer of phase1 is %+v", one.Optimizer)
	}
	if squad.Target != nil {
		t.Errorf("target is %+v, want none", squad.Target)
	}
	if r.Backends["ipu"].Options["stochastic_rounding"] != "false" || r.Backends["gpu-ref"].Precision != "bf16" {
		t.Errorf("backends are %+v", r.Backends)
	}
	if diff := cmp.Diff([]string{"a.txt", "b.txt"}, r.Data.Files.Text); diff != "" {
		t.Error(diff)
	}
	if r.Model.HiddenAct != "gelu" || r.Verdict.Margins["f1"] != 3.5 || r.Verdict.Margins["exact_match"] == 0 {
		t.Errorf("model %+v, verdict %+v", r.Model, r.Verdict)
	}
	if r, err := Load("scratch", "data.kind=files"); err != nil || r.Data.Generated != (Generated{}) {
		t.Errorf("scratch on files: %v, want a recipe without a made-up world", err)
	}
	for override, want := range map[string]string{
		"phases.0.stepps=7":      `--set phases.0.stepps=7: unknown key "stepps" in phases.phase1, did you mean steps?`,
		"phases.0.steps=x":       `--set phases.0.steps=x: phases.phase1.steps is "x", want a whole number`,
		"phases.0.steps=-1":      `--set phases.0.steps=-1: phases.phase1.steps: is -1, want 1 to`,
		"phases.7.steps=1":       `phases.7: the list has 3 items, want 0 to 2`,
		"phases.phas1.steps=1":   `no item is named "phas1", did you mean phase1? (known: phase1, phase2, squad)`,
		"phases.0.steps.more=1":  `phases.0.steps is a single value and has nothing called more`,
		"steps":                  `want a path, = and a value`,
		"=1":                     `want a path, = and a value`,
		"phases..steps=1":        `is not a path`,
		"phases.0.optimizer=[a:": `--set phases.0.optimizer=[a:`,
	} {
		if _, err := Load("scratch", override); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: error is %v, want %s", override, err, want)
		}
	}
}

// TestPlan: a plan is sequential where it can be.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		set  []string
		want Plan
	}{
		{nil, Plan{SequentialPlan, 20}},
		{[]string{"verdict.alpha=0.1"}, Plan{FixedPlan, 20}},
		{[]string{"verdict.primary="}, Plan{FixedPlan, 20}},
		{[]string{"verdict.plan.kind=fixed", "verdict.plan.max_seeds=3"}, Plan{FixedPlan, 3}},
	} {
		r, err := Load("scratch", c.set...)
		if err != nil || r.Verdict.Plan != c.want {
			t.Errorf("%v: plan %v, %v, want %v", c.set, r.Verdict.Plan, err, c.want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	load := func(overrides ...string) *Recipe {
		t.Helper()
		r, err := Load("scratch", overrides...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	base := load()
	for _, o := range []string{"backends.ipu.options.stochastic_rounding=false", "backends.ipu.micro_batch=4", "doc=other",
		"source=other", "name=other", "phases.0.checkpoint_every=5", "restarts=0",
		"data.files.text=a.txt", "verdict.margins.f1=1", "verdict.plan={kind: fixed, max_seeds: 3}"} {
		if load(o).Fingerprint() != base.Fingerprint() {
			t.Errorf("%s changes the fingerprint", o)
		}
	}
	for o, want := range map[string]Difference{
		"phases.0.steps=7":                   {"phases.phase1.steps", "600", "7", true},
		"phases.squad.schedule.kind=google":  {"phases.squad.schedule.kind", `"linear"`, `"google"`, true},
		"model.hidden_act=gelu":              {"model.hidden_act", `"gelu_new"`, `"gelu"`, true},
		"phases.squad.hidden_dropout_prob=0": {"phases.squad.hidden_dropout_prob", "", "0", true},
		"data.generated.seed=2":              {"data.generated.seed", "1", "2", true},
		"phases.squad.evaluation.every=7":    {"phases.squad.evaluation.every", "100", "7", true},
	} {
		other := load(o)
		if other.Fingerprint() == base.Fingerprint() {
			t.Errorf("%s does not change the fingerprint", o)
		}
		if diff := cmp.Diff([]Difference{want}, Diff(base, other)); diff != "" {
			t.Errorf("%s: %s", o, diff)
		}
	}
	if d := Diff(base, load("backends.ipu.precision=fp32")); len(d) != 1 || d[0].Identity || d[0].Path != "backends.ipu.precision" {
		t.Errorf("differences are %v, want the backend's precision, which is not part of the identity", d)
	}
	if d := Diff(base, load()); len(d) != 0 {
		t.Errorf("a recipe differs from itself in %v", d)
	}
	reordered := load()
	reordered.Phases[0], reordered.Phases[1] = reordered.Phases[1], reordered.Phases[0]
	if d := Diff(base, reordered); len(d) != 1 || d[0].Path != "phases" || !d[0].Identity || reordered.Fingerprint() == base.Fingerprint() {
		t.Errorf("differences are %v, want the order of phases", d)
	}
}

// FuzzParse: no text makes the parser panic, and what is accepted is written and read as the same recipe.
func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add("extends: quick\nphases:\n- {name: phase1, steps: 3}\n")
	f.Add("a: {b: [c, {d: e}]}\n")
	f.Add("doc: |\n  x\n  y\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "/") || strings.Contains(text, ".y") {
			return // don't follow paths
		}
		r, err := Parse("fuzz.yaml", []byte(text))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := r.Write(&out); err != nil {
			t.Fatal(err)
		}
		again, err := Parse("fuzz.yaml", out.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, out.Bytes())
		}
		if again.Fingerprint() != r.Fingerprint() {
			t.Errorf("fingerprint changed: %v", Diff(r, again))
		}
	})
}
