package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/kernels"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/executor"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/report"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// TestMain serves the built-in plugins: the catalog starts this executable again for them.
func TestMain(m *testing.M) {
	if kind, name, ok := catalog.Asked(os.Args); ok {
		if err := catalog.Serve(kind, name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// record leaves the record of a complete run, with a score that depends on its arm and seed alone.
func record(a executor.Array, task int) error {
	var l list
	if err := readJSON(filepath.Join(a.Folder, a.Name+listSuffix), &l); err != nil {
		return err
	}
	e, err := l.Experiment.experiment("recipe")
	if err != nil {
		return err
	}
	return finish(e, &l.Runs[task])
}

func finish(e experiment.Experiment, p *listed) error {
	w, err := results.Create(filepath.Join(e.Dir, p.Name), p.Identity, e.Recipe, results.Environment{Kernels: kernels.Path()})
	if err != nil {
		return err
	}
	res := results.Result{Status: results.Complete}
	f1 := 90 + 0.1*float64(p.Seed%7)
	if p.Backend == "ipu" {
		f1 += 0.05 * float64(p.Seed%3)
	}
	res.AddPhase(results.PhaseResult{Name: "squad", Steps: 1, Metrics: results.Metrics{"f1": f1}, Floors: results.Metrics{"f1": 40},
		MeasuredSeconds: map[string]float64{"total": 1}})
	return w.Finish(res)
}

// comparison is one of two arms with so many seeds, on a cluster.
func comparison(t *testing.T, c *cluster, seeds int) (experiment.Experiment, *[]string) {
	t.Helper()
	r, err := experiment.Load(experiment.Source{Recipe: "../testdata/mini.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	arms, err := experiment.Arms([]string{"gpu-ref", "ipu"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.train == nil {
		c.train = record
	}
	notes := &[]string{}
	e := experiment.Experiment{Recipe: r, Arms: arms, FirstSeed: 1, Dir: t.TempDir(),
		Plan: recipe.Plan{Kind: recipe.FixedPlan, MaxSeeds: seeds},
		Executor: &Dispatcher{Settings: Settings{On: "slurm", OtherCPU: Wait}, Task: []string{"task"}, Grace: time.Nanosecond,
			Arms: 2, executor: c}}
	e.Observe = func(ev experiment.Event) {
		if n, ok := ev.(experiment.Note); ok {
			*notes = append(*notes, n.Text)
		}
	}
	return e, notes
}

// TestFaults: whatever happens to tasks, each run is trained once and counts once, and what failed is named.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(c *cluster)
		err   string // "": none
		note  string
		tasks int // submitted
	}{
		{"nodes die and Slurm starts tasks again", func(c *cluster) { c.fault = sometimes(2, executor.Waiting) }, "",
			"the scheduler starts it again (waiting)", 8},
		{"tasks are lost, and the controller is away", func(c *cluster) { c.fault, c.down = sometimes(8, executor.Lost), 3 }, "",
			"its task is lost and left no result: it is submitted again", -1},
		{"one is lost each time", func(c *cluster) {
			c.train = func(a executor.Array, task int) error {
				if a.Tasks == 1 || task == 2 {
					return errors.New("no such node")
				}
				return record(a, task)
			}
		}, "ipu-adamw-seed2: its task ended 4 times without a result, the last time it was lost\nthe end of ", "", 11},
		{"cancelled", func(c *cluster) {
			c.fault = func(t executor.Task, _ int) executor.State {
				return map[bool]executor.State{true: executor.Cancelled, false: executor.Running}[t.Task > 4]
			}
		}, "somebody cancelled 3 runs (ipu-adamw-seed3, ipu-adamw-seed4, gpu-ref-adamw-seed4)", "", 8},
		{"one fails", func(c *cluster) {
			c.train = func(a executor.Array, task int) error {
				if task != 3 {
					return record(a, task)
				}
				var l list
				if err := readJSON(filepath.Join(a.Folder, a.Name+listSuffix), &l); err != nil {
					return err
				}
				e, _ := l.Experiment.experiment("recipe")
				w, err := results.Create(filepath.Join(e.Dir, l.Runs[task].Name), l.Runs[task].Identity, e.Recipe, results.Environment{})
				if err != nil {
					return err
				}
				return errors.Join(w.Stop(results.Stop{Status: results.Failed, Reason: "out of memory", Time: time.Now()}), w.Close())
			}
		}, "gpu-ref-adamw-seed2: out of memory\nthe end of ", "", 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := newCluster(3)
			c.set(cl)
			e, notes := comparison(t, cl, 4)
			o, err := experiment.Run(t.Context(), e)
			if c.err == "" && (err != nil || len(o.Runs) != 8) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if err != nil && strings.Contains(err.Error(), "\x1b") {
				t.Errorf("the log acts on a terminal: %q", err)
			}
			if !slices.ContainsFunc(*notes, func(n string) bool { return strings.Contains(n, c.note) }) {
				t.Errorf("noted %q, want %q", *notes, c.note)
			}
			tasks := 0
			for _, a := range cl.arrays {
				tasks += a.Tasks
			}
			if c.tasks >= 0 && tasks != c.tasks || c.tasks < 0 && tasks <= 8 {
				t.Errorf("%d tasks were submitted, want %d", tasks, c.tasks)
			}
		})
	}
}

// TestAnotherProcess: the process that submitted ends, even before it noted the id of the array. Another one finds the
// tasks and submits none again.
func TestAnotherProcess(t *testing.T) {
	cl := newCluster(3)
	e, _ := comparison(t, cl, 4)
	d := e.Executor.(*Dispatcher)
	d.Detach = true
	var left *DetachedError
	if _, err := experiment.Run(t.Context(), e); !errors.As(err, &left) || left.Runs != 8 || left.Err != nil {
		t.Fatalf("error %v", err)
	}
	ids, err := filepath.Glob(filepath.Join(e.Dir, folder, "*"+idSuffix))
	if err != nil || len(ids) != 1 {
		t.Fatalf("ids %v, error %v", ids, err)
	}
	if err := os.Remove(ids[0]); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // Load goes back to where the experiment was begun
	again, settings, err := Load(e.Dir)
	if err != nil || settings.On != "slurm" || !again.Resume || !Submitted(e.Dir) {
		t.Fatalf("loaded %+v, error %v", settings, err)
	}
	d.Detach = false
	again.Executor = d
	o, err := experiment.Run(t.Context(), again)
	if err != nil || len(o.Runs) != 8 || len(cl.arrays) != 1 {
		t.Fatalf("%v, %d arrays, error %v", o, len(cl.arrays), err)
	}
	// What is there is not trained again, and not overwritten by a new experiment.
	if _, err := experiment.Run(t.Context(), again); err != nil || len(cl.arrays) != 1 {
		t.Errorf("again: %d arrays, error %v", len(cl.arrays), err)
	}
	if _, err := experiment.Run(t.Context(), e); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a new experiment in the same folder: error %v", err)
	}
	if _, _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no runs were submitted in ") {
		t.Errorf("nothing was submitted: error %v", err)
	}
}

// TestTenThousand plays 10,000 runs on 1,000 nodes, a hundredth of which dies. HARNESS_TEN_THOUSAND=1 asks for it; without
// it there are 16 on 4. Calls of the controller grow with the waves that the nodes take, and not with the runs.
func TestTenThousand(t *testing.T) {
	seeds, nodes := 8, 4
	if os.Getenv("HARNESS_TEN_THOUSAND") != "" {
		seeds, nodes = 5000, 1000
	}
	cl := newCluster(nodes)
	cl.fault = sometimes(100, executor.Waiting)
	e, _ := comparison(t, cl, seeds)
	began := time.Now()
	o, err := experiment.Run(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d runs on %d nodes: %v with the writing of the runs, %d MiB from the system, calls %v, %d arrays", len(o.Runs), nodes,
		time.Since(began).Round(time.Millisecond), m.Sys>>20, cl.calls, len(cl.arrays))
	waves := (2*seeds + nodes - 1) / nodes
	if cl.calls["describe"] > waves+10 || cl.calls["submit"] != (2*seeds+999)/1000 {
		t.Errorf("calls %v for %d runs in %d waves", cl.calls, 2*seeds, waves)
	}
	got, err := o.Compare()
	if err != nil {
		t.Fatal(err)
	}
	// The same runs, recorded one after the other in one place.
	alone, _ := comparison(t, newCluster(1), seeds)
	alone.Executor = inTurn{}
	o, err = experiment.Run(t.Context(), alone)
	if err != nil {
		t.Fatal(err)
	}
	want, err := o.Compare()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := table(t, got), table(t, want); a != b {
		t.Errorf("the table is\n%s\nwant\n%s", a, b)
	}
}

// inTurn records runs one after the other.
type inTurn struct{}

func (inTurn) Wave() int { return 1 }

func (inTurn) Execute(_ context.Context, s *experiment.Session, plan []experiment.Planned) ([]*results.Run, error) {
	for _, p := range plan {
		identity, err := s.Identity(p)
		if err == nil {
			err = finish(s.Experiment, &listed{p, identity})
		}
		if err != nil {
			return nil, err
		}
	}
	return s.Open(plan)
}

// table is the table of a comparison.
func table(t *testing.T, c *verdict.Comparison) string {
	t.Helper()
	var out strings.Builder
	if err := report.Write(&out, c, report.Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
