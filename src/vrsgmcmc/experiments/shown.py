"""What a method showed of a network: its curves, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vrsgmcmc.experiments.compare import Curve, standard_error
from vrsgmcmc.experiments.methods import Method
from vrsgmcmc.experiments.segments import Trace


class Shown(NamedTuple):
    """A method at its best step size."""

    method: Method
    size: int  # of the data
    step: float  # h N
    tuning: dict[float, dict[str, list[float]]]  # step size -> scores by point
    trace: Trace
    scores: dict[str, dict[str, Float[np.ndarray, "points chain"]]]  # rows -> measure -> values
    last: dict[str, np.ndarray]  # rows -> average predictions [chain, rows, ...] at the end

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(self.scores["test"])

    def passes(self) -> Float[np.ndarray, " points"]:
        return self.method.cost(self.size, self.trace.ends) / self.size

    def paper_passes(self) -> Float[np.ndarray, " points"]:
        return self.method.paper_cost(self.size, self.trace.ends) / self.size

    def seconds(self) -> Float[np.ndarray, " points"]:
        """For one chain: the time of all of them, divided by their number."""
        return self.trace.seconds / len(self.trace.diverged)

    def curve(self, axis: Callable[[Shown], np.ndarray], measure: str = "nll") -> Curve:
        """On test data."""
        return Curve(axis(self), self.scores["test"][measure])

    def final(self, measure: str, rows: str = "test") -> tuple[float, float]:
        """The mean over chains at the end, and its standard error (NaN for one chain)."""
        values = self.scores[rows][measure][-1]
        return float(values.mean()), standard_error(values)


def three_digits(value: float) -> str:
    """2670, where the format .3g has 2.67e+03."""
    return f"{float(f'{value:.3g}'):g}"


def told(measure: str, value: float) -> str:
    return f"{value:.2%}" if measure == "error" else f"{value:.4g}"
