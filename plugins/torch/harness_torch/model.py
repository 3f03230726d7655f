"""BERT in plain PyTorch operations.

The model is a function of parameters with Hugging Face's names: a post-norm encoder, a pooler, and the head of a task. Heads
are masked LM, on the masked positions only and with the decoder tied to the word embeddings, with next sentence; start and end
of a span; labels of a sequence, or a regression; the right one of several sequences; and labels of tokens. Source: Devlin et al. 2018
(arXiv:1810.04805), google-research/bert modeling.py.

Where torch.autocast keeps operators in float32 on a GPU (softmax, layer norm, losses), the casts are explicit, so that the CPU
does the same.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Callable, Mapping

import torch
import torch.nn.functional as F

from harness_plugin import PADDING_LOGIT, UNLABELLED, Batch, Loss, Losses, Program

Parameters = Mapping[str, torch.Tensor]
See = Callable[[str, torch.Tensor], torch.Tensor]


@dataclasses.dataclass
class Inputs:
    """A micro-batch on the device."""

    ids: torch.Tensor  # [B, S] int64
    types: torch.Tensor  # [B, S] int64
    mask: torch.Tensor  # [B, 1, 1, S] float32: what is added to the attention scores
    rows: torch.Tensor | None = None  # [B·P] int64: masked positions as rows of [B·S, H]


class Bert:
    """The forward pass of a program's model."""

    def __init__(self, program: Program, device: torch.device):
        self.program = program
        self.device = device
        self.approximate = "tanh" if program.model.hidden_act == "gelu_new" else "none"

    def inputs(self, batch: Batch) -> Inputs:
        mask = (1 - self.tensor(batch.attention_mask, torch.float32)) * self.program.model.attention_mask_value
        x = Inputs(self.tensor(batch.input_ids), self.tensor(batch.token_type_ids), mask[:, None, None, :])
        if self.program.pretraining:
            first = torch.arange(batch.size, device=self.device)[:, None] * batch.length
            x.rows = (self.tensor(batch.masked_lm_positions) + first).reshape(-1)
        return x

    def tensor(self, values: object, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.as_tensor(values).to(self.device, dtype)

    def forward(
        self, p: Parameters, x: Inputs, train: bool, between: Callable[[], None] = lambda: None, see: See = lambda name, value: value
    ) -> dict[str, torch.Tensor]:
        """Outputs by their names in Program.outputs. With train, dropout is on and only the outputs for the loss are kept. between is
        called between layers, see with the name and the result of every operator that a trace shows."""
        m, task = self.program.model, self.program.task
        out: dict[str, torch.Tensor] = {}
        size, length = x.ids.shape

        def keep(name: str, value: torch.Tensor) -> torch.Tensor:
            if not train:
                out[name] = value
            return value

        def linear(name: str, value: torch.Tensor, see: See = lambda name, value: value) -> torch.Tensor:
            return see(name, F.linear(value, p[name + ".weight"], p[name + ".bias"]))

        def norm(name: str, value: torch.Tensor) -> torch.Tensor:
            return F.layer_norm(value.float(), (m.hidden_size,), p[name + ".weight"], p[name + ".bias"], m.layer_norm_eps)

        def block(name: str, value: torch.Tensor) -> torch.Tensor:
            """The end of a block: value is the result of its dense layer, with what is added to it, and the norm follows."""
            return see(name + "LayerNorm", norm(name + "LayerNorm", see(name + "dense", value)))

        def drop(value: torch.Tensor, probability: float = m.hidden_dropout_prob) -> torch.Tensor:
            return F.dropout(value, probability) if train and probability else value

        def heads(value: torch.Tensor) -> torch.Tensor:
            return value.view(size, length, m.num_attention_heads, -1).transpose(1, 2)

        embeddings = "bert.embeddings."
        words, types = p[embeddings + "word_embeddings.weight"], p[embeddings + "token_type_embeddings.weight"]
        h = F.embedding(x.ids, words) + F.embedding(x.types, types)
        h = h + p[embeddings + "position_embeddings.weight"][:length]
        h = keep("embeddings", see("bert.embeddings", drop(norm(embeddings + "LayerNorm", h))))
        scale = 1 / math.sqrt(m.hidden_size // m.num_attention_heads)
        for i in range(m.num_hidden_layers):
            between()
            layer = f"bert.encoder.layer.{i}."
            q, k, v = (heads(linear(layer + "attention.self." + part, h, see)) for part in ("query", "key", "value"))
            scores = torch.matmul(q, k.transpose(-1, -2)) * scale
            probabilities = drop(F.softmax(scores.float() + x.mask, dim=-1), m.attention_probs_dropout_prob)
            context = see(layer + "attention.self", torch.matmul(probabilities, v).transpose(1, 2).reshape(size, length, m.hidden_size))
            h = block(layer + "attention.output.", drop(linear(layer + "attention.output.dense", context)) + h)
            wide = see(layer + "intermediate.dense", F.gelu(linear(layer + "intermediate.dense", h), approximate=self.approximate))
            h = drop(linear(layer + "output.dense", wide)) + h
            if task == "token_classification" and i == m.num_hidden_layers - 1:
                # The classifier's dropout is part of what a trace shows of the norm.
                h = see(layer + "output.LayerNorm", drop(norm(layer + "output.LayerNorm", see(layer + "output.dense", h))))
            else:
                h = block(layer + "output.", h)
            keep(f"layer.{i}", h)
        keep("sequence_output", h)

        if task == "question_answering":
            span = linear("qa_outputs", h, see)
            if self.program.mask_padding:
                span = span.float().masked_fill(x.mask.view(size, length, 1) < 0, PADDING_LOGIT)
            out["start_logits"], out["end_logits"] = span[..., 0], span[..., 1]
            return out
        if task == "token_classification":
            out["logits"] = linear("classifier", h, see)
            if not train:
                out["logits"] = out["logits"].masked_fill(x.mask.view(size, length, 1) < 0, 0)
            return out
        pooled = keep("pooler_output", see("bert.pooler.dense", torch.tanh(linear("bert.pooler.dense", h[:, 0]))))
        if task == "pretraining":
            masked = h.reshape(size * length, m.hidden_size).index_select(0, x.rows)
            dense = linear("cls.predictions.transform.dense", masked)
            transformed = block("cls.predictions.transform.", F.gelu(dense, approximate=self.approximate))
            logits = see("cls.predictions.decoder", F.linear(transformed, words, p["cls.predictions.bias"]))
            out["mlm_logits"] = logits.view(size, -1, m.vocab_size)
            out["nsp_logits"] = linear("cls.seq_relationship", pooled, see)
        else:
            out["logits"] = linear("classifier", drop(pooled), see)
        return out

    def losses(
        self, out: Mapping[str, torch.Tensor], batch: Batch, sequences: float, masked_weight: float, label_weight: float
    ) -> tuple[torch.Tensor, Losses]:
        """The micro-batch's share of the mean loss of a global batch with these denominators, and its losses as sums."""
        losses = Losses()
        if self.program.pretraining:
            weights = self.tensor(batch.masked_lm_weights, torch.float32).reshape(-1)
            masked, losses.masked_lm = cross_entropy(out["mlm_logits"].flatten(0, 1), self.tensor(batch.masked_lm_ids).reshape(-1), weights)
            following, losses.next_sentence = cross_entropy(out["nsp_logits"], self.tensor(batch.next_sentence_labels))
            return (masked / masked_weight if masked_weight else masked) + following / sequences, losses
        if self.program.task == "question_answering":
            start, losses.start = cross_entropy(out["start_logits"], self.tensor(batch.start_positions))
            end, losses.end = cross_entropy(out["end_logits"], self.tensor(batch.end_positions))
            return (start + end) / (2 * sequences), losses
        if self.program.regression:
            e = out["logits"].float().reshape(-1) - self.tensor(batch.targets, torch.float32)
            total = (e * e).sum()
            losses.labels = Loss(float(e.detach().double().square().sum()), batch.size, 0)
            return total / sequences, losses
        logits, labels, rows = out["logits"], self.tensor(batch.labels), sequences
        if self.program.task == "token_classification":
            labels = labels.reshape(-1)
            labelled = labels != UNLABELLED
            total, losses.labels = cross_entropy(logits.reshape(-1, self.program.num_labels)[labelled], labels[labelled])
            return (total / label_weight if label_weight else total), losses
        if self.program.task == "multiple_choice":
            logits, labels = logits.view(-1, self.program.num_labels), labels.view(-1, self.program.num_labels).argmax(dim=1)
            rows = sequences / self.program.num_labels
        total, losses.labels = cross_entropy(logits, labels)
        return total / rows, losses


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> tuple[torch.Tensor, Loss]:
    """The sum over rows of weight x cross entropy, in float32, and the same as a Loss in float64. A row is right if the label's logit is
    the first of the greatest."""
    loss = F.cross_entropy(logits.float(), labels, reduction="none")
    right = logits.detach().argmax(dim=-1) == labels
    if weights is None:
        return loss.sum(), Loss(float(loss.detach().double().sum()), len(labels), float(right.sum()))
    # The loss of padding may be infinite.
    loss = torch.where(weights > 0, loss * weights, torch.zeros_like(loss))
    return loss.sum(), Loss(float(loss.detach().double().sum()), float(weights.double().sum()), float((right * weights).sum()))
