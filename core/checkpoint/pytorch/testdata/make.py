"""Writes the fixtures of this folder, with PyTorch 1.13 (Debian 12, python3-torch 1.13.1):

    /usr/bin/python3 make.py

Each file is written in both of torch.save's forms: NAME.bin is a zip, NAME.legacy.bin a stream of pickles.
"""

import collections
import pickle
import zipfile

import torch
from torch import nn


def save(value, name):
    torch.save(value, name + ".bin")
    torch.save(value, name + ".legacy.bin", _use_new_zipfile_serialization=False)


def values(n, dtype=torch.float32):
    return (torch.arange(n, dtype=torch.float64) / 4 - 1).to(dtype)


# Every type, and the views that a state_dict may hold.
base = values(24)
save(
    collections.OrderedDict(
        f64=values(3, torch.float64), f32=values(6).reshape(2, 3), f16=values(3, torch.float16), bf16=values(3, torch.bfloat16),
        i64=torch.tensor([-(2**62), 5]), i32=torch.tensor([-5, 7], dtype=torch.int32), i16=torch.tensor([-5, 7], dtype=torch.int16),
        i8=torch.tensor([-5, 7], dtype=torch.int8), u8=torch.tensor([5, 250], dtype=torch.uint8), bool=torch.tensor([True, False]),
        scalar=torch.tensor(2.5), empty=torch.zeros(0, 3), parameter=nn.Parameter(values(4)),
        shared=base.reshape(4, 6), transposed=base.reshape(4, 6).t(), part=base[6:14].reshape(2, 4), column=base.reshape(4, 6)[:, 2]),
    "types")

# What Module.state_dict makes: an OrderedDict with an attribute, and two names for one tensor.
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.decoder = nn.Linear(3, 5)
        self.decoder.weight = self.embedding.weight
        self.register_buffer("position_ids", torch.arange(4).reshape(1, 4))


torch.manual_seed(1)
head = Head()
with torch.no_grad():
    for i, p in enumerate(head.parameters()):
        p.copy_(values(p.numel()).reshape(p.shape) + i)

# A training checkpoint, as NVIDIA's BERT writes it: the model under "model", beside the optimizer and counters.
optimizer = torch.optim.AdamW(head.parameters(), lr=0.125)
head.decoder(head.embedding(torch.tensor([1, 2]))).sum().backward()
optimizer.step()
save({"model": head.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "loss": 0.5, "note": "Ü", "done": False, "none": None, "ids": (1, [2])}, "training")


# What must be refused: code, by either form.
class Evil:
    def __reduce__(self):
        import os

        return os.system, ("touch /tmp/harness-was-here",)


save({"weight": values(2), "evil": Evil()}, "evil")
torch.save(head, "module.bin")
