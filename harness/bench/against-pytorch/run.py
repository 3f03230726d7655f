#!/usr/bin/python3
"""Takes the measurements of docs/performance.md on this machine and prints its three tables in Markdown: steps of harness and of
PyTorch, harness against the limits of the machine, and steps over batches with padding.

Each round measures everything once, so that a machine whose speed drifts affects all of it. A figure is the median over the rounds,
with minimum and maximum. A ratio to PyTorch compares sequences per second in the same round; a share is relative to the limit that
was measured alternately with it.

The cores of a virtual machine may serve others at the same time. harness bench times a probe before and after each sample. The
column "alone" uses only the samples, of all rounds, for which the probe was as fast as in the best sample, and gives their number:
as far as is known, this machine had its cores to itself then.

It needs go in $PATH, and Debian's python3-torch and libopenblas0-openmp for the first table and the third. From the root of the repository:

    harness/bench/against-pytorch/run.py > tables.md
    harness/bench/against-pytorch/run.py --table pytorch --rows tiny,mini --rounds 3
    harness/bench/against-pytorch/run.py --table machine
    harness/bench/against-pytorch/run.py --table padding --fill 0.45
"""
import argparse
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import machine_table
import padding_table
import pytorch_table
from bench import Bench

HERE = pathlib.Path(__file__).resolve().parent


def where(options, rounds):
    """One line that says where and how the tables were measured."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    names = (line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name"))
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, stdout=subprocess.PIPE, text=True).stdout.strip()
    # CPU models of virtual machines are vague; the instructions that matter are not.
    level = "AVX-512" if "avx512f" in info else "AVX2" if "avx2" in info else "neither AVX2 nor AVX-512"
    if "amx_bf16" in info:
        level += ", AMX"
    torch = next((f", PyTorch {v[0]['version']}" for r in rounds for k, v in r.items() if k.endswith("/pytorch")), "")
    return (
        f"{next(names, platform.machine())} ({level}), {options.threads} threads, {platform.system()} {platform.release()}, "
        f"{time.strftime('%Y-%m-%d')}, commit {commit}{torch}; medians of {len(rounds)} rounds, minimum and maximum in brackets")


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--table", default="pytorch,machine,padding", help="some of them, with commas (default: %(default)s)")
    p.add_argument("--rows", default=",".join(pytorch_table.ROWS), help="of the first table (default: %(default)s)")
    p.add_argument("--fill", type=float, default=0.45, help="share of tokens without padding in the third (default: %(default)s)")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--python", default="/usr/bin/python3", help="interpreter with torch (default: %(default)s)")
    options = p.parse_args()
    options.table, options.rows = options.table.split(","), options.rows.split(",")
    for what, given, known in (
        ("table", options.table, ["pytorch", "machine", "padding"]), ("row", options.rows, list(pytorch_table.ROWS)),
    ):
        for name in given:
            if name not in known:
                p.error(f"no {what} is named {name!r} (known: {', '.join(known)})")
    if options.rounds < 1 or options.threads < 1:
        p.error("want at least one round and one thread")
    return options


def measure(measurements, count):
    """The results of all measurements, a dict for each round. Progress goes to standard error."""
    rounds, began, done = [], time.monotonic(), 0
    for i in range(count):
        rounds.append({})
        for name, f in measurements.items():
            left = (time.monotonic() - began) / done * (count * len(measurements) - done) if i else 0
            estimate = f", {left / 60:.0f} minutes left" if i else ""
            print(f"round {i + 1} of {count}: {name}{estimate}", file=sys.stderr, flush=True)
            rounds[-1][name] = f()
            done += 1
    return rounds


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, options)
        subprocess.run(["go", "build", "-o", bench.harness, "./harness"], cwd=HERE.parents[2], check=True)
        found = {
            "pytorch": lambda: pytorch_table.measurements(bench, options, options.rows),
            "machine": lambda: machine_table.measurements(bench),
            "padding": lambda: padding_table.measurements(bench, options),
        }
        measured = {table: found[table]() for table in options.table}
        rounds = measure({name: f for m in measured.values() for name, f in m.items()}, options.rounds)
    print(where(options, rounds))
    for table in measured:
        if table == "pytorch":
            lines = pytorch_table.table(rounds, options.rows)
        elif table == "padding":
            lines = padding_table.table(rounds, options.fill)
        else:
            lines = machine_table.table(rounds, measured["machine"], options.threads)
        print("\n" + "\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
