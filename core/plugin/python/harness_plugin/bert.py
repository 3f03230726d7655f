"""The model that backends train: its shape, its parameters, and what it is fed."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Iterator

import numpy as np

from . import _protocol
from .errors import Cancelled, Unsupported
from .memory import Kind, Layout, Tensor
from .option import Values

PADDING_LOGIT = -10000.0  # has probability 0 beside any other, see Program.mask_padding
TASKS = ("pretraining", "question_answering", "classification", "multiple_choice", "token_classification")
UNLABELLED = -100  # the label of a token that has none


@dataclasses.dataclass(frozen=True)
class Model:
    """The shape of a BERT. Fields have the names and meanings of Hugging Face's config.json."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str  # gelu: with erf; gelu_new: with tanh
    hidden_dropout_prob: float
    attention_probs_dropout_prob: float
    max_position_embeddings: int
    type_vocab_size: int
    initializer_range: float
    layer_norm_eps: float
    attention_mask_value: float  # added to the attention scores of padding, such as -10000


@dataclasses.dataclass(frozen=True)
class Program:
    """What a backend is asked to run."""

    model: Model
    task: str  # one of TASKS
    num_labels: int  # classes of a classification (1: a regression) or choices of a question
    precision: str
    options: Values
    seed: int  # of all random streams of the run
    length: int  # tokens a sequence, S
    max_predictions: int  # masked positions a sequence, P; pre-training only
    micro_batch: int  # sequences that a device computes at a time, B
    accumulation: int  # micro-batches that a replica sums before an update
    replicas: int  # devices that work on parts of the same global batch
    sequences_per_pack: int = 0  # most sequences that a row of a batch holds; this package supports one
    mask_padding: bool = False  # of question_answering: start and end logits of tokens with attention mask 0 are PADDING_LOGIT

    @property
    def global_batch(self) -> int:
        """Sequences of one step."""
        return self.micro_batch * self.accumulation * self.replicas

    @property
    def pretraining(self) -> bool:
        return self.task == "pretraining"

    @property
    def regression(self) -> bool:
        return self.task == "classification" and self.num_labels == 1

    def validate(self) -> None:
        """Raises ValueError for the first field that no backend could run."""
        m = self.model
        within("length", self.length, 1, m.max_position_embeddings)
        for name in ("micro_batch", "accumulation", "replicas"):
            within(name, getattr(self, name), 1, 1 << 20)
        for name in (
            "vocab_size",
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
            "type_vocab_size",
        ):
            within(name, getattr(m, name), 1, 1 << 24)
        if m.hidden_size % m.num_attention_heads:
            raise ValueError(f"hidden_size {m.hidden_size} is not a multiple of num_attention_heads {m.num_attention_heads}")
        if m.hidden_act not in ("gelu", "gelu_new"):
            raise ValueError(f'hidden_act is "{m.hidden_act}", want gelu (erf) or gelu_new (tanh)')
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= getattr(m, name) < 1:
                raise ValueError(f"{name} is {getattr(m, name)}, want 0 <= p < 1")
        if not 0 < m.layer_norm_eps < 1:
            raise ValueError(f"layer_norm_eps is {m.layer_norm_eps}, want 0 < eps < 1")
        if self.task not in TASKS:
            raise ValueError(f'no task is named "{self.task}", want one of {", ".join(TASKS)}')
        if self.pretraining:
            within("max_predictions", self.max_predictions, 1, self.length)
        if self.sequences_per_pack > 1:
            raise Unsupported(f"sequences_per_pack is {self.sequences_per_pack}, and harness_plugin does not pack sequences: want 0 or 1")
        if self.task == "classification":
            within("num_labels", self.num_labels, 1, 1 << 20)
        if self.task in ("multiple_choice", "token_classification"):
            within("num_labels", self.num_labels, 2, 1 << 20)

    def parameters(self) -> Layout:
        """The parameters in the model's order, with Hugging Face's names and shapes. The masked LM's decoder is tied to the
        word embeddings and has none."""
        m, hidden = self.model, self.model.hidden_size
        tensors: list[Tensor] = []

        def linear(name: str, out: int, into: int) -> None:
            tensors.append(Tensor(name + ".weight", (out, into), Kind.WEIGHT))
            tensors.append(Tensor(name + ".bias", (out,), Kind.BIAS))

        def norm(name: str) -> None:
            tensors.append(Tensor(name + ".weight", (hidden,), Kind.NORM_SCALE))
            tensors.append(Tensor(name + ".bias", (hidden,), Kind.NORM_BIAS))

        for table, entries in (("word", m.vocab_size), ("position", m.max_position_embeddings), ("token_type", m.type_vocab_size)):
            tensors.append(Tensor(f"bert.embeddings.{table}_embeddings.weight", (entries, hidden), Kind.EMBEDDING))
        norm("bert.embeddings.LayerNorm")
        for i in range(m.num_hidden_layers):
            layer = f"bert.encoder.layer.{i}."
            for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
                linear(layer + part, hidden, hidden)
            norm(layer + "attention.output.LayerNorm")
            linear(layer + "intermediate.dense", m.intermediate_size, hidden)
            linear(layer + "output.dense", hidden, m.intermediate_size)
            norm(layer + "output.LayerNorm")
        if self.task not in ("question_answering", "token_classification"):
            linear("bert.pooler.dense", hidden, hidden)
        if self.pretraining:
            linear("cls.predictions.transform.dense", hidden, hidden)
            norm("cls.predictions.transform.LayerNorm")
            tensors.append(Tensor("cls.predictions.bias", (m.vocab_size,), Kind.BIAS))
            linear("cls.seq_relationship", 2, hidden)
        elif self.task == "question_answering":
            linear("qa_outputs", 2, hidden)
        else:
            linear("classifier", 1 if self.task == "multiple_choice" else self.num_labels, hidden)
        return Layout(tensors)

    def outputs(self, batch: Batch) -> dict[str, tuple[int, ...]]:
        """The outputs that a batch has, in the order of the forward pass, with their shapes."""
        m, size = self.model, batch.size
        hidden = (size, batch.length, m.hidden_size)
        shapes = {name: hidden for name in ["embeddings", *(f"layer.{i}" for i in range(m.num_hidden_layers)), "sequence_output"]}
        if self.task == "question_answering":
            return shapes | dict.fromkeys(("start_logits", "end_logits"), (size, batch.length))
        if self.task == "token_classification":
            return shapes | {"logits": (size, batch.length, self.num_labels)}
        shapes["pooler_output"] = (size, m.hidden_size)
        if self.pretraining:
            shapes["mlm_logits"] = (size, batch.predictions, m.vocab_size)
            shapes["nsp_logits"] = (size, 2)
        else:
            shapes["logits"] = (size, 1 if self.task == "multiple_choice" else self.num_labels)
        return shapes


def within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}, want {low} to {high}")


@dataclasses.dataclass
class Loss:
    """A sum over rows, so that the losses of micro-batches add up."""

    sum: float = 0.0  # of weight x loss
    weight: float = 0.0  # sum of the weights
    correct: float = 0.0  # sum of the weights where the first of the largest logits is the label's

    def __iadd__(self, other: Loss) -> Loss:
        self.sum += other.sum
        self.weight += other.weight
        self.correct += other.correct
        return self


@dataclasses.dataclass
class Losses:
    """The parts of the loss of a task; those that the task does not have stay zero.

    The loss whose gradient a step computes is, with means over the global batch: masked_lm + next_sentence; (start + end) / 2; labels.
    """

    masked_lm: Loss = dataclasses.field(default_factory=Loss)
    next_sentence: Loss = dataclasses.field(default_factory=Loss)
    start: Loss = dataclasses.field(default_factory=Loss)
    end: Loss = dataclasses.field(default_factory=Loss)
    labels: Loss = dataclasses.field(default_factory=Loss)

    def __iadd__(self, other: Losses) -> Losses:
        for f in dataclasses.fields(self):
            loss = getattr(self, f.name)
            loss += getattr(other, f.name)
        return self

    def to_wire(self) -> Any:
        return _protocol.Losses(**{f.name: _protocol.Loss(**vars(getattr(self, f.name))) for f in dataclasses.fields(self)})


@dataclasses.dataclass
class Batch:
    """A number of sequences of equal length. Arrays that the task does not have are empty."""

    size: int  # sequences, B
    length: int  # tokens a sequence, S
    sample: int  # index of the first sequence within the global batch
    predictions: int  # masked positions a sequence, P, padding included
    arrays: dict[str, np.ndarray]  # by the names of the properties

    @property
    def input_ids(self) -> np.ndarray:
        """[B, S] int32."""
        return self.arrays["input_ids"]

    @property
    def token_type_ids(self) -> np.ndarray:
        """[B, S] int32."""
        return self.arrays["token_type_ids"]

    @property
    def attention_mask(self) -> np.ndarray:
        """[B, S] int32: 1 for tokens, 0 for padding."""
        return self.arrays["attention_mask"]

    @property
    def masked_lm_positions(self) -> np.ndarray:
        """[B, P] int32."""
        return self.arrays["masked_lm_positions"]

    @property
    def masked_lm_ids(self) -> np.ndarray:
        """[B, P] int32."""
        return self.arrays["masked_lm_ids"]

    @property
    def masked_lm_weights(self) -> np.ndarray:
        """[B, P] float32: 1 for predictions, 0 for padding."""
        return self.arrays["masked_lm_weights"]

    @property
    def next_sentence_labels(self) -> np.ndarray:
        """[B] int32: 0 the next sentence, 1 a random one."""
        return self.arrays["next_sentence_labels"]

    @property
    def start_positions(self) -> np.ndarray:
        """[B] int32."""
        return self.arrays["start_positions"]

    @property
    def end_positions(self) -> np.ndarray:
        """[B] int32."""
        return self.arrays["end_positions"]

    @property
    def labels(self) -> np.ndarray:
        """[B] int32: the class; of a choice, 1 if it is right, else 0. [B, S] of a token classification, UNLABELLED where there is none."""
        return self.arrays["labels"]

    @property
    def targets(self) -> np.ndarray:
        """[B] float32, of a regression."""
        return self.arrays["targets"]

    def slice(self, begin: int, end: int) -> Batch:
        """Sequences begin to end as a batch of their own: views."""
        arrays = {name: a[begin:end] for name, a in self.arrays.items()}
        return Batch(min(end, self.size) - begin, self.length, self.sample + begin, self.predictions, arrays)

    def validate(self, p: Program, labels: bool) -> None:
        """Raises ValueError for the first thing that the program's model could not take. labels says whether the batch must
        have labels."""
        m = p.model
        if self.size < 1 or not 1 <= self.length <= m.max_position_embeddings:
            raise ValueError(
                f"batch of {self.size} sequences of {self.length} tokens, want at least 1 and 1 to {m.max_position_embeddings}"
            )
        tokens, positions, sequences = (self.size, self.length), (self.size, self.predictions), (self.size,)
        self._indices("input_ids", tokens, m.vocab_size)
        self._indices("token_type_ids", tokens, m.type_vocab_size)
        self._indices("attention_mask", tokens, 2)
        if p.pretraining:
            if not 1 <= self.predictions <= self.length:
                raise ValueError(f"{self.predictions} predictions a sequence of {self.length} tokens, want 1 to {self.length}")
            self._indices("masked_lm_positions", positions, self.length)
        if p.task == "multiple_choice" and self.size % p.num_labels:
            raise ValueError(
                f"batch of {self.size} sequences, want a multiple of num_labels {p.num_labels}: "
                "the choices of a question stay together"
            )
        if not labels:
            return
        if p.pretraining:
            self._indices("masked_lm_ids", positions, m.vocab_size)
            self._indices("next_sentence_labels", sequences, 2)
            self._shape("masked_lm_weights", positions)
            if not (np.isfinite(self.masked_lm_weights).all() and (self.masked_lm_weights >= 0).all()):
                raise ValueError("masked_lm_weights has a value that is not a finite number of at least 0")
        elif p.task == "question_answering":
            self._indices("start_positions", sequences, self.length)
            self._indices("end_positions", sequences, self.length)
        elif p.regression:
            self._shape("targets", sequences)
        elif p.task == "token_classification":
            self._token_labels(p.num_labels)
        else:
            self._indices("labels", sequences, p.num_labels if p.task == "classification" else 2)
            if p.task == "multiple_choice" and (self.labels.reshape(-1, p.num_labels).sum(axis=1) != 1).any():
                raise ValueError("labels of a question mark another number of right choices than one")

    def _token_labels(self, limit: int) -> None:
        self._shape("labels", (self.size, self.length))
        a = self.labels
        for wrong, why in ((a < 0) | (a >= limit), f"want 0 to {limit - 1}"), (self.attention_mask == 0, "but attention_mask is 0 there"):
            if (wrong := wrong & (a != UNLABELLED)).any():
                i = int(wrong.argmax())
                raise ValueError(f"labels[{i}] is {a.flat[i]}, {why}, or {UNLABELLED} for none")

    def _shape(self, name: str, shape: tuple[int, ...]) -> None:
        if self.arrays[name].shape != shape:
            raise ValueError(f"{name} has {self.arrays[name].size} values, want {math.prod(shape)}")

    def _indices(self, name: str, shape: tuple[int, ...], limit: int) -> None:
        self._shape(name, shape)
        a = self.arrays[name]
        if a.min() < 0 or a.max() >= limit:
            i = int(((a < 0) | (a >= limit)).argmax())
            raise ValueError(f"{name}[{i}] is {a.flat[i]}, want 0 to {limit - 1}")


# The arrays of a batch: what one row is for, and the type.
_TOKENS, _POSITIONS, _SEQUENCES = range(3)
_ARRAYS = {
    "input_ids": (_TOKENS, np.int32),
    "token_type_ids": (_TOKENS, np.int32),
    "attention_mask": (_TOKENS, np.int32),
    "masked_lm_positions": (_POSITIONS, np.int32),
    "masked_lm_ids": (_POSITIONS, np.int32),
    "masked_lm_weights": (_POSITIONS, np.float32),
    "next_sentence_labels": (_SEQUENCES, np.int32),
    "start_positions": (_SEQUENCES, np.int32),
    "end_positions": (_SEQUENCES, np.int32),
    "labels": (_SEQUENCES, np.int32),
    "targets": (_SEQUENCES, np.float32),
}


def receive(p: Program, labels: bool, messages: Iterator[Any], active: Callable[[], bool]) -> Iterator[Batch]:
    """Joins the parts of batches as they arrive, and checks them against the program."""
    parts: list[Any] = []
    for message in messages:
        if not active():
            raise Cancelled
        if message.WhichOneof("message") != "batch":
            raise ValueError("a message of the stream is not a batch")
        part = message.batch
        if parts and (
            part.length != parts[0].length or part.predictions != parts[0].predictions or part.sample != parts[-1].sample + parts[-1].size
        ):
            raise ValueError("parts of a batch don't fit together")
        parts.append(part)
        if not part.more:
            batch = _join(p, parts)
            batch.validate(p, labels)
            parts = []
            yield batch
    if not active():
        raise Cancelled
    if parts:
        raise ValueError("the stream ended within a batch")


def _join(p: Program, parts: list[Any]) -> Batch:
    first = parts[0]
    size = sum(part.size for part in parts)
    widths = {_TOKENS: (first.length,), _POSITIONS: (first.predictions,), _SEQUENCES: ()}
    arrays = {}
    for name, (per, dtype) in _ARRAYS.items():
        values = np.concatenate([np.array(getattr(part, name), dtype) for part in parts])
        if name == "labels" and p.task == "token_classification":
            per = _TOKENS
        shape = (size, *widths[per])
        # An array of another length stays flat; Batch.validate reports it.
        arrays[name] = values.reshape(shape) if values.size == math.prod(shape) else values
    return Batch(size, first.length, first.sample, first.predictions, arrays)


def program_from_wire(w: Any, options: Values, precision: str) -> Program:
    model = Model(**{f.name: getattr(w.model, f.name) for f in dataclasses.fields(Model)})
    return Program(
        model=model, task=w.head.task, num_labels=w.head.num_labels, precision=precision, options=options, seed=w.seed, length=w.length,
        max_predictions=w.max_predictions, micro_batch=w.micro_batch, accumulation=w.accumulation, replicas=w.replicas,
        sequences_per_pack=w.sequences_per_pack, mask_padding=w.head.mask_padding,
    )  # fmt: skip
