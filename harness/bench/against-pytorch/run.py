#!/usr/bin/python3
"""Measures training steps of harness against PyTorch on this machine: both sides in turn, several rounds, and the ratios with their spread.

Needs Debian's python3-torch and libopenblas0-openmp, and go in $PATH. From the root of the repository:

    harness/bench/against-pytorch/run.py --rows tiny,mini --rounds 5

A ratio is that of sequences per second of harness over those of PyTorch in the same round. A row of precision bf16 holds gpu-ref:bf16 against autocast.
"""
import argparse
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

# What is measured: model, task, precision, length, batch, steps a round.
ROWS = {
    "tiny": ("tiny", "pretraining", "fp32", 128, 32, 20),
    "mini": ("mini", "pretraining", "fp32", 128, 32, 8),
    "small": ("small", "pretraining", "fp32", 128, 32, 4),
    "base": ("base", "pretraining", "fp32", 128, 8, 3),
    "mini-squad": ("mini", "squad", "fp32", 384, 8, 8),
    "tiny-squad": ("tiny", "squad", "fp32", 384, 8, 20),
    "mini-bf16": ("mini", "pretraining", "bf16", 128, 32, 8),
}

HERE = pathlib.Path(__file__).resolve().parent


def tuned():
    """The environment in which PyTorch is at its best: OpenBLAS told that there is AVX-512, and memory that stays with the process."""
    environment = dict(os.environ)
    if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text():
        environment["OPENBLAS_CORETYPE"] = "SKYLAKEX"  # Debian's OpenBLAS takes chips it does not know for ones without AVX-512
    for folder in glob.glob("/usr/lib/*/openblas-openmp"):
        environment["LD_LIBRARY_PATH"] = folder
    environment.update(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="100000000000", MALLOC_TOP_PAD_="268435456", GLIBC_TUNABLES="glibc.malloc.hugetlb=1")
    return environment


def measure(command, environment):
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"against-pytorch: {' '.join(map(str, command))}: exit {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", default=",".join(ROWS), help=f"of {', '.join(ROWS)}")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--python", default="/usr/bin/python3")
    a = p.parse_args()
    rows = a.rows.split(",")
    for row in rows:
        if row not in ROWS:
            sys.exit(f"against-pytorch: no row is named {row!r} (known: {', '.join(ROWS)})")
    with tempfile.TemporaryDirectory() as folder:
        harness = os.path.join(folder, "harness")
        subprocess.run(["go", "build", "-o", harness, "./harness"], cwd=HERE.parents[2], check=True)
        print(f"{'row':12} {'harness':>10} {'PyTorch':>10} {'ratio':>7} {'min':>6} {'max':>6}   sequences/s and their ratio, medians of {a.rounds} rounds, {a.threads} threads")
        for row in rows:
            model, task, precision, seq, batch, steps = ROWS[row]
            flags = [f"--model={model}", f"--task={task}", f"--precision={precision}", f"--seq={seq}", f"--batch={batch}", f"--steps={steps}", f"--dropout={a.dropout}"]
            ours, theirs = [], []
            for _ in range(a.rounds):
                ours.append(measure([harness, "bench", "step", "--backend=gpu-ref", "--format=json"] + flags, dict(os.environ, GOMAXPROCS=str(a.threads)))["sequences_per_second"])
                theirs.append(measure([a.python, HERE / "step.py", f"--threads={a.threads}"] + flags, tuned())["sequences_per_second"])
            ratios = [x / y for x, y in zip(ours, theirs)]
            print(f"{row:12} {statistics.median(ours):10.1f} {statistics.median(theirs):10.1f} {statistics.median(ratios):7.2f} {min(ratios):6.2f} {max(ratios):6.2f}", flush=True)


if __name__ == "__main__":
    main()
