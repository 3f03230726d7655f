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
from .memory import Memory
from .option import Option, Values

BLOCK = 1 << 14  # elements that are added up at a time
MAX_SLOTS = 64


@dataclasses.dataclass(frozen=True)
class Update:
    """One step of an optimizer."""

    number: int  # 1, 2, ...: of this update, skipped steps not counted; the t of bias correction
    lr: float  # learning rate of this step, from the recipe's schedule
    gradient_norm: float  # global L2 norm of the gradients


class Rule(Protocol):
    """An optimizer at work on the memory of one session."""

    def step(self, update: Update) -> None: ...
    def close(self) -> None: ...


class Optimizer:
    """An update rule: a third party's subclass says what it is, which state it needs, and what a step does.

    A step is a pure function of memory, options and update. Nothing may be kept between calls: the host owns all state, writes it into checkpoints, and
    may start another process in the middle of a run.
    """

    name: str = ""
    version: str = "1"
    doc: str = ""  # one line, with the paper
    options: Sequence[Option] = ()

    def slots(self, options: Values) -> Sequence[str]:
        """Names the state that the rule keeps for each parameter under these options, such as m and v. Read all options here: bad ones are an error."""
        return ()

    def step(self, options: Values, memory: Memory, update: Update) -> None:
        """Updates memory.params and memory.slots in place from memory.grads, which may be left changed. Padding must stay zero."""
        raise NotImplementedError(f"{type(self).__name__} has no method step")

    def open(self, options: Values, memory: Memory) -> Rule:
        """Prepares updates of one memory. Rules that have nothing to prepare implement step alone."""
        return _Stateless(self, options, memory)


@dataclasses.dataclass(frozen=True)
class _Stateless:
    optimizer: Optimizer
    options: Values
    memory: Memory

    def step(self, update: Update) -> None:
        self.optimizer.step(self.options, self.memory, update)

    def close(self) -> None:
        pass


def norm(section: np.ndarray) -> float:
    """The L2 norm of a section. Blocks are summed in float32, which is exact enough at that length, and their sums in float64."""
    return math.sqrt(sum(float(np.dot(b, b)) for b in (section[i : i + BLOCK] for i in range(0, len(section), BLOCK))))


def service(o: Optimizer, sessions: Sessions) -> grpc.GenericRpcHandler:
    """Answers a host's calls with an optimizer."""

    def describe(request: Any, context: grpc.ServicerContext) -> Any:
        options = [_protocol.Option(name=x.name, default_value=x.default, doc=x.doc) for x in o.options]
        return _protocol.DescribeOptimizerResponse(name=o.name, version=o.version, doc=o.doc, options=options)

    def slots(request: Any, context: grpc.ServicerContext) -> Any:
        return _protocol.SlotsResponse(names=o.slots(Values(o.options, request.options)))

    def open(request: Any, context: grpc.ServicerContext) -> Any:
        options = Values(o.options, request.options)
        names = o.slots(options)
        if request.slots != len(names) or len(names) > MAX_SLOTS:
            raise ValueError(f"memory has {request.slots} slots, want {len(names)} and at most {MAX_SLOTS}")
        number = sessions.open(request.memory, 2 + request.slots, lambda memory: o.open(options, memory))
        return _protocol.OpenOptimizerResponse(session=number)

    def step(request: Any, context: grpc.ServicerContext) -> Any:
        began = time.perf_counter()
        if request.step < 1:
            raise ValueError(f"step is {request.step}, want at least 1")
        if not 0 <= request.learning_rate <= float(np.finfo(np.float32).max):
            raise ValueError(f"learning rate is {request.learning_rate}, want a finite number of at least 0")
        with sessions.acquire(request.session, context) as entry:

            def run() -> float:
                n = norm(entry.memory.grads)
                entry.session.step(Update(request.step, request.learning_rate, n))
                return n

            n = entry.run(run)
        return _protocol.OptimizerStepResponse(gradient_norm=n, seconds=time.perf_counter() - began)

    def close(request: Any, context: grpc.ServicerContext) -> Any:
        sessions.close(request.session, context)
        return _protocol.CloseResponse()

    calls = {"Describe": describe, "Slots": slots, "Open": open, "Step": step, "Close": close}
    return _protocol.service("Optimizer", {name: answering(f) for name, f in calls.items()})
