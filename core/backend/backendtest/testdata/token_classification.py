"""Writes token_classification.safetensors: a small BERT with a classifier of tokens, a batch, and what PyTorch computes from
them in float64: outputs, loss, and its gradients by autograd."""

import json
import math
import struct

import torch
import torch.nn.functional as F

torch.manual_seed(1)
C = dict(
    vocab_size=17, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, hidden_act="gelu",
    max_position_embeddings=10, type_vocab_size=2, layer_norm_eps=1e-12, num_labels=5,
)  # fmt: skip
B, S, H, A = 3, 9, C["hidden_size"], C["num_attention_heads"]
p = {}


def parameter(name, *shape):
    # Stored in float32, computed in float64.
    p[name] = (torch.randn(shape) * 0.3 + ("LayerNorm.weight" in name)).double().requires_grad_()


def dense(name, out, into):
    parameter(name + ".weight", out, into)
    parameter(name + ".bias", out)


def norm_of(name):
    parameter(name + ".weight", H)
    parameter(name + ".bias", H)


E = "bert.embeddings."
parameter(E + "word_embeddings.weight", C["vocab_size"], H)
parameter(E + "position_embeddings.weight", C["max_position_embeddings"], H)
parameter(E + "token_type_embeddings.weight", C["type_vocab_size"], H)
norm_of(E + "LayerNorm")
for i in range(C["num_hidden_layers"]):
    L = f"bert.encoder.layer.{i}."
    for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        dense(L + part, H, H)
    norm_of(L + "attention.output.LayerNorm")
    dense(L + "intermediate.dense", C["intermediate_size"], H)
    dense(L + "output.dense", H, C["intermediate_size"])
    norm_of(L + "output.LayerNorm")
dense("classifier", C["num_labels"], H)

lengths = torch.tensor([9, 4, 7])
mask = (torch.arange(S)[None] < lengths[:, None]).long()
ids = torch.randint(C["vocab_size"], (B, S))
types = (torch.arange(S)[None] >= torch.tensor([[5], [9], [3]])).long()
labels = torch.randint(C["num_labels"], (B, S))
labels[(mask == 0) | (torch.rand(B, S) < 0.4)] = -100
labels[:, 0] = -100  # [CLS]


def linear(name, x):
    return F.linear(x, p[name + ".weight"], p[name + ".bias"])


def norm(name, x):
    return F.layer_norm(x, (H,), p[name + ".weight"], p[name + ".bias"], C["layer_norm_eps"])


def heads(x):
    return x.view(B, S, A, H // A).transpose(1, 2)


h = p[E + "word_embeddings.weight"][ids] + p[E + "position_embeddings.weight"][:S] + p[E + "token_type_embeddings.weight"][types]
h = norm(E + "LayerNorm", h)
for i in range(C["num_hidden_layers"]):
    L = f"bert.encoder.layer.{i}."
    q, k, v = (heads(linear(L + "attention.self." + part, h)) for part in ("query", "key", "value"))
    scores = q @ k.transpose(-1, -2) / math.sqrt(H // A) + (1 - mask[:, None, None].double()) * -10000
    context = (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, S, H)
    h = norm(L + "attention.output.LayerNorm", linear(L + "attention.output.dense", context) + h)
    h = norm(L + "output.LayerNorm", linear(L + "output.dense", F.gelu(linear(L + "intermediate.dense", h))) + h)
logits = linear("classifier", h)
loss = F.cross_entropy(logits.view(-1, C["num_labels"]), labels.view(-1), ignore_index=-100)
loss.backward()

tensors = {"input.input_ids": ids, "input.token_type_ids": types, "input.attention_mask": mask, "input.labels": labels}
tensors |= {"out.sequence_output": h, "out.logits": logits * mask[..., None], "loss.labels": loss, "loss.total": loss}
tensors |= {"param." + name: value.float() for name, value in p.items()}
tensors |= {"grad." + name: value.grad for name, value in p.items()}
header, body = {"__metadata__": {"task": "token_classification", "config": json.dumps(C)}}, b""
for name, t in tensors.items():
    code, dtype = {torch.int64: ("q", "I64"), torch.float32: ("f", "F32"), torch.float64: ("d", "F64")}[t.dtype]
    data = struct.pack(f"<{t.numel()}{code}", *t.detach().reshape(-1).tolist())
    header[name] = {"dtype": dtype, "shape": list(t.shape), "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
with open("token_classification.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + body)
