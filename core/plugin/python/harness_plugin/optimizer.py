"""Update rules."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any, Protocol, Sequence

import grpc
import numpy as np

from . import _protocol
from ._sessions import Sessions, answering
from .cost import Cost, to_wire
from .errors import Unsupported
from .memory import Kind, Layout, Memory, Tensor
from .option import Option, Values

BLOCK = 1 << 14  # elements that norm sums at a time
MAX_SLOTS = 64


@dataclasses.dataclass(frozen=True)
class Update:
    """One step of an optimizer."""

    number: int  # 1, 2, ...: of this update, skipped steps not counted; the t of bias correction
    lr: float  # learning rate of this step, from the recipe's schedule
    gradient_norm: float  # global L2 norm of the gradients


class Rule(Protocol):
    """An optimizer opened on the memory of one session. It has probe and average, too, if the optimizer says so."""

    def step(self, update: Update) -> None: ...
    def close(self) -> None: ...


class Optimizer:
    """An update rule: a subclass says what it is, which state it needs, and what a step does.

    A step is a pure function of memory, options and update. Nothing may be kept between calls: the host owns all state,
    writes it to checkpoints, and may start another process in the middle of a run.
    """

    name: str = ""
    version: str = "1"
    doc: str = ""  # one line, with the paper
    options: Sequence[Option] = ()
    probes: bool = False  # the rule needs a second gradient in each step, see probe
    averages: bool = False  # its model has other parameters than those it trains, see average

    def slots(self, options: Values) -> Sequence[str]:
        """Names the state that the rule keeps for each parameter under these options, such as m and v. Read all options
        here, so that bad ones are an error."""
        return ()

    def cost(self, options: Values, tensors: Sequence[Tensor]) -> Cost | None:
        """States what an update of tensors costs, for models of machines. None: the rule is priced by its slots."""
        return None

    def step(self, options: Values, memory: Memory, update: Update) -> None:
        """Updates memory.params and memory.slots in place from memory.grads, which it may overwrite. Padding must stay zero."""
        raise NotImplementedError(f"{type(self).__name__} has no method step")

    def probe(self, options: Values, memory: Memory, update: Update) -> None:
        """Moves memory.params to where the rule needs a second gradient of the step's batch; memory.grads has the first one.
        Harness restores the parameters, and step gets the second gradient. Slots may carry something to that step, which
        does not come if the second gradient is not finite."""
        raise NotImplementedError(f"{type(self).__name__} has no method probe")

    def average(self, options: Values, memory: Memory, updates: int) -> None:
        """Replaces memory.params by the parameters of the model after that many updates, at least 1. Slots must not change.
        Harness restores the parameters before training continues."""
        raise NotImplementedError(f"{type(self).__name__} has no method average")

    def open(self, options: Values, memory: Memory) -> Rule:
        """Prepares updates of one memory. Rules with nothing to prepare implement only step, and probe or average."""
        return _Stateless(self, options, memory)


@dataclasses.dataclass(frozen=True)
class _Stateless:
    optimizer: Optimizer
    options: Values
    memory: Memory

    def step(self, update: Update) -> None:
        self.optimizer.step(self.options, self.memory, update)

    def probe(self, update: Update) -> None:
        self.optimizer.probe(self.options, self.memory, update)

    def average(self, updates: int) -> None:
        self.optimizer.average(self.options, self.memory, updates)

    def close(self) -> None:
        pass


def norm(section: np.ndarray) -> float:
    """The L2 norm of a section. Each block is summed in float32, which is exact enough at that length, their sums in float64."""
    return math.sqrt(sum(float(np.dot(b, b)) for b in (section[i : i + BLOCK] for i in range(0, len(section), BLOCK))))


def service(o: Optimizer, sessions: Sessions) -> grpc.GenericRpcHandler:
    """Answers a host's calls with an optimizer."""

    def describe(request: Any, context: grpc.ServicerContext) -> Any:
        options = [_protocol.Option(name=x.name, default_value=x.default, doc=x.doc) for x in o.options]
        return _protocol.DescribeOptimizerResponse(
            name=o.name, version=o.version, doc=o.doc, options=options, probes=o.probes, averages=o.averages
        )

    def slots(request: Any, context: grpc.ServicerContext) -> Any:
        return _protocol.SlotsResponse(names=o.slots(Values(o.options, request.options)))

    def cost(request: Any, context: grpc.ServicerContext) -> Any:
        layout = Layout(Tensor(t.name, tuple(t.shape), Kind(t.kind)) for t in request.tensors)
        stated = o.cost(Values(o.options, request.options), layout.tensors)
        if stated is None:
            raise Unsupported("the optimizer states no cost")
        return _protocol.CostResponse(cost=to_wire(stated, o.probes))

    def open(request: Any, context: grpc.ServicerContext) -> Any:
        options = Values(o.options, request.options)
        names = o.slots(options)
        if request.slots != len(names) or len(names) > MAX_SLOTS:
            raise ValueError(f"memory has {request.slots} slots, want {len(names)} and at most {MAX_SLOTS}")
        number = sessions.open(request.memory, 2 + request.slots, lambda memory: o.open(options, memory))
        return _protocol.OpenOptimizerResponse(session=number)

    def update(request: Any, context: grpc.ServicerContext, call: str) -> float:
        """Makes a session's call about an update. Returns the norm of the gradients."""
        if request.step < 1:
            raise ValueError(f"step is {request.step}, want at least 1")
        if not 0 <= request.learning_rate <= float(np.finfo(np.float32).max):
            raise ValueError(f"learning rate is {request.learning_rate}, want a finite number of at least 0")
        if not 0 <= request.gradient_norm < math.inf:
            raise ValueError(f"gradient norm is {request.gradient_norm}, want a finite number of at least 0")
        with sessions.acquire(request.session, context) as entry:

            def run() -> float:
                n = request.gradient_norm or norm(entry.memory.grads)
                getattr(entry.session, call)(Update(request.step, request.learning_rate, n))
                return n

            return entry.run(run)

    def step(request: Any, context: grpc.ServicerContext) -> Any:
        began = time.perf_counter()
        n = update(request, context, "step")
        return _protocol.OptimizerStepResponse(gradient_norm=n, seconds=time.perf_counter() - began)

    def probe(request: Any, context: grpc.ServicerContext) -> Any:
        update(request, context, "probe")
        return _protocol.OptimizerProbeResponse()

    def average(request: Any, context: grpc.ServicerContext) -> Any:
        if request.step < 1:
            raise ValueError(f"average after {request.step} updates, want at least 1")
        with sessions.acquire(request.session, context) as entry:
            entry.run(entry.session.average, request.step)
        return _protocol.AverageResponse()

    def close(request: Any, context: grpc.ServicerContext) -> Any:
        sessions.close(request.session, context)
        return _protocol.CloseResponse()

    calls = {"Describe": describe, "Slots": slots, "Cost": cost, "Open": open, "Step": step, "Close": close}
    calls |= {"Probe": probe} if o.probes else {}
    calls |= {"Average": average} if o.averages else {}
    return _protocol.service("Optimizer", {name: answering(f) for name, f in calls.items()})
