package main

import (
	"errors"

	"github.com/spf13/cobra"

	"harness.invalid/harness/dispatch"
	"harness.invalid/harness/executor"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/report"
)

func newRunsWatch() *cobra.Command {
	var t training
	var m machineFlags
	var format string
	cmd := &cobra.Command{
		Use:   "watch DIR",
		Short: "Look after runs that were submitted to a cluster, and print their table",
		Long: `Watch takes the place of the process that submitted the runs in DIR, such as compare --on slurm --detach: it shows how
far they are, submits those again whose task was lost, adds seeds where the plan wants more, and prints the table when
all are complete. It may be ended and started again at any time.`,
		Example: `  harness runs watch runs/mine`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := report.ParseFormat(format)
			if err != nil {
				return err
			}
			return m.watch(cmd, &t, args[0], f)
		},
	}
	storeFlag(cmd.Flags(), &t.store)
	cmd.Flags().BoolVar(&t.quiet, "quiet", false, "no progress, only the result")
	cmd.Flags().BoolVar(&t.modelled, "modelled", false, modelledUsage)
	cmd.Flags().StringVar(&format, "format", "table", report.Formats)
	cmd.Flags().DurationVar(&m.poll, "poll", 0, "time between two questions to the scheduler (default: 15s for slurm)")
	return cmd
}

// errRequeue is returned by a task that the scheduler should start again.
var errRequeue = errors.New("to be started again")

// newRunsExecute is what the tasks of an executor are started as.
func newRunsExecute() *cobra.Command {
	return &cobra.Command{
		Use:    "execute LIST TASK",
		Short:  "Train one run of a list, as a task of a scheduler",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := newProgress(cmd.OutOrStdout(), false)
			defer p.close()
			stepped := false
			err := dispatch.Execute(cmd.Context(), args[0], args[1], func(e experiment.Event) {
				if _, ok := e.(experiment.RunAdvanced); ok {
					stepped = true
				}
				p.observe(e)
			})
			// A task that gets no step done in its time would be started again for ever.
			if errors.Is(err, dispatch.ErrElsewhere) || err != nil && stepped && timeIsUp(cmd.Context()) {
				return errors.Join(errRequeue, err)
			}
			return err
		},
	}
}

// exitRequeue is the exit code of such a task.
const exitRequeue = executor.Requeue
