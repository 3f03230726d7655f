"""The first table: steps of harness and of PyTorch."""
import json
import pathlib
import statistics

from bench import output, spread, tuned

# Model, task, precision, length, batch, steps per round, target ratio.
ROWS = {
    "tiny": ("tiny", "pretraining", "fp32", 128, 32, 20, 1.7),
    "mini": ("mini", "pretraining", "fp32", 128, 32, 8, 1.5),
    "small": ("small", "pretraining", "fp32", 128, 32, 4, 1.3),
    "base": ("base", "pretraining", "fp32", 128, 8, 3, 1.25),
    "mini-squad": ("mini", "squad", "fp32", 384, 8, 8, 1.6),
    "mini-bf16": ("mini", "pretraining", "bf16", 128, 32, 8, 1.2),  # gpu-ref:bf16 against autocast
}

STEP = pathlib.Path(__file__).resolve().parent / "step.py"


def measurements(bench, options, names):
    """What is measured in each round, by name: functions that return figures."""
    found = {}
    for name in names:
        found[name], theirs = steps(bench, options, ROWS[name], [])
        found[name + "/pytorch"] = theirs([])
    return found


def steps(bench, options, row, more):
    """Functions that measure the steps of a row, harness's and, given flags of its own, PyTorch's."""
    model, task, precision, seq, batch, count = row[:6]
    flags = [
        f"--model={model}", f"--task={task}", f"--precision={precision}", f"--seq={seq}", f"--batch={batch}", f"--steps={count}",
        f"--dropout={options.dropout}", *more,
    ]
    torch = [options.python, STEP, f"--threads={options.threads}", *flags]
    return bench("step", "--backend=gpu-ref", *flags), lambda own: lambda: [json.loads(output(torch + own, tuned()).splitlines()[-1])]


def table(rounds, names):
    """The lines of the table. rounds have the results of all measurements."""
    lines = ["| Step | harness, sequences/s | PyTorch, sequences/s | ratio | to reach |", "|---|---|---|---|---|"]
    for name in names:
        ours, theirs = ([r[key][0]["sequences_per_second"] for r in rounds] for key in (name, name + "/pytorch"))
        model, task, precision, seq, batch, _, target = ROWS[name]
        ratio = spread([x / y for x, y in zip(ours, theirs)], ".2f")
        lines.append(
            f"| {model}, {task}, {precision}, length {seq}, batch {batch} | {statistics.median(ours):.1f} "
            f"| {statistics.median(theirs):.1f} | {ratio} | {target} |")
    return lines
