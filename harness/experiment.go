package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/kernels"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/estimate"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/train"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

// experiment is a recipe with the arms and seeds that it is run with: what `run` and `compare` have in common.
type experiment struct {
	recipeRef string
	sets      []string
	data      []string
	out       string
	resume    bool
	quiet     bool
	transport string
	store     string // index of runs
	firstSeed uint64
	seeds     int
	noise     bool // run the first arm with as many other seeds as well
	saveModel bool // leave the trained models in Hugging Face's format

	recipe   *recipe.Recipe
	arms     []arm
	progress *progress
	pool     *processes.Pool
}

// arm is a backend in a precision with an optimizer.
type arm struct {
	spec      string // as it was asked for: NAME or NAME:PRECISION
	backend   string
	precision string // empty: the recipe's or the backend's default
	optimizer string // empty: the recipe's
	shown     results.Arm
	resolved  string // precision that will run
}

func (e *experiment) flags(f *pflag.FlagSet) {
	f.StringVar(&e.recipeRef, "recipe", "quick", "built-in recipe (harness recipe list), or the path of a YAML file")
	f.StringArrayVar(&e.sets, "set", nil, "change a field of the recipe, such as phases.phase1.steps=100 (repeatable)")
	f.StringArrayVar(&e.data, "data", nil, "name a data file: text=F, prepared=FOLDER, vocab=F, model=FOLDER, or TASK.train=F and TASK.dev=F such as squad.train=F (repeatable; of one name there may be several)")
	f.StringVar(&e.out, "out", "", "folder for the runs (default runs/RECIPE-TIME)")
	f.BoolVar(&e.resume, "resume", false, "go on with the runs in --out from their last checkpoints")
	f.BoolVar(&e.saveModel, "save-model", false, "leave the trained model in model/ of each run's folder, in Hugging Face's format")
	f.BoolVar(&e.quiet, "quiet", false, "no progress, only the result")
	storeFlag(f, &e.store)
	f.StringVar(&e.transport, "transport", "memory", "how tensors reach the plugins: memory (shared) or stream (gRPC)")
}

// complete adds shell completion of what the flags take.
func (e *experiment) complete(cmd *cobra.Command) {
	words := func(flag string, list func() []string) {
		_ = cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return list(), cobra.ShellCompDirectiveNoFileComp
		})
	}
	words("transport", func() []string { return []string{"memory", "stream"} })
	_ = cmd.RegisterFlagCompletionFunc("recipe", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return recipe.Names(), cobra.ShellCompDirectiveDefault
	})
	for _, flag := range []string{"backend", "backends"} {
		if cmd.Flags().Lookup(flag) != nil {
			words(flag, func() []string { return catalog.Names(plugin.Backend) })
		}
	}
	for _, flag := range []string{"optimizer", "optimizers"} {
		if cmd.Flags().Lookup(flag) != nil {
			words(flag, func() []string { return catalog.Names(plugin.Optimizer) })
		}
	}
}

// load reads the recipe and puts the data files in.
func (e *experiment) load() error {
	r, err := recipe.Load(e.recipeRef, e.sets...)
	if err != nil {
		return err
	}
	e.recipe = r
	given := map[string][]string{}
	for _, d := range e.data {
		name, path, ok := strings.Cut(d, "=")
		if !ok || path == "" {
			return fmt.Errorf("--data %s: want NAME=FILE", d)
		}
		given[name] = append(given[name], path)
		if err := nameFiles(&r.Data.Files, name, given[name]); err != nil {
			return fmt.Errorf("--data %s: %w", d, err)
		}
	}
	if len(r.Data.Files.Prepared) > 0 && r.Data.Kind == recipe.FilesData {
		r.Data.Kind = recipe.PreparedData
	}
	if len(e.data) > 0 && r.Data.Kind == recipe.GeneratedData {
		return withHint(fmt.Errorf("--data: recipe %s makes up its own data and reads no files", r.Name), "use a recipe for files, such as --recipe tiny-wiki-squad, or --set data.kind=files")
	}
	return e.useModel()
}

// nameFiles sets the files of a name of --data: text, prepared, vocab, model, TASK.train or TASK.dev.
func nameFiles(f *recipe.Files, name string, paths []string) error {
	one := func(into *string) error {
		if len(paths) > 1 {
			return fmt.Errorf("there is only one %s", name)
		}
		*into = paths[0]
		return nil
	}
	switch name {
	case "text":
		f.Text = paths
		return nil
	case "prepared":
		f.Prepared = paths
		return nil
	case "vocab":
		return one(&f.Vocab)
	case "model":
		return one(&f.Model)
	}
	task, part, _ := strings.Cut(name, ".")
	t, err := tasks.Named(task)
	if err != nil || part != "train" && part != "dev" {
		known := []string{"text", "prepared", "vocab", "model"}
		for _, n := range tasks.Names() {
			known = append(known, n+".train", n+".dev")
		}
		return fmt.Errorf("no data set is named %q%s (known: text, prepared, vocab, model, and TASK.train and TASK.dev for the tasks %s)",
			name, spelling.Hint(name, known), strings.Join(tasks.Names(), ", "))
	}
	files := f.Of(t.Name)
	if part == "train" {
		files.Train = paths
	} else {
		files.Dev = paths
	}
	f.Set(t.Name, files)
	return nil
}

// arrange makes the arms of backends and optimizers and asks each plugin whether it can do its part, so that a wrong name ends the experiment
// before it began. The first run of a backend takes the process that was asked, and that of the first backend the optimizers, too: starting some plugins takes
// seconds.
func (e *experiment) arrange(ctx context.Context, backends, optimizers []string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, e.pool.Close())
			e.progress.close()
		}
	}()
	e.open()
	if len(optimizers) == 0 {
		optimizers = []string{""}
	}
	for _, spec := range backends {
		name, precision, _ := strings.Cut(spec, ":")
		info, err := e.pool.Backend(ctx, name)
		if err != nil {
			return err
		}
		for i := range e.recipe.Phases {
			settings := e.recipe.ForBackend(name, precision, e.recipe.Phases[i].Name)
			if err := processes.Takes(info, settings); err != nil {
				return err
			}
		}
		resolved := e.recipe.ForBackend(name, precision, e.recipe.Phases[0].Name).Precision
		if resolved == "" {
			resolved = info.Precisions[0].Name
		}
		for _, o := range optimizers {
			a := arm{spec: spec, backend: name, precision: precision, optimizer: o, resolved: resolved}
			a.shown = results.Arm{Backend: spec, Optimizer: e.optimizerName(o)}
			if slices.ContainsFunc(e.arms, func(b arm) bool { return b.shown == a.shown }) {
				return fmt.Errorf("%s with %s is asked for twice", spec, a.shown.Optimizer)
			}
			e.arms = append(e.arms, a)
		}
	}
	checked := map[string]bool{}
	first, _, _ := strings.Cut(backends[0], ":")
	for i, o := range optimizers {
		with := first
		if i > 0 {
			with = "" // no run of the first optimizer would find it
		}
		for i := range e.recipe.Phases {
			u := e.recipe.Phases[i].OptimizerNamed(o)
			key := fmt.Sprint(u)
			if checked[key] {
				continue
			}
			checked[key] = true
			if err := e.pool.Optimizer(ctx, u, with); err != nil {
				return fmt.Errorf("phase %s: %w", e.recipe.Phases[i].Name, err)
			}
		}
	}
	return nil
}

// optimizerName is what tables call an optimizer: the recipe's own may differ from phase to phase.
func (e *experiment) optimizerName(name string) string {
	if name != "" {
		return name
	}
	var names []string
	for i := range e.recipe.Phases {
		if n := e.recipe.Phases[i].Optimizer.Name; !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return strings.Join(names, "+")
}

// open makes the pool of plugins, once.
func (e *experiment) open() {
	if e.pool == nil {
		e.pool = processes.NewPool(processes.Options{Transport: host.Transport(e.transport), Output: e.progress})
	}
}

// cell is one run of the matrix.
type cell struct {
	arm  arm
	seed uint64
}

// cells are all runs, seed by seed, so that a comparison that is cut short still has whole pairs. Every other seed goes through the arms the
// other way round: a machine that gets slower or faster with time then does so to all of them.
func (e *experiment) cells() []cell {
	var list []cell
	for i := range e.seeds {
		arms := slices.Clone(e.arms)
		if i%2 == 1 {
			slices.Reverse(arms)
		}
		for _, a := range arms {
			list = append(list, cell{a, e.firstSeed + uint64(i)})
		}
		if e.noise {
			list = append(list, cell{e.arms[0], e.firstSeed + uint64(e.seeds+i)})
		}
	}
	return list
}

func (c cell) name() string {
	return fmt.Sprintf("%s-%s-seed%d", strings.ReplaceAll(c.arm.shown.Backend, ":", "-"), c.arm.shown.Optimizer, c.seed)
}

// begin makes the folder of the experiment and opens its data there.
func (e *experiment) begin(what string) (*train.Data, error) {
	if e.out == "" {
		if e.resume {
			return nil, withHint(errors.New("--resume needs --out, the folder of the runs to go on with"), "harness prints the folder at the start of a comparison")
		}
		var err error
		if e.out, err = newFolder(filepath.Join("runs", e.recipe.Name+"-"+time.Now().Format("20060102-150405"))); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Join(e.out, "data"), 0o777); err != nil {
		return nil, err
	}
	e.progress.say("recipe %s, %s in %s", e.recipe.Name, what, e.out)
	return train.OpenData(e.recipe, filepath.Join(e.out, "data"), func(what string) { e.progress.say("%s", what) })
}

// train does all runs that are not done yet and returns them all.
func (e *experiment) train(ctx context.Context) (_ []*results.Run, err error) {
	defer func() { err = errors.Join(err, e.pool.Close()) }()
	data, err := e.begin(fmt.Sprintf("%d runs", len(e.cells())))
	if err != nil {
		return nil, err
	}
	defer data.Close()
	if err := e.model(ctx, data); err != nil {
		return nil, err
	}
	var runs []*results.Run
	for _, c := range e.cells() {
		r, err := e.one(ctx, c, data)
		if err != nil {
			err = fmt.Errorf("%s: %w", c.name(), err)
			var unfit train.Unfit
			switch {
			case errors.As(err, &unfit):
				err = e.unfitHint(err, unfit, c.arm)
			case ctx.Err() != nil:
				err = withHint(err, "go on with: the same command with --resume --out %s", e.out)
			case errors.Is(err, fs.ErrExist):
				err = withHint(err, "go on with the runs in the folder with --resume, or start in another --out")
			}
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// model asks the backends of arms that name a system whether it can run the recipe, so that not one arm is trained before another one turns out not to fit.
// A single arm asks as its run begins.
func (e *experiment) model(ctx context.Context, data *train.Data) error {
	if len(e.arms) < 2 {
		return nil
	}
	for _, a := range e.arms {
		named := func(p recipe.Phase) bool {
			return e.recipe.ForBackend(a.backend, a.precision, p.Name).Options["system"] != ""
		}
		if !slices.ContainsFunc(e.recipe.Phases, named) {
			continue
		}
		plugins, err := e.pool.Waiting(ctx, a.backend)
		if err != nil {
			return err
		}
		j := train.Job{Recipe: e.recipe, Data: data, Backend: a.backend, Precision: a.precision, Optimizer: a.optimizer, Plugins: plugins}
		err = j.Model(ctx)
		var unfit train.Unfit
		if errors.As(err, &unfit) {
			return e.unfitHint(fmt.Errorf("%s: %w", a.spec, err), unfit, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unfitHint says what makes programs fit their system, and how they are trained without one.
func (e *experiment) unfitHint(err error, unfit train.Unfit, a arm) error {
	var advice, flags []string
	for _, u := range unfit {
		if u.Advice != "" && !slices.Contains(advice, u.Advice) {
			advice = append(advice, u.Advice)
		}
		if u.Remedy != nil {
			flags = append(flags, estimate.Settings(e.recipe, a.spec, u.Phase, &u.Program, u.Remedy)...)
		}
	}
	hint := fmt.Sprintf("to train it here without modelled times: add --set %s", shellString("backends."+a.spec+".options.system=none"))
	if len(advice) > 0 {
		hint = estimate.FitHint(strings.Join(advice, "; "), strings.Join(flags, " ")) + "\nhint: " + hint
	}
	return withHint(err, "%s", hint)
}

// newFolder makes a folder that nobody else has, under the name that is wanted or with a number behind it.
func newFolder(name string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		path := name
		if n > 1 {
			path = fmt.Sprintf("%s-%d", name, n)
		}
		if err := os.Mkdir(path, 0o777); !errors.Is(err, fs.ErrExist) {
			return path, err
		}
	}
}

// one does one run, or takes it from the folder when it is complete there.
func (e *experiment) one(ctx context.Context, c cell, data *train.Data) (*results.Run, error) {
	dir := filepath.Join(e.out, c.name())
	id := results.Identity{
		Recipe: e.recipe.Name, Fingerprint: e.recipe.Fingerprint(), DataDigest: data.Digest,
		Backend: c.arm.shown.Backend, Precision: c.arm.resolved, Optimizer: c.arm.shown.Optimizer, Seed: c.seed,
	}
	job := train.Job{
		Recipe: e.recipe, Data: data, Backend: c.arm.backend, Precision: c.arm.precision, Optimizer: c.arm.optimizer, Seed: c.seed,
		Dir: dir, Identity: id, Environment: results.CaptureEnvironment(e.pool.Records()...), Resume: e.resume,
		SaveModel: e.saveModel,
	}
	job.Environment.Kernels = kernels.Path()
	if e.resume {
		before, err := results.Open(dir)
		if err == nil {
			err = job.Continues(before)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case before.Result != nil && before.Result.Status == results.Complete:
			e.progress.say("%s: complete", c.name())
			return before, nil
		}
	}
	plugins, err := e.pool.Take(ctx, c.arm.backend)
	if err != nil {
		return nil, err
	}
	job.Plugins, job.Environment.Transport = plugins, string(plugins.Transport())
	observe, done := e.progress.run(c.name())
	defer done()
	begun := false
	job.Observe = func(ev train.Event) {
		if !begun {
			begun = true
			e.enter(ctx, dir)
		}
		observe(ev)
	}
	_, err = train.Run(ctx, job)
	if err := errors.Join(err, plugins.Close()); err != nil {
		return nil, err
	}
	e.enter(ctx, dir)
	return results.Open(dir)
}

// enter puts a run into the index, or brings what is there up to date. An index that can't be written costs no run: it can be made again.
func (e *experiment) enter(ctx context.Context, dir string) {
	err := index.Use(ctx, e.store, func(x *index.Index) error {
		r, err := results.Open(dir)
		if err != nil {
			return err
		}
		return x.Put(ctx, r)
	})
	if err != nil {
		e.progress.say("the run is not in the index: %v (harness runs reindex makes up for it)", err)
	}
}
