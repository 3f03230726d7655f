package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"harness.invalid/core/durable"
)

// slurm hands arrays to Slurm by its own commands: sbatch, squeue --json, scancel, scontrol. It asks no accounting, which
// many clusters do not have: what became of a task whose record is gone, the task's own work tells.
type slurm struct {
	most int // tasks of an array
}

// Requeue is the exit code of a task that was asked to stop before its time was up (SIGUSR1) or that has to run
// elsewhere: Slurm puts it back into the queue. It is EX_TEMPFAIL of sysexits.h.
const Requeue = 75

// warning is the signal, and how long it comes before the end of a task's time: enough to save a checkpoint. Slurm may
// send it a minute earlier.
const warning = "B:USR1@120"

func init() { Register("slurm", newSlurm) }

func newSlurm(Options) (Executor, error) {
	for _, program := range []string{"sbatch", "squeue", "scancel", "scontrol"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("slurm: %s is %w: run this where jobs are submitted, such as a login node", program, ErrNotHere)
		}
	}
	return &slurm{}, nil
}

// Traits implements Executor. The most tasks of an array are asked for once; 1000 is Slurm's default.
func (s *slurm) Traits() Traits {
	if s.most == 0 {
		s.most = 1000
		if out, err := command(context.Background(), nil, "scontrol", "show", "config"); err == nil {
			if m := maxArraySize.FindSubmatch(out); m != nil {
				n, _ := strconv.Atoi(string(m[1]))
				s.most = max(1, n-1)
			}
		}
	}
	return Traits{Survives: true, MostTasks: s.most, Interval: 15 * time.Second}
}

var maxArraySize = regexp.MustCompile(`(?m)^MaxArraySize\s*=\s*(\d+)`)

// ours are settings that the script sets itself.
var ours = []string{"array", "job-name", "output", "error", "chdir", "requeue", "no-requeue", "open-mode", "parsable", "wrap", "test-only"}

var settingName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// DryRun implements Executor: it is the batch script.
func (s *slurm) DryRun(a Array) (string, error) {
	var out strings.Builder
	out.WriteString("#!/bin/sh\n")
	array := fmt.Sprintf("0-%d", a.Tasks-1)
	if a.AtOnce > 0 {
		array += fmt.Sprintf("%%%d", a.AtOnce)
	}
	log := strings.ReplaceAll(filepath.Join(a.Folder, a.Name), "%", "%%") + "-%a.log"
	list := []Setting{{"job-name", a.Name}, {"array", array}, {"output", log}, {"open-mode", "append"}, {"chdir", a.Work}, {"requeue", ""}}
	if !slices.ContainsFunc(a.Settings, func(x Setting) bool { return x.Name == "signal" }) {
		list = append(list, Setting{"signal", warning})
	}
	nodes := false
	for _, x := range a.Settings {
		if !settingName.MatchString(x.Name) || slices.Contains(ours, x.Name) {
			return "", fmt.Errorf("slurm: setting %q: want a long option of sbatch other than %s, which are set already", x.Name,
				strings.Join(ours, ", "))
		}
		nodes = nodes || x.Name == "nodes"
		list = append(list, x)
	}
	for _, x := range list {
		if strings.ContainsAny(x.Value, "\"\n\r") {
			return "", fmt.Errorf("slurm: setting %s is %q: a script of sbatch cannot hold that", x.Name, x.Value)
		}
		switch {
		case x.Value == "":
			fmt.Fprintf(&out, "#SBATCH --%s\n", x.Name)
		case plain.MatchString(x.Value):
			fmt.Fprintf(&out, "#SBATCH --%s=%s\n", x.Name, x.Value)
		default:
			fmt.Fprintf(&out, "#SBATCH --%s=\"%s\"\n", x.Name, x.Value)
		}
	}
	task := `"$SLURM_ARRAY_TASK_ID"`
	run := quoteAll(a.Command)
	if a.Together {
		task = `"${SLURM_PROCID:-0}/${SLURM_NTASKS:-1}"`
		if nodes {
			run = "srun --ntasks-per-node=1 --kill-on-bad-exit=0 sh -c " + quote("exec "+run+" "+task)
			task = ""
		}
	}
	fmt.Fprintf(&out, script, strings.TrimSpace(run+" "+task), Requeue)
	return out.String(), nil
}

// script starts a task and hands it signals. A task that exits with Requeue goes back into the queue; when its machine
// dies or it is preempted, Slurm puts it there by itself.
const script = `
%s &
task=$!
trap 'kill -USR1 "$task"' USR1
trap 'kill -TERM "$task"' TERM
wait "$task"
code=$?
while kill -0 "$task" 2>/dev/null; do # a signal ended the wait, and not the task
	wait "$task"
	code=$?
done
[ "$code" -ne %d ] || exec scontrol requeue "$SLURM_JOB_ID"
exit "$code"
`

var plain = regexp.MustCompile(`^[A-Za-z0-9_./+:@%,=-]+$`)

func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}

// Submit implements Executor. The script stays in the array's folder.
func (s *slurm) Submit(ctx context.Context, a Array) (string, error) {
	text, err := s.DryRun(a)
	if err != nil {
		return "", err
	}
	path := filepath.Join(a.Folder, a.Name+".sh")
	if err := durable.WriteFile(path, writes(text)); err != nil {
		return "", err
	}
	out, err := command(ctx, nil, "sbatch", "--parsable", path)
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(string(out)), ";") // with clusters in a federation it is ID;CLUSTER
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return "", fmt.Errorf("slurm: sbatch answered %q, want the number of a job", strings.TrimSpace(string(out)))
	}
	return id, nil
}

// Cancel implements Executor.
func (s *slurm) Cancel(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := command(ctx, nil, "scancel", append([]string{"--quiet"}, ids...)...)
	return err
}

// Logs implements Executor.
func (s *slurm) Logs(a Array, task, most int) string { return endOf(a.Log(task), most) }

// patience is how long a command of Slurm may take. A busy controller makes its clients wait and try again.
const patience = 2 * time.Minute

// mostAnswer bounds what a command's errors are read of.
const mostAnswer = 4 << 10

// command runs one of Slurm's commands. If read is not nil, it gets the answer as it comes.
func command(ctx context.Context, read func(*exec.Cmd) error, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, problem bytes.Buffer
	cmd.Stderr = &problem
	var err error
	if read == nil {
		cmd.Stdout = &out
		err = cmd.Run()
	} else {
		err = read(cmd)
	}
	if err == nil {
		return out.Bytes(), nil
	}
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	text := problem.Bytes()
	return nil, fmt.Errorf("slurm: %s: %w: %s", name, err, bytes.TrimSpace(text[:min(len(text), mostAnswer)]))
}

// writes writes a text.
func writes(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}
