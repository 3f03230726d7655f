package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// slurmJob is a record of squeue --json: a task, or all tasks of an array that still wait.
type slurmJob struct {
	JobID      slurmNumber `json:"job_id"`
	ArrayID    slurmNumber `json:"array_job_id"` // 0: it is no array
	TaskID     slurmNumber `json:"array_task_id"`
	TaskString string      `json:"array_task_string"` // such as 3-5,9%2; Slurm cuts long ones and ends them with ...
	State      slurmWords  `json:"job_state"`
	Reason     string      `json:"state_reason"`
	Name       string      `json:"name"`
	Nodes      any         `json:"nodes"` // a text, and in some versions an object or a list
	Restarts   slurmNumber `json:"restart_cnt"`
}

// slurmNumber is a number as Slurm writes it: plain up to 22.05, as {"set": true, "infinite": false, "number": 7} since;
// null and unset ones are not there.
type slurmNumber struct {
	set bool
	n   int
}

// UnmarshalJSON reads both forms.
func (v *slurmNumber) UnmarshalJSON(text []byte) error {
	var o struct {
		Set    bool `json:"set"`
		Number int  `json:"number"`
	}
	switch {
	case string(text) == "null":
		return nil
	case text[0] == '{':
		err := json.Unmarshal(text, &o)
		*v = slurmNumber{o.Set, o.Number}
		return err
	}
	v.set = true
	return json.Unmarshal(text, &v.n)
}

// slurmWords are a text up to 23.02 and a list since.
type slurmWords []string

// UnmarshalJSON reads both forms.
func (w *slurmWords) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(w))
	}
	*w = make(slurmWords, 1)
	return json.Unmarshal(text, &(*w)[0])
}

// states are Slurm's words. Source: squeue(1), JOB STATE CODES. What is not here is Unknown. A job that was submitted
// with --requeue and whose machine died, or that was preempted, is PENDING again soon; these two words stay where the
// cluster does not allow that.
var states = map[string]State{
	"PENDING": Waiting, "REQUEUED": Waiting, "REQUEUE_HOLD": Waiting, "REQUEUE_FED": Waiting, "SPECIAL_EXIT": Waiting,
	"RESV_DEL_HOLD": Waiting, "CONFIGURING": Running, "RUNNING": Running, "COMPLETING": Running, "SUSPENDED": Running, "STOPPED": Running,
	"SIGNALING": Running, "STAGE_OUT": Running, "RESIZING": Running,
	"COMPLETED": Ended, "FAILED": Ended,
	"BOOT_FAIL": Lost, "DEADLINE": Lost, "NODE_FAIL": Lost, "OUT_OF_MEMORY": Lost, "PREEMPTED": Lost, "TIMEOUT": Lost, "REVOKED": Lost,
	"LAUNCH_FAILED": Lost, "RECONFIG_FAIL": Lost, "CANCELLED": Cancelled,
}

// status is what a record says.
func (j *slurmJob) status() Status {
	s := Status{Word: strings.Join(j.State, "+"), Restarts: j.Restarts.n}
	if j.Reason != "None" {
		s.Reason = j.Reason
	}
	s.Node, _ = j.Nodes.(string)
	// A list has the base state and what goes on besides, such as COMPLETING: what goes on decides.
	for _, w := range j.State {
		if state, ok := states[w]; ok && (s.State == Unknown || state == Running || state == Waiting) {
			s.State = state
		}
	}
	return s
}

// Describe implements Executor.
func (s *slurm) Describe(ctx context.Context, ids []string) (*Queue, error) {
	q := NewQueue()
	err := queue(ctx, func(j *slurmJob) error {
		id := strconv.Itoa(j.ArrayID.n)
		if !slices.Contains(ids, id) {
			return nil
		}
		status := j.status()
		if j.TaskID.set {
			q.Add(Task{id, j.TaskID.n}, status)
			return nil
		}
		tasks, whole, err := taskNumbers(j.TaskString)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			q.Add(Task{id, t}, status)
		}
		if !whole {
			q.AddRest(id, status)
		}
		return nil
	})
	return q, err
}

// List implements Executor.
func (s *slurm) List(ctx context.Context) ([]Listed, error) {
	var list []Listed
	err := queue(ctx, func(j *slurmJob) error {
		x := Listed{strconv.Itoa(j.ArrayID.n), j.Name}
		if st := j.status().State; (st == Waiting || st == Running) && !slices.Contains(list, x) {
			list = append(list, x)
		}
		return nil
	})
	return list, err
}

// queue asks squeue once and visits each record as it is read: a cluster's queue may be long, and a record takes 5 KB.
// Versions up to 22.05 list everybody's jobs, whatever the flags say.
func queue(ctx context.Context, visit func(*slurmJob) error) error {
	_, err := command(ctx, func(cmd *exec.Cmd) error {
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return err
		}
		err = readQueue(out, visit)
		_, rest := io.Copy(io.Discard, out)
		return errors.Join(err, rest, cmd.Wait())
	}, "squeue", "--json", "--me", "--states=all")
	return err
}

// readQueue reads an answer of squeue --json.
func readQueue(in io.Reader, visit func(*slurmJob) error) error {
	d := json.NewDecoder(in)
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("want an object: %w", err)
	}
	listed := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "jobs":
			listed = true
			if _, err := d.Token(); err != nil {
				return err
			}
			for d.More() {
				var j slurmJob
				if err := d.Decode(&j); err != nil {
					return fmt.Errorf("a job: %w", err)
				}
				if err := visit(&j); err != nil {
					return err
				}
			}
			_, err = d.Token()
		case "errors":
			var problems []struct {
				Error       string `json:"error"`
				Description string `json:"description"`
			}
			if err = d.Decode(&problems); err == nil && len(problems) > 0 {
				err = fmt.Errorf("it reports %s %s", problems[0].Error, problems[0].Description)
			}
		default:
			err = d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	if !listed {
		return errors.New("the answer has no list of jobs")
	}
	return nil
}

// mostTask bounds the numbers of tasks; Slurm's own limit is 4,000,001.
const mostTask = 5_000_000

// taskNumbers reads the numbers of an array's tasks, such as 0-4,7,10-20:2%3; whole is false if Slurm cut them short.
func taskNumbers(text string) (tasks []int, whole bool, err error) {
	text, _, _ = strings.Cut(text, "%")
	for part := range strings.SplitSeq(text, ",") {
		if part == "" || strings.HasSuffix(part, "...") {
			return tasks, false, nil // the number before may have lost digits, and is among the rest
		}
		span, stepText, stepped := strings.Cut(part, ":")
		from, to, ranged := strings.Cut(span, "-")
		if !ranged {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		step := 1
		if stepped {
			var err error
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
				return nil, false, fmt.Errorf("tasks of an array %q: want ranges such as 0-4,7", text)
			}
		}
		if err1 != nil || err2 != nil || first < 0 || last > mostTask {
			return nil, false, fmt.Errorf("tasks of an array %q: want ranges such as 0-4,7", text)
		}
		for n := first; n <= last; n += step {
			tasks = append(tasks, n)
		}
	}
	return tasks, true, nil
}
