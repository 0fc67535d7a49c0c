"""How long a call of a compiled program should be: long enough to be cheap, short enough to look up."""

from __future__ import annotations

import numpy as np

SECONDS_PER_CHUNK = 0.5


class Pace:
    """How many units the next call should make, so that it takes about as long as wanted.

    A call has a price of its own (SAGA's table is copied once): two calls of different lengths show it.
    Where it is high, calls are made longer, so that it is not the greater part of their time.
    """

    def __init__(self, length: int):
        self.length, self.price = length, 0.0
        self.calls = 0  # the first one compiles
        self.other = 0, 0.0  # an earlier one of another length

    def took(self, length: int, seconds: float) -> None:
        """So many units took so long."""
        before, then = self.other
        self.calls += 1
        if before and max(before, length) >= 1.5 * min(before, length):
            each = max((seconds - then) / (length - before), 0.0)
            self.price = float(np.clip(seconds - each * length, 0.0, seconds))
            self.other = length, seconds
        elif self.calls == 2:
            self.other = length, seconds
        work = np.clip(4 * self.price, SECONDS_PER_CHUNK, 4 * SECONDS_PER_CHUNK) - self.price
        wanted = length * max(work, self.price) / max(seconds - self.price, 1e-6)
        whole = np.ceil(wanted) if wanted > length else np.floor(wanted)
        self.length = int(np.clip(whole, 1, 8 * length))
