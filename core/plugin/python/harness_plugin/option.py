"""Settings of plugins: text under known names, each with a default."""

from __future__ import annotations

import dataclasses
import difflib
import math
from typing import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Option:
    """A setting of a plugin."""

    name: str  # lower case with underscores
    default: str  # the value when none is given
    doc: str  # one line


class Values:
    """The settings of one session, with all defaults filled in. A bad value is a ValueError that says what is allowed."""

    def __init__(self, known: Sequence[Option], given: Mapping[str, str]):
        self._values = {o.name: o.default for o in known}
        for name in sorted(given):
            if name not in self._values:
                raise ValueError(f'no option is named "{name}"{hint(name, self._values)} (known: {", ".join(self._values)})')
            self._values[name] = given[name]

    def text(self, name: str) -> str:
        return self._values[name]

    def one_of(self, name: str, *choices: str) -> str:
        value = self._values[name]
        if value not in choices:
            raise self._bad(name, f"one of {', '.join(choices)}{hint(value, choices)}")
        return value

    def boolean(self, name: str) -> bool:
        value = self._values[name].lower()
        if value not in ("true", "false", "1", "0"):
            raise self._bad(name, "true or false")
        return value in ("true", "1")

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number from low to high."""
        try:
            value = float(self._values[name])
        except ValueError:
            value = math.nan
        if not (low <= value <= high and math.isfinite(value)):
            raise self._bad(name, f"a number from {low:g} to {high:g}")
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        try:
            value = int(self._values[name])
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise self._bad(name, f"a whole number from {low} to {high}")
        return value

    def _bad(self, name: str, want: str) -> ValueError:
        return ValueError(f'option {name} is "{self._values[name]}", want {want}')


def hint(word: str, known: Sequence[str] | Mapping[str, str]) -> str:
    """', did you mean X?' for the nearest known word, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f", did you mean {near[0]}?" if near else ""
