package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/core/durable"
	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/index"
)

// storeVariable names the index that is used where no --store is given.
const storeVariable = "HARNESS_STORE"

// defaultStore lies in the folder of runs that get no --out.
var defaultStore = filepath.Join("runs", "index.db")

func storeFlag(f *pflag.FlagSet, store *string) {
	f.StringVar(store, "store", "", "index of runs: the path of a SQLite file, or postgres://USER@HOST/DATABASE (default $"+storeVariable+", or "+defaultStore+")")
}

// storeLocation is the index that a --store means.
func storeLocation(store string) string { return cmp.Or(store, os.Getenv(storeVariable), defaultStore) }

// openStore opens the index of runs. A file that is not there yet is made from the runs in its folder.
func openStore(ctx context.Context, store string) (*index.Index, error) {
	location := storeLocation(store)
	fresh := false
	if !index.IsPostgres(location) {
		_, err := os.Stat(location)
		fresh = errors.Is(err, fs.ErrNotExist)
	}
	x, err := index.Open(ctx, location)
	if err != nil || !fresh {
		return x, err
	}
	if _, err := x.Rebuild(ctx, filepath.Dir(location)); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// withStore does something with the index of runs.
func withStore(ctx context.Context, location string, do func(x *index.Index) error) error {
	x, err := openStore(ctx, location)
	if err != nil {
		return err
	}
	return errors.Join(do(x), x.Close())
}

// openRuns opens runs by their folders, by folders that hold several, or by the beginnings of their ids in the index.
func openRuns(ctx context.Context, store string, refs []string) ([]*results.Run, error) {
	var dirs []string
	for _, ref := range refs {
		if info, err := os.Stat(ref); err == nil && info.IsDir() {
			found, err := results.Find(ref)
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				return nil, fmt.Errorf("%s holds no run", ref)
			}
			dirs = append(dirs, found...)
			continue
		}
		err := withStore(ctx, store, func(x *index.Index) error {
			e, err := x.Find(ctx, ref)
			if err != nil {
				return err
			}
			if !x.Here(e) {
				return fmt.Errorf("run %s: its folder %s is on %s", e.ID, e.Dir, e.Host)
			}
			dirs = append(dirs, e.Dir)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var runs []*results.Run
	for _, d := range dirs {
		r, err := results.Open(d)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(runs, func(s *results.Run) bool { return s.ID == r.ID }) {
			runs = append(runs, r)
		}
	}
	return runs, nil
}

func newRuns() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List, show, compare, tag, export and remove the runs that there are",
		Long: `Runs looks at runs by an index: a SQLite file beside them, or a PostgreSQL database that a team shares (--store). The truth is in the folders of the
runs, and reindex makes an index from them again. Every run that is trained is added to the index.

A RUN is the beginning of an id, as list prints it, or a folder.`,
	}
	cmd.AddCommand(newRunsList(), newRunsShow(), newRunsDiff(), newRunsTag(), newRunsExport(), newRunsRemove(), newRunsReindex())
	return cmd
}

// whereDoc explains --where.
const whereDoc = `A filter compares columns (id, recipe, backend, precision, optimizer, seed, status, started, finished, dir, host, version, cpu, steps, skipped,
measured_seconds), metrics (f1, phase1.masked_lm_loss, squad.steps_to_target ...) and tag by =, !=, <, <=, >, >= and ~ (the text holds), joined by
and, or, not and brackets. Words with blanks stand in quotes.`

func newRunsList() *cobra.Command {
	var store, where, format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs",
		Long:  "List prints a line for each run, the oldest first.\n\n" + whereDoc,
		Example: `  harness runs list
  harness runs list --where 'backend=ipu and f1>80'
  harness runs list --where "tag=nightly and not status=complete" --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			return withStore(cmd.Context(), store, func(x *index.Index) error {
				list, err := x.List(cmd.Context(), where)
				if err != nil {
					return err
				}
				if f == report.JSON {
					return writeJSON(cmd.OutOrStdout(), list)
				}
				return printSheet(cmd, listSheet(list), f)
			})
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&where, "where", "", "list only runs of which this is true")
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	return cmd
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printSheet prints for a terminal's width, and in pipes a line for each row.
func printSheet(cmd *cobra.Command, s *report.Sheet, f report.Format) error {
	out := cmd.OutOrStdout()
	w := width(out)
	if w == 0 {
		w = 1000
	}
	return report.WriteSheet(out, s, report.Options{Format: f, Width: w, Color: color(out)})
}

// listSheet has a line for each run, with the metric that tells most about it.
func listSheet(list []index.Entry) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{{Name: "id"}, {Name: "started"}, {Name: "recipe"}, {Name: "backend"}, {Name: "optimizer"}, {Name: "seed", Right: true}, {Name: "status"},
		{Name: "result", Right: true}, {Name: "measured seconds", Key: "measured_seconds", Right: true}, {Name: "tags"}, {Name: "folder", Key: "dir"}}}
	for _, e := range list {
		seconds := ""
		if e.MeasuredSeconds > 0 {
			seconds = strconv.FormatFloat(e.MeasuredSeconds, 'f', 1, 64)
		}
		mark := report.Plain
		switch e.Status {
		case results.Failed:
			mark = report.Bad
		case results.Unfinished, results.Stopped:
			mark = report.Doubt
		}
		row := report.Texts(e.ID, startedText(e), e.Recipe, e.Backend, e.Optimizer, strconv.FormatUint(e.Seed, 10), string(e.Status), headline(e), seconds, strings.Join(e.Tags, " "), shortPath(e.Dir))
		row[1].Value, row[6].Mark, row[10].Value = e.Started, mark, e.Dir
		if e.MeasuredSeconds > 0 {
			row[8].Value = e.MeasuredSeconds
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// startedText is the time to the minute, in UTC.
func startedText(e index.Entry) string {
	if len(e.Started) < 16 {
		return e.Started
	}
	return strings.Replace(e.Started[:16], "T", " ", 1)
}

// headline is the best known metric that a run has.
func headline(e index.Entry) string {
	for _, name := range []string{"f1", "accuracy", "masked_lm_loss", "loss"} {
		if v, ok := e.Metrics[name]; ok {
			return fmt.Sprintf("%s %.4g", name, v)
		}
	}
	return ""
}

// shortPath is a path as seen from the working folder where that is shorter.
func shortPath(path string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && len(rel) < len(path) {
			return rel
		}
	}
	return path
}

func newRunsShow() *cobra.Command {
	var store, format string
	cmd := &cobra.Command{
		Use:     "show RUN",
		Short:   "Show what a run was, where it took place and what came out",
		Example: `  harness runs show runs/mine/ipu-adamw-seed1`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			r, err := openOneRun(cmd.Context(), store, args[0])
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

// openOneRun opens the one run that is meant.
func openOneRun(ctx context.Context, store, ref string) (*results.Run, error) {
	runs, err := openRuns(ctx, store, []string{ref})
	if err != nil {
		return nil, err
	}
	if len(runs) != 1 {
		return nil, fmt.Errorf("%s holds %d runs, want one: name its folder or its id", ref, len(runs))
	}
	return runs[0], nil
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

func newRunsDiff() *cobra.Command {
	var store, format string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say what two runs differ in: recipe, environment, plugins, then results",
		Long: `Diff goes from cause to effect: what the runs are of, their recipes, machines and programs, plugins with their hashes, and then results, with
the first step at which the bits of a loss differ. Fields that are equal are not printed.`,
		Example: `  harness runs diff runs/mine/ipu-adamw-seed1 runs/mine/gpu-ref-adamw-seed1`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			a, err := openOneRun(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			b, err := openOneRun(cmd.Context(), store, args[1])
			if err != nil {
				return err
			}
			d, err := results.Diff(a, b)
			if err != nil {
				return err
			}
			if f == report.JSON {
				return writeJSON(cmd.OutOrStdout(), d)
			}
			return printSheet(cmd, diffSheet(d), f)
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	return cmd
}

func diffSheet(d *results.RunDiff) *report.Sheet {
	s := &report.Sheet{Columns: []report.Column{{Name: "field"}, {Name: d.A, Key: "a"}, {Name: d.B, Key: "b"}}}
	section := func(name string, fields []results.FieldDiff) {
		if len(fields) == 0 {
			s.Notes = append(s.Notes, name+": the same.")
			return
		}
		s.Rows = append(s.Rows, report.Row{{Text: name, Mark: report.Strong}, {}, {}})
		for _, f := range fields {
			s.Rows = append(s.Rows, report.Texts("  "+f.Field, orDash(f.A), orDash(f.B)))
		}
	}
	section("identity", d.Identity)
	var recipes []results.FieldDiff
	for _, r := range d.Recipe {
		recipes = append(recipes, results.FieldDiff{Field: r.Path, A: r.A, B: r.B})
	}
	section("recipe", recipes)
	section("environment", d.Environment)
	section("plugins", d.Plugins)
	section("results", d.Results)
	switch p := d.Parting; {
	case p == nil && d.Steps == 0:
		s.Notes = append(s.Notes, "The runs have no steps to compare.")
	case p == nil:
		s.Notes = append(s.Notes, fmt.Sprintf("All %d steps that both took have the same bits.", d.Steps))
	default:
		s.Notes = append(s.Notes, fmt.Sprintf("They part at %s step %d: %s %.17g, %.17g. The %d steps before have the same bits.", p.Phase, p.Step, p.Quantity, float64(p.A), float64(p.B), d.Steps))
	}
	return s
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func newRunsTag() *cobra.Command {
	var store string
	var remove []string
	cmd := &cobra.Command{
		Use:   "tag RUN TAG...",
		Short: "Put words on a run, or take them off",
		Long:  "Tag keeps the words in the run's folder, so that they are there after a reindex, and in the index. Without any it prints those that the run has.",
		Example: `  harness runs tag runs/mine/ipu-adamw-seed1 nightly good
  harness runs tag runs/mine/ipu-adamw-seed1 --remove good`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := openOneRun(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			if len(args) > 1 || len(remove) > 0 {
				if err := r.Tag(args[1:], remove); err != nil {
					return err
				}
				if err := withStore(cmd.Context(), store, func(x *index.Index) error { return x.Put(cmd.Context(), r) }); err != nil {
					return err
				}
			}
			tags, err := r.Tags()
			for _, t := range tags {
				fmt.Fprintln(cmd.OutOrStdout(), t)
			}
			return err
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringSliceVar(&remove, "remove", nil, "words to take off")
	return cmd
}

func newRunsExport() *cobra.Command {
	var store, where, format, output string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all that the index knows of runs, as CSV or JSON",
		Long:  "Export writes a line for each run with all columns and all metrics that any of them has, numbers in full.\n\n" + whereDoc,
		Example: `  harness runs export --where 'recipe=quick' --output runs.csv
  harness runs export --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			return withStore(cmd.Context(), store, func(x *index.Index) error {
				list, err := x.List(cmd.Context(), where)
				if err != nil {
					return err
				}
				write := func(w io.Writer) error {
					if f == report.JSON {
						return writeJSON(w, list)
					}
					return report.WriteSheet(w, exportSheet(list), report.Options{Format: f})
				}
				if output == "" {
					return write(cmd.OutOrStdout())
				}
				return durable.WriteFile(output, write)
			})
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&where, "where", "", "export only runs of which this is true")
	cmd.Flags().StringVar(&format, "format", "csv", report.Formats)
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to a file")
	return cmd
}

func exportSheet(list []index.Entry) *report.Sheet {
	s := &report.Sheet{}
	for _, name := range []string{"id", "host", "dir", "recipe", "fingerprint", "data_digest", "backend", "precision", "optimizer", "seed", "status", "error", "started", "finished", "version", "cpu", "steps", "skipped", "measured_seconds", "tags"} {
		s.Columns = append(s.Columns, report.Column{Name: name})
	}
	names := map[string]bool{}
	for _, e := range list {
		for name := range e.Metrics {
			names[name] = true
		}
	}
	metrics := slices.Sorted(maps.Keys(names))
	for _, name := range metrics {
		s.Columns = append(s.Columns, report.Column{Name: name, Right: true})
	}
	full := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, e := range list {
		row := report.Texts(e.ID, e.Host, e.Dir, e.Recipe, e.Fingerprint, e.DataDigest, e.Backend, e.Precision, e.Optimizer, strconv.FormatUint(e.Seed, 10), string(e.Status), e.Error,
			e.Started, e.Finished, e.Version, e.CPU, strconv.Itoa(e.Steps), strconv.Itoa(e.Skipped), full(e.MeasuredSeconds), strings.Join(e.Tags, " "))
		for _, name := range metrics {
			text := ""
			if v, ok := e.Metrics[name]; ok {
				text = full(v)
			}
			row = append(row, report.Cell{Text: text})
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

func newRunsRemove() *cobra.Command {
	var store, where string
	var keep, yes bool
	cmd := &cobra.Command{
		Use:   "rm RUN...",
		Short: "Remove runs, with their folders",
		Long: `Rm removes runs from the index and deletes their folders, unless --keep-files. With --where it only prints what it would remove, until --yes is
given. Runs whose folders are on another machine are refused without --keep-files.`,
		Example: `  harness runs rm 3f2a91
  harness runs rm --where 'status=failed' --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (where == "") {
				return withHint(errors.New("name runs, or say which with --where"), "harness runs list shows their ids")
			}
			return withStore(cmd.Context(), store, func(x *index.Index) error {
				list, err := x.List(cmd.Context(), where)
				if err != nil {
					return err
				}
				if where == "" {
					list = list[:0]
					for _, ref := range args {
						e, err := x.Find(cmd.Context(), ref)
						if err != nil {
							return err
						}
						list = append(list, e)
					}
				}
				for _, e := range list {
					if !x.Here(e) && !keep {
						return fmt.Errorf("run %s: its folder %s is on %s; --keep-files removes it from the index alone", e.ID, e.Dir, e.Host)
					}
				}
				for _, e := range list {
					if where != "" && !yes {
						fmt.Fprintf(cmd.OutOrStdout(), "would remove %s  %s\n", e.ID, e.Dir)
						continue
					}
					if err := removeRun(cmd.Context(), x, e, keep); err != nil {
						return err
					}
					fmt.Fprintf(cmd.OutOrStdout(), "removed %s  %s\n", e.ID, e.Dir)
				}
				return nil
			})
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&where, "where", "", "remove the runs of which this is true")
	cmd.Flags().BoolVar(&keep, "keep-files", false, "only forget the runs, and keep their folders")
	cmd.Flags().BoolVar(&yes, "yes", false, "remove what --where finds")
	return cmd
}

// removeRun deletes a run's folder, if it still is that run's, and forgets it.
func removeRun(ctx context.Context, x *index.Index, e index.Entry, keep bool) error {
	if !keep {
		r, err := results.Open(e.Dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case r.ID != e.ID:
			return withHint(fmt.Errorf("run %s: its folder %s now holds run %s", e.ID, e.Dir, r.ID), "harness runs reindex brings the index up to date")
		default:
			if err := results.Remove(e.Dir); err != nil {
				return err
			}
		}
	}
	return x.Remove(ctx, e.ID)
}

func newRunsReindex() *cobra.Command {
	var store string
	cmd := &cobra.Command{
		Use:   "reindex [FOLDER...]",
		Short: "Make the index again from the folders of runs",
		Long: `Reindex looks for runs in and below the folders (default: runs) and in all places where the index knows one on this machine, and makes the index
anew from what is there. What other machines added stays.`,
		Example: `  harness runs reindex
  harness runs reindex runs`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if _, err := os.Stat("runs"); err == nil {
					args = []string{"runs"}
				}
			}
			return withStore(cmd.Context(), store, func(x *index.Index) error {
				done, err := x.Rebuild(cmd.Context(), args...)
				if err != nil {
					return err
				}
				for _, err := range done.Broken {
					fmt.Fprintf(cmd.ErrOrStderr(), "passed over: %v\n", err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%d runs in %s\n", done.Runs, x.Location())
				if done.Gone > 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "%d were known whose folders are gone\n", done.Gone)
				}
				return nil
			})
		},
	}
	storeFlag(cmd.Flags(), &store)
	return cmd
}
