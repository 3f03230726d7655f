// Package seriestest writes run folders for tests of what reads them: complete records of invented runs, without
// training.
package seriestest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/dataset/squad"
	"harness.invalid/core/dataset/synthetic"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/series"
	"harness.invalid/results"
)

// Recipe is what the runs are of: pre-training for 30 steps, then questions for 40, evaluated every 10.
const Recipe = `
name: invented
doc: Made up, for tests of pages and exports.
data: {kind: generated, generated: {seed: 1, people: 50, questions: 8, dev_questions: 6}}
defaults: {global_batch: 8, optimizer: {name: adamw}}
phases:
- name: phase1
  length: 64
  max_predictions: 8
  steps: 30
  schedule: {kind: linear, learning_rate: 1e-3}
- name: squad
  task: question_answering
  length: 64
  steps: 40
  schedule: {kind: linear, learning_rate: 1e-3}
  question_answering: {doc_stride: 32, max_query_length: 24}
  evaluation: {every: 10}
  target: {metric: f1, value: 50}
verdict: {primary: f1, margins: {f1: 2, masked_lm_loss: 0.05}, plan: {kind: fixed, max_seeds: 3}}
`

// Begin is when the first run began.
var Begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Arm is how an arm's runs turn out.
type Arm struct {
	Backend, Precision string
	F1                 float64 // at the end
	StepSeconds        float64
	ModelledSeconds    float64 // of a step; 0: nothing is modelled
	Inside             bool    // the model was checked on such programs
	Skip               int     // the total step that is skipped; 0: none
	NaN                int     // the total step from which the loss is NaN; 0: none
	Flushed            float64 // share of weights that a number format flushes, recorded in every second step; 0: no record
}

// model adds modelled time to a phase.
func (a *Arm) model(p *results.PhaseResult) {
	if a.ModelledSeconds > 0 {
		p.System, p.ModelledSeconds = "invented", a.ModelledSeconds*float64(p.Steps)
		p.ModelledConfidence = &results.Confidence{Level: 0.8, Inside: a.Inside, Why: "invented rows"}
	}
}

// Write writes a run folder for each arm and seed (from 1 on) into dir, with the questions beside them, and reads
// the runs back.
func Write(t testing.TB, dir string, seeds int, arms ...Arm) []*series.Record {
	t.Helper()
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := recipe.Parse("invented.yaml", []byte(Recipe))
	fatal(err)
	fatal(os.MkdirAll(filepath.Join(dir, "data"), 0o777))
	files, err := synthetic.Write(filepath.Join(dir, "data"), synthetic.Settings{Seed: 1, People: 50, Questions: 8, DevQuestions: 6})
	fatal(err)
	dev, err := squad.Read(files.Dev)
	fatal(err)
	var records []*series.Record
	begin := Begin
	for seed := 1; seed <= seeds; seed++ {
		for _, a := range arms {
			d := filepath.Join(dir, Name(a, seed))
			w, err := results.Create(d, results.Identity{
				Recipe: r.Name, Fingerprint: r.Fingerprint(), DataDigest: strings.Repeat("da7a", 16), Backend: a.Backend,
				Precision: a.Precision, Optimizer: "adamw", Seed: uint64(seed),
			}, r, environment(begin, a))
			fatal(err)
			res := record(t, w, r, a, seed, math.MaxInt)
			res.Started, res.Finished = begin, begin.Add(time.Duration(res.MeasuredSeconds[results.TotalSeconds]*float64(time.Second)))
			fatal(predictions(w.Path("squad.predictions.json"), dev, a, seed))
			fatal(w.Finish(res))
			begin = begin.Add(time.Minute)
			run, err := results.Open(d)
			fatal(err)
			record, err := series.Read(run)
			fatal(err)
			records = append(records, record)
		}
	}
	return records
}

// WriteLong writes runs of 64 and 45 steps times length for a number of seeds of two arms, with scores of 160 questions
// times length; with a length of 10 they are those of scratch. It does not read them.
func WriteLong(t testing.TB, dir string, seeds, length int) {
	t.Helper()
	r, err := recipe.Parse("long.yaml", []byte(strings.NewReplacer("steps: 30", fmt.Sprint("steps: ", 64*length),
		"steps: 40", fmt.Sprint("steps: ", 45*length), "every: 10", fmt.Sprint("every: ", 5*length)).Replace(Recipe)))
	if err != nil {
		t.Fatal(err)
	}
	arms := []Arm{{Backend: "ipu", Precision: "fp16.16", F1: 70, StepSeconds: 0.2, ModelledSeconds: 0.002},
		{Backend: "gpu-ref", Precision: "fp32", F1: 70.5, StepSeconds: 0.1}}
	begin := Begin
	for seed := 1; seed <= seeds; seed++ {
		for _, a := range arms {
			begin = begin.Add(time.Minute)
			writeLong(t, filepath.Join(dir, Name(a, seed)), r, a, seed, environment(begin, a))
		}
	}
}

// writeLong writes the files of a run as a results.Writer would, without waiting for the disk after each.
func writeLong(t testing.TB, dir string, r *recipe.Recipe, a Arm, seed int, env results.Environment) {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(seed), uint64(len(a.Backend))))
	total := r.Phases[0].Steps + r.Phases[1].Steps
	var steps, evaluations []byte
	res := results.Result{Status: results.Complete, BatchDigest: fmt.Sprintf("%064d", seed)}
	phases := make([]results.PhaseResult, len(r.Phases))
	line := func(to *[]byte, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		*to = append(append(*to, text...), '\n')
	}
	noise := random.NormFloat64()
	for i := range total {
		s := step(r, a, random, i)
		s.Metrics["masked_lm_accuracy"], s.Metrics["next_sentence_accuracy"] = 40+s.Metrics["loss"], 62.5
		for part, share := range map[string]float64{"forward": 0.3, "backward": 0.4, "transport": 0.05, "unscale": 0.01, "data": 0.001} {
			s.MeasuredSeconds["backend."+part] = share * s.MeasuredSeconds["total"] * (1 + 0.1*float64(seed%7))
		}
		line(&steps, s)
		p := &phases[0]
		if i >= r.Phases[0].Steps {
			p = &phases[1]
		}
		p.Name, p.Steps, p.Sequences = s.Phase, p.Steps+1, p.Sequences+int64(s.Sequences)
		if s.Step%r.Phases[1].Evaluation.Every != 0 && i+1 != r.Phases[0].Steps {
			continue
		}
		share := float64(i+1) / float64(total)
		p.Metrics = results.Metrics{"f1": share*a.F1 + noise, "exact_match": share*a.F1 - 5 + noise}
		if p == &phases[0] {
			p.Metrics = results.Metrics{"loss": 2.5, "masked_lm_loss": 2 + 0.01*noise, "masked_lm_accuracy": 55 + noise,
				"next_sentence_loss": 0.5, "next_sentence_accuracy": 75}
		}
		line(&evaluations, results.Evaluation{Phase: s.Phase, Step: s.Step, TotalStep: i + 1, Sequences: 6, MeasuredSeconds: 0.25,
			TrainingSeconds: a.StepSeconds * float64(s.Step), Metrics: p.Metrics})
	}
	for _, p := range phases {
		p.MeasuredSeconds = map[string]float64{"training": a.StepSeconds * float64(p.Steps), "total": a.StepSeconds*float64(p.Steps) + 2}
		a.model(&p)
		res.AddPhase(p)
	}
	id := results.Identity{Recipe: r.Name, Fingerprint: r.Fingerprint(), DataDigest: strings.Repeat("da7a", 16), Backend: a.Backend,
		Precision: a.Precision, Optimizer: "adamw", Seed: uint64(seed)}
	var recipe strings.Builder
	if err := r.Write(&recipe); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"steps.jsonl": steps, "evaluations.jsonl": evaluations, "recipe.yaml": []byte(recipe.String())}
	scores := map[string]map[string]float64{"f1": {}, "exact_match": {}} // of as many questions as quick's where length is 10
	for i := range r.Phases[1].Steps * 32 / 9 {
		for _, by := range scores {
			if by[fmt.Sprintf("dev-%06d", i)] = 100; random.Float64() < 0.02 {
				by[fmt.Sprintf("dev-%06d", i)] = 0
			}
		}
	}
	for name, v := range map[string]any{"run.json": id, "environment.json": env, "result.json": res,
		results.ScoresFile("squad"): scores} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = text
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// Begun writes a number of steps of a run in progress, and returns a function that continues it up to a step.
func Begun(t testing.TB, dir string, a Arm, seed, steps int) (more func(until int)) {
	t.Helper()
	r, err := recipe.Parse("invented.yaml", []byte(Recipe))
	if err != nil {
		t.Fatal(err)
	}
	w, err := results.Create(filepath.Join(dir, Name(a, seed)), results.Identity{
		Recipe: r.Name, Fingerprint: r.Fingerprint(), DataDigest: strings.Repeat("da7a", 16), Backend: a.Backend, Precision: a.Precision,
		Optimizer: "adamw", Seed: uint64(seed),
	}, r, environment(Begin.Add(time.Hour), a))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	record(t, w, r, a, seed, steps)
	return func(until int) {
		t.Helper()
		for i := steps; i < until; i++ {
			if err := w.Step(step(r, a, rand.New(rand.NewPCG(uint64(seed), uint64(i))), i)); err != nil {
				t.Fatal(err)
			}
		}
		steps = until
	}
}

// Name is the folder of a run.
func Name(a Arm, seed int) string {
	return fmt.Sprintf("%s-adamw-seed%d", strings.ReplaceAll(a.Backend, ":", "-"), seed)
}

func environment(at time.Time, a Arm) results.Environment {
	name, _, _ := strings.Cut(a.Backend, ":")
	return results.Environment{
		Time: at, OS: "linux", Arch: "amd64", CPU: "Abacus 3000", CPUFeatures: []string{"avx2"}, CPUs: 2, Threads: 2, Memory: 16 << 30,
		LoadAverage: []float64{0.5, 0.4, 0.3},
		Go:          "go1.26.0", Version: "v0.0.0", Plugins: []results.Plugin{{Kind: "backend", Name: name, Version: "1",
			SHA256: strings.Repeat("ab", 32)}},
	}
}

// step invents the step after a number of others.
func step(r *recipe.Recipe, a Arm, random *rand.Rand, before int) results.Step {
	p, at := &r.Phases[0], before
	if at >= p.Steps {
		p, at = &r.Phases[1], at-p.Steps
	}
	loss := 6*math.Exp(-float64(at)/20) + 0.1*random.Float64()
	if a.NaN > 0 && before+1 >= a.NaN {
		loss = math.NaN()
	}
	s := results.Step{
		Phase: p.Name, Step: at + 1, TotalStep: before + 1, Metrics: results.Metrics{"loss": loss}, LearningRate: 1e-3, LossScale: 4096,
		Finite:       before+1 != a.Skip,
		GradientNorm: results.Number(1 + random.Float64()), Sequences: p.GlobalBatch, ModelledSeconds: a.ModelledSeconds,
		MeasuredSeconds: map[string]float64{"total": a.StepSeconds, "data": 0.05 * a.StepSeconds, "backend": 0.8 * a.StepSeconds,
			"optimizer": 0.15 * a.StepSeconds},
	}
	if a.Flushed > 0 && s.Step%2 == 0 {
		s.Quantised = quantised(a.Flushed)
	}
	if p.Name == "phase1" {
		s.Metrics["masked_lm_loss"] = loss - 0.05
	}
	if !s.Finite {
		s.GradientNorm = 0
	}
	return s
}

// quantised invents what a format did to an operator in each of two layers: to weights of the second one, twice as much.
func quantised(flushed float64) (list []results.Quantised) {
	for layer := range 2 {
		for i, operand := range []string{"forward.input", "forward.weight"} {
			q := results.Quantised{Operator: fmt.Sprintf("bert.encoder.layer.%d.output.dense", layer), Operand: operand, Format: "e4m3-tensor",
				Values: 1000, Flushed: flushed * float64(i*(1+layer)), Largest: 2 + float64(i), Scale: 100, RelError: 0.02, Cosine: 0.999}
			list = append(list, q)
		}
	}
	return list
}

// record writes a number of steps with their evaluations, and the end.
func record(t testing.TB, w *results.Writer, r *recipe.Recipe, a Arm, seed, steps int) results.Result {
	t.Helper()
	res := results.Result{Status: results.Complete, BatchDigest: fmt.Sprintf("%064d", seed)}
	done := 0
	for i := range r.Phases {
		p := &r.Phases[i]
		out := results.PhaseResult{Name: p.Name, MeasuredSeconds: map[string]float64{"setup": 0.5},
			Floors:          results.Metrics{"f1": 5, "exact_match": 1, "masked_lm_loss": 20},
			PeakMemoryBytes: map[string]int64{"host": 20 << 20, "backend": 3 << 30}}
		for at := 1; at <= p.Steps && done < steps; at++ {
			s := step(r, a, rand.New(rand.NewPCG(uint64(seed), uint64(done))), done)
			if err := w.Step(s); err != nil {
				t.Fatal(err)
			}
			done++
			out.Steps++
			if !s.Finite {
				out.Skipped++
			}
			out.Sequences += int64(s.Sequences)
			for name, v := range s.MeasuredSeconds {
				out.MeasuredSeconds[name] += v
			}
			if every := p.Evaluation.Every; at < p.Steps && (every == 0 || at%every != 0) {
				continue
			}
			e := results.Evaluation{Phase: p.Name, Step: at, TotalStep: done, Sequences: 6, MeasuredSeconds: 0.25,
				TrainingSeconds: out.MeasuredSeconds["total"]}
			share := float64(at) / float64(p.Steps)
			noise := math.Sin(float64(seed)) + 0.2*math.Sin(float64(7*seed)+float64(len(a.Backend)))
			if p.Name == "squad" {
				e.Metrics = results.Metrics{"exact_match": share*a.F1 - 5 + noise, "f1": share*a.F1 + noise}
				if e.Metrics["f1"] >= p.Target.Value && out.Target == nil {
					out.Target = &results.Reached{Metric: "f1", Value: p.Target.Value, Step: at, MeasuredSeconds: e.TrainingSeconds}
				}
			} else {
				e.Metrics = results.Metrics{"loss": 2.5, "masked_lm_loss": 2.0 + 0.01*noise, "masked_lm_accuracy": 55 + noise,
					"next_sentence_loss": 0.5, "next_sentence_accuracy": 75}
			}
			if err := w.Evaluation(e); err != nil {
				t.Fatal(err)
			}
			out.Metrics = e.Metrics
			out.MeasuredSeconds["evaluation"] += e.MeasuredSeconds
		}
		out.MeasuredSeconds["training"] = out.MeasuredSeconds["total"]
		out.MeasuredSeconds["total"] += out.MeasuredSeconds["setup"] + out.MeasuredSeconds["evaluation"]
		a.model(&out)
		res.AddPhase(out)
	}
	return res
}

// predictions answers as often correctly as the arm's F1 says.
func predictions(path string, dev *squad.Data, a Arm, seed int) error {
	random := rand.New(rand.NewPCG(uint64(seed), uint64(len(a.Backend))))
	given := map[string]string{}
	for _, article := range dev.Articles {
		for _, p := range article.Paragraphs {
			for _, q := range p.Questions {
				given[q.ID] = q.Answers[0].Text
				if 100*random.Float64() > a.F1 {
					given[q.ID] = "<b>wrong</b>"
				}
			}
		}
	}
	text, err := json.Marshal(given)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o666)
}
