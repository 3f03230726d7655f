"""Runs of harness, and comparisons of them, as pandas frames: for notebooks and scripts.

    import harness_results as hr

    hr.runs("runs/mine")                                    # a row for each run
    values = hr.values("runs/mine")                         # a row for each value that a run recorded
    hr.curves(values, "loss").rolling(20).mean().plot()     # a column for each run
    hr.comparisons("runs/mine")                             # a row for each metric of each arm against the first

A path is the folder of a run, a folder with runs below it, or a file of `harness export --to parquet`, which pandas reads
with pyarrow or fastparquet. The module is one file and needs pandas alone; it reads, and never writes.
"""

import json
import math
import subprocess
from pathlib import Path

import pandas

__all__ = ["comparisons", "curves", "runs", "values"]

#: The fields that all runs of a comparison share, or that tell its arms and seeds apart.
IDENTITY = ["run", "recipe", "fingerprint", "data_digest", "backend", "precision", "optimizer", "seed"]

#: The columns of values(), which are those of the Parquet table.
COLUMNS = IDENTITY + ["phase", "kind", "step", "total_step", "samples", "measured_seconds", "modelled_seconds", "name", "value"]


def values(*paths):
    """A row for each value that a run recorded.

    kind is "trained" (of the batch of a step) or "evaluated" (on data held out). step counts in the phase, total_step in
    the run, and samples, measured_seconds and modelled_seconds up to here; modelled_seconds is NaN where nothing is
    modelled. Times are of training alone. name is a metric, gradient_norm (NaN for a step that was skipped), loss_scale,
    learning_rate, measured_step_seconds or modelled_step_seconds.
    """
    frames = []
    for path in map(Path, paths):
        if _is_table(path):
            frames.append(pandas.read_parquet(path)[COLUMNS])
        else:
            frames.append(pandas.DataFrame([row for run in _folders(path) for row in _recorded(run)], columns=COLUMNS))
    return _joined(frames, COLUMNS)


def runs(*paths):
    """A row for each run: what it is, its status, and its metrics in columns named PHASE.METRIC.

    status is that of the program: complete, failed, stopped, or unfinished while there is no result. A Parquet file has
    neither that nor times of a run, and its metrics are those of the last evaluation of each phase.
    """
    frames = []
    for path in map(Path, paths):
        frames.append(_ends(values(path)) if _is_table(path) else pandas.DataFrame([_summary(run) for run in _folders(path)]))
    return _joined(frames, IDENTITY)


def curves(frame, name, kind="trained", x="total_step"):
    """A quantity of a frame of values(): a column for each run, named (ARM, SEED), against the column x."""
    some = frame[(frame["name"] == name) & (frame["kind"] == kind)]
    if some.empty:
        known = sorted(set(frame.loc[frame["kind"] == kind, "name"]))
        raise ValueError(f"no run has {kind} values named {name!r}; there are: {', '.join(known)}")
    some = some.assign(arm=some["backend"] + "/" + some["optimizer"])
    return some.pivot_table(index=x, columns=["arm", "seed"], values="value", dropna=False, sort=False).sort_index()


def comparisons(path, program="harness", baseline=None):
    """A row for each metric of each arm against the baseline: means, difference, interval and verdict.

    From a folder the verdicts are those of `harness report`, which is run for them (program says where it is); so are
    those of its --format json in a file that ends in .json. A Parquet file has paired differences of the last
    evaluations, and no verdicts: they depend on the recipe's plan and margins. baseline is an arm, BACKEND/OPTIMIZER, or
    the first that was run.
    """
    path = Path(path)
    if _is_table(path):
        return _paired(runs(path), baseline)
    if path.suffix == ".json":
        report = json.loads(path.read_text())
    else:
        command = [program, "report", str(path), "--format", "json"] + (["--baseline", baseline] if baseline else [])
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        report = json.loads(done.stdout)
    rows = []
    for c in report["comparisons"]:
        for m in c["metrics"]:
            inference = m.get("inference") or {}
            interval = inference.get("equivalence_interval") or {}
            rows.append({
                "baseline": _arm(c["baseline"]), "arm": _arm(c["arm"]), "phase": m["phase"], "metric": m["metric"],
                "pairs": len(c["seeds"]), "baseline_mean": _number(m["baseline"]["mean"]), "arm_mean": _number(m["arm"]["mean"]),
                "difference": _number(m["difference"]), "sd": _number(inference.get("sd")),
                "low": _number(interval.get("low")), "high": _number(interval.get("high")), "level": interval.get("level"),
                "margin": m.get("margin"), "verdict": m.get("verdict"), "primary": bool(m.get("primary")),
            })  # fmt: skip
    return pandas.DataFrame(rows)


def _joined(frames, columns):
    if not frames:
        raise ValueError("no path is given")
    frame = pandas.concat(frames, ignore_index=True)
    return frame if len(frame.columns) else pandas.DataFrame(columns=columns)


def _is_table(path):
    return path.is_file() and path.suffix == ".parquet"


def _folders(path):
    """The folders of runs in a folder and below it."""
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no folder, and no file that ends in .parquet")
    found = sorted(f.parent for f in path.rglob("run.json") if "checkpoints" not in f.relative_to(path).parts)
    if not found:
        raise FileNotFoundError(f"{path}: there is no run in the folder or below")
    return found


def _identity(run):
    with open(run / "run.json") as f:
        about = json.load(f)
    return {"run": str(run)} | {key: about[key] for key in IDENTITY[1:]}


def _lines(run, name, most):
    """The objects of a list of lines: as many as the run says, and without one that is being written."""
    with open(run / name) as f:
        for i, line in enumerate(f):
            if i == most or not line.endswith("\n"):
                return
            yield json.loads(line)


def _number(value):
    """A number as the records have it: those that are not finite are null or text."""
    return math.nan if value is None else float(value)


def _result(run):
    path = run / "result.json"
    return json.loads(path.read_text()) if path.exists() else None


def _recorded(run):
    about = _identity(run)
    record = (_result(run) or {}).get("record") or {}
    evaluations = list(_lines(run, "evaluations.jsonl", record.get("evaluations")))
    at = {"samples": 0, "measured_seconds": 0.0, "modelled_seconds": math.nan}
    modelled = 0.0

    def row(line, kind, name, value):
        return about | at | {"phase": line["phase"], "kind": kind, "step": line["step"], "total_step": line["total_step"],
                             "name": name, "value": _number(value)}  # fmt: skip

    def evaluated(before):
        while evaluations and evaluations[0]["total_step"] < before:
            line = evaluations.pop(0)
            for name in sorted(line["metrics"]):
                yield row(line, "evaluated", name, line["metrics"][name])

    for line in _lines(run, "steps.jsonl", record.get("steps")):
        yield from evaluated(line["total_step"])
        seconds = line["measured_seconds"]["total"]
        modelled += line.get("modelled_seconds") or math.nan
        at = {"samples": at["samples"] + line["sequences"], "measured_seconds": at["measured_seconds"] + seconds,
              "modelled_seconds": modelled}  # fmt: skip
        quantities = {
            "gradient_norm": line["gradient_norm"] if line["finite"] else math.nan, "loss_scale": line["loss_scale"],
            "learning_rate": line["learning_rate"], "measured_step_seconds": seconds,
        } | line["metrics"]  # fmt: skip
        if line.get("modelled_seconds"):
            quantities["modelled_step_seconds"] = line["modelled_seconds"]
        for name in sorted(quantities):
            yield row(line, "trained", name, quantities[name])
    yield from evaluated(math.inf)


def _summary(run):
    row = _identity(run)
    result = _result(run)
    if result is None:
        stop = run / "stop.json"
        row["status"] = json.loads(stop.read_text())["status"] if stop.exists() else "unfinished"
        return row
    row |= {"status": result["status"], "steps": result["steps"], "skipped": result["skipped"],
            "measured_seconds": result["measured_seconds"].get("total"),
            "started": pandas.Timestamp(result["started"]), "finished": pandas.Timestamp(result["finished"])}  # fmt: skip
    for phase in result.get("phases") or []:
        for name, value in (phase.get("metrics") or {}).items():
            row[f"{phase['name']}.{name}"] = _number(value)
    return row


def _ends(frame):
    """The last evaluation of each phase of each run, as runs() has it."""
    rows = []
    for _, run in frame.groupby("run", sort=False):
        row = {key: run[key].iloc[0] for key in IDENTITY} | {"steps": run["total_step"].max()}
        evaluated = run[run["kind"] == "evaluated"]
        for (phase, name), of in evaluated.groupby(["phase", "name"], sort=False):
            row[f"{phase}.{name}"] = of["value"].iloc[-1]
        rows.append(row)
    return pandas.DataFrame(rows)


def _paired(frame, baseline):
    arms = frame["backend"] + "/" + frame["optimizer"]
    baseline = baseline or arms.iloc[0]
    if baseline not in set(arms):
        raise ValueError(f"no run is of the arm {baseline!r}; there are: {', '.join(sorted(set(arms)))}")
    rows = []
    for arm in arms.unique():
        if arm == baseline:
            continue
        first, other = frame[arms == baseline].set_index("seed"), frame[arms == arm].set_index("seed")
        for column in [c for c in frame.columns if "." in c]:
            both = pandas.DataFrame({"first": first[column], "other": other[column]}).dropna()
            if both.empty:
                continue
            difference = both["other"] - both["first"]
            phase, metric = column.split(".", 1)
            rows.append({"baseline": baseline, "arm": arm, "phase": phase, "metric": metric, "pairs": len(both),
                         "baseline_mean": both["first"].mean(), "arm_mean": both["other"].mean(), "difference": difference.mean(),
                         "sd": difference.std()})  # fmt: skip
    return pandas.DataFrame(rows)


def _arm(arm):
    return f"{arm['backend']}/{arm['optimizer']}"
