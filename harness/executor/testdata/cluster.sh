#!/bin/sh
# A cluster of Slurm on this machine, for tests: one controller and some nodes of one CPU each, under a user of their own
# choosing, who must be root. It needs slurmctld, slurmd and munged (Debian: slurm-wlm and munge).
#
#	cluster.sh start DIR NODES   prints the SLURM_CONF to use
#	cluster.sh die DIR NODE      kills all that runs on a node, as a machine that loses power
#	cluster.sh return DIR NODE   starts the node again
#	cluster.sh stop DIR
set -eu
dir=$2
conf=$dir/slurm.conf
export SLURM_CONF="$conf"

start() {
	mkdir -p "$dir/state"
	chmod 700 "$dir"
	dd if=/dev/urandom of="$dir/munge.key" bs=1024 count=1 2>/dev/null
	chmod 400 "$dir/munge.key"
	munged --force --key-file="$dir/munge.key" --socket="$dir/munge" --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" \
		--seed-file="$dir/munged.seed"
	# Ports that nobody listens on, below those that the system hands out itself.
	port=$((10000 + $$ % 20000))
	# cred_expire: how long a task waits that was put back into the queue.
	cat >"$conf" <<-END
		ClusterName=tests
		SlurmUser=root
		SlurmctldHost=localhost
		SlurmctldPort=$port
		SlurmctldPidFile=$dir/slurmctld.pid
		SlurmctldLogFile=$dir/slurmctld.log
		StateSaveLocation=$dir/state
		SlurmdPidFile=$dir/%n.pid
		SlurmdLogFile=$dir/%n.log
		SlurmdSpoolDir=$dir/%n.spool
		AuthType=auth/munge
		AuthInfo=socket=$dir/munge,cred_expire=5
		CredType=cred/munge
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		SlurmdParameters=config_overrides
		MpiDefault=none
		JobRequeue=1
		KillWait=5
		SlurmdTimeout=10
		ReturnToService=2
	END
	node=1
	while [ "$node" -le "$1" ]; do
		echo "NodeName=n$node NodeAddr=127.0.0.1 NodeHostname=localhost Port=$((port + node)) CPUs=1 RealMemory=1000" >>"$conf"
		mkdir -p "$dir/n$node.spool"
		node=$((node + 1))
	done
	echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP" >>"$conf"
	slurmctld
	node=1
	while [ "$node" -le "$1" ]; do
		slurmd -N "n$node"
		node=$((node + 1))
	done
	tries=0
	until [ "$(sinfo --noheader --states=idle --format=%D 2>/dev/null)" = "$1" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || { echo "the nodes are not idle after 20 seconds: see $dir/*.log" >&2; exit 1; }
		sleep 0.2
	done
	echo "$conf"
}

die() {
	kill -9 "$(cat "$dir/$1.pid")"
	for p in /proc/[0-9]*; do
		environment=$(tr '\0' '\n' 2>/dev/null <"$p/environ") 2>/dev/null || continue
		echo "$environment" | grep -qx "SLURMD_NODENAME=$1" || continue
		echo "$environment" | grep -qx "SLURM_CONF=$conf" || continue
		above=$(sed 's/^.*) . \([0-9]*\).*/\1/' "$p/stat" 2>/dev/null) || continue
		kill -9 "${p#/proc/}" 2>/dev/null || true
		! grep -q slurmstepd "/proc/$above/comm" 2>/dev/null || kill -9 "$above" 2>/dev/null || true
	done
	scontrol update NodeName="$1" State=DOWN Reason=died
}

case $1 in
start) start "$3" ;;
die) die "$3" ;;
return) slurmd -N "$3" ;;
stop)
	for f in "$dir"/n*.pid "$dir/slurmctld.pid" "$dir/munged.pid"; do
		[ ! -s "$f" ] || kill "$(cat "$f")" 2>/dev/null || true
	done
	;;
esac
