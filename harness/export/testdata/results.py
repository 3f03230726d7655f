"""Reads runs by harness_results and prints them as JSON, for the test in Go: FOLDER REPORT PARQUET."""

import json
import sys

import harness_results as hr


def rows(frame):
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


folder, report, table = sys.argv[1:]
values = hr.values(folder)
runs = hr.runs(folder)
loss = hr.curves(values, "loss")
seen = {
    "values": rows(values),
    "runs": [{"run": r["run"], "status": r["status"], "f1": r["squad.f1"]} for r in runs.to_dict("records")],
    "curves": [f"{arm} {seed}" for arm, seed in loss.columns],
    "steps": list(map(int, loss.index)),
    "comparisons": rows(hr.comparisons(report)[["arm", "phase", "metric", "pairs", "difference", "verdict"]]),
    "paired": rows(hr._paired(hr._ends(values), None)),
}
try:
    hr.curves(values, "lost")
except ValueError as e:
    seen["wrong"] = str(e)
try:
    seen["table"] = rows(hr.values(table))
except ImportError:  # pandas has neither pyarrow nor fastparquet
    seen["table"] = None
json.dump(seen, sys.stdout)
