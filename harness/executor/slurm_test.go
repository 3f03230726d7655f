package executor

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// squeue-22.05.json is an answer of Slurm 22.05.8 without the fields that are not read. squeue-23.11.json is written by
// hand after the forms that later versions use: numbers are objects, states are lists, and long lists of tasks are cut.
func TestReadQueue(t *testing.T) {
	for file, want := range map[string]map[int]Status{
		"testdata/squeue-22.05.json": {
			0: {State: Running, Word: "RUNNING", Node: "n1"}, 2: {State: Running, Word: "RUNNING", Node: "n2"},
			4: {State: Waiting, Word: "PENDING", Reason: "JobArrayTaskLimit"}, 5: {},
			30: {State: Waiting, Word: "PENDING", Reason: "JobArrayTaskLimit"},
		},
		"testdata/squeue-23.11.json": {
			0: {State: Running, Word: "COMPLETED+COMPLETING", Node: "n1"}, 2: {State: Running, Word: "RUNNING", Node: "n2", Restarts: 1},
			4: {State: Waiting, Word: "PENDING", Reason: "JobArrayTaskLimit"}, 30: {State: Waiting, Word: "PENDING", Reason: "JobArrayTaskLimit"},
		},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", fake(t, "squeue", "#!/bin/sh\ncat <<'END'\n"+string(text)+"\nEND\n")+":"+os.Getenv("PATH"))
		q, err := new(slurm).Describe(t.Context(), []string{"16"})
		if err != nil {
			t.Fatal(err)
		}
		for task, want := range want {
			if got := q.Of(Task{"16", task}); got != want {
				t.Errorf("%s: task %d is %+v, want %+v", file, task, got, want)
			}
		}
		if got := q.Of(Task{"17", 0}); got.State != Unknown {
			t.Errorf("%s: a task that is not there is %+v", file, got)
		}
	}
	for text, want := range map[string]string{
		`{"jobs": [], "errors": [{"error": "e1", "description": "down"}]}`: "it reports e1 down",
		`{"errors": []}`:              "the answer has no list of jobs",
		`{"jobs": [{"job_state": 7}]`: "a job: ",
		`slurm_load_jobs error`:       "want an object",
	} {
		if err := readQueue(strings.NewReader(text), func(*slurmJob) error { return nil }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// fake is a folder with one program.
func fake(t *testing.T, name, text string) string {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/"+name, []byte(text), 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTaskNumbers(t *testing.T) {
	for _, c := range []struct {
		text  string
		tasks []int
		whole bool
	}{
		{"3-5%3", []int{3, 4, 5}, true}, {"7", []int{7}, true}, {"0,2-3,9", []int{0, 2, 3, 9}, true}, {"0-6:3", []int{0, 3, 6}, true},
		{"", nil, false}, {"1,2,3...", []int{1, 2}, false}, {"1-2,5-...%9", []int{1, 2}, false},
	} {
		if tasks, whole, err := taskNumbers(c.text); err != nil || whole != c.whole || !slices.Equal(tasks, c.tasks) {
			t.Errorf("%q is %v %v, error %v", c.text, tasks, whole, err)
		}
	}
	for _, bad := range []string{"a", "1-b", "3:0-1", "1-9:0", "-3", "0-99999999"} {
		if tasks, _, err := taskNumbers(bad); err == nil {
			t.Errorf("%q is %v", bad, tasks)
		}
	}
}

// TestScript: the script that sbatch gets, word for word.
func TestScript(t *testing.T) {
	a := Array{Name: "harness-1", Folder: "/scratch/my runs/100%/jobs", Work: "/home/me",
		Command: []string{"/opt/harness", "it's", "list.json"}, Tasks: 16, AtOnce: 4,
		Settings: []Setting{{"partition", "gpu"}, {"gres", "gpu:1"}, {"exclusive", ""}, {"comment", "two words"}}}
	got, err := new(slurm).DryRun(a)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/script.sh")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the script is\n%s\nwant\n%s", got, want)
	}
	a.Together, a.Settings = true, []Setting{{"nodes", "2"}, {"signal", "B:USR1@30"}}
	if got, err = new(slurm).DryRun(a); err != nil || strings.Count(got, "--signal") != 1 ||
		!strings.Contains(got, "\nsrun --ntasks-per-node=1 --kill-on-bad-exit=0 sh -c 'exec /opt/harness ") ||
		!strings.Contains(got, ` list.json "${SLURM_PROCID:-0}/${SLURM_NTASKS:-1}"' &`) {
		t.Errorf("on two nodes: error %v\n%s", err, got)
	}
	for _, bad := range []Setting{{"array", "0-3"}, {"Partition", "x"}, {"partition", "a\nb"}, {"partition", `a"b`}, {"-p", "x"}} {
		a.Settings = []Setting{bad}
		if got, err := new(slurm).DryRun(a); err == nil {
			t.Errorf("setting %+v is taken:\n%s", bad, got)
		}
	}
}
