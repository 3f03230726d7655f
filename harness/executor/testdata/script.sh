#!/bin/sh
#SBATCH --job-name=harness-1
#SBATCH --array=0-15%4
#SBATCH --output="/scratch/my runs/100%%/jobs/harness-1-%a.log"
#SBATCH --open-mode=append
#SBATCH --chdir=/home/me
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --partition=gpu
#SBATCH --gres=gpu:1
#SBATCH --exclusive
#SBATCH --comment="two words"

/opt/harness 'it'\''s' list.json "$SLURM_ARRAY_TASK_ID" &
task=$!
trap 'kill -USR1 "$task"' USR1
trap 'kill -TERM "$task"' TERM
wait "$task"
code=$?
while kill -0 "$task" 2>/dev/null; do # a signal ended the wait, and not the task
	wait "$task"
	code=$?
done
[ "$code" -ne 75 ] || exec scontrol requeue "$SLURM_JOB_ID"
exit "$code"
