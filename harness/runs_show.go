package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

func newRunsShow() *cobra.Command {
	var store, format string
	cmd := &cobra.Command{
		Use:     "show RUN",
		Short:   "Show what a run was, where it took place, and its results",
		Example: `  harness runs show runs/mine/ipu-adamw-seed1`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			r, err := index.OpenRun(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			tags, err := r.Tags()
			if err != nil {
				return err
			}
			if f == report.JSON {
				return writeJSON(cmd.OutOrStdout(), struct {
					ID          string              `json:"id"`
					Dir         string              `json:"dir"`
					Identity    results.Identity    `json:"identity"`
					Tags        []string            `json:"tags"`
					Environment results.Environment `json:"environment"`
					Result      *results.Result     `json:"result"`
				}{r.ID, r.Dir, r.Identity, tags, r.Environment, r.Result})
			}
			return printSheet(cmd, showSheet(r, tags), f)
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	return cmd
}

func showSheet(r *results.Run, tags []string) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{{Name: "field"}, {Name: "value"}}}
	heading := func(name string) {
		s.Rows = append(s.Rows, report.Row{{Text: name, Mark: report.Strong}, {}})
	}
	add := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			s.Rows = append(s.Rows, report.Texts("  "+name, text))
		}
	}
	heading("run")
	add("id", "%s", r.ID)
	add("folder", "%s", r.Dir)
	add("tags", "%s", strings.Join(tags, " "))
	add("recipe", "%s", r.Identity.Recipe)
	add("fingerprint", "%s", r.Fingerprint)
	add("data digest", "%s", r.DataDigest)
	if r.Start != "" {
		add("start model", "%s", r.Start)
	}
	add("backend", "%s", r.Backend)
	add("format", "%s", r.Precision)
	add("optimizer", "%s", r.Optimizer)
	add("seed", "%d", r.Seed)
	e := r.Environment
	heading("environment")
	add("started", "%s", e.Time.UTC().Format("2006-01-02 15:04:05 UTC"))
	add("machine", "%s, %d CPUs, GOMAXPROCS %d, %.1f GiB", e.CPU, e.CPUs, e.Threads, float64(e.Memory)/(1<<30))
	add("instructions", "%s", strings.Join(e.CPUFeatures, " "))
	add("kernels", "%s", e.Kernels)
	add("system", "%s/%s, %s", e.OS, e.Arch, e.Go)
	add("program", "%s", strings.TrimSpace(e.Version+" "+e.Revision+map[bool]string{true: ", changed after it"}[e.Modified]))
	add("load at start", "%s", loadText(e.LoadAverage))
	for _, p := range e.Plugins {
		if p.Attached != "" {
			add(p.Kind+" "+p.Name, "version %s, attached at %s", p.Version, p.Attached)
			continue
		}
		add(p.Kind+" "+p.Name, "version %s, SHA-256 %.12s, %s", p.Version, p.SHA256, p.Path)
		add(p.Kind+" "+p.Name+" started with", "%d threads, in %s", p.Threads, p.Folder)
	}
	heading("result")
	if r.Result == nil {
		add("status", "%s: the run goes on, or broke off", results.Unfinished)
		return s
	}
	res := r.Result
	add("status", "%s", res.Status)
	add("error", "%s", res.Error)
	for _, p := range res.Phases {
		for _, name := range slices.Sorted(maps.Keys(p.Metrics)) {
			add(p.Name+" "+name, "%.6g", p.Metrics[name])
		}
		add(p.Name+" steps", "%d, %d skipped", p.Steps, p.Skipped)
		add(p.Name+" measured seconds", "%.1f, %.4g sequences/s", p.MeasuredSeconds[results.TotalSeconds], p.SequencesPerSecond())
		if t := p.Target; t != nil && t.Step > 0 {
			add(p.Name+" target", "%s %g after %d steps, measured seconds %.1f", t.Metric, t.Value, t.Step, t.MeasuredSeconds)
		} else if t != nil {
			add(p.Name+" target", "%s %g was not reached", t.Metric, t.Value)
		}
	}
	add("batch digest", "%s", res.BatchDigest)
	add("measured seconds", "%.1f", res.MeasuredSeconds[results.TotalSeconds])
	add("load at end", "%s", loadText(res.LoadAverage))
	for _, n := range res.Notes {
		add("note", "%s", n)
	}
	return s
}

func loadText(load []float64) string {
	text := make([]string, len(load))
	for i, v := range load {
		text[i] = strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strings.Join(text, " ")
}
