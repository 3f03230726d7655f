#!/usr/bin/python3
"""Takes the measurements of docs/performance.md on this machine, and prints its two tables in Markdown: steps of harness against PyTorch's, and harness
against what the machine can do.

Everything is measured once a round, in turn, so that a machine whose speed drifts does so to all. A figure is the median of its values in the rounds, with
the least and the greatest. A ratio to PyTorch is of sequences per second in the same round; a share is of the limit that was measured in turn with it.

The cores of a virtual machine may serve others at the same time. harness bench asks a probe before and after each sample; the column "alone" is made of the
samples, of all rounds, for which it was as fast as in the best of all, with their number: there the cores were, as far as is known, this machine's alone.

Needs go in $PATH, and Debian's python3-torch and libopenblas0-openmp for the first table. From the root of the repository:

    harness/bench/against-pytorch/run.py > tables.md
    harness/bench/against-pytorch/run.py --table pytorch --rows tiny,mini --rounds 3
    harness/bench/against-pytorch/run.py --table machine
"""
import argparse
import glob
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

# Steps against PyTorch's: model, task, precision, length, batch, steps a round, ratio to reach.
ROWS = {
    "tiny": ("tiny", "pretraining", "fp32", 128, 32, 20, 1.7),
    "mini": ("mini", "pretraining", "fp32", 128, 32, 8, 1.5),
    "small": ("small", "pretraining", "fp32", 128, 32, 4, 1.3),
    "base": ("base", "pretraining", "fp32", 128, 8, 3, 1.25),
    "mini-squad": ("mini", "squad", "fp32", 384, 8, 8, 1.6),
    "mini-bf16": ("mini", "pretraining", "bf16", 128, 32, 8, 1.2),  # gpu-ref:bf16 against autocast
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


def output(command, environment):
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"against-pytorch: {' '.join(map(str, command))}: exit {done.returncode}")
    return done.stdout


class Bench:
    """harness bench and its relatives, as functions of no argument that measure once."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.harness = os.path.join(folder, "harness")

    def __call__(self, *arguments, threads=None):
        environment = dict(os.environ, GOMAXPROCS=str(threads or self.options.threads))
        return lambda: [json.loads(line) for line in output([self.harness, "bench", *arguments, "--format=json"], environment).splitlines()]

    def step(self, model, backend="gpu-ref:fp32", steps=8, batch=32, threads=None):
        flags = [f"--model={model}", f"--backend={backend}", f"--steps={steps}", f"--batch={batch}", f"--dropout={self.options.dropout}"]
        return self("step", *flags, threads=threads)

    def data(self):
        """A run of the built-in experiment at BERT-Mini's size, for the part of a step that waits for data."""
        out = os.path.join(self.folder, "runs")
        least = ["phases.*.steps=1", "phases.phase1.steps=30", "phases.*.target=", "phases.*.evaluation.every=0", "phases.*.evaluation.sequences=32", "model.size=mini"]
        command = [self.harness, "run", "--quiet", "--backend=gpu-ref", f"--out={out}", f"--store={out}.db"]
        for setting in least:
            command += ["--set", setting]

        def measure():
            subprocess.run(["rm", "-rf", out], check=True)
            output(command, dict(os.environ, GOMAXPROCS=str(self.options.threads)))
            (log,) = pathlib.Path(out).glob("*/steps.jsonl")
            lines = [json.loads(line) for line in log.read_text().splitlines()]
            return [line["measured_seconds"] for line in lines if line["phase"] == "phase1"][5:]

        return measure


def pytorch(bench, options, names):
    """The measurements and the rows of the first table."""
    measurements, rows = {}, []
    for name in names:
        model, task, precision, seq, batch, steps, target = ROWS[name]
        flags = [f"--model={model}", f"--task={task}", f"--precision={precision}", f"--seq={seq}", f"--batch={batch}", f"--steps={steps}", f"--dropout={options.dropout}"]
        measurements[name] = bench("step", "--backend=gpu-ref", *flags)
        torch = [options.python, HERE / "step.py", f"--threads={options.threads}", *flags]
        measurements[name + "/pytorch"] = lambda torch=torch: [json.loads(output(torch, tuned()).splitlines()[-1])]
        rows.append((name, target))

    def table(rounds):
        lines = ["| Step | harness, sequences/s | PyTorch, sequences/s | ratio | to reach |", "|---|---|---|---|---|"]
        for name, target in rows:
            ours, theirs = ([r[key][0]["sequences_per_second"] for r in rounds] for key in (name, name + "/pytorch"))
            model, task, precision, seq, batch, *_ = ROWS[name]
            ratio = [x / y for x, y in zip(ours, theirs)]
            lines.append(f"| {model}, {task}, {precision}, length {seq}, batch {batch} | {statistics.median(ours):.1f} | {statistics.median(theirs):.1f} | {spread(ratio, '.2f')} | {target} |")
        return lines

    return measurements, table


def machine(bench, options):
    """The measurements and the rows of the second table: what is measured, its unit, its limit, and the figure of a round."""
    one = {"threads": 1}
    measurements = {
        "tiny": bench.step("tiny", steps=20), "tiny/ipu": bench.step("tiny", "ipu:fp16.16", steps=20), "tiny/fp16": bench.step("tiny", "gpu-ref:fp16", steps=20),
        "mini": bench.step("mini"), "mini/ipu": bench.step("mini", "ipu:fp16.16"), "mini/fp16": bench.step("mini", "gpu-ref:fp16"),
        "tiny/1": bench.step("tiny", steps=10, **one), "mini/1": bench.step("mini", steps=5, **one),
        "base": bench.step("base", steps=3, batch=8), "base/1": bench.step("base", steps=3, batch=8, **one),
        "cube": bench("kernels", "--filter=cube", "--count=100"), "cube/1": bench("kernels", "--filter=cube", "--count=100", **one),
        "shapes/base": bench("kernels", "--filter=/base-", "--count=15"), "shapes/base/1": bench("kernels", "--filter=/base-", "--count=15", **one),
        "shapes/mini": bench("kernels", "--filter=/mini-", "--count=50"), "shapes/mini/1": bench("kernels", "--filter=/mini-", "--count=50", **one),
        "shapes/tiny": bench("kernels", "--filter=/tiny-", "--count=50"), "shapes/tiny/1": bench("kernels", "--filter=/tiny-", "--count=50", **one),
        "optimizer": bench("optimizer", "--count=8"), "tokenizer": bench("tokenizer"), "data": bench.data(),
    }

    def ms(r, name):
        return r[name][0]["step_ms"]["median"]

    def ratio(x, y):
        def alone(samples):
            (ours,), (others,) = samples(x).values(), samples(y).values()
            times = [[s["ms"] for s in side] for side in (ours, others)]
            return statistics.median(times[0]) / statistics.median(times[1]), min(map(len, times))

        return lambda r: ms(r, x) / ms(r, y), alone

    def share(key, where="", pick=statistics.median):
        # The products of the masked LM head are longer than any cache and have rows of their own.
        def counts(name):
            return where in name and ("-head" in name) == ("-head" in where)

        def alone(samples):
            shares = [[s["share"] for s in some] for name, some in samples(key).items() if counts(name)]
            return 100 * pick(map(statistics.median, shares)), min(map(len, shares))

        return lambda r: 100 * pick(f["share"] for f in r[key] if counts(f["name"])), alone

    rows = []  # what, unit, limit, and the figure: of a round, and of the samples taken alone
    for size in ("tiny", "mini"):
        rows.append((f"`ipu:fp16.16`, stochastic rounding, step time over `gpu-ref:fp32`, {size}", "", "at most 1.25", *ratio(size + "/ipu", size)))
        rows.append((f"`gpu-ref:fp16` step time over FP32, {size}", "", "at most 1.15", *ratio(size + "/fp16", size)))
    for threads in ("", "/1"):
        count = f"{options.threads} threads" if not threads else "1 thread"
        rows.append((f"GEMM 1024³, share of peak, {count}", "%", "at least 90", *share("cube" + threads)))
        for size, limit in (("base", 88), ("mini", 82), ("tiny", 82)):
            for kind in ("NN", "NT", "TN"):
                rows.append((f"GEMM, shapes of {size}, {kind}, {count}: median shape", "%", f"at least {limit}", *share(f"shapes/{size}{threads}", f"/{kind}/")))
                rows.append(("the same: weakest shape", "%", "", *share(f"shapes/{size}{threads}", f"/{kind}/", min)))
        for size in ("base", "tiny"):
            rows.append((f"GEMM, masked LM head of {size}, {count}: median of NN, NT, TN", "%", "", *share(f"shapes/{size}{threads}", f"/{size}-head/")))
    for threads in ("", "/1"):
        for size, limit in (("base", 72), ("mini", 68), ("tiny", 55)):
            count, limit = ("1 thread", "") if threads else (f"{options.threads} threads", f"at least {limit}")
            rows.append((f"whole step, {size}, share of peak, {count}", "%", limit, *share(size + threads)))
    for rule in ("adamw", "lamb"):
        rows.append((f"{rule} over 110M parameters, share of bandwidth", "%", "at least 80", *share("optimizer", f"/{rule}/")))
    rows += [
        ("transport and host, with all of the commit, part of a mini step", "%", "at most 2", lambda r: 100 * (r["mini"][0]["parts_ms"]["other"] + r["mini"][0]["parts_ms"]["commit"]) / ms(r, "mini"), None),
        ("waiting for data, part of a step of a run, mini", "%", "at most 1", lambda r: 100 * statistics.median((s["data"] + s["backend.data"]) / s["total"] for s in r["data"]), None),
        ("WordPiece, one thread", " MB/s", "at least 40", lambda r: r["tokenizer"][0]["mb_per_second"], None),
    ]
    for size, limit in (("base", "at least 1.85"), ("mini", "at least 1.85"), ("tiny", "")):
        rows.append((f"{options.threads} threads over one, {size} step", "", limit, *ratio(size + "/1", size)))

    def table(rounds):
        least = min(s["probe_ns"] for r in rounds for key in measurements if key != "data" for f in r[key] for s in f["samples"] if s["probe_ns"])

        def samples(key):
            """Those taken alone, for each benchmark of a measurement: see Alone in harness/bench."""
            found = {}
            for r in rounds:
                for f in r[key]:
                    found.setdefault(f["name"], []).extend(s for s in f["samples"] if 0 < s["probe_ns"] <= 1.25 * least and s["ms"] <= 2000)
            return found

        lines = ["| What | measured | alone | limit |", "|---|---|---|---|"]
        for what, unit, limit, figure, alone in rows:
            form = ".2f" if not unit else ".1f"
            quiet = ""
            try:
                value, count = alone(samples) if alone else (0, 0)
                quiet = f"{value:{form}}{unit} ({count})" if count >= 3 else ""
            except statistics.StatisticsError:  # no samples
                pass
            lines.append(f"| {what} | {spread([figure(r) for r in rounds], form)}{unit} | {quiet} | {limit} |")
        return lines

    return measurements, table


def spread(values, form):
    """The median, with the least and the greatest of several."""
    if len(values) == 1:
        return format(values[0], form)
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def where(options, rounds):
    """One line that says how the tables came about."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, stdout=subprocess.PIPE, text=True).stdout.strip()
    # CPU models of virtual machines are vague; the instructions that matter are not.
    level = "AVX-512" if "avx512f" in info else "AVX2" if "avx2" in info else "neither AVX2 nor AVX-512"
    if "amx_bf16" in info:
        level += ", AMX"
    torch = next((f", PyTorch {v[0]['version']}" for r in rounds for k, v in r.items() if k.endswith("/pytorch")), "")
    return f"{model} ({level}), {options.threads} threads, {platform.system()} {platform.release()}, {time.strftime('%Y-%m-%d')}, commit {commit}{torch}; medians of {len(rounds)} rounds, least and greatest in brackets"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--table", default="pytorch,machine", help="pytorch, machine, or both with a comma (default: %(default)s)")
    p.add_argument("--rows", default=",".join(ROWS), help="of the first table (default: %(default)s)")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--python", default="/usr/bin/python3", help="that has torch (default: %(default)s)")
    options = p.parse_args()
    tables, names = options.table.split(","), options.rows.split(",")
    for what, given, known in (("table", tables, ["pytorch", "machine"]), ("row", names, list(ROWS))):
        for name in given:
            if name not in known:
                p.error(f"no {what} is named {name!r} (known: {', '.join(known)})")
    if options.rounds < 1 or options.threads < 1:
        p.error("want at least one round and one thread")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, options)
        subprocess.run(["go", "build", "-o", bench.harness, "./harness"], cwd=HERE.parents[2], check=True)
        parts = [pytorch(bench, options, names) if table == "pytorch" else machine(bench, options) for table in tables]
        rounds = measure({name: f for measurements, _ in parts for name, f in measurements.items()}, options.rounds)
    print(where(options, rounds))
    for _, table in parts:
        print("\n" + "\n".join(table(rounds)), flush=True)


def measure(measurements, count):
    """The results of all measurements, a dict for each round. Progress goes to standard error."""
    rounds, began, done = [], time.monotonic(), 0
    for i in range(count):
        rounds.append({})
        for name, f in measurements.items():
            left = (time.monotonic() - began) / done * (count * len(measurements) - done) if i else 0
            print(f"round {i + 1} of {count}: {name}" + (f", {left / 60:.0f} minutes left" if i else ""), file=sys.stderr, flush=True)
            rounds[-1][name] = f()
            done += 1
    return rounds


if __name__ == "__main__":
    main()
