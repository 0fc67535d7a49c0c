"""When a run has enough draws: the effective number, looked at on a fixed grid of steps.

The grid depends on the decision alone, not on a clock, so that the same call ends at the same step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vrsgmcmc.core import Params
from vrsgmcmc.run import Stop

from ..accuracy.effective import least_effective

RATIO = 1.25  # of two neighbouring looks
MOST = 32.0  # times the forecast: then a run ends without its target


def grid(forecast: float, most: float, burn_in: int, thin: int) -> tuple[int, ...]:
    """Steps to look at, for a forecast of the steps after burn-in, and at most `most` in all."""
    last = min(most, burn_in + MOST * forecast)
    last = burn_in + max(thin, int(last - burn_in) // thin * thin)
    steps, next_ = [], 0.8 * forecast
    while burn_in + next_ < last:
        steps.append(burn_in + max(thin, int(np.ceil(next_ / thin)) * thin))
        next_ *= RATIO
    return tuple(sorted({step for step in steps if step < last} | {last}))


@dataclass(frozen=True)
class Enough:
    """Whether the draws are worth `ess` independent ones, for every parameter's mean and sd."""

    ess: float

    def __call__(self, draws: Params) -> bool:
        return least_effective(draws) >= self.ess


def stop_at(steps: tuple[int, ...], ess: float) -> Stop:
    return Stop(steps, Enough(ess))
