package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"harness.invalid/harness/experiment"
	"harness.invalid/harness/inference"
)

// printInference prints a scenario's result.
func printInference(w io.Writer, r *experiment.InferenceReport) error {
	verdict := "valid"
	if !r.Valid {
		verdict = "not valid"
	}
	l := r.Latency
	fmt.Fprintf(w, "%s on %s:%s, measured: %.1f samples/s, %s\n", r.Scenario, r.Backend, r.Precision, r.SamplesPerSecond, verdict)
	fmt.Fprintf(w, "  latency, ms  mean %.3f  p50 %.3f  p90 %.3f  p95 %.3f  p97 %.3f  p99 %.3f  p99.9 %.3f\n", l.Mean,
		l.P50, l.P90, l.P95, l.P97, l.P99, l.P999)
	fmt.Fprintf(w, "  %d queries of %d samples in %.2f s, up to %d at once, after a warm-up of %.2f s\n", r.Queries, r.Samples, r.Seconds,
		r.Batch, r.WarmUp)
	if t := r.Target; t != nil && r.Scenario == inference.Server {
		fmt.Fprintf(w, "  %.1f queries came a second; %d took longer than %g ms\n", t.QueriesPerSecond, t.Over, t.BoundMS)
	} else if t != nil {
		fmt.Fprintf(w, "  early stopping's estimate of p%g: %.3f ms\n", t.Percentile, t.EstimateMS)
	}
	if a := r.Accuracy; a != nil {
		fmt.Fprintf(w, "  %s %.2f%%, on gpu-ref in FP32 %.2f%%: %.2f%% of it (99%%: %s, 99.9%%: %s)\n", a.Metric, a.Value, a.FP32,
			100*a.Share, reached(a.Target99), reached(a.Target999))
	}
	if r.Why == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(r.Why, "; ", "\n  "))
	return err
}

func reached(target bool) string {
	if target {
		return "reached"
	}
	return "missed"
}

// cells prints NVIDIA's table, row by row.
func (a *answering) cells(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	each := a.settings.Duration / time.Duration(len(a.lengths)*len(a.batches))
	heading := false
	return advise(a.Cells(cmd.Context(), a.lengths, a.batches, each, func(c experiment.InferenceCell) error {
		if a.format == "json" {
			return json.NewEncoder(out).Encode(c)
		}
		if !heading {
			heading = true
			fmt.Fprintf(out, "%s on %s:%s, measured\n%6s %6s %12s  latency, ms: %6s %9s %9s %9s\n", a.Random.Size, a.Arm.Backend, c.Precision,
				"length", "batch", "samples/s", "mean", "p90", "p95", "p99")
		}
		_, err := fmt.Fprintf(out, "%6d %6d %12.1f %20.3f %9.3f %9.3f %9.3f\n", c.Length, c.Batch, c.SamplesPerSecond, c.Latency.Mean,
			c.Latency.P90, c.Latency.P95, c.Latency.P99)
		return err
	}))
}
