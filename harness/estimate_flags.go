package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"harness.invalid/core/bert"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/estimate"
)

// estimateFlags adds the flags of estimate and profile. A field of the request stays zero unless its flag is given.
func estimateFlags(f *pflag.FlagSet, q *estimate.Request) {
	f.StringVar(&q.Backend, "backend", "ipu", "backend, NAME or NAME:PRECISION")
	f.StringVar(&q.System, "system", "", "system, by name or as the path of a YAML file (default: the recipe's or the backend's)")
	f.StringVar(&q.Recipe, "recipe", "", "built-in recipe (harness recipe list), or the path of a YAML file")
	f.StringArrayVar(&q.Set, "set", nil, "change a field of the recipe, such as backends.ipu.options.recomputation=stage (repeatable)")
	f.StringVar(&q.Model, "model", "", "size of the model: "+strings.Join(bert.SizeNames(), ", "))
	f.StringVar(&q.Task, "task", "", "pretraining or squad")
	f.IntVar(&q.Length, "seq", 0, "tokens of a sequence (default of squad: 384)")
	f.IntVar(&q.MaxPredictions, "max-predictions", 0, "masked positions of a sequence (default 20, 56 and 76 of 128, 384 and 512 tokens)")
	f.IntVar(&q.MicroBatch, "micro-batch", 0, "sequences that a device takes at once")
	f.IntVar(&q.Accumulation, "accumulation", 0, "micro-batches that a replica accumulates before an update")
	f.IntVar(&q.Replicas, "replicas", 0, "replicas that share a global batch")
	f.Var(backendOption{&q.Options, ""}, "option", "option of the backend, `NAME=VALUE` (repeatable)")
	f.Var(backendOption{&q.Options, "pipeline"}, "layers-per-ipu",
		"layers on each IPU of a replica, such as 3,7,7,7: short for --option pipeline=")
	f.StringVar(&q.Precision, "precision", "", "number format of the backend")
	f.StringVar(&q.Optimizer, "optimizer", "", "optimizer (default: the recipe's, or lamb for pretraining and adamw for squad)")
	f.Float64Var(&q.Packing, "packing", 0, "sequences of the data in one sequence of the model")
	f.IntVar(&q.Samples, "samples", 0, "sequences of the training data, for phases whose length is in epochs (default: as published)")
	for flag, value := range map[string]string{
		"model": "base", "task": "pretraining", "seq": "128", "micro-batch": "1", "accumulation": "16", "replicas": "1",
	} {
		f.Lookup(flag).DefValue = value // of a phase without a recipe
	}
}

// backendOption is a flag that sets an option of a backend: the one that has a name, or else any.
type backendOption struct {
	options *map[string]string
	name    string
}

// Set implements pflag.Value.
func (o backendOption) Set(text string) error {
	name, value := o.name, text
	if name == "" {
		var ok bool
		if name, value, ok = strings.Cut(text, "="); !ok || name == "" {
			return errors.New("want NAME=VALUE")
		}
	}
	if *o.options == nil {
		*o.options = map[string]string{}
	}
	(*o.options)[name] = value
	return nil
}

// String implements pflag.Value.
func (o backendOption) String() string { return "" }

// Type implements pflag.Value.
func (o backendOption) Type() string { return "string" }

// checkEstimate reports flags that can't be meant.
func checkEstimate(f *pflag.FlagSet, q *estimate.Request) error {
	for _, c := range []struct {
		flag, value string
		known       []string
		want        string
	}{
		{"model", q.Model, bert.SizeNames(), strings.Join(bert.SizeNames(), ", ")},
		{"task", q.Task, []string{"pretraining", "squad"}, "pretraining or squad"},
	} {
		if c.value != "" && !slices.Contains(c.known, c.value) {
			return fmt.Errorf("--%s is %q, want %s%s", c.flag, c.value, c.want, spelling.Hint(c.value, c.known))
		}
	}
	for _, c := range []struct {
		flag  string
		value int
	}{
		{"seq", q.Length}, {"max-predictions", q.MaxPredictions}, {"micro-batch", q.MicroBatch}, {"accumulation", q.Accumulation},
		{"replicas", q.Replicas}, {"samples", q.Samples},
	} {
		if f.Changed(c.flag) && c.value < 1 {
			return fmt.Errorf("--%s is %d, want at least 1", c.flag, c.value)
		}
	}
	switch {
	case q.Samples > 0 && q.Recipe == "":
		return errors.New("--samples without --recipe: only a recipe has a length in epochs")
	case q.Packing != 0 && !(q.Packing >= 1 && q.Packing <= 1<<10):
		return fmt.Errorf("--packing is %g, want at least 1", q.Packing)
	case q.Recipe != "" && f.Changed("task"):
		return errors.New("--task and --recipe: a recipe has tasks of its own, want one of the two")
	}
	return nil
}
