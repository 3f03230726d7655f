#!/usr/bin/python3
"""A BERT training step in plain PyTorch, with which `harness bench step` is compared: forward, backward, AdamW.

The model is that of `harness bench step`: only masked positions pass through the decoder, which shares the word embeddings; GELU with
erf; dropout on hidden states and attention; random tokens, in batches prepared beforehand. It prints one line of JSON with the same
names. With --fill sequences have the lengths that they have there, and padding up to --seq; --cut shortens each batch to its longest
sequence, as programs in PyTorch do. That changes the loss of questions, whose softmax is over padding, too,
unless --mask-padding is given.

Run it through run.py, which sets the environment that makes PyTorch fast.
"""
import argparse
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from lengths import BATCHES, lengths

SIZES = {"tiny": (2, 128, 2), "mini": (4, 256, 4), "small": (4, 512, 8), "base": (12, 768, 12)}  # layers, width, heads
VOCAB, POSITIONS = 30522, 512


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=SIZES, default="tiny")
    p.add_argument("--task", choices=["pretraining", "squad"], default="pretraining")
    p.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--seq", type=int, default=128)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--fill", type=float, default=1, help="share of tokens that are no padding")
    p.add_argument("--mask-padding", action="store_true", help="choose answers among the tokens that are no padding")
    p.add_argument("--cut", action="store_true", help="cut each batch to its longest sequence")
    return p.parse_args()


class Norm(nn.LayerNorm):
    """Layer normalisation in FP32: PyTorch 1.13 refuses BF16 input with FP32 weights on CPUs."""

    def forward(self, x):
        return F.layer_norm(x.float(), self.normalized_shape, self.weight, self.bias, self.eps)


class Layer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = Norm(width, eps=1e-12), Norm(width, eps=1e-12)
        self.drop = nn.Dropout(dropout)

    def split(self, x):
        b, s, w = x.shape
        return x.view(b, s, self.heads, w // self.heads).transpose(1, 2)

    def forward(self, x, mask):
        b, s, w = x.shape
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(w // self.heads) + mask
        context = torch.matmul(self.drop(F.softmax(scores, dim=-1)), v)
        x = self.norm1(x + self.drop(self.out(context.transpose(1, 2).reshape(b, s, w))))
        return self.norm2(x + self.drop(self.down(F.gelu(self.up(x)))))


class Bert(nn.Module):
    def __init__(self, a):
        super().__init__()
        layers, width, heads = SIZES[a.model]
        self.pretraining, self.mask_padding = a.task == "pretraining", a.mask_padding
        self.words, self.positions, self.types = nn.Embedding(VOCAB, width), nn.Embedding(POSITIONS, width), nn.Embedding(2, width)
        self.norm, self.drop = Norm(width, eps=1e-12), nn.Dropout(a.dropout)
        self.layers = nn.ModuleList([Layer(width, heads, a.dropout) for _ in range(layers)])
        if self.pretraining:
            self.pooler, self.transform, self.transform_norm = nn.Linear(width, width), nn.Linear(width, width), Norm(width, eps=1e-12)
            self.decoder_bias, self.next_sentence = nn.Parameter(torch.zeros(VOCAB)), nn.Linear(width, 2)
        else:
            self.span = nn.Linear(width, 2)
        self.register_buffer("order", torch.arange(POSITIONS))

    def forward(self, ids, types, attention, *labels):
        mask = (1.0 - attention[:, None, None, :].float()) * -10000.0
        x = self.drop(self.norm(self.words(ids) + self.positions(self.order[: ids.shape[1]]) + self.types(types)))
        for layer in self.layers:
            x = layer(x, mask)
        if not self.pretraining:
            start, end = labels
            logits = self.span(x).float()
            if self.mask_padding:
                logits = logits.masked_fill(attention[..., None] == 0, -10000)
            return 0.5 * (F.cross_entropy(logits[..., 0], start) + F.cross_entropy(logits[..., 1], end))
        at, masked, following = labels
        chosen = x.reshape(-1, x.shape[-1]).index_select(0, at)
        logits = F.linear(self.transform_norm(F.gelu(self.transform(chosen))), self.words.weight, self.decoder_bias)
        sentence = self.next_sentence(torch.tanh(self.pooler(x[:, 0])))
        return F.cross_entropy(logits.float(), masked) + F.cross_entropy(sentence.float(), following)


def predictions(a):
    return 20 if a.seq == 128 else max(1, int(0.15 * a.seq + 0.5))


def batch(a, generator, index):
    draw = lambda high, *shape: torch.randint(0, high, shape, generator=generator)
    ids, types = draw(VOCAB, a.batch, a.seq), torch.zeros(a.batch, a.seq, dtype=torch.long)
    types[:, a.seq // 2 :] = 1
    real = lengths(a.seq, a.batch, a.fill, index)
    attention = (torch.arange(a.seq) < torch.tensor(real)[:, None]).long()
    seq = max(real) if a.cut else a.seq
    ids, types, attention = ids[:, :seq].contiguous(), types[:, :seq].contiguous(), attention[:, :seq].contiguous()
    if a.task == "squad":
        return ids, types, attention, *(torch.cat([draw(n, 1) for n in real]) for _ in range(2))
    count = predictions(a)
    at, masked = torch.zeros(a.batch, count, dtype=torch.long), draw(VOCAB, a.batch, count)
    for i, n in enumerate(real):
        filled = max(1, count * n // a.seq)
        at[i, :filled] = torch.randperm(n, generator=generator)[:filled]
        masked[i, filled:] = -100  # no label
        at[i] += i * seq
    return ids, types, attention, at.flatten(), masked.flatten(), draw(2, a.batch)


def flop(a):
    """Floating point operations of the matrix products of a step over uncut batches, counted like in `harness bench step`, with all
    of the last layer and of padding."""
    layers, h, _ = SIZES[a.model]
    t = a.batch * a.seq
    forward = layers * (4 * 2 * t * h * h + 2 * 2 * t * h * 4 * h + 2 * 2 * t * a.seq * h)
    if a.task == "pretraining":
        p = a.batch * predictions(a)
        forward += 2 * a.batch * h * h + 2 * a.batch * h * 2 + 2 * p * h * h + 2 * p * h * VOCAB
    else:
        forward += 2 * t * h * 2
    return 3 * forward


def main():
    a = parse()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    model = Bert(a)
    for m in model.modules():
        if isinstance(m, (nn.Linear, nn.Embedding)):
            m.weight.data.normal_(0, 0.02)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    # foreach=False is the fastest of PyTorch 1.13's AdamWs on CPUs.
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, eps=1e-6, foreach=False)
    generator = torch.Generator().manual_seed(1)
    batches = [batch(a, generator, i) for i in range(BATCHES)]
    model.train()

    def step(i):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.precision == "bf16"):
            loss = model(*batches[i % len(batches)])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for i in range(2):
        step(i)
    ms = []
    for i in range(a.steps):
        start = time.perf_counter()
        step(i)
        ms.append((time.perf_counter() - start) * 1e3)
    median = statistics.median_low(ms)
    print(json.dumps({
        "name": f"PyTorch/model={a.model}/task={a.task}/precision={a.precision}/seq={a.seq}/batch={a.batch}/dropout={a.dropout:g}"
                + (f"/fill={a.fill:g}" if a.fill < 1 else "") + ("/mask_padding" if a.mask_padding else "") + ("/cut" if a.cut else ""),
        "version": torch.__version__, "threads": a.threads, "count": a.steps, "sequences_per_second": a.batch / median * 1e3,
        "step_ms": {"min": min(ms), "median": median, "max": max(ms)}, "gflop_per_step": flop(a) / 1e9, "gflops": flop(a) / 1e6 / median}))


if __name__ == "__main__":
    main()
