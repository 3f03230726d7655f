#!/bin/sh
# Does `harness check` find what it is for? This builds three programs from copies of this tree, each with a fault, and checks
# their runs against a baseline of the sound program:
#
#   lamb.patch    a wrong constant: ε of LAMB is 1e-5 instead of 1e-6
#   order.patch   one bit: the lowest of the seed of the data's order
#   kernel.patch  a slower kernel: the matrix product does a tenth of its work twice
#
#   plant.sh            the first two, which change exact facts: a few minutes on any machine
#   plant.sh --times    the third, which changes a sampled fact: 8 minutes on an idle machine (SEEDS=20 on a shared one)
#
# Runs are of the built-in scratch with few steps. Runs and programs go to a folder under $TMPDIR, which is removed at the end
# unless KEEP is set. Seeds take turns, so that a machine whose speed drifts affects all programs alike. The exit code is 0 if
# every fault is found and the sound program passes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../../.." && pwd)
out=$(mktemp -d)
[ -n "${KEEP:-}" ] || trap 'rm -rf "$out"' EXIT
export HARNESS_STORE="$out/index.db"

# program NAME [PATCH] builds bin/NAME from the tree as it is, with a patch.
program() {
	mkdir -p "$out/src" "$out/bin"
	(cd "$tree" && tar -cf - go.mod go.sum core harness plugins results) | tar -xf - -C "$out/src"
	[ -z "${2:-}" ] || patch -s -p1 -d "$out/src" <"$here/$2"
	(cd "$out/src" && CGO_ENABLED=0 go build -o "$out/bin/$1" ./harness)
	rm -rf "$out/src"
}

# train NAME FOLDER SEED ARGS... trains one seed on gpu-ref.
train() {
	name=$1 folder=$2 seed=$3
	shift 3
	"$out/bin/$name" run --quiet --backend gpu-ref --seed "$seed" --recipe scratch --out "$out/$folder" \
		--set phases.squad.target=null --set phases.squad.evaluation.every=0 "$@" >"$out/$name.log" 2>&1 || { cat "$out/$name.log"; exit 2; }
}

failed=0
# check NAME EXIT FACT [OTHER] checks the runs of a program against the baseline: it must exit with EXIT, and print a line that
# matches FACT and none that matches OTHER.
check() {
	name=$1 want=$2 fact=$3 other=${4:-no such fact}
	got=0
	"$out/bin/$name" check --baseline "$out/baseline.json" --format markdown "$out/runs-$name" >"$out/check" 2>&1 || got=$?
	printf '\n## %s: exit code %s\n\n' "$name" "$got"
	cat "$out/check"
	if [ "$got" != "$want" ] || ! grep -q "$fact" "$out/check" || grep -q "$other" "$out/check"; then
		printf '\nMISSED: want exit code %s, a line like %s, and none like %s\n' "$want" "$fact" "$other"
		failed=1
	fi
}

program sound
if [ "${1:-}" = --times ]; then
	program kernel kernel.patch
	# One thread, so that other work has a processor to itself: a step on two threads waits for the one that was disturbed.
	export GOMAXPROCS="${GOMAXPROCS:-1}"
	# What counts is the fastest step of a phase. Three to four seconds of each phase contain some undisturbed ones, and more
	# seeds help more than longer runs.
	steps="--set phases.phase1.steps=50 --set phases.phase2.steps=30 --set phases.squad.steps=50"
	for seed in $(seq 1 "${SEEDS:-10}"); do
		# The other way round for every other seed: the first of three is not the luckiest.
		set -- "sound baseline" "kernel runs-kernel" "sound runs-sound"
		[ $((seed % 2)) = 1 ] || set -- "$3" "$2" "$1"
		for turn in "$@"; do
			# shellcheck disable=SC2086
			train ${turn% *} ${turn#* } $seed $steps
		done
	done
	# A matrix product takes 9 to 11% longer, and a step that is seven tenths matrix products some 7%; a baseline lets 5% pass.
	"$out/bin/sound" baseline save --out "$out/baseline.json" "$out/baseline"
	check sound 0 '^holds'
	check kernel 1 'step_seconds.*REGRESSED'
else
	program lamb lamb.patch
	program order order.patch
	steps="--set phases.phase1.steps=20 --set phases.phase2.steps=5 --set phases.squad.steps=20"
	for seed in 1 2; do
		for optimizer in adamw lamb; do
			for turn in "sound baseline" "lamb runs-lamb" "order runs-order" "sound runs-sound"; do
				# shellcheck disable=SC2086
				train ${turn% *} ${turn#* } $seed $steps --optimizer $optimizer
			done
		done
	done
	"$out/bin/sound" baseline save --no-times --out "$out/baseline.json" "$out/baseline"
	check sound 0 '^holds'
	check lamb 1 'gpu-ref/lamb seed 1 losses.*REGRESSED' 'gpu-ref/adamw.*REGRESSED'
	check order 1 'gpu-ref/adamw seed 1 batches.*REGRESSED'
fi
exit $failed
