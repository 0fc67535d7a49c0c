"""The line of units that a run goes along, and how many of them the next call makes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

Clock: TypeAlias = Callable[[], float]  # seconds, such as time.monotonic

FIRST_CHUNK = 64  # units; the next ones are sized by the clock
SECONDS_PER_CHUNK = 0.5


@dataclass(frozen=True)
class Timeline:
    """A unit is a part of a refresh, or a step: a cycle is `parts` parts and then `cycle` steps."""

    cycle: int
    parts: int

    def place(self, unit: int) -> tuple[int, int]:
        """The cycle of a unit, and its number in the cycle."""
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


class Pace:
    """How many units the next call of a compiled program makes, so that it takes about `seconds`.

    A call has a price of its own (SAGA's table is copied once): two calls of different lengths show it.
    Where it is high, calls are made longer, so that it is not the greater part of their time.
    """

    def __init__(self, length: int = FIRST_CHUNK, seconds: float = SECONDS_PER_CHUNK):
        self.length, self.seconds, self.price = length, seconds, 0.0
        self.calls = 0  # the first one compiles
        self.other = 0, 0.0  # an earlier call of another length

    def took(self, length: int, seconds: float) -> None:
        """Learn from a call of `length` units that took `seconds`."""
        before, then = self.other
        self.calls += 1
        if before and max(before, length) >= 1.5 * min(before, length):
            each = max((seconds - then) / (length - before), 0.0)
            self.price = float(np.clip(seconds - each * length, 0.0, seconds))
            self.other = length, seconds
        elif self.calls == 2:
            self.other = length, seconds
        work = np.clip(4 * self.price, self.seconds, 4 * self.seconds) - self.price
        wanted = length * max(work, self.price) / max(seconds - self.price, 1e-6)
        whole = np.ceil(wanted) if wanted > length else np.floor(wanted)
        self.length = int(np.clip(whole, 1, 8 * length))
