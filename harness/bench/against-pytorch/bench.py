"""Runs harness bench and the PyTorch step, and formats what they measure."""
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys


class Bench:
    """harness bench and its relatives, as functions without arguments that measure once."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.harness = os.path.join(folder, "harness")

    def __call__(self, *arguments, threads=None):
        environment = dict(os.environ, GOMAXPROCS=str(threads or self.options.threads))
        command = [self.harness, "bench", *arguments, "--format=json"]
        return lambda: [json.loads(line) for line in output(command, environment).splitlines()]

    def step(self, model, backend="gpu-ref:fp32", steps=8, batch=32, threads=None):
        flags = [f"--model={model}", f"--backend={backend}", f"--steps={steps}", f"--batch={batch}"]
        return self("step", *flags, f"--dropout={self.options.dropout}", threads=threads)

    def data(self):
        """A run of the built-in experiment with BERT-Mini, for the share of a step that waits for data."""
        out = os.path.join(self.folder, "runs")
        settings = [
            "phases.*.steps=1", "phases.phase1.steps=30", "phases.*.target=", "phases.*.evaluation.every=0",
            "phases.*.evaluation.sequences=32", "model.size=mini",
        ]
        command = [self.harness, "run", "--quiet", "--backend=gpu-ref", f"--out={out}", f"--store={out}.db"]
        for setting in settings:
            command += ["--set", setting]

        def measure():
            subprocess.run(["rm", "-rf", out], check=True)
            output(command, dict(os.environ, GOMAXPROCS=str(self.options.threads)))
            (log,) = pathlib.Path(out).glob("*/steps.jsonl")
            lines = [json.loads(line) for line in log.read_text().splitlines()]
            return [line["measured_seconds"] for line in lines if line["phase"] == "phase1"][5:]

        return measure


def tuned():
    """The environment in which PyTorch is fastest: OpenBLAS uses AVX-512, and memory stays with the process."""
    environment = dict(os.environ)
    if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text():
        # Debian's OpenBLAS assumes that chips that it does not know lack AVX-512.
        environment["OPENBLAS_CORETYPE"] = "SKYLAKEX"
    for folder in glob.glob("/usr/lib/*/openblas-openmp"):
        environment["LD_LIBRARY_PATH"] = folder
    environment.update(
        MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="100000000000", MALLOC_TOP_PAD_="268435456",
        GLIBC_TUNABLES="glibc.malloc.hugetlb=1")
    return environment


def output(command, environment):
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"against-pytorch: {' '.join(map(str, command))}: exit {done.returncode}")
    return done.stdout


def spread(values, form):
    """The median, with the minimum and maximum if there are several values."""
    if len(values) == 1:
        return format(values[0], form)
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"
