package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/option"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/processes"
)

// estimation is what the command lines of `estimate` and `profile` say: a recipe, or everything in flags, and flags go before the recipe.
type estimation struct {
	backend, system string
	recipeRef       string
	sets            []string

	model, task                                             string
	seq, maxPredictions, microBatch, accumulation, replicas int
	layersPerIPU, precision, optimizer                      string
	packing                                                 float64
	samples                                                 int
	description                                             string // of a system of the user's own
	defaultSystem                                           string // of the backend
	flags                                                   *pflag.FlagSet
	recipe                                                  *recipe.Recipe
}

func (e *estimation) register(f *pflag.FlagSet) {
	e.flags = f
	f.StringVar(&e.backend, "backend", "ipu", "backend, NAME or NAME:PRECISION")
	f.StringVar(&e.system, "system", "", "system, by name or as the path of a YAML file (default: the recipe's or the backend's)")
	f.StringVar(&e.recipeRef, "recipe", "", "built-in recipe (harness recipe list), or the path of a YAML file")
	f.StringArrayVar(&e.sets, "set", nil, "change a field of the recipe, such as backends.ipu.options.recomputation=stage (repeatable)")
	f.StringVar(&e.model, "model", "base", "size of the model: "+strings.Join(bert.SizeNames(), ", "))
	f.StringVar(&e.task, "task", "pretraining", "pretraining or squad")
	f.IntVar(&e.seq, "seq", 128, "tokens of a sequence (default of squad: 384)")
	f.IntVar(&e.maxPredictions, "max-predictions", 0, "masked positions of a sequence (default 20, 56 and 76 of 128, 384 and 512 tokens)")
	f.IntVar(&e.microBatch, "micro-batch", 1, "sequences that a device takes at once")
	f.IntVar(&e.accumulation, "accumulation", 16, "micro-batches that a replica adds up before an update")
	f.IntVar(&e.replicas, "replicas", 1, "replicas that share a global batch")
	f.StringVar(&e.layersPerIPU, "layers-per-ipu", "", "layers on each IPU of a replica, such as 3,7,7,7 (default: as published for the model)")
	f.StringVar(&e.precision, "precision", "", "number format of the backend")
	f.StringVar(&e.optimizer, "optimizer", "", "lamb, adamw or sgd (default: the recipe's, or lamb for pretraining and adamw for squad)")
	f.Float64Var(&e.packing, "packing", 0, "sequences of the data in one sequence of the model")
	f.IntVar(&e.samples, "samples", 0, "sequences of the training data, for phases that are some epochs long (default: as published for the task)")
}

// job is a phase to be modelled.
type job struct {
	phase   string
	steps   int    // of the phase; 0: not known without its data
	length  string // where the steps come from, when the recipe does not say them
	program backend.Program
	on      backend.Machine
}

// jobs reads the recipe, or what stands for one, and lays the flags over its phases.
func (e *estimation) jobs() ([]job, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	r, err := e.load()
	if err != nil {
		return nil, err
	}
	e.recipe = r
	name, precision, _ := strings.Cut(e.backend, ":")
	var list []job
	for i := range r.Phases {
		p := &r.Phases[i]
		program, err := r.Program(p, name, precision, r.Vocab.Size, 0)
		if err != nil {
			return nil, err
		}
		j := job{phase: p.Name, on: backend.Machine{Optimizer: p.OptimizerNamed("").Name}, program: program}
		if err := e.lay(&j); err != nil {
			return nil, err
		}
		if e.recipeRef != "" {
			e.measure(&j, r, p)
		}
		if err := j.program.Validate(); err != nil {
			return nil, fmt.Errorf("phase %s: %w", p.Name, err)
		}
		list = append(list, j)
	}
	return list, nil
}

// measure counts the steps of a phase. One that is some epochs long has them over the sequences that the command line says, those of the made-up world, or
// those of the task's published files.
func (e *estimation) measure(j *job, r *recipe.Recipe, p *recipe.Phase) {
	if p.Steps > 0 {
		j.steps = p.Steps
		return
	}
	n, of := e.samples, "--samples"
	if n == 0 && p.Task == bert.QuestionAnswering && r.Data.Kind == recipe.GeneratedData {
		n, of = r.Data.Generated.Questions, "the generated questions"
	}
	if t := p.FineTuning(); n == 0 && t != nil && r.Data.Kind != recipe.GeneratedData {
		n, of = t.TrainingSequences(), t.Name+" as published"
	}
	if n == 0 {
		j.length = fmt.Sprintf("%g epochs: --samples says of how many sequences", p.Epochs)
		return
	}
	cut := *p
	cut.GlobalBatch = j.program.GlobalBatch()
	j.steps, j.length = cut.TotalSteps(n), fmt.Sprintf("%g epochs of %d sequences: %s", p.Epochs, n, of)
}

// check reports flags that can't be meant.
func (e *estimation) check() error {
	if names := bert.SizeNames(); !slices.Contains(names, e.model) {
		return fmt.Errorf("--model is %q, want %s%s", e.model, strings.Join(names, ", "), spelling.Hint(e.model, names))
	}
	if names := []string{"pretraining", "squad"}; !slices.Contains(names, e.task) {
		return fmt.Errorf("--task is %q, want pretraining or squad%s", e.task, spelling.Hint(e.task, names))
	}
	if names := []string{"", "lamb", "adamw", "sgd"}; !slices.Contains(names, e.optimizer) {
		return fmt.Errorf("--optimizer is %q, want lamb, adamw or sgd%s", e.optimizer, spelling.Hint(e.optimizer, names))
	}
	for _, f := range []struct {
		flag  string
		value int
	}{{"seq", e.seq}, {"micro-batch", e.microBatch}, {"accumulation", e.accumulation}, {"replicas", e.replicas}} {
		if f.value < 1 {
			return fmt.Errorf("--%s is %d, want at least 1", f.flag, f.value)
		}
	}
	if e.samples < 0 {
		return fmt.Errorf("--samples is %d, want at least 1", e.samples)
	}
	if e.samples > 0 && e.recipeRef == "" {
		return errors.New("--samples without --recipe: only a recipe has a length in epochs")
	}
	if e.packing != 0 && !(e.packing >= 1 && e.packing <= 1<<10) {
		return fmt.Errorf("--packing is %g, want at least 1", e.packing)
	}
	if e.recipeRef != "" && e.flags.Changed("task") {
		return errors.New("--task and --recipe: a recipe has tasks of its own, want one of the two")
	}
	if strings.ContainsRune(e.system, '/') || strings.HasSuffix(e.system, ".yaml") || strings.HasSuffix(e.system, ".yml") {
		text, err := os.ReadFile(e.system)
		if err != nil {
			return fmt.Errorf("--system: %w", err)
		}
		e.description = string(text)
	}
	return nil
}

// load reads the recipe. Flags alone make one with a single phase.
func (e *estimation) load() (*recipe.Recipe, error) {
	if e.recipeRef != "" {
		return recipe.Load(e.recipeRef, e.sets...)
	}
	task, length, optimizer, predictions := bert.Pretraining, e.seq, "lamb", ""
	if e.task == "squad" {
		task, optimizer = bert.QuestionAnswering, "adamw"
		if !e.flags.Changed("seq") {
			length = 384
		}
	} else {
		if !e.flags.Changed("max-predictions") {
			e.maxPredictions = publishedPredictions(length)
		}
		predictions = fmt.Sprintf("max_predictions: %d, ", e.maxPredictions)
	}
	return recipe.Parse("command line", fmt.Appendf(nil, `
model: {size: %s}
phases:
- {name: %s, task: %s, length: %d, %smicro_batch: %d, accumulation: %d, replicas: %d, steps: 1, schedule: {learning_rate: 1}, optimizer: {name: %s}}
`, e.model, e.task, task, length, predictions, e.microBatch, e.accumulation, e.replicas, optimizer), e.sets...)
}

// publishedPredictions is how many positions published recipes mask: 0.15 of the tokens, about.
func publishedPredictions(length int) int {
	known := map[int]int{128: 20, 384: 56, 512: 76}
	return cmp.Or(known[length], (length*15+99)/100)
}

// lay puts the flags that were given over a phase.
func (e *estimation) lay(j *job) error {
	given := e.flags.Changed
	p := &j.program
	if given("model") {
		var err error
		if p.Model, err = p.Model.Size(e.model); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		flag  string
		value int
		field *int
	}{
		{"seq", e.seq, &p.Length}, {"max-predictions", e.maxPredictions, &p.MaxPredictions}, {"micro-batch", e.microBatch, &p.MicroBatch},
		{"accumulation", e.accumulation, &p.Accumulation}, {"replicas", e.replicas, &p.Replicas},
	} {
		if given(f.flag) && (f.flag != "max-predictions" || p.Head.Task == bert.Pretraining) {
			*f.field = f.value
		}
	}
	if given("layers-per-ipu") {
		if p.Options == nil {
			p.Options = map[string]string{}
		}
		p.Options["pipeline"] = e.layersPerIPU
	}
	if given("precision") {
		p.Precision = e.precision
	}
	if given("optimizer") {
		j.on.Optimizer = e.optimizer
	}
	j.on.Packing, j.on.Description = e.packing, e.description
	if e.description == "" {
		j.on.System = e.system
	}
	return nil
}

// start starts the backend and returns its model of a machine.
func (e *estimation) start(ctx context.Context) (backend.Estimator, *host.Process, error) {
	name, _, _ := strings.Cut(e.backend, ":")
	p, err := processes.Launch(ctx, plugin.Backend, name, processes.Options{Transport: host.Stream})
	if err != nil {
		return nil, nil, err
	}
	info, err := p.Backend().Describe(ctx)
	if err == nil && e.flags.Changed("layers-per-ipu") && !slices.ContainsFunc(info.Options, func(o option.Option) bool { return o.Name == "pipeline" }) {
		err = fmt.Errorf("--layers-per-ipu: backend %s has no pipeline", name)
	}
	for _, o := range info.Options {
		if o.Name == "system" {
			e.defaultSystem = o.Default
		}
	}
	estimator, ok := p.Backend().(backend.Estimator)
	if err == nil && !ok {
		err = fmt.Errorf("backend %s has no model of its machine: %w", name, backend.ErrUnsupported)
	}
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	return estimator, p, nil
}

func newEstimate() *cobra.Command {
	var e estimation
	var format string
	var sweep bool
	cmd := &cobra.Command{
		Use:   "estimate",
		Short: "Model time and memory of a recipe on a named system, without training",
		Long: `Estimate models a step of each phase of a recipe on a system: sequences a second, what the time goes into, and the memory of every device against what
it has. Nothing is trained. Without --recipe the flags say what runs; with it they go before what the recipe says.

Systems of the backend ipu are ipu-pod4, 16, 64, 128 and 256 (GC200) and bow-pod4 to 256; of gpu-ref dgx-1-v100-16gb, dgx-1-v100-32gb, dgx-2,
dgx-a100-40gb, dgx-a100-80gb, dgx-h100 and dgx-h200. docs/machines.md says how well they predict published throughput, and how to describe another one.

The exit code is 1 when the program does not fit into the memory, and 2 when it could not run at all.`,
		Example: `  harness estimate --backend ipu --system bow-pod16 --recipe large-phase1
  harness estimate --backend ipu --system ipu-pod16 --model large --seq 128 --micro-batch 8 --accumulation 2048 --replicas 4 --layers-per-ipu 3,7,7,7
  harness estimate --backend gpu-ref --system dgx-a100-80gb --model large --seq 512 --micro-batch 32 --accumulation 128 --precision fp16 --format json
  harness estimate --backend ipu --system bow-pod64 --recipe large-phase1 --sweep`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if formats := []string{"table", "json"}; !slices.Contains(formats, format) {
				return fmt.Errorf("--format is %q, want table or json%s", format, spelling.Hint(format, formats))
			}
			jobs, err := e.jobs()
			if err != nil {
				return err
			}
			estimator, process, err := e.start(cmd.Context())
			if err != nil {
				return err
			}
			if sweep {
				err = e.sweep(cmd, estimator, jobs, format)
			} else {
				err = e.tell(cmd, estimator, jobs, format)
			}
			return errors.Join(err, process.Close())
		},
	}
	e.register(cmd.Flags())
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	cmd.Flags().BoolVar(&sweep, "sweep", false, "vary replicas, micro-batch, accumulation and layers per IPU, and mark the fastest that fits")
	return cmd
}

// estimateRecord is an estimate for programs.
type estimateRecord struct {
	Backend            string             `json:"backend"`
	System             string             `json:"system"`
	Recipe             string             `json:"recipe,omitempty"`
	Phase              string             `json:"phase"`
	SequencesPerSecond float64            `json:"sequences_per_second"`
	StepSeconds        float64            `json:"step_seconds"`
	GlobalBatch        int                `json:"global_batch"`
	Fits               bool               `json:"fits"`
	PeakShare          float64            `json:"peak_share"`
	Breakdown          map[string]float64 `json:"breakdown"` // seconds of step_seconds
	Memory             []memoryRecord     `json:"memory"`
	Steps              int                `json:"steps,omitempty"`
	Length             string             `json:"length,omitempty"`        // where the steps come from
	TotalSeconds       float64            `json:"total_seconds,omitempty"` // of all steps
	Error              string             `json:"error,omitempty"`
	Advice             string             `json:"advice,omitempty"`
	Flags              string             `json:"flags,omitempty"` // that make it fit
	Notes              []string           `json:"notes,omitempty"`
}

type memoryRecord struct {
	Device string           `json:"device"`
	Bytes  int64            `json:"bytes"` // that the device has
	Needed int64            `json:"needed_bytes"`
	Fits   bool             `json:"fits"`
	Parts  map[string]int64 `json:"parts"`
}

func (e *estimation) record(j job, m backend.Estimate) estimateRecord {
	r := estimateRecord{
		Backend: e.backend, System: m.System, Recipe: e.recipeRef, Phase: j.phase, SequencesPerSecond: m.SequencesPerSecond, StepSeconds: m.StepSeconds,
		GlobalBatch: m.GlobalBatch, Fits: m.Fits(), PeakShare: m.PeakShare, Breakdown: map[string]float64{}, Memory: []memoryRecord{},
		Steps: j.steps, Length: j.length, TotalSeconds: float64(j.steps) * m.StepSeconds, Advice: m.Advice, Flags: e.flagsOf(&j, m.Remedy), Notes: m.Notes,
	}
	for _, p := range m.Breakdown {
		r.Breakdown[p.Name] = p.Seconds
	}
	for _, d := range m.Memory {
		parts := map[string]int64{}
		for _, p := range d.Parts {
			parts[p.Name] = p.Bytes
		}
		r.Memory = append(r.Memory, memoryRecord{d.Device, d.Bytes, d.Total(), d.Total() <= d.Bytes, parts})
	}
	if err := m.Err(); err != nil {
		r.Error = err.Error()
	}
	return r
}

// tell models all phases and prints them. What does not fit is printed as well, and said on standard error.
func (e *estimation) tell(cmd *cobra.Command, estimator backend.Estimator, jobs []job, format string) error {
	var estimates []backend.Estimate
	failed := false
	for _, j := range jobs {
		m, err := estimator.Estimate(cmd.Context(), j.program, j.on)
		if err != nil {
			return err
		}
		estimates = append(estimates, m)
	}
	write := e.writeTable
	if format == "json" {
		write = e.writeJSON
	}
	if err := write(cmd.OutOrStdout(), jobs, estimates); err != nil {
		return err
	}
	for i := range estimates {
		m := &estimates[i]
		if err := m.Err(); err != nil {
			failed = true
			fmt.Fprintf(cmd.ErrOrStderr(), "harness: phase %s: %v\n", jobs[i].phase, err)
			if m.Advice != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "hint: %s\n", remedy(m.Advice, e.flagsOf(&jobs[i], m.Remedy)))
			}
		}
	}
	if failed {
		return errFailed
	}
	return nil
}

// writeJSON writes the one phase that there is, or all of them with their sum.
func (e *estimation) writeJSON(w io.Writer, jobs []job, estimates []backend.Estimate) error {
	var records []estimateRecord
	total, fits, known := 0., true, true
	for i, j := range jobs {
		r := e.record(j, estimates[i])
		records = append(records, r)
		total, fits, known = total+r.TotalSeconds, fits && r.Fits, known && j.steps > 0
	}
	if !known {
		total = 0
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if len(records) == 1 {
		return enc.Encode(records[0])
	}
	return enc.Encode(struct {
		Backend      string           `json:"backend"`
		System       string           `json:"system"`
		Recipe       string           `json:"recipe"`
		Fits         bool             `json:"fits"`
		TotalSeconds float64          `json:"total_seconds,omitempty"`
		Phases       []estimateRecord `json:"phases"`
	}{e.backend, records[0].System, e.recipeRef, fits, total, records})
}

func (e *estimation) writeTable(w io.Writer, jobs []job, estimates []backend.Estimate) error {
	total, known := 0., true
	for i, j := range jobs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		m := &estimates[i]
		if err := writeEstimate(w, e.backend, j, m); err != nil {
			return err
		}
		total, known = total+float64(j.steps)*m.StepSeconds, known && j.steps > 0
	}
	if len(jobs) > 1 && known {
		fmt.Fprintf(w, "\nwhole recipe, modelled: %s\n", duration(total))
	}
	return nil
}

func writeEstimate(w io.Writer, name string, j job, m *backend.Estimate) error {
	p := &j.program
	fmt.Fprintf(w, "%s on %s, backend %s: %d layers, %d wide, %d tokens, micro-batch %d x accumulation %d x replicas %d\n\n",
		j.phase, m.System, name, p.Model.NumHiddenLayers, p.Model.HiddenSize, p.Length, p.MicroBatch, p.Accumulation, p.Replicas)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "modelled sequences/s\t%s\n", significant(m.SequencesPerSecond))
	fmt.Fprintf(t, "modelled seconds a step\t%s\n", significant(m.StepSeconds))
	fmt.Fprintf(t, "global batch\t%d\n", m.GlobalBatch)
	fmt.Fprintf(t, "share of peak arithmetic\t%.1f%%\n", 100*m.PeakShare)
	if j.steps > 0 {
		fmt.Fprintf(t, "modelled time of %d steps\t%s\n", j.steps, duration(float64(j.steps)*m.StepSeconds))
	}
	if j.length != "" {
		fmt.Fprintf(t, "length\t%s\n", j.length)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nmodelled seconds of a step")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, b := range m.Breakdown {
		if b.Seconds > 0 {
			fmt.Fprintf(t, "  %s\t%s\t%.1f%%\n", strings.ReplaceAll(b.Name, "_", " "), significant(b.Seconds), 100*b.Seconds/m.StepSeconds)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := writeMemory(w, m.Memory); err != nil {
		return err
	}
	for _, n := range m.Notes {
		fmt.Fprintf(w, "\n%s\n", n)
	}
	return nil
}

// writeMemory prints a line for each device.
func writeMemory(w io.Writer, devices []backend.DeviceMemory) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "MB\thas\tneeds\t")
	if len(devices) > 0 {
		for _, p := range devices[0].Parts {
			fmt.Fprintf(t, "%s\t", p.Name)
		}
	}
	fmt.Fprintln(t)
	for _, d := range devices {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t", d.Device, float64(d.Bytes)/1e6, float64(d.Total())/1e6)
		for _, p := range d.Parts {
			fmt.Fprintf(t, "%.1f\t", float64(p.Bytes)/1e6)
		}
		if d.Total() > d.Bytes {
			fmt.Fprint(t, "does not fit\t")
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// significant shows four digits.
func significant(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// duration shows hours, or less.
func duration(seconds float64) string {
	switch {
	case seconds >= 3600:
		return fmt.Sprintf("%.2f h", seconds/3600)
	case seconds >= 60:
		return fmt.Sprintf("%.1f min", seconds/60)
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond).String()
}
