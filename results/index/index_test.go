package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// TestMain can turn the test binary into one of many processes that add runs: INDEX_TEST_ADD is the index, the
// arguments are folders.
func TestMain(m *testing.M) {
	if location := os.Getenv("INDEX_TEST_ADD"); location != "" {
		if err := addAll(location, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func addAll(location string, dirs []string) error {
	for _, d := range dirs {
		x, err := Open(context.Background(), location)
		if err != nil {
			return err
		}
		r, err := results.Open(d)
		if err == nil {
			err = x.Put(context.Background(), r)
		}
		if err := errors.Join(err, x.Close()); err != nil {
			return err
		}
	}
	return nil
}

// made is a run to record.
type made struct {
	backend, optimizer string
	seed               uint64
	f1                 float64
	unfinished         bool
}

var mades = []made{
	{"ipu:fp16.16", "adamw", 1, 79, false},
	{"ipu", "lamb", 2, 85.5, false},
	{"gpu-ref", "adamw", 1<<64 - 1, 90, false},
	{"gpu-ref:fp16", "adamw", 3, math.NaN(), false},
	{"gpu-ref", "adamw", 4, 0, true},
}

// makeRuns records runs in folders.
func makeRuns(t testing.TB, dir string, list []made) []*results.Run {
	t.Helper()
	r, err := recipe.Load("scratch")
	if err != nil {
		t.Fatal(err)
	}
	var runs []*results.Run
	for i, m := range list {
		d := filepath.Join(dir, fmt.Sprintf("run%d", i))
		id := results.Identity{Recipe: r.Name, Fingerprint: r.Fingerprint(), DataDigest: "d1", Backend: m.backend, Precision: "fp16.16",
			Optimizer: m.optimizer, Seed: m.seed}
		w, err := results.Create(d, id, r, results.CaptureEnvironment())
		if err != nil {
			t.Fatal(err)
		}
		if m.unfinished {
			err = w.Close()
		} else {
			res := results.Result{Status: results.Complete}
			res.AddPhase(results.PhaseResult{Name: "squad", Steps: 7, Sequences: 100, Metrics: results.Metrics{"f1": m.f1},
				MeasuredSeconds: map[string]float64{"training": 4, "total": 5}, Target: &results.Reached{Metric: "f1", Value: 80, Step: 3}})
			err = w.Finish(res)
		}
		if err != nil {
			t.Fatal(err)
		}
		run, err := results.Open(d)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	return runs
}

// onBoth runs a test on SQLite, and on PostgreSQL if there is one.
func onBoth(t *testing.T, test func(t *testing.T, location string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "a folder", "index?.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, postgres(t)) })
}

func open(t testing.TB, location string) *Index {
	t.Helper()
	x, err := Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// seeds identifies runs in what tests print.
func seeds(list []Entry) []uint64 {
	s := []uint64{}
	for _, e := range list {
		s = append(s, e.Seed)
	}
	return s
}

func TestIndex(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		ctx := t.Context()
		dir := t.TempDir()
		runs := makeRuns(t, dir, mades)
		x := open(t, location)
		if list, err := x.List(ctx, ""); err != nil || len(list) != 0 {
			t.Fatalf("a new index lists %v, %v", list, err)
		}
		if err := runs[0].Tag([]string{"good", "candidate"}, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 { // adding again changes nothing
			for _, r := range runs {
				if err := x.Put(ctx, r); err != nil {
					t.Fatal(err)
				}
			}
		}
		testFilters(t, x)
		testFinding(t, x, runs, location)
		testRebuild(t, x, runs, dir)
	})
}

func testFilters(t *testing.T, x *Index) {
	for filter, want := range map[string][]uint64{
		"":                             {1, 2, 1<<64 - 1, 3, 4},
		"backend=ipu":                  {1, 2},
		"backend=ipu and f1>80":        {2},
		"backend = 'ipu' AND f1 > 8e1": {2},
		"backend=gpu-ref:fp16":         {3},
		"backend!=ipu":                 {1<<64 - 1, 3, 4},
		"f1 > 0":                       {1, 2, 1<<64 - 1}, // not the one that diverged
		"not f1 > 80":                  {1},
		"squad.f1<=79 or optimizer=lamb and seed=2":   {1, 2},
		"(squad.f1<=79 or optimizer=lamb) and seed=1": {1},
		"seed=18446744073709551615":                   {1<<64 - 1},
		"tag=good":                                    {1},
		"tag!=good and status=complete":               {2, 1<<64 - 1, 3},
		"tag~andid":                                   {1},
		"dir~run1":                                    {2},
		"dir~'run%'":                                  {},
		"status='broken off'":                         {4},
		"squad.steps_to_target=3 and seed<3":          {1, 2},
		"squad.measured_sequences_per_second=25 and measured_seconds=5 and steps>=7": {1, 2, 1<<64 - 1, 3},
		"started>2000 and started<9999":                                              {1, 2, 1<<64 - 1, 3, 4},
	} {
		list, err := x.List(t.Context(), filter)
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if diff := cmp.Diff(want, seeds(list)); diff != "" {
			t.Errorf("%s: %s", filter, diff)
		}
	}
}

func testFinding(t *testing.T, x *Index, runs []*results.Run, location string) {
	ctx := t.Context()
	e, err := x.Find(ctx, runs[0].ID[:5])
	if err != nil {
		t.Fatal(err)
	}
	if e.Dir != runs[0].Dir || e.Identity != runs[0].Identity || e.Status != results.Complete || e.Metrics["f1"] != 79 ||
		!slices.Equal(e.Tags, []string{"candidate", "good"}) || e.Steps != 7 || !x.Here(e) {
		t.Errorf("found %+v", e)
	}
	if e, err := x.Find(ctx, runs[3].Dir); err != nil || e.ID != runs[3].ID || !math.IsNaN(e.Metrics["f1"]) {
		t.Errorf("by its folder: %+v, %v", e, err)
	}
	if _, err := x.Find(ctx, "zz"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
	dirs, elsewhere, err := x.Folders(ctx)
	if err != nil || len(dirs) != len(runs) || !slices.Contains(dirs, runs[0].Dir) || len(elsewhere) != 0 {
		t.Errorf("folders %v, on other machines %v, %v", dirs, elsewhere, err)
	}
	there := open(t, location)
	there.host = "there"
	if dirs, elsewhere, err := there.Folders(ctx); err != nil || len(dirs) != 0 || elsewhere[x.host] != len(runs) {
		t.Errorf("on another machine: folders %v, on others %v, %v", dirs, elsewhere, err)
	}
}

// testRebuild: a rebuild brings back what was removed, drops what is gone, and reports what cannot be read.
func testRebuild(t *testing.T, x *Index, runs []*results.Run, dir string) {
	ctx := t.Context()
	if err := x.Remove(ctx, runs[0].ID, runs[1].ID); err != nil {
		t.Fatal(err)
	}
	if list, err := x.List(ctx, ""); err != nil || len(list) != 3 {
		t.Errorf("after two were removed there are %v, %v", seeds(list), err)
	}
	if err := os.RemoveAll(runs[2].Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(runs[3].Dir, "run.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	done, err := x.Rebuild(ctx, dir)
	if err != nil || done.Runs != 3 || done.Gone != 1 || len(done.Broken) != 1 || !strings.Contains(done.Broken[0].Error(), runs[3].Dir) {
		t.Errorf("rebuilt: %+v, %v", done, err)
	}
	list, err := x.List(ctx, "")
	if err != nil || !slices.Equal(seeds(list), []uint64{1, 2, 4}) || !slices.Equal(list[0].Tags, []string{"candidate", "good"}) {
		t.Errorf("after the rebuild: %+v, %v", list, err)
	}
}

// TestManyProcesses: processes that open a new index at once and add runs to it do not disturb each other.
func TestManyProcesses(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		dir := t.TempDir()
		var list []made
		for i := range 12 {
			list = append(list, made{"ipu", "adamw", uint64(i), 50, false})
		}
		runs := makeRuns(t, dir, list)
		var commands []*exec.Cmd
		for part := range slices.Chunk(runs, 3) {
			var dirs []string
			for _, r := range part {
				dirs = append(dirs, r.Dir)
			}
			c := exec.CommandContext(t.Context(), os.Args[0], dirs...)
			c.Env = append(os.Environ(), "INDEX_TEST_ADD="+location)
			c.Stderr = os.Stderr
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			commands = append(commands, c)
		}
		for _, c := range commands {
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		}
		if list, err := open(t, location).List(t.Context(), "f1=50"); err != nil || len(list) != len(runs) {
			t.Errorf("there are %d runs, %v, want %d", len(list), err, len(runs))
		}
	})
}

func TestFilterErrors(t *testing.T) {
	known := []string{"backend", "f1", "seed", "tag", "status"}
	for filter, want := range map[string]string{
		"backnd=ipu":             "at character 1: \"backnd\": no run has that, did you mean backend?",
		"f1>ipu":                 "f1 is a number",
		"f1~8":                   "~ is for texts",
		"seed=1.5":               "a seed is a whole number",
		"backend=":               "the end: want a value to compare backend with",
		"backend ipu":            "\"ipu\": want =, !=, <, <=, >, >= or ~ behind backend",
		"backend=ipu f1>8":       "at character 13: \"f1\": want and, or, or the end",
		"(backend=ipu":           "the end: want a closing bracket",
		"backend='ipu":           "the quote is not closed",
		"and":                    "no run has that",
		"backend=ipu and":        "the end: want a name",
		"f1 > 80; drop table x":  "\";\": want and, or, or the end",
		strings.Repeat("(", 200): "more than 100 nested brackets",
	} {
		if _, _, err := translate(filter, known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %s", filter, err, want)
		}
	}
}

// FuzzFilter: any filter gives either an error with its position, or a condition that the database understands.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{"backend=ipu and f1>80", "not (tag='a b' or seed!=3)", "f1 <> 1e400", "dir~'%_\\'", "\"",
		"backend=\x00", "tag!=é or status~''", "(((", "f1>-.5", "f1>nan"} {
		f.Add(s)
	}
	x, err := Open(context.Background(), filepath.Join(f.TempDir(), "index.db"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { x.Close() })
	f.Fuzz(func(t *testing.T, filter string) {
		_, err := x.List(t.Context(), filter)
		if err != nil && !strings.Contains(err.Error(), "at character") {
			t.Errorf("%q: %v", filter, err)
		}
	})
}

func TestBadLocations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 100)), 0o666); err != nil {
		t.Fatal(err)
	}
	for location, want := range map[string]string{
		"mysql://localhost/runs": "want postgres://",
		file:                     "not a database",
		file + "/under/index.db": "not a directory",
		"postgres://u:secret@127.0.0.1:1/runs?connect_timeout=2":        "postgres://u@127.0.0.1:1/runs",
		"postgres://127.0.0.1:1/runs?connect_timeout=2&password=secret": "postgres://127.0.0.1:1/runs",
		"postgres://u:secret%zz@127.0.0.1:1/runs":                       "postgres://***@127.0.0.1:1/runs",
		"postgres://u:secret@127.0.0.1:port/runs":                       "postgres://***@127.0.0.1:port/runs",
	} {
		_, err := Open(t.Context(), location)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error is %v, want %s", location, err, want)
		}
	}
}
