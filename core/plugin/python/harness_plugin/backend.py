"""Devices that train BERT."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any, Callable, Iterator, Sequence

import grpc
import numpy as np

from . import _protocol
from ._sessions import Sessions, answering, chunks, streaming
from .bert import UNLABELLED, Batch, Losses, Program, program_from_wire, receive
from .errors import Cancelled, Unsupported
from .memory import Memory
from .option import Option, Values, hint

MAX_STATE = 8 << 20  # bytes of a session's private state


@dataclasses.dataclass(frozen=True)
class Precision:
    """A set of number formats under one name, such as fp32 or bf16."""

    name: str
    doc: str
    # Largest relative errors (norm of the difference over norm of the reference) that outputs and gradients may have
    # against float64 results on a small model without dropout, and where these bounds come from.
    output_tolerance: float
    gradient_tolerance: float
    reason: str


@dataclasses.dataclass(frozen=True)
class Traced:
    """What an operator stored, or its gradient. The comments of TracedChunk in backend.proto list the operators."""

    operator: str  # by the name of Hugging Face's module
    values: np.ndarray  # rows of tokens, sequences or masked positions, whatever axes they are cut into
    gradient: bool = False  # of scale times the mean loss of the global batch
    scale: float = 1.0
    format: str = ""  # that the device stores it in: fp32, tf32, bf16 or fp16; empty: unknown


@dataclasses.dataclass(frozen=True)
class Step:
    """Names a step and the denominators of its mean losses."""

    number: int  # 1, 2, ...: keys random streams; a resumed run goes on counting
    sequences: int  # in the global batch
    masked_weight: float  # sum of masked_lm_weights over the global batch; pre-training only
    label_weight: float  # labelled tokens of the global batch; token classification only
    check: Callable[[], None]  # raises if the host has cancelled the step; long steps should call it now and then
    # Takes what an operator of the first micro-batch stored, see Traced. None: the host does not want it.
    trace: Callable[[Traced], None] | None = None


@dataclasses.dataclass(frozen=True)
class Phase:
    """A measured part of a step, such as forward."""

    name: str
    seconds: float


@dataclasses.dataclass
class StepResult:
    losses: Losses  # summed over the global batch
    finite: bool = True  # False: a gradient is infinite or not a number; the host skips the update
    loss_scale: float = 1.0  # of this step
    overflows: int = 0  # values that left the range of the number format, where the backend counts them
    phases: Sequence[Phase] = ()


@dataclasses.dataclass
class Evaluation:
    """The result of one batch: the outputs that were asked for, and its losses if it has labels."""

    outputs: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    losses: Losses = dataclasses.field(default_factory=Losses)


class Session:
    """An opened program. Its calls come one at a time, on one thread."""

    # Step.trace is called if it is set: harness compare --lockstep then finds the operator at which two backends
    # diverge.
    traces: bool = False

    def step(self, step: Step, batches: Iterator[Batch]) -> StepResult:
        """Runs forward and backward over all micro-batches and leaves the gradient of the mean loss of the global batch
        in memory.grads: unscaled, every element of every tensor set. It does not change parameters. Each micro-batch
        has micro_batch sequences, in the order of their samples."""
        raise NotImplementedError(f"{type(self).__name__} has no method step")

    def commit(self, step: int) -> None:
        """Converts memory.params to the device's own format and writes back what the device really keeps. It is called
        with step 0 before the first step, and after every change of the parameters."""

    def evaluate(self, batch: Batch, outputs: Sequence[str], labels: bool) -> Evaluation:
        """Runs forward without dropout. Program.outputs has the names and shapes of outputs."""
        raise NotImplementedError(f"{type(self).__name__} has no method evaluate")

    def save(self) -> bytes:
        """The session's private state (loss scaler, counters): together with the parameters it is enough to continue
        with the same bits in another process. It is at most 8 MiB, and not empty."""
        return b"\0"

    def load(self, state: bytes) -> None:
        """Restores what save returned. Anything else is a ValueError."""
        if state != b"\0":
            raise ValueError(f"state of {len(state)} bytes, want that of a session without state")

    def close(self) -> None:
        """Frees what the session holds."""


class Backend:
    """A kind of device. Subclasses say what it is and open sessions."""

    name: str = ""
    version: str = "1"
    doc: str = ""  # one line
    precisions: Sequence[Precision] = ()  # at least one; the first is the default
    options: Sequence[Option] = ()
    # A session can repeat a step, with the same number and batch, after a commit of other parameters: for optimizers
    # that need a second gradient.
    repeats_steps: bool = False

    def open(self, program: Program, memory: Memory) -> Session:
        """Prepares the device for a program over the host's memory. A program that it cannot run is a ValueError that
        says what it accepts."""
        raise NotImplementedError(f"{type(self).__name__} has no method open")


@dataclasses.dataclass
class _Opened:
    """A session and what the service must know about it."""

    session: Session
    program: Program
    committed: bool = False

    def close(self) -> None:
        self.session.close()


class _Server:
    """Answers a host's calls with a backend."""

    def __init__(self, backend: Backend, sessions: Sessions):
        self.backend = backend
        self.sessions = sessions

    def describe(self, request: Any, context: grpc.ServicerContext) -> Any:
        b = self.backend
        options = [_protocol.Option(name=x.name, default_value=x.default, doc=x.doc) for x in b.options]
        precisions = [_protocol.Precision(**vars(p)) for p in b.precisions]
        return _protocol.DescribeBackendResponse(
            name=b.name, version=b.version, doc=b.doc, options=options, precisions=precisions, repeats_steps=b.repeats_steps
        )

    def estimate(self, request: Any, context: grpc.ServicerContext) -> Any:
        raise Unsupported("the backend has no model of its machine")

    def open(self, request: Any, context: grpc.ServicerContext) -> Any:
        b = self.backend
        options = Values(b.options, request.program.options)
        program = program_from_wire(request.program, options, _precision(b, request.program.precision))
        program.validate()
        want = program.parameters()

        def prepare(memory: Memory) -> _Opened:
            if memory.layout != want:
                raise ValueError("memory's layout is not that of the program's parameters")
            return _Opened(b.open(program, memory), program)

        return _protocol.OpenBackendResponse(session=self.sessions.open(request.memory, 2, prepare))

    def step(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        return self._step(requests, context, None)

    def trace(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        seen: list[Traced] = []
        result = self._step(requests, context, seen)
        for t in seen:
            flat = t.values.reshape(-1, t.values.shape[-1])
            for _, values in chunks(flat.ravel()):
                yield _protocol.TraceResponse(traced=_protocol.TracedChunk(
                    operator=t.operator, gradient=t.gradient, scale=t.scale, format=t.format, shape=flat.shape, values=values,
                ))  # fmt: skip
        yield _protocol.TraceResponse(result=result)

    def _step(self, requests: Iterator[Any], context: grpc.ServicerContext, seen: list[Traced] | None) -> Any:
        """Runs a step and answers it. seen collects what operators store; None: the step is not traced."""
        began = time.perf_counter()
        start = _start(requests, "step")
        with self.sessions.acquire(start.session, context) as entry:
            opened: _Opened = entry.session
            if not opened.committed:
                raise ValueError(f"step {start.step}: no parameters were committed, want Commit before the first Step")
            if start.step < 1:
                raise ValueError(f"step is {start.step}, want at least 1")
            if seen is not None and not opened.session.traces:
                raise Unsupported("the backend can't show what its operators store")

            def check() -> None:
                if not context.is_active():
                    raise Cancelled

            def trace(t: Traced) -> None:
                seen.append(dataclasses.replace(t, values=np.array(t.values, "<f4")))

            def work() -> StepResult:
                entry.memory.layout.clear_padding(entry.memory.grads)
                batches = _micro_batches(opened.program, start, receive(opened.program, True, requests, context.is_active))
                step = Step(start.step, start.sequences, start.masked_weight, start.label_weight, check, None if seen is None else trace)
                result = opened.session.step(step, batches)
                check()
                if next(batches, None) is not None:
                    raise ValueError(f"{type(opened.session).__name__}.step returned before the last micro-batch")
                return result

            r = entry.run(work)
        phases = [_protocol.Phase(name=p.name, seconds=p.seconds) for p in r.phases]
        return _protocol.BackendStepResponse(
            losses=r.losses.to_wire(), finite=r.finite, loss_scale=r.loss_scale, overflows=r.overflows, phases=phases,
            seconds=time.perf_counter() - began,
        )  # fmt: skip

    def commit(self, request: Any, context: grpc.ServicerContext) -> Any:
        with self.sessions.acquire(request.session, context) as entry:
            entry.run(entry.session.session.commit, request.step)
            entry.session.committed = True
        return _protocol.CommitResponse()

    def evaluate(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        start = _start(requests, "evaluation")
        losses = Losses()
        with self.sessions.acquire(start.session, context) as entry:
            opened: _Opened = entry.session
            for batch in receive(opened.program, start.labels, requests, context.is_active):
                shapes = opened.program.outputs(batch)
                for name in start.outputs:
                    if name not in shapes:
                        raise ValueError(f'no output is named "{name}"{hint(name, shapes)} (known: {", ".join(shapes)})')
                e = entry.run(opened.session.evaluate, batch, list(start.outputs), start.labels)
                losses += e.losses
                for name in dict.fromkeys(start.outputs):
                    if name not in e.outputs or e.outputs[name].shape != shapes[name]:
                        got = list(e.outputs[name].shape) if name in e.outputs else "missing"
                        raise ValueError(f"output {name} is {got}, want shape {list(shapes[name])}")
                    for _, values in chunks(np.ravel(e.outputs[name])):
                        chunk = _protocol.OutputChunk(name=name, shape=shapes[name], values=values)
                        yield _protocol.EvaluateResponse(output=chunk)
                yield _protocol.EvaluateResponse(end=_protocol.BatchEnd())
        yield _protocol.EvaluateResponse(result=_protocol.EvaluateResult(losses=losses.to_wire()))

    def save(self, request: Any, context: grpc.ServicerContext) -> Any:
        with self.sessions.acquire(request.session, context) as entry:
            state = entry.run(entry.session.session.save)
        if len(state) > MAX_STATE:
            raise ValueError(
                f"private state of {len(state)} bytes, want at most {MAX_STATE}: large state belongs in memory that the host owns"
            )
        return _protocol.SaveResponse(state=state)

    def load(self, request: Any, context: grpc.ServicerContext) -> Any:
        with self.sessions.acquire(request.session, context) as entry:
            entry.run(entry.session.session.load, request.state)
        return _protocol.LoadResponse()

    def close(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.sessions.close(request.session, context)
        return _protocol.CloseResponse()


def service(backend: Backend, sessions: Sessions) -> grpc.GenericRpcHandler:
    """The gRPC service of a backend."""
    s = _Server(backend, sessions)
    unary = {
        "Describe": s.describe, "Estimate": s.estimate, "Open": s.open, "Step": s.step, "Commit": s.commit,
        "Save": s.save, "Load": s.load, "Close": s.close,
    }  # fmt: skip
    methods = {name: answering(f) for name, f in unary.items()}
    return _protocol.service("Backend", {**methods, "Evaluate": streaming(s.evaluate), "Trace": streaming(s.trace)})


def _start(requests: Iterator[Any], what: str) -> Any:
    first = next(requests, None)
    if first is None or first.WhichOneof("message") != "start":
        raise ValueError(f"the first message of the {what} is not its start")
    return first.start


def _precision(b: Backend, name: str) -> str:
    names = [p.name for p in b.precisions]
    if name and name not in names:
        raise ValueError(f'no precision is named "{name}"{hint(name, names)} (known: {", ".join(names)})')
    return name or names[0]


def _micro_batches(p: Program, start: Any, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Checks the micro-batches of a step against the program and the start of the step."""
    if start.sequences != p.global_batch:
        raise ValueError(
            f"step {start.step}: global batch of {start.sequences} sequences, "
            f"want micro_batch {p.micro_batch} x accumulation {p.accumulation} x replicas {p.replicas} = {p.global_batch}"
        )
    count, want, weight, labelled = 0, p.accumulation * p.replicas, 0.0, 0
    for batch in batches:
        if count == want:
            raise ValueError(
                f"step {start.step}: more than {want} micro-batches, want accumulation {p.accumulation} x replicas {p.replicas}"
            )
        if batch.size != p.micro_batch or batch.sample != count * p.micro_batch:
            raise ValueError(
                f"step {start.step}: micro-batch {count} has {batch.size} sequences from sample {batch.sample}, "
                f"want {p.micro_batch} from {count * p.micro_batch}"
            )
        if batch.length > p.length or p.pretraining and batch.predictions > p.max_predictions:
            raise ValueError(
                f"step {start.step}: micro-batch {count} has {batch.length} tokens and {batch.predictions} predictions a sequence, "
                f"want at most {p.length} and {p.max_predictions}"
            )
        weight += float(batch.masked_lm_weights.sum(dtype=np.float64))
        labelled += int((batch.labels != UNLABELLED).sum())
        count += 1
        yield batch
    if count < want:
        raise ValueError(
            f"step {start.step}: {count} micro-batches, want accumulation {p.accumulation} x replicas {p.replicas} = {want}"
        )
    # A wrong denominator would silently train at another learning rate.
    if p.task == "token_classification" and labelled != start.label_weight:
        raise ValueError(f"step {start.step}: {start.label_weight} labelled tokens were announced, the micro-batches have {labelled}")
    if p.pretraining and not math.isclose(weight, start.masked_weight, rel_tol=1e-6):
        raise ValueError(f"step {start.step}: masked weight {start.masked_weight} was announced, the micro-batches have {weight}")
