"""The third table: steps of harness and of PyTorch over batches with padding."""
import statistics

import pytorch_table
from bench import spread

# Model, task, precision, length, batch, steps per round. MASKED have answers chosen among the tokens that are no padding.
ROWS = {
    "tiny": ("tiny", "pretraining", "fp32", 128, 32, 20),
    "mini": ("mini", "pretraining", "fp32", 128, 32, 8),
    "base": ("base", "pretraining", "fp32", 128, 8, 3),
    "mini-384": ("mini", "pretraining", "fp32", 384, 8, 8),
    "base-384": ("base", "pretraining", "fp32", 384, 4, 3),
    "mini-squad": ("mini", "squad", "fp32", 384, 8, 8),
    "base-squad": ("base", "squad", "fp32", 384, 4, 3),
    "mini-squad-masked": ("mini", "squad", "fp32", 384, 8, 8),
    "base-squad-masked": ("base", "squad", "fp32", 384, 4, 3),
}
MASKED = ("mini-squad-masked", "base-squad-masked")


def measurements(bench, options):
    """What is measured in each round, by name: functions that return figures."""
    found = {}
    for name, row in ROWS.items():
        for fill in (1, options.fill):
            ours, theirs = pytorch_table.steps(bench, options, row, [f"--fill={fill}", *(["--mask-padding"] if name in MASKED else [])])
            found[f"padding/{name}/{fill}"] = ours
            found[f"padding/{name}/{fill}/pytorch"] = theirs([])
        found[f"padding/{name}/{options.fill}/cut/pytorch"] = theirs(["--cut"])
    return found


def table(rounds, fill):
    """The lines of the table. rounds have the results of all measurements."""
    lines = [
        f"| Step, {fill:g} of the tokens are no padding | harness, sequences/s | over no padding | PyTorch, sequences/s | over no padding "
        "| PyTorch, cut to the longest | over no padding | harness over the better |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (model, task, precision, seq, batch, _) in ROWS.items():
        def speeds(key):
            return [r[f"padding/{name}/{key}"][0]["sequences_per_second"] for r in rounds]

        def gain(key, full):
            return spread([x / y for x, y in zip(speeds(key), speeds(full))], ".2f")

        ours, padded, cut = f"{fill}", f"{fill}/pytorch", f"{fill}/cut/pytorch"
        best = [x / max(y, z) for x, y, z in zip(speeds(ours), speeds(padded), speeds(cut))]
        what = task + (", padding masked" if name in MASKED else "")
        lines.append(
            f"| {model}, {what}, {precision}, length {seq}, batch {batch} | {statistics.median(speeds(ours)):.1f} | {gain(ours, '1')} "
            f"| {statistics.median(speeds(padded)):.1f} | {gain(padded, '1/pytorch')} "
            f"| {statistics.median(speeds(cut)):.1f} | {gain(cut, '1/pytorch')} | {spread(best, '.2f')} |")
    return lines
