"""Memory that the host owns: sections of float32 with one layout."""

from __future__ import annotations

import dataclasses
import enum
import math
import mmap
from typing import Iterable, Sequence

import numpy as np

ALIGN = 16  # elements: each tensor begins at a multiple of 64 bytes
MAX_ELEMENTS = 1 << 38  # of a layout


class Kind(enum.IntEnum):
    """What a tensor is to an update rule. Rules decide by the kind, never by the name."""

    WEIGHT = 0  # matrix of a linear layer, [out, in]
    EMBEDDING = 1  # table of vectors, [entries, width]
    BIAS = 2  # bias of a linear layer
    NORM_SCALE = 3  # gamma of a layer normalisation
    NORM_BIAS = 4  # beta of a layer normalisation

    @property
    def decays(self) -> bool:
        """Whether BERT's weight decay applies: not to biases and layer normalisation (google-research/bert, optimization.py)."""
        return self in (Kind.WEIGHT, Kind.EMBEDDING)


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One named piece of every section."""

    name: str  # Hugging Face's, such as bert.encoder.layer.0.output.dense.weight
    shape: tuple[int, ...]
    kind: Kind
    offset: int = 0  # of the first element, in elements from the start of the section

    def __len__(self) -> int:
        return math.prod(self.shape)

    def of(self, section: np.ndarray) -> np.ndarray:
        """The tensor's elements in a section, in its shape: a view."""
        return section[self.offset : self.offset + len(self)].reshape(self.shape)


class Layout:
    """Where the tensors lie in a section: one after the other, each aligned; the elements between them are padding and stay zero."""

    def __init__(self, tensors: Iterable[Tensor]):
        self.tensors: list[Tensor] = []
        self._padding: list[slice] = []
        size = 0
        names = set()
        for t in tensors:
            if not t.name or t.name in names:
                raise ValueError(f'layout: tensor {len(self.tensors)} is named "{t.name}", want names that are unique and not empty')
            if any(d < 1 for d in t.shape) or size + len(t) > MAX_ELEMENTS:
                raise ValueError(
                    f"layout: {t.name} has shape {list(t.shape)}, want extents of at least 1 and at most {MAX_ELEMENTS} elements"
                )
            names.add(t.name)
            self.tensors.append(dataclasses.replace(t, offset=size))
            end = size + len(t)
            size = -(-end // ALIGN) * ALIGN
            if size > end:
                self._padding.append(slice(end, size))
        self._size = size

    def __len__(self) -> int:
        """Elements of a section, padding included."""
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.tensors == other.tensors

    def clear_padding(self, section: np.ndarray) -> None:
        for s in self._padding:
            section[s] = 0


@dataclasses.dataclass(frozen=True)
class Memory:
    """The memory of a session: flat float32 arrays of len(layout) elements. It is read and written during calls only."""

    layout: Layout
    sections: Sequence[np.ndarray]
    shared: bool  # with the host; else the host sends and fetches sections

    @property
    def params(self) -> np.ndarray:
        return self.sections[0]

    @property
    def grads(self) -> np.ndarray:
        return self.sections[1]

    @property
    def slots(self) -> Sequence[np.ndarray]:
        """The state of an optimizer, in the order in which it named its slots; zero at the start of a run."""
        return self.sections[2:]


def attach(layout: Layout, offsets: Sequence[int], count: int, arena: int | None) -> Memory:
    """Maps the sections that the host placed in its arena, or, without offsets, makes sections for it to fill.

    arena is the descriptor of the arena's file. Sections begin at multiples of 64 KiB, which is a multiple of every page size.
    """
    if not offsets:
        return Memory(layout, [np.zeros(len(layout), np.float32) for _ in range(count)], shared=False)
    if arena is None:
        raise ValueError("memory lies in an arena, but HARNESS_ARENA_FD is not set")
    if len(offsets) != count:
        raise ValueError(f"memory has {len(offsets)} sections, want {count}")
    sections = []
    for offset in offsets:
        try:
            mapped = mmap.mmap(arena, 4 * len(layout), offset=offset)
        except (OSError, OverflowError, ValueError) as e:
            raise ValueError(f"section of {4 * len(layout)} bytes at {offset} of the arena: {e}") from e
        sections.append(np.frombuffer(mapped, np.float32))
    return Memory(layout, sections, shared=True)
