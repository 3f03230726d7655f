"""The backend: a GPU or CPU that PyTorch drives."""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import threading
import time
from typing import Iterator, Sequence

import numpy as np
import torch

from harness_plugin import (
    Backend, Batch, Evaluation, Losses, Memory, Option, OutOfMemory, Phase, Precision, Program, Session, Step, StepResult, Traced, threads,
)  # fmt: skip
from harness_torch.model import Bert, See

FP32 = Precision(
    "fp32", "float32 throughout", 2e-5, 1e-4,
    "FP32 has unit roundoff 6e-8; sums over a few hundred products and a few layers stay below 1e-5",
)  # fmt: skip
TF32 = Precision(
    "tf32", "matrix products of TF32 inputs, else float32", 4e-3, 2e-2,
    "TF32 inputs have unit roundoff u = 2^-11 = 4.9e-4: outputs after a few layers within 8u, gradients within 40u",
)  # fmt: skip
BF16 = Precision(
    "bf16", "autocast to bfloat16 with float32 master weights", 3.2e-2, 1.6e-1,
    "BF16 has unit roundoff u = 2^-8 = 3.9e-3: outputs after a few layers within 8u, gradients within 40u",
)  # fmt: skip
FP16 = Precision(
    "fp16", "autocast to float16 with float32 master weights and GradScaler", 4e-3, 2e-2,
    "FP16 has unit roundoff u = 2^-11 = 4.9e-4: outputs after a few layers within 8u, gradients within 40u",
)  # fmt: skip

# PyTorch's random generators and switches belong to the process, so sessions take turns.
_turn = threading.Lock()


class TorchBackend(Backend):
    name = "torch"
    version = f"1 (PyTorch {torch.__version__})"
    doc = "BERT in plain PyTorch operations"
    repeats_steps = True
    options = (
        Option("device", "auto", "cpu, cuda, cuda:N, or auto: a GPU where PyTorch sees one"),
        Option("init_scale", "65536", "first scale of fp16's GradScaler"),
        Option("growth_interval", "2000", "good steps in a row after which GradScaler doubles its scale"),
    )

    def __init__(self) -> None:
        cuda = torch.cuda.is_available()
        self.precisions = (FP32, TF32, BF16, FP16) if cuda else (FP32, BF16)
        self.doc += f", on {torch.cuda.get_device_name()}" if cuda else ", on the CPU"

    def open(self, program: Program, memory: Memory) -> Session:
        return TorchSession(program, memory, device(program))


def device(program: Program) -> torch.device:
    name = program.options.text("device")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or number and not (kind == "cuda" and number.isdigit()):
        raise ValueError(f'option device is "{name}", want auto, cpu, cuda or cuda:N')
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise ValueError(f'option device is "{name}", but PyTorch {torch.__version__} sees {torch.cuda.device_count()} GPUs')
    if kind == "cpu" and program.precision in (TF32.name, FP16.name):
        raise ValueError(f"precision {program.precision} needs a GPU, and option device is {name}: want fp32 or bf16 there")
    return torch.device(name)


class Witness(torch.optim.Optimizer):
    """Stands in for the optimizer, which is the host's, in GradScaler. GradScaler calls step only if the gradients are finite."""

    def __init__(self, parameters: Sequence[torch.Tensor]):
        super().__init__(parameters, {})
        self.finite = False

    def step(self, closure: object = None) -> None:
        self.finite = True


class TorchSession(Session):
    """A program on one device. On the CPU parameters and gradients are the host's memory itself; on a GPU they are flat copies of it."""

    traces = True

    def __init__(self, program: Program, memory: Memory, device: torch.device):
        self.program, self.memory, self.device = program, memory, device
        self.bert = Bert(program, device)
        self.host_params, self.host_grads = torch.from_numpy(memory.params), torch.from_numpy(memory.grads)
        self.params, self.grads = self.host_params, self.host_grads
        with errors():
            if device.type != "cpu":
                self.params, self.grads = torch.zeros_like(self.params, device=device), torch.zeros_like(self.grads, device=device)
            self.parameters = {}
            for t in memory.layout.tensors:
                p = self.params[t.offset : t.offset + len(t)].view(t.shape).requires_grad_()
                p.grad = self.grads[t.offset : t.offset + len(t)].view(t.shape)
                self.parameters[t.name] = p
            # Read in any case, so that a bad value is an error in every precision.
            scale = program.options.number("init_scale", 2.0**-100, 2.0**100)
            interval = program.options.integer("growth_interval", 1, 1 << 30)
            self.scaler = torch.cuda.amp.GradScaler(init_scale=scale, growth_interval=interval) if program.precision == FP16.name else None
        torch.set_num_threads(threads())

    def step(self, step: Step, batches: Iterator[Batch]) -> StepResult:
        clock = Clock(self.device)
        losses = Losses()
        # As DistributedDataParallel does, the scale is on the mean loss of a replica, and replicas are averaged.
        scale = self.scaler.get_scale() if self.scaler else 1.0
        with errors():
            self.grads.zero_()
            for batch in batches:
                clock.lap("data")
                with self.turn(torch.enable_grad()):
                    torch.manual_seed(self.key(step.number, batch.sample))
                    x = self.bert.inputs(batch)
                    with self.autocast():
                        out = self.bert.forward(self.parameters, x, True, step.check, self.watch(step, batch, scale))
                    loss, sums = self.bert.losses(out, batch, step.sequences, step.masked_weight, step.label_weight)
                    losses += sums
                    clock.lap("forward")
                    if self.scaler:
                        loss = self.scaler.scale(loss * self.program.replicas)
                    loss.backward()
                    clock.lap("backward")
                    step.check()
            finite = self.unscale()
            if self.grads is not self.host_grads:
                self.host_grads.copy_(self.grads)
            clock.lap("unscale")
        return StepResult(losses, finite, scale, phases=clock.phases())

    def watch(self, step: Step, batch: Batch, scale: float) -> See:
        """Shows the host the results of operators and, as they are computed, the gradients of those. Only fp16's loss is scaled."""
        if not step.trace or batch.sample > 0:
            return lambda name, value: value
        if self.scaler:
            scale *= self.program.replicas

        def traced(name: str, value: torch.Tensor, gradient: bool) -> Traced:
            format = {torch.float16: FP16.name, torch.bfloat16: BF16.name}.get(value.dtype, FP32.name)
            return Traced(name, value.detach().float().cpu().numpy(), gradient, scale if gradient else 1.0, format)

        def see(name: str, value: torch.Tensor) -> torch.Tensor:
            step.trace(traced(name, value, False))
            value.register_hook(lambda gradient: step.trace(traced(name, gradient, True)))
            return value

        return see

    def unscale(self) -> bool:
        """Takes the loss scale out of the gradients and reports whether they are finite."""
        if not self.scaler:
            # A sum is finite unless one of its terms is not, or it is too large: then every term is looked at.
            return bool(self.grads.sum().isfinite()) or bool(self.grads.isfinite().all())
        witness = Witness(list(self.parameters.values()))
        self.scaler.unscale_(witness)
        self.scaler.step(witness)
        self.scaler.update()
        self.grads /= self.program.replicas
        return witness.finite

    def commit(self, step: int) -> None:
        if self.params is not self.host_params:
            with errors():
                self.params.copy_(self.host_params)

    def evaluate(self, batch: Batch, outputs: Sequence[str], labels: bool) -> Evaluation:
        e = Evaluation()
        parts: dict[str, list[np.ndarray]] = {name: [] for name in outputs}
        # At the greatest micro-batch that there is memory for; the choices of a question stay together.
        size = self.program.micro_batch
        if self.program.task == "multiple_choice":
            size = max(1, size // self.program.num_labels) * self.program.num_labels
        with errors(), self.turn(torch.no_grad()):
            for i in range(0, batch.size, size):
                part = batch.slice(i, i + size)
                with self.autocast():
                    out = self.bert.forward(self.parameters, self.bert.inputs(part), False)
                if labels:
                    e.losses += self.bert.losses(out, part, part.size, 1, 1)[1]
                for name in outputs:
                    parts[name].append(out[name].float().cpu().numpy())
        e.outputs = {name: np.concatenate(values) for name, values in parts.items()}
        return e

    def autocast(self) -> contextlib.AbstractContextManager:
        dtype = {BF16.name: torch.bfloat16, FP16.name: torch.float16}.get(self.program.precision)
        return torch.autocast(self.device.type, dtype) if dtype else contextlib.nullcontext()

    @contextlib.contextmanager
    def turn(self, mode: contextlib.AbstractContextManager) -> Iterator[None]:
        """PyTorch, set up for this session."""
        with _turn, mode:
            if self.device.type == "cuda":
                tf32 = self.program.precision == TF32.name
                torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
                # The CPU's are deterministic as they are.
                torch.use_deterministic_algorithms(True, warn_only=True)
            yield

    def key(self, step: int, sample: int) -> int:
        """The seed of the dropout masks of a micro-batch: a hash, so that neighbours have nothing in common."""
        text = struct.pack("<QQQ", self.program.seed, step, sample)
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1

    def save(self) -> bytes:
        return json.dumps({"scaler": self.scaler.state_dict() if self.scaler else None}).encode()

    def load(self, state: bytes) -> None:
        try:
            scaler = json.loads(state)["scaler"]
        except (ValueError, TypeError, KeyError) as e:
            raise ValueError(f"state of {len(state)} bytes is not that of a torch session") from e
        if (scaler is None) != (self.scaler is None):
            raise ValueError(f"state is that of another precision than {self.program.precision}")
        if self.scaler:
            self.scaler.load_state_dict(scaler)

    def close(self) -> None:
        self.__dict__.clear()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Says of a device without memory that it has none."""
    try:
        yield
    except RuntimeError as e:
        if isinstance(e, getattr(torch.cuda, "OutOfMemoryError", ())) or "can't allocate memory" in str(e):
            raise OutOfMemory(str(e).splitlines()[0]) from e
        raise


class Clock:
    """Measures the phases of a step; times of the same name add up."""

    def __init__(self, device: torch.device):
        self.device = device
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now

    def phases(self) -> Sequence[Phase]:
        return [Phase(name, seconds) for name, seconds in self.seconds.items()]
