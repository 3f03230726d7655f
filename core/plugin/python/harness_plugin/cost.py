"""What an update costs, for models of machines."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterable, Sequence

from . import _protocol
from .memory import Tensor


@dataclasses.dataclass(frozen=True)
class SlotFormat:
    """A slot and the format in which a machine would keep it. In memory it is always float32."""

    name: str
    format: str = "fp32"  # of an element, such as fp32, fp16, bf16, int8
    bits: int = 32  # of an element


@dataclasses.dataclass(frozen=True)
class Product:
    """Groups of matrix products [m, k] x [k, n] in float32, computed together count times a step, which may be a fraction."""

    count: float
    groups: int
    m: int
    k: int
    n: int


@dataclasses.dataclass(frozen=True)
class TensorCost:
    """What a rule keeps and does for one tensor in a step. Every element of its state is read and written once."""

    flops: float  # on single elements; a root or a division is one
    state: Sequence[int] = ()  # elements in each slot; empty: as many as the tensor has, in every slot
    products: Sequence[Product] = ()  # matrix products, which flops leaves out
    params: float = 2  # how often each parameter is read or written
    grads: float = 1  # how often each element of the gradient is read or written
    scratch: float = 0  # float32 elements of intermediate results that are read or written besides
    kernels: float = 0  # that only this tensor has; 0: it is updated together with others


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a rule keeps for the tensors of a layout and does with them in one step, on any machine."""

    slots: Sequence[SlotFormat]  # in the order of Optimizer.slots
    tensors: Sequence[TensorCost]  # one for each tensor, in their order
    fused: bool = False  # every program in use updates all tensors with a few kernels, also in full precision
    assumed: str = ""  # what the rule does not know about itself and assumes, in words

    @classmethod
    def over(cls, tensors: Iterable[Tensor], slots: Sequence[str], of: Callable[[Tensor], TensorCost], **more: Any) -> Cost:
        """The cost of a rule with float32 slots whose work on a tensor is of."""
        return cls([SlotFormat(name) for name in slots], [of(t) for t in tensors], **more)


def to_wire(c: Cost, probes: bool) -> Any:
    fields = ("flops", "params", "grads", "scratch", "kernels")
    return _protocol.UpdateCost(
        slots=[_protocol.SlotFormat(**dataclasses.asdict(s)) for s in c.slots],
        tensors=[
            _protocol.TensorCost(
                state=t.state,
                products=[_protocol.Product(**dataclasses.asdict(p)) for p in t.products],
                **{name: getattr(t, name) for name in fields},
            )
            for t in c.tensors
        ],
        probes=probes,
        fused=c.fused,
        assumed=c.assumed,
    )
