"""Writes papers.safetensors: trajectories of SAM, schedule-free AdamW and Shampoo in float64, from the algorithms in their papers alone.

    /usr/bin/python3 core/optimizer/optimizertest/testdata/papers.py

Needs numpy. The form of the file is that of `harness plugin verify optimizer --oracle`, see docs/plugins.md. Nothing here was taken from the program under
test: states are kept as the papers write them (x, y and z side by side, means of statistics) and not as the plugins store them.
"""

import json
import pathlib
import struct

import numpy as np

STEPS = 6
LR = [0.004, 0.02, 0.02, 0.02, 0.015, 0.01]
SHAPES = {
    "bert.embeddings.word_embeddings.weight": (8, 6),
    "bert.encoder.layer.0.attention.self.query.weight": (6, 6),
    "bert.encoder.layer.0.attention.self.query.bias": (6,),
    "bert.encoder.layer.0.attention.output.LayerNorm.weight": (6,),
    "bert.encoder.layer.0.intermediate.dense.weight": (10, 6),
}
RULES = {
    "sam": {"plugin": "sam", "options": {"rho": "0.3", "weight_decay": "0.1"}},
    "schedule-free-adamw": {"plugin": "schedule-free-adamw", "options": {"weight_decay": "0.1"}},
    "shampoo": {
        "plugin": "shampoo",
        "options": {"beta1": "0", "beta2": "1", "epsilon": "0.0001", "ridge": "0", "graft": "none", "precondition_every": "1", "weight_decay": "0"},
    },
    "shampoo-blocks": {"plugin": "shampoo", "options": {"block_size": "4", "precondition_every": "3", "ridge": "0.001", "weight_decay": "0.1"}},
}

r = np.random.default_rng(20240524)
w0 = {n: (0.3 * r.standard_normal(s)).astype(np.float32) for n, s in SHAPES.items()}
grads = [{n: (0.1 * r.standard_normal(s)).astype(np.float32) for n, s in SHAPES.items()} for _ in range(STEPS)]
out = {f"w0.{n}": w for n, w in w0.items()} | {f"grad.{i}.{n}": g for i in range(STEPS) for n, g in grads[i].items()}
out["lr"] = np.array(LR)


def wide(tensors):
    return {n: t.astype(np.float64) for n, t in tensors.items()}


def decay(name, value):
    return 0 if name.endswith("bias") or "LayerNorm" in name else value


def put(rule, step, tensors):
    out.update({f"{rule}.{step}.{n}": t.copy() for n, t in tensors.items()})


def sam(rule, rho=0.3, b1=0.9, b2=0.999, eps=1e-8, wd=0.1):
    """Foret et al. 2021, algorithm 1, on AdamW. The loss of a step is g·w + |w - w_t|²/4, whose gradient is g at w_t."""
    w, m, v = wide(w0), {n: 0.0 for n in SHAPES}, {n: 0.0 for n in SHAPES}
    for i in range(STEPS):
        g = wide(grads[i])
        length = np.sqrt(sum((x**2).sum() for x in g.values()))
        up = {n: w[n] + rho * g[n] / length for n in w}
        put(f"{rule}", f"{i}.probe", up)
        # The second gradient is handed over in float32.
        g = {n: (g[n] + 0.5 * (up[n] - w[n])).astype(np.float32) for n in w}
        put(rule, f"{i}.second", g)
        t = i + 1
        for n, x in wide(g).items():
            m[n], v[n] = b1 * m[n] + (1 - b1) * x, b2 * v[n] + (1 - b2) * x**2
            w[n] = w[n] - LR[i] * (m[n] / (1 - b1**t) / (np.sqrt(v[n] / (1 - b2**t)) + eps) + decay(n, wd) * w[n])
        put(rule, i, w)


def schedule_free(rule, b1=0.9, b2=0.999, eps=1e-8, wd=0.1):
    """Defazio et al. 2024, algorithm 1. Parameters are y; the average is x."""
    x, z, v = wide(w0), wide(w0), {n: 0.0 for n in SHAPES}
    for i in range(STEPS):
        t, g = i + 1, wide(grads[i])
        c = LR[i] ** 2 / sum(lr**2 for lr in LR[:t])
        for n in SHAPES:
            y = (1 - b1) * z[n] + b1 * x[n]
            v[n] = b2 * v[n] + (1 - b2) * g[n] ** 2
            z[n] = z[n] - LR[i] * g[n] / (np.sqrt(v[n] / (1 - b2**t)) + eps) - LR[i] * decay(n, wd) * y
            x[n] = (1 - c) * x[n] + c * z[n]
        put(rule, i, {n: (1 - b1) * z[n] + b1 * x[n] for n in SHAPES})
        put(rule, f"{i}.average", x)


def power(a, ridge, epsilon, p):
    values, q = np.linalg.eigh(a)
    return q @ np.diag((np.maximum(values, 0) + epsilon + ridge * max(values[-1], 0)) ** p) @ q.T


def gupta(rule, epsilon=1e-4):
    """Gupta et al. 2018, algorithm 1, for square matrices; for others the shorter side alone, to the power -1/2; diagonal for vectors."""
    w, left, right, diagonal = wide(w0), {}, {}, {}
    for i in range(STEPS):
        for n, g in wide(grads[i]).items():
            if g.ndim == 1:
                diagonal[n] = diagonal.get(n, epsilon) + g**2
                w[n] = w[n] - LR[i] * g / np.sqrt(diagonal[n])
                continue
            rows, columns = g.shape
            left[n] = left.get(n, epsilon * np.eye(rows)) + g @ g.T
            right[n] = right.get(n, epsilon * np.eye(columns)) + g.T @ g
            if rows == columns:
                g = power(left[n], 0, 0, -0.25) @ g @ power(right[n], 0, 0, -0.25)
            elif rows < columns:
                g = power(left[n], 0, 0, -0.5) @ g
            else:
                g = g @ power(right[n], 0, 0, -0.5)
            w[n] = w[n] - LR[i] * g
        put(rule, i, w)


def anil(rule, size=4, every=3, ridge=1e-3, b1=0.9, b2=0.999, wd=0.1, epsilon=1e-16):
    """Blocks, decaying statistics, rare roots and grafting to RMSProp as in Anil et al. 2020."""
    w, m, v, stats, roots = wide(w0), {n: 0.0 for n in SHAPES}, {n: 0.0 for n in SHAPES}, {}, {}
    for i in range(STEPS):
        t = i + 1
        unbias = 1 - b2**t
        for n, g in wide(grads[i]).items():
            v[n] = b2 * v[n] + (1 - b2) * g**2
            u = d = g / np.sqrt(v[n] / unbias + epsilon)
            if g.ndim == 2:
                u = np.zeros_like(g)
                high = g.shape[0] if "embeddings" in n else size
                for y in range(0, g.shape[0], high):
                    for x in range(0, g.shape[1], size):
                        b, at = g[y : y + high, x : x + size], (n, y, x)
                        if at not in stats:
                            stats[at] = [np.zeros((s, s)) for s in b.shape]
                        for s, gram in zip(stats[at], (b @ b.T, b.T @ b)):
                            s *= b2
                            s += (1 - b2) * gram
                        rows, columns = b.shape
                        if t in (1, 2) or t % every == 0:
                            roots[at] = [power(s / unbias, ridge, epsilon, -0.25 if rows == columns else -0.5) for s in stats[at]]
                        if rows <= columns:
                            b = roots[at][0] @ b
                        if columns <= rows:
                            b = b @ roots[at][1]
                        u[y : y + high, x : x + size] = b
                u *= np.linalg.norm(d) / np.linalg.norm(u)
            m[n] = b1 * m[n] + (1 - b1) * u
            w[n] = w[n] - LR[i] * (m[n] / (1 - b1**t) + decay(n, wd) * w[n])
        put(rule, i, w)


sam("sam")
schedule_free("schedule-free-adamw")
gupta("shampoo")
anil("shampoo-blocks")

header, data = {"__metadata__": {"rules": json.dumps(RULES)}}, b""
for name, t in sorted(out.items()):
    raw = np.ascontiguousarray(t).tobytes()
    kind = {"float32": "F32", "float64": "F64"}[str(t.dtype)]
    header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
pathlib.Path(__file__).with_name("papers.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
