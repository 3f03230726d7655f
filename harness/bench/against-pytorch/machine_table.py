"""The second table: harness against the limits of the machine."""
import statistics
import typing

from bench import spread


class Row(typing.NamedTuple):
    what: str
    unit: str  # empty for ratios
    limit: str
    figure: typing.Callable  # of the results of a round
    # Of the samples by benchmark that were taken while the cores were free: their figure and number. None: samples have none.
    alone: typing.Optional[typing.Callable] = None


def measurements(bench):
    """What is measured in each round, by name: functions that return figures. "/1" has one thread."""

    def kernels(which, count, **threads):
        return bench("kernels", f"--filter={which}", f"--count={count}", **threads)

    one = {"threads": 1}
    return {
        "tiny": bench.step("tiny", steps=20),
        "tiny/ipu": bench.step("tiny", "ipu:fp16.16", steps=20),
        "tiny/fp16": bench.step("tiny", "gpu-ref:fp16", steps=20),
        "mini": bench.step("mini"),
        "mini/ipu": bench.step("mini", "ipu:fp16.16"),
        "mini/fp16": bench.step("mini", "gpu-ref:fp16"),
        "tiny/1": bench.step("tiny", steps=10, **one),
        "mini/1": bench.step("mini", steps=5, **one),
        "base": bench.step("base", steps=3, batch=8),
        "base/1": bench.step("base", steps=3, batch=8, **one),
        "cube": kernels("cube", 100),
        "cube/1": kernels("cube", 100, **one),
        "shapes/base": kernels("/base-", 15),
        "shapes/base/1": kernels("/base-", 15, **one),
        "shapes/mini": kernels("/mini-", 50),
        "shapes/mini/1": kernels("/mini-", 50, **one),
        "shapes/tiny": kernels("/tiny-", 50),
        "shapes/tiny/1": kernels("/tiny-", 50, **one),
        "optimizer": bench("optimizer", "--count=8"),
        "tokenizer": bench("tokenizer"),
        "data": bench.data(),
    }


def ms(r, name):
    """The median time of a step in a round."""
    return r[name][0]["step_ms"]["median"]


def ratio(x, y):
    """The time of one step over that of another: figure and alone of a row."""

    def alone(samples):
        (ours,), (others,) = samples(x).values(), samples(y).values()
        times = [[s["ms"] for s in side] for side in (ours, others)]
        return statistics.median(times[0]) / statistics.median(times[1]), min(map(len, times))

    return lambda r: ms(r, x) / ms(r, y), alone


def share(key, where="", pick=statistics.median):
    """The share of the peak in %, over the benchmarks of a measurement whose names contain where: figure and alone of a row."""

    # The products of the masked LM head exceed every cache and have rows of their own.
    def counts(name):
        return where in name and ("-head" in name) == ("-head" in where)

    def alone(samples):
        shares = [[s["share"] for s in some] for name, some in samples(key).items() if counts(name)]
        return 100 * pick(map(statistics.median, shares)), min(map(len, shares))

    return lambda r: 100 * pick(f["share"] for f in r[key] if counts(f["name"])), alone


def products(threads, count):
    """The rows of matrix products; threads is the suffix of their measurements."""
    rows = [Row(f"GEMM 1024³, share of peak, {count}", "%", "at least 90", *share("cube" + threads))]
    for size, limit in (("base", 88), ("mini", 82), ("tiny", 82)):
        for kind in ("NN", "NT", "TN"):
            of = f"shapes/{size}{threads}", f"/{kind}/"
            rows.append(Row(f"GEMM, shapes of {size}, {kind}, {count}: median shape", "%", f"at least {limit}", *share(*of)))
            rows.append(Row("the same: weakest shape", "%", "", *share(*of, min)))
    for size in ("base", "tiny"):
        of = f"shapes/{size}{threads}", f"/{size}-head/"
        rows.append(Row(f"GEMM, masked LM head of {size}, {count}: median of NN, NT, TN", "%", "", *share(*of)))
    return rows


def host_share(r):
    """The share of a mini step that passes outside the backend and the optimizer, in %."""
    parts = r["mini"][0]["parts_ms"]
    return 100 * (parts["other"] + parts["commit"]) / ms(r, "mini")


def data_share(r):
    """The share of a step of a run that waits for data, in %."""
    return 100 * statistics.median((s["data"] + s["backend.data"]) / s["total"] for s in r["data"])


def rows(threads):
    """The rows of the table, with a number of threads."""
    found = []
    for size in ("tiny", "mini"):
        found += [
            Row(f"`ipu:fp16.16`, stochastic rounding, step time over `gpu-ref:fp32`, {size}", "", "at most 1.25",
                *ratio(size + "/ipu", size)),
            Row(f"`gpu-ref:fp16` step time over FP32, {size}", "", "at most 1.15", *ratio(size + "/fp16", size)),
        ]
    found += products("", f"{threads} threads") + products("/1", "1 thread")
    steps = ("base", 72), ("mini", 68), ("tiny", 55)
    for size, limit in steps:
        found.append(Row(f"whole step, {size}, share of peak, {threads} threads", "%", f"at least {limit}", *share(size)))
    for size, _ in steps:
        found.append(Row(f"whole step, {size}, share of peak, 1 thread", "%", "", *share(size + "/1")))
    for rule, limit in ("adamw", 80), ("lamb", 56):  # 80% of what LAMB moves, of which 28 in 40 bytes are counted
        found.append(Row(f"{rule} over 110M parameters, share of bandwidth", "%", f"at least {limit}", *share("optimizer", f"/{rule}/")))
    found += [
        Row("transport and host, with all of the commit, part of a mini step", "%", "at most 2", host_share),
        Row("waiting for data, part of a step of a run, mini", "%", "at most 1", data_share),
        Row("WordPiece, one thread", " MB/s", "at least 40", lambda r: r["tokenizer"][0]["mb_per_second"]),
    ]
    for size, limit in (("base", "at least 1.85"), ("mini", "at least 1.85"), ("tiny", "")):
        found.append(Row(f"{threads} threads over one, {size} step", "", limit, *ratio(size + "/1", size)))
    return found


def table(rounds, measured, threads):
    """The lines of the table. rounds have the results of all measurements, of which measured are this table's."""
    figures = (f for r in rounds for key in measured if key != "data" for f in r[key])
    least = min(s["probe_ns"] for f in figures for s in f["samples"] if s["probe_ns"])

    def samples(key):
        """The samples of a measurement taken alone, by benchmark: see Alone in harness/bench."""
        found = {}
        for r in rounds:
            for f in r[key]:
                alone = [s for s in f["samples"] if 0 < s["probe_ns"] <= 1.25 * least and s["ms"] <= 2000]
                found.setdefault(f["name"], []).extend(alone)
        return found

    lines = ["| What | measured | alone | limit |", "|---|---|---|---|"]
    for row in rows(threads):
        form = ".1f" if row.unit else ".2f"
        quiet = ""
        try:
            value, count = row.alone(samples) if row.alone else (0, 0)
            quiet = f"{value:{form}}{row.unit} ({count})" if count >= 3 else ""
        except statistics.StatisticsError:  # no samples
            pass
        every = spread([row.figure(r) for r in rounds], form)
        lines.append(f"| {row.what} | {every}{row.unit} | {quiet} | {row.limit} |")
    return lines
