"""What PyTorch's operators take on this CPU, for the machine model of `harness estimate --system this-machine`.

Prints one JSON object: seconds of an operator besides its work, operations a second of products by their smallest dimension,
seconds of the products of attention, and seconds an element of everything else, each forward and backward. Every number is a
median. Nothing of it is a training step.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Callable

import torch
import torch.nn.functional as F

from harness_plugin import threads

ELEMENTS = 1 << 20
LOGITS = (512, 30522)  # in no cache, as those of a batch
GRADIENTS = 16 << 20  # in no cache either
WIDTH = 256  # of a row that is normalized
REPEATS = 5


def clock(f: Callable[[], object]) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def median(f: Callable[[], float]) -> float:
    f()  # allocates
    return statistics.median(f() for _ in range(REPEATS))


def both(f: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> dict[str, float]:
    """Seconds of f forward, and of its backward pass into new gradients."""
    inputs = tuple(x.requires_grad_() if x.is_floating_point() else x for x in inputs)
    needed = [x for x in inputs if x.requires_grad]
    gradient = torch.ones_like(f(*inputs))
    backward = []

    def once() -> float:
        start = time.perf_counter()
        y = f(*inputs)
        middle = time.perf_counter()
        torch.autograd.grad(y, needed, gradient)
        backward.append(time.perf_counter() - middle)
        return middle - start

    forward = median(once)
    return {"forward": forward, "backward": statistics.median(backward[1:])}


def over(work: float, seconds: dict[str, float]) -> dict[str, float]:
    return {name: t / work for name, t in seconds.items()}


def operator() -> dict[str, float]:
    """An operator on next to nothing: a chain of additions."""
    n = 200

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(n):
            x = x + 1.0
        return x

    return over(n, both(chain, torch.zeros(4)))


def products() -> list[dict[str, float]]:
    """Dense layers of equal width on 1024 rows. The backward pass has two products and the sum for the bias."""
    rows, out = 1024, []
    for d in (64, 128, 256, 512, 1024):
        t = both(F.linear, torch.randn(rows, d), torch.randn(d, d), torch.randn(d))
        flops = 2 * rows * d * d
        out.append({"dimension": d, "forward": flops / t["forward"], "backward": 2 * flops / t["backward"]})
    return out


def attention() -> list[dict[str, float]]:
    """A product of queries and keys of 64 numbers each, in one of many heads."""
    heads, out = 32, []
    for length in (128, 384):
        q, k = torch.randn(1, heads, length, 64), torch.randn(1, heads, 64, length)
        out.append({"length": length, **over(heads, both(torch.matmul, q, k))})
    return out


def passes() -> dict[str, dict[str, float]]:
    n, rows = ELEMENTS, ELEMENTS // WIDTH
    x, ones = torch.randn(rows, WIDTH), torch.ones(WIDTH)
    heads = torch.randn(rows // 64, 64, WIDTH // 64, 64)
    logits = torch.randn(LOGITS)
    labels = torch.zeros(len(logits), dtype=torch.long)
    words = torch.randn(8192, WIDTH)
    ids = torch.randint(0, 8192, (rows,))
    out = {
        "add": both(torch.add, x, torch.randn(rows, WIDTH)),
        "multiply": both(lambda x: x * 0.125, x),
        "copy": both(lambda x: x.transpose(1, 2).contiguous(), heads),
        "dropout": both(lambda x: F.dropout(x, 0.1), x),
        "softmax": both(lambda x: F.softmax(x, dim=-1), x),
        "gelu": both(F.gelu, x),
        "norm": both(lambda x, w, b: F.layer_norm(x, (WIDTH,), w, b, 1e-12), x, ones, torch.zeros(WIDTH)),
    }
    out = {name: over(n, t) for name, t in out.items()}
    out["entropy"] = over(logits.numel(), both(lambda x: F.cross_entropy(x, labels, reduction="none"), logits))
    found = logits.detach()
    out["argmax"] = {"forward": median(lambda: clock(lambda: found.argmax(dim=-1))) / found.numel(), "backward": 0.0}
    # The backward pass makes a gradient of the whole table, which is a pass of its own.
    gather = median(lambda: clock(lambda: F.embedding(ids, words))) / n
    out["embedding"] = {"forward": gather, "backward": gather}
    return out


def gradients() -> dict[str, float]:
    """Passes over gradients that are in no cache, an element."""
    n = GRADIENTS
    sums, more = torch.zeros(n), torch.ones(n)
    return {
        "zero": median(lambda: clock(sums.zero_)) / n,
        "add": median(lambda: clock(lambda: sums.add_(more))) / n,
        "sum": median(lambda: clock(sums.sum)) / n,
    }


def profile() -> dict[str, object]:
    return {
        "software": f"PyTorch {torch.__version__}",
        "threads": torch.get_num_threads(),
        "operator_seconds": operator(),
        "products": products(),
        "attention": attention(),
        "passes": passes(),
        "gradients": gradients(),
    }


def main() -> None:
    torch.set_num_threads(threads())
    torch.manual_seed(1)
    json.dump(profile(), sys.stdout)
