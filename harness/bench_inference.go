package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"harness.invalid/core/bert"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/inference"
)

// answering are the flags of bench inference.
type answering struct {
	experiment.Inference
	settings         inference.Settings
	tuned            experiment.FineTuning
	backend          string
	scenario, format string
	task, transport  string
	table            bool
	lengths, batches []int
}

func newBenchInference() *cobra.Command {
	var a answering
	cmd := &cobra.Command{
		Use:   "inference",
		Short: "Measure how fast a model answers, by MLPerf's scenarios",
		Long: `Inference measures forward passes through a backend plugin, wire included, by the rules of MLPerf's load generator. --model is a
folder with a fine-tuned model, which answers the examples in --data and is scored beside gpu-ref in FP32; or a published size, whose
model has initial values and answers random tokens with the lengths of SQuAD's questions (--fill).

Scenarios: single-stream (one sample after the other; p90), multi-stream (eight at a time; p99), server (single samples at random times,
99% within --bound) and offline (all at once; samples a second). A run takes some seconds; --duration 10m is the rules'. Valid says
whether the run has its duration and, with a confidence of 99%, its percentile. Warm-up is apart.

--table is NVIDIA's table instead: throughput and latencies by length and batch.`,
		Example: `  harness bench inference --scenario offline
  harness bench inference --model mini --backend gpu-ref:bf16 --scenario server --qps 40 --format json
  harness bench inference --model runs/mine/gpu-ref-adamw-seed1/model --data dev.json --backend ipu --scenario single-stream
  harness bench inference --model base --table --lengths 128,384 --batches 1,8`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.resolve(); err != nil {
				return err
			}
			if a.table {
				return a.cells(cmd)
			}
			r, err := a.Run(cmd.Context(), a.settings)
			if err != nil {
				return advise(err)
			}
			if a.format == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			}
			return printInference(cmd.OutOrStdout(), r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.tuned.Model, "model", "tiny", "folder of a fine-tuned model, or a published size: "+strings.Join(bert.SizeNames(), ", "))
	f.StringVar(&a.task, "task", "", "task, such as squad (default squad, or the model folder's)")
	f.StringArrayVar(&a.Files, "data", nil, "file of examples for a fine-tuned model (repeatable)")
	f.StringVar(&a.tuned.Recipe, "recipe", "", "recipe of a fine-tuned model (default: the one in its folder)")
	f.StringArrayVar(&a.tuned.Set, "set", nil, "change a field of that recipe (repeatable)")
	f.StringVar(&a.backend, "backend", "gpu-ref", "backend, NAME, NAME:PRECISION or either with ?OPTION=VALUE&...")
	f.StringVar(&a.scenario, "scenario", "single-stream", strings.Join(inference.Scenarios, ", "))
	f.DurationVar(&a.settings.Duration, "duration", 3*time.Second, "shortest run; MLPerf's rules want 10m")
	f.DurationVar(&a.settings.Limit, "limit", 0, "longest run, whatever is missing then (default: four times --duration)")
	f.Float64Var(&a.settings.QPS, "qps", 0, "server: queries a second (default: half of what full batches reach)")
	f.DurationVar(&a.settings.Bound, "bound", 0, "server: latency that 99% of the queries must keep (default 130ms, MLPerf's for BERT)")
	f.IntVar(&a.Batch, "batch", 8, "most sequences that are answered at once")
	f.IntVar(&a.Random.Length, "seq", 384, "tokens of a random sequence, padding included")
	f.Float64Var(&a.Random.Fill, "fill", 0.46, "share of a random sequence's tokens that are no padding; 0.46: SQuAD's at 384")
	f.BoolVar(&a.table, "table", false, "measure --lengths by --batches, in --duration all together")
	f.IntSliceVar(&a.lengths, "lengths", []int{128, 384}, "lengths of the table")
	f.IntSliceVar(&a.batches, "batches", []int{1, 2, 4, 8}, "batches of the table")
	f.StringVar(&a.format, "format", "table", "table or json")
	f.StringVar(&a.transport, "transport", "memory", "how tensors reach the plugins: memory or stream")
	return cmd
}
