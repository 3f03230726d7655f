package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/harness/experiment"
	"harness.invalid/harness/export"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/report"
	"harness.invalid/results/index"
)

// training is what the commands that train have in common: an experiment and where its recipe comes from, as flags
// say it.
type training struct {
	experiment.Experiment
	source   experiment.Source
	store    string
	quiet    bool
	modelled bool
	export   string // the tool that is told of the runs while they train; "": none
	dryRun   bool
	// fromScratch trains the recipe scratch in place of the default one.
	fromScratch bool
}

// defaultRecipe is trained unless another one is named.
const defaultRecipe = "quick"

const modelledUsage = "show modelled times even where a machine model was never checked on such a program"

func (t *training) flags(f *pflag.FlagSet) {
	f.StringVar(&t.source.Recipe, "recipe", defaultRecipe, "built-in recipe (harness recipe list), or the path of a YAML file")
	f.StringArrayVar(&t.source.Set, "set", nil, "change a field of the recipe, such as phases.phase1.steps=100 (repeatable)")
	f.StringArrayVar(&t.source.Data, "data", nil,
		"name a data file: text=F, prepared=FOLDER, vocab=F, model=FOLDER, or TASK.train=F and TASK.dev=F such as squad.train=F "+
			"(repeatable; of one name there may be several)")
	f.BoolVar(&t.SaveModel, "save-model", false, "leave the trained model in model/ of each run's folder, in Hugging Face's format")
	t.keepFlags(f)
	t.runFlags(f)
}

// keepFlags say where runs are kept.
func (t *training) keepFlags(f *pflag.FlagSet) {
	f.StringVar(&t.Dir, "out", "", "folder for the runs (default runs/RECIPE-TIME)")
	f.BoolVar(&t.Resume, "resume", false, "go on with the runs in --out from their last checkpoints")
	f.BoolVar(&t.AllowChange, "allow-change", false,
		"let --resume go on with other kernels, another program or other plugins: bits change on the way, and tables say so")
	f.Func("restarts", "how often a run may start its plugins again after one of them died or hung: a `number` (default the recipe's)",
		func(text string) error {
			n, err := strconv.Atoi(text)
			t.Restarts = &n
			return err
		})
	f.StringVar(&t.export, "export", "", "let a tool follow the runs while they train: tensorboard, in the folder tensorboard of --out")
	storeFlag(f, &t.store)
}

// runFlags say how plugins run and what is shown meanwhile.
func (t *training) runFlags(f *pflag.FlagSet) {
	f.BoolVar(&t.quiet, "quiet", false, "no progress, only the result")
	f.BoolVar(&t.modelled, "modelled", false, modelledUsage)
	f.StringVar((*string)(&t.Transport), "transport", "memory", "how tensors reach the plugins: memory (shared) or stream (gRPC)")
}

// scratchFlag asks for training from initial values.
func (t *training) scratchFlag(f *pflag.FlagSet) {
	f.BoolVar(&t.fromScratch, "from-scratch", false,
		"train the recipe scratch in place of "+defaultRecipe+": all runs from initial values, which alone shows what goes wrong before "+
			"anything is learned")
}

// load reads the recipe.
func (t *training) load() (err error) {
	if t.fromScratch {
		if t.source.Recipe != defaultRecipe {
			return hint.With(fmt.Errorf("--from-scratch names another recipe than --recipe %s", t.source.Recipe),
				"--set start= leaves out the model that a recipe starts from; its phases stay as they are")
		}
		t.source.Recipe = "scratch"
	}
	if t.Recipe, err = experiment.Load(t.source); err != nil {
		return advise(err)
	}
	return t.ReadPolicies()
}

// run trains, and shows how far it is.
func (t *training) run(cmd *cobra.Command) (*experiment.Outcome, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	t.Index = index.Locate(t.store)
	p := newProgress(cmd.ErrOrStderr(), t.quiet)
	defer p.close()
	var wait func()
	t.Observe, wait = t.exporting(p)
	defer wait()
	o, err := experiment.Run(cmd.Context(), t.Experiment)
	return o, adviseRuns(cmd.Context(), err)
}

// check reports flags that don't go together.
func (t *training) check() error {
	if t.Resume && t.Dir == "" {
		return hint.With(errors.New("--resume needs --out, the folder of the runs to go on with"),
			"harness prints the folder at the start of a comparison")
	}
	return t.checkExport()
}

func (t *training) checkExport() error {
	if t.export != "" && t.export != "tensorboard" {
		return hint.With(fmt.Errorf("--export is %q, want tensorboard", t.export),
			"harness export writes complete runs for the other tools: %s", strings.Join(export.Names(), ", "))
	}
	return nil
}

// exportEvery is the time between two looks at the runs for --export: TensorBoard looks every 5 seconds, too.
const exportEvery = 5 * time.Second

// exporting is how the runs are observed: by p, and from when their folder is known by the tool of --export. wait lets
// that have the last of them.
func (t *training) exporting(p *progress) (observe experiment.Observer, wait func()) {
	if t.export == "" {
		return p.observe, func() {}
	}
	ctx, end := context.WithCancel(context.Background())
	var following sync.WaitGroup
	return func(e experiment.Event) {
			if o, ok := e.(experiment.Opened); ok {
				live := export.Live{From: o.Dir, To: filepath.Join(o.Dir, t.export), Every: exportEvery}
				p.say("tensorboard --logdir %s follows the runs", hint.Quote(live.To))
				following.Go(func() { live.Follow(ctx, func(err error) { p.say("%v", err) }) })
			}
			p.observe(e)
		}, func() {
			end()
			following.Wait()
		}
}

// runAndCompare trains and prints the comparison.
func (t *training) runAndCompare(cmd *cobra.Command, f report.Format) (*experiment.Outcome, error) {
	o, err := t.run(cmd)
	if err != nil {
		return nil, err
	}
	c, err := o.Compare()
	if err != nil {
		return nil, err
	}
	out := cmd.OutOrStdout()
	return o, report.Write(out, c, report.Options{Format: f, Width: width(out), Color: color(out), Modelled: t.modelled})
}
