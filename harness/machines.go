package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"harness.invalid/harness/dispatch"
	"harness.invalid/harness/executor"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/hint"
)

// machineFlags say on which machines runs are trained, and how many at once.
type machineFlags struct {
	settings       dispatch.Settings
	slurm          []string
	other          string
	poll           time.Duration
	detach, dryRun bool
}

// flags of commands whose runs may be left to themselves.
func (m *machineFlags) flags(f *pflag.FlagSet) {
	m.waitingFlags(f)
	f.BoolVar(&m.settings.OneAllocation, "one-allocation", false,
		"train all runs in one allocation, the arms of a seed one after the other on the same node, so that their times can be compared")
	f.BoolVar(&m.detach, "detach", false, "submit the runs and leave them to themselves")
	f.BoolVar(&m.dryRun, "dry-run", false, dryRunUsage+"; with --on what would be submitted")
}

// waitingFlags are those of commands that wait for their runs.
func (m *machineFlags) waitingFlags(f *pflag.FlagSet) {
	f.StringVar(&m.settings.On, "on", "", "where runs are trained: "+strings.Join(executor.Names(), ", ")+
		" (default: in this process, one after the other)")
	f.IntVar(&m.settings.Jobs, "jobs", 0,
		"runs at once; on this machine each has cores and GPUs of its own (default: as many as there is room for)")
	f.StringArrayVar(&m.slurm, "slurm", nil,
		"options of sbatch, such as partition=gpu,time=2:00:00,gres=gpu:1, or a file of YAML with those of single backends as well (repeatable)")
	f.StringVar(&m.other, "other-cpu", string(dispatch.Wait),
		"what a run does that was begun on a processor with other bits: wait (for such a processor), or restart (from its beginning)")
	f.DurationVar(&m.poll, "poll", 0, "time between two questions to the scheduler (default: 15s for slurm)")
}

// apply sets the executor of an experiment, and reports flags that don't go together.
func (m *machineFlags) apply(e *experiment.Experiment, f *pflag.FlagSet) error {
	if m.settings.On == "" && m.settings.Jobs > 0 {
		m.settings.On = "local"
	}
	if m.settings.On == "" {
		for _, name := range []string{"slurm", "one-allocation", "other-cpu", "detach", "poll"} {
			if f.Changed(name) {
				return hint.With(fmt.Errorf("--%s needs --on: this process trains the runs itself", name), "--on slurm")
			}
		}
		return nil
	}
	m.settings.OtherCPU = dispatch.OtherCPU(m.other)
	if o := m.settings.OtherCPU; o != dispatch.Wait && o != dispatch.Restart {
		return fmt.Errorf("--other-cpu is %q, want %s or %s", o, dispatch.Wait, dispatch.Restart)
	}
	for _, text := range m.slurm {
		if err := m.settings.Settings.Read(text); err != nil {
			return fmt.Errorf("--slurm %w", err)
		}
	}
	if m.settings.Jobs < 0 || m.poll < 0 {
		return fmt.Errorf("--jobs is %d and --poll is %v, want neither below 0", m.settings.Jobs, m.poll)
	}
	if b := f.Lookup("budget"); b != nil && !b.Changed {
		e.Budget = 0 // time in a queue says nothing about the time of a run
	}
	return m.use(e)
}

// use sets the executor of an experiment.
func (m *machineFlags) use(e *experiment.Experiment) error {
	d, err := dispatch.New(m.settings)
	if err != nil {
		return err
	}
	if m.detach && !d.Survives() {
		return fmt.Errorf("--detach: runs on %s end with the process that started them", m.settings.On)
	}
	d.Detach, d.Poll, d.Arms = m.detach, m.poll, len(e.Arms)
	e.Executor = d
	return nil
}
