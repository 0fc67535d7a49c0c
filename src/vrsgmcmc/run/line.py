"""The line of units that a run goes along: a unit is a part of a refresh, or a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """The line of units: each cycle is `parts` parts of a refresh and then `cycle` steps."""

    cycle: int
    parts: int

    def place(self, unit: int) -> tuple[int, int]:
        return divmod(unit, self.cycle + self.parts)

    def unit(self, step: int) -> int:
        """Where a step begins: with its cycle's refresh, when it is the first of the cycle."""
        number, offset = divmod(step, self.cycle)
        return number * (self.cycle + self.parts) + (self.parts + offset if offset else 0)

    def steps_before(self, unit: int) -> int:
        number, offset = self.place(unit)
        return number * self.cycle + max(0, offset - self.parts)

    def parts_between(self, start: int, stop: int) -> Iterator[int]:
        """The parts of refreshes among units [start, stop)."""
        for number in range(self.place(start)[0], self.place(stop - 1)[0] + 1):
            first = number * (self.cycle + self.parts)
            yield from range(max(start - first, 0), min(stop - first, self.parts))
