package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/synthetic"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/spelling"
	"harness.invalid/core/wordpiece"
	"harness.invalid/harness/bench"
	"harness.invalid/harness/processes"
)

// benchmarking is what all bench commands share.
type benchmarking struct {
	format string
	count  int
}

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast steps, kernels, optimizers and the tokenizer are on this machine",
		Long: `Bench measures the parts of a run. Every figure is taken in turn with the chip's own limit for that kind of work (multiply-adds on registers, or a pass
over memory), and %peak is the median share of it. All figures are measured, none is modelled.

The cores of a virtual machine may serve others at the same time. A probe of integer instructions before and after each sample tells: "alone" is the median
share, and the number, of the samples in which it was as fast as in the best one.

GOMAXPROCS sets the number of threads, and HARNESS_CPU=generic|avx2|avx512|avx512bf16|amx sets the level of the kernels. --format go prints what benchstat reads.`,
		Example: `  harness bench step --model mini --backend gpu-ref --seq 128 --batch 32 --steps 10
  harness bench step --model tiny --backend ipu --format json
  harness bench kernels --filter base-
  harness bench optimizer --optimizer lamb --model base
  harness bench memory`,
	}
	cmd.AddCommand(newBenchStep(), newBenchKernels(), newBenchOptimizer(), newBenchTokenizer(), newBenchMemory())
	return cmd
}

func (o *benchmarking) flags(cmd *cobra.Command, count string, n int) {
	cmd.Flags().StringVar(&o.format, "format", "table", "table, json or go")
	cmd.Flags().IntVar(&o.count, count, n, "how often each is measured, 0: for about a second")
	cmd.Args = cobra.NoArgs
}

func newBenchStep() *cobra.Command {
	var o benchmarking
	s := bench.StepOptions{Task: bert.Pretraining}
	var task, transport string
	var set []string
	cmd := &cobra.Command{
		Use:   "step",
		Short: "Measure training steps: backend and optimizer plugins, wire included",
		Long: `Step trains a model of a published size on random tokens without padding, batches being made beforehand. Matrix products count two operations for
a multiplication and an addition, and the backward pass as twice the forward pass; the optimizer and the wire are in the time but not in the count.`,
		Example: `  harness bench step --model mini --backend gpu-ref --precision bf16
  harness bench step --model mini --task squad --seq 384 --batch 8
  harness bench step --model tiny --backend ipu --option stochastic_rounding=false --format json`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch task {
			case "pretraining":
			case "squad":
				s.Task = bert.QuestionAnswering
			default:
				return fmt.Errorf("task is %q, want pretraining or squad%s", task, spelling.Hint(task, []string{"pretraining", "squad"}))
			}
			if name, precision, ok := strings.Cut(s.Backend, ":"); ok {
				s.Backend, s.Precision = name, precision
			}
			s.Options = map[string]string{}
			for _, kv := range set {
				name, value, ok := strings.Cut(kv, "=")
				if !ok {
					return fmt.Errorf("--option %q: want NAME=VALUE", kv)
				}
				s.Options[name] = value
			}
			p, err := processes.NewSet(cmd.Context(), s.Backend, processes.Options{Transport: host.Transport(transport), Output: cmd.ErrOrStderr()})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			if s.Precision == "" {
				info, err := p.Backend().Describe(cmd.Context())
				if err != nil {
					return err
				}
				first, err := info.Precision("")
				if err != nil {
					return err
				}
				s.Precision = first.Name
			}
			return o.measure(cmd, []bench.Benchmark{bench.Step(cmd.Context(), p, s)})
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Size, "model", "tiny", strings.Join(bert.SizeNames(), ", "))
	f.StringVar(&s.Backend, "backend", "gpu-ref", "backend, NAME or NAME:PRECISION")
	f.StringVar(&s.Precision, "precision", "", "precision of the backend (default: the backend's)")
	f.StringVar(&s.Optimizer, "optimizer", "adamw", "optimizer")
	f.StringArrayVar(&set, "option", nil, "option of the backend, NAME=VALUE (repeatable)")
	f.StringVar(&task, "task", "pretraining", "pretraining or squad")
	f.StringVar(&transport, "transport", "memory", "how tensors reach the plugins: memory or stream")
	f.IntVar(&s.Length, "seq", 128, "tokens of a sequence")
	f.IntVar(&s.Batch, "batch", 32, "sequences of a step")
	f.Float64Var(&s.Dropout, "dropout", 0.1, "dropout probability, of hidden states and of attention")
	o.flags(cmd, "steps", 10)
	return cmd
}

func newBenchKernels() *cobra.Command {
	var o benchmarking
	var filter string
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure matrix products in BERT's shapes, and passes over activations",
		Long: `Kernels measures matrix products in the shapes of BERT (NT: outputs, NN: gradients of inputs, TN: gradients of weights) as a share of the peak of
multiply-adds, and passes over a megabyte of activations on one thread as a share of a pass that only multiplies.`,
		Example: `  harness bench kernels --filter tiny-
  GOMAXPROCS=1 harness bench kernels --filter cube --format json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []bench.Benchmark
			for _, b := range bench.Kernels() {
				if strings.Contains(b.Name, filter) {
					list = append(list, b)
				}
			}
			if len(list) == 0 {
				return fmt.Errorf("no kernel's name has %q in it", filter)
			}
			return o.measure(cmd, list)
		},
	}
	cmd.Flags().StringVar(&filter, "filter", "", "only those with this in their name")
	o.flags(cmd, "count", 0)
	return cmd
}

func newBenchOptimizer() *cobra.Command {
	var o benchmarking
	var names []string
	var size string
	cmd := &cobra.Command{
		Use:   "optimizer",
		Short: "Measure updates of a model's parameters by optimizer plugins",
		Long: `Optimizer measures updates of the parameters of a model of a published size, in memory shared with the plugin, as a share of the memory's bandwidth.
The bytes counted are those that one pass over each array moves. The gradient norm is the host's work, as in a run, and not part of it.`,
		Example: `  harness bench optimizer
  harness bench optimizer --optimizer adamw --model large --count 5`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			p, err := processes.NewSet(cmd.Context(), "gpu-ref", processes.Options{Output: cmd.ErrOrStderr()})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			var list []bench.Benchmark
			for _, name := range names {
				list = append(list, bench.Optimizer(cmd.Context(), p, name, size))
			}
			return o.measure(cmd, list)
		},
	}
	cmd.Flags().StringSliceVar(&names, "optimizer", []string{"adamw", "lamb"}, "optimizers")
	cmd.Flags().StringVar(&size, "model", "base", strings.Join(bert.SizeNames(), ", "))
	o.flags(cmd, "count", 10)
	return cmd
}

func newBenchTokenizer() *cobra.Command {
	var o benchmarking
	var text, vocab string
	cmd := &cobra.Command{
		Use:   "tokenizer",
		Short: "Measure WordPiece on one thread",
		Example: `  harness bench tokenizer
  harness bench tokenizer --text wiki_en.txt --vocab bert-base-uncased-vocab.txt`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, lines, err := benchText(text, vocab)
			if err != nil {
				return err
			}
			return o.measure(cmd, []bench.Benchmark{bench.Tokenizer(t, lines)})
		},
	}
	cmd.Flags().StringVar(&text, "text", "", "text to tokenize (default: generated)")
	cmd.Flags().StringVar(&vocab, "vocab", "", "vocabulary (default: learnt from the generated text)")
	cmd.MarkFlagsRequiredTogether("text", "vocab")
	o.flags(cmd, "count", 0)
	return cmd
}

// benchText is the text of a file with a tokenizer, or one that is made up.
func benchText(text, vocab string) (*wordpiece.Tokenizer, string, error) {
	if text != "" {
		t, err := openTokenizer(vocab, true)
		if err != nil {
			return nil, "", err
		}
		b, err := os.ReadFile(text)
		return t, string(b), err
	}
	var b strings.Builder
	if err := synthetic.Text(&b, synthetic.Settings{Seed: 1, People: 1200, Questions: 6000, DevQuestions: 400}); err != nil {
		return nil, "", err
	}
	v, err := wordpiece.Train(wordpiece.TrainOptions{Size: 1500, Options: wordpiece.Google(true)}, strings.NewReader(b.String()))
	if err != nil {
		return nil, "", err
	}
	t, err := wordpiece.New(v, wordpiece.Google(true))
	return t, b.String(), err
}

func newBenchMemory() *cobra.Command {
	var o benchmarking
	cmd := &cobra.Command{
		Use:     "memory",
		Short:   "Measure passes over large arrays",
		Example: `  harness bench memory`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.measure(cmd, bench.Memory()) },
	}
	o.flags(cmd, "count", 10)
	return cmd
}

// measure runs benchmarks one after the other and prints each as soon as it is known, but for a table.
func (o *benchmarking) measure(cmd *cobra.Command, list []bench.Benchmark) error {
	formats := []string{"table", "json", "go"}
	if o.count < 0 || o.count > 1_000_000 {
		return fmt.Errorf("count is %d, want 0 to 1000000", o.count)
	}
	out := cmd.OutOrStdout()
	switch o.format {
	case "table", "json", "go":
	default:
		return fmt.Errorf("format is %q, want table, json or go%s", o.format, spelling.Hint(o.format, formats))
	}
	table := newTable(out, "benchmark", "count", "ms (min median max)", "rate", "limit", "%peak", "alone")
	var figures []bench.Figure
	for _, b := range list {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		f, err := b.Measure(o.count)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
		switch o.format {
		case "json":
			err = json.NewEncoder(out).Encode(f)
		case "go":
			_, err = fmt.Fprintln(out, f.Line())
		default:
			figures = append(figures, f)
		}
		if err != nil {
			return err
		}
	}
	if o.format != "table" {
		return nil
	}
	alone := bench.Alone(figures)
	for i, f := range figures {
		rate, limit, share := rates(&f)
		quiet := ""
		if share != "" && len(alone[i]) > 0 {
			quiet = fmt.Sprintf("%.1f (%d)", 100*bench.Median(alone[i]), len(alone[i]))
		}
		if err := table.Append(f.Name, fmt.Sprint(f.Count), fmt.Sprintf("%.4g %.4g %.4g", f.Time.Min, f.Time.Median, f.Time.Max), rate, limit, share, quiet); err != nil {
			return err
		}
	}
	return table.Render()
}

// rates are the cells of a figure beside its times.
func rates(f *bench.Figure) (rate, limit, share string) {
	if f.Share > 0 {
		share = fmt.Sprintf("%.1f", 100*f.Share)
	}
	switch {
	case f.SequencesPerSecond > 0:
		return fmt.Sprintf("%.4g sequences/s, %.4g GFLOP/s", f.SequencesPerSecond, f.GFLOPS), fmt.Sprintf("%.4g GFLOP/s", f.PeakGFLOPS), share
	case f.GFLOPS > 0:
		return fmt.Sprintf("%.4g GFLOP/s", f.GFLOPS), fmt.Sprintf("%.4g GFLOP/s", f.PeakGFLOPS), share
	case f.GBs > 0:
		return fmt.Sprintf("%.4g GB/s", f.GBs), fmt.Sprintf("%.4g GB/s", f.PeakGBs), share
	case f.MBs > 0:
		return fmt.Sprintf("%.4g MB/s, %.3g allocations a line", f.MBs, f.AllocationsPerLine), "", ""
	}
	return "", "", ""
}
