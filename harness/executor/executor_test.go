package executor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program writes a shell script.
func program(t *testing.T, text string) string {
	t.Helper()
	return filepath.Join(fake(t, "task", "#!/bin/sh\n"+text), "task")
}

// useFakeSlurm puts Slurm's commands on the path that testdata has in place of them.
func useFakeSlurm(t *testing.T) string {
	t.Helper()
	programs, err := filepath.Abs("testdata/fakeslurm")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	t.Setenv("FAKE_SLURM", dir)
	return dir
}

// TestExecutors: what every executor promises. Slurm's commands are replaced; TestCluster has real ones.
func TestExecutors(t *testing.T) {
	useFakeSlurm(t)
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			ex, err := New(name, Options{})
			if err != nil {
				t.Fatal(err)
			}
			suite(t, ex)
		})
	}
}

// suite holds an executor to the comments of its interface.
func suite(t *testing.T, ex Executor) {
	dir := t.TempDir()
	work := t.TempDir()
	a := Array{Name: "harness-a", Folder: dir, Work: work, Tasks: 3,
		Command: []string{program(t, `echo "task $2 of $1 in $(pwd)"; [ "$2" -ne 1 ] || exit 3; echo done >"$2"`), "it's"}}
	text, err := ex.DryRun(a)
	if err != nil || !strings.Contains(text, a.Command[0]) {
		t.Fatalf("dry run: error %v\n%s", err, text)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("a dry run left %v", left)
	}
	id, err := ex.Submit(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	await(t, ex, id, 3, Ended)
	for i := range 3 {
		want := fmt.Sprintf("task %d of it's in %s", i, work)
		if got := ex.Logs(a, i, 1000); got != want {
			t.Errorf("task %d printed %q, want %q", i, got, want)
		}
		if _, err := os.Stat(fmt.Sprintf("%s/%d", work, i)); (err == nil) != (i != 1) {
			t.Errorf("what task %d leaves: %v", i, err)
		}
	}
	if got := ex.Logs(a, 7, 1000); got != "" {
		t.Errorf("a task that is not there printed %q", got)
	}
	q, err := ex.Describe(t.Context(), []string{id, "4711"})
	if err != nil || q.Of(Task{"4711", 0}).State != Unknown || q.Of(Task{id, 3}).State != Unknown {
		t.Errorf("tasks that are not there: %+v, error %v", q, err)
	}

	a.Name, a.Command = "harness-b", []string{program(t, "trap 'exit 0' TERM; while :; do sleep 0.02; [ ! -e stop ] || exit 0; done")}
	if id, err = ex.Submit(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if list, err := ex.List(t.Context()); err != nil || ex.Traits().Survives && (len(list) != 1 || list[0] != Listed{id, a.Name}) {
		t.Errorf("listed: %v, error %v", list, err)
	}
	for range 2 {
		if err := ex.Cancel(t.Context(), []string{id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "stop"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	await(t, ex, id, 3, Cancelled)
}

// await waits until all tasks are in a state.
func await(t *testing.T, ex Executor, id string, tasks int, want State) {
	t.Helper()
	var got Status
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		q, err := ex.Describe(context.Background(), []string{id})
		if err != nil {
			t.Fatal(err)
		}
		there := 0
		for i := range tasks {
			if got = q.Of(Task{id, i}); got.State == want {
				there++
			}
		}
		if there == tasks {
			return
		}
	}
	t.Fatalf("a task is %+v, want %v", got, want)
}

// TestSlurmErrors: what Slurm says of its own accord is in the error, and no answer is no statement about a task.
func TestSlurmErrors(t *testing.T) {
	dir := useFakeSlurm(t)
	ex, err := New("slurm", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"refuse", "down"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	a := Array{Name: "harness-a", Folder: t.TempDir(), Work: dir, Command: []string{"true"}, Tasks: 1}
	if _, err := ex.Submit(t.Context(), a); err == nil ||
		!strings.Contains(err.Error(), "sbatch: exit status 1: sbatch: error: Batch job submission failed") {
		t.Errorf("refused: error %v", err)
	}
	if q, err := ex.Describe(t.Context(), []string{"1"}); err == nil || !strings.Contains(err.Error(), "Unable to contact slurm controller") {
		t.Errorf("down: %v, error %v", q, err)
	}
	if got := ex.Traits().MostTasks; got != 1000 {
		t.Errorf("an array has at most %d tasks, want 1000", got)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := New("slurm", Options{}); err == nil || !strings.Contains(err.Error(), "sbatch is not installed here") {
		t.Errorf("without Slurm: error %v", err)
	}
	if _, err := New("slrum", Options{}); err == nil || !strings.Contains(err.Error(), `no executor is named "slrum"`) {
		t.Errorf("no such executor: error %v", err)
	}
}

// TestCluster holds the same promises against a real Slurm, and a node that dies in the middle. HARNESS_SLURM=1 asks for it;
// it needs root and Slurm's programs, and takes half a minute.
func TestCluster(t *testing.T) {
	if os.Getenv("HARNESS_SLURM") == "" || os.Getuid() != 0 {
		t.Skip("HARNESS_SLURM is not set, or the user is not root")
	}
	for _, program := range []string{"slurmctld", "slurmd", "munged"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	script := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("testdata/cluster.sh", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	script("start", dir, "3")
	t.Cleanup(func() { script("stop", dir) })
	t.Setenv("SLURM_CONF", filepath.Join(dir, "slurm.conf"))
	ex, err := New("slurm", Options{})
	if err != nil {
		t.Fatal(err)
	}
	suite(t, ex)

	work := t.TempDir()
	a := Array{Name: "harness-c", Folder: t.TempDir(), Work: work, Tasks: 3,
		Command: []string{program(t, `echo "$SLURMD_NODENAME" >"$1"; while [ ! -e stop ]; do sleep 0.05; done`)}}
	id, err := ex.Submit(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	await(t, ex, id, 3, Running)
	script("die", dir, "n2")
	if err := os.WriteFile(filepath.Join(work, "stop"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	await(t, ex, id, 3, Ended)
	q, err := ex.Describe(t.Context(), []string{id})
	if err != nil {
		t.Fatal(err)
	}
	restarts := 0
	for i := range 3 {
		restarts += q.Of(Task{id, i}).Restarts
	}
	if restarts != 1 {
		t.Errorf("%d tasks were started again, want that of the node that died", restarts)
	}
}
