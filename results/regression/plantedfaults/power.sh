#!/bin/sh
# Does `harness compare` find what it should? This builds the program with faults.patch, which plants faults behind the
# option `fault` of gpu-ref, adamw and lamb, and compares sound and faulty arms, each in several tries with other seeds.
# Sound arms are compared with themselves as well: gpu-ref with its sums in another order, ipu with another draw of its
# rounding. At the end it prints a table: how often each fault was found.
#
#   power.sh OUT [TRIES [FIRST]]    tries FIRST (1) to TRIES (10); try n has the seeds from 1000 n on
#
# Comparisons that OUT has are not made again, and one that was stopped goes on. HARNESS_RECIPE names another recipe
# than the default one: probe.yaml has its primary metric alone, in a third of the time.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../../.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
tries=${2:-10} first=${3:-1}
export HARNESS_STORE="$out/index.db"

if [ ! -x "$out/harness" ]; then
	src=$(mktemp -d)
	trap 'rm -rf "$src"' EXIT
	(cd "$tree" && tar -cf - go.mod go.sum core harness plugins results) | tar -xf - -C "$src"
	patch -s -p1 -d "$src" <"$here/faults.patch"
	(cd "$src" && CGO_ENABLED=0 go build -o "$out/harness" ./harness)
	(cd "$tree" && CGO_ENABLED=0 go build -o "$out/powertable" ./results/regression/plantedfaults/powertable)
fi

# compare NAME ARGS... makes one comparison of a try.
compare() {
	dir="$out/$try-$1"
	shift
	[ ! -s "$dir/comparison.json" ] || return 0
	resume=
	[ ! -d "$dir" ] || resume=--resume
	"$out/harness" compare --quiet --budget 24h --recipe "${HARNESS_RECIPE:-quick}" --seed $((1000 * try)) --out "$dir" $resume "$@" \
		>"$dir.txt" 2>"$dir.log" || { tail -3 "$dir.log"; exit 2; }
}

for try in $(seq "$first" "$tries"); do
	compare formats --backends "gpu-ref,ipu,ipu?stochastic_rounding=false,gpu-ref:fp16?loss_scale=1,gpu-ref?fault=mask,gpu-ref?fault=labels"
	compare rules --backends gpu-ref --optimizers \
		"adamw,adamw?learning_rate=x1.5,adamw?first_moment=fp16&first_moment_rounding=nearest&first_moment_scale=1,adamw?fault=decay"
	compare lamb --backends gpu-ref --optimizers "lamb,lamb?fault=trust"
	compare microbatches --backends "gpu-ref,gpu-ref?fault=microbatch" --set "phases.*.micro_batch=8"
	compare dropout --backends "gpu-ref,gpu-ref?fault=dropout" --set model.hidden_dropout_prob=0.1
	compare order --backends "gpu-ref,gpu-ref?micro_batch=8"
	compare rounding --backends "ipu,ipu?rounding_seed=1"
done
"$out/powertable" "$out"/*-*/comparison.json
