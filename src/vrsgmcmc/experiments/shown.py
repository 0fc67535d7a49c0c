"""What a method showed of a network: its curves, and what they cost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vrsgmcmc.experiments.follow import Trace
from vrsgmcmc.experiments.methods import Method


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
        """For one chain."""
        return self.trace.seconds / len(self.trace.diverged)

    def final(self, measure: str, rows: str = "test") -> tuple[float, float]:
        """The mean over chains at the end, and its standard error (NaN for one chain)."""
        values = self.scores[rows][measure][-1]
        return float(values.mean()), standard_error(values)


def standard_error(values: Float[np.ndarray, " n"]) -> float:
    """Of the mean; NaN for one value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def told(measure: str, value: float) -> str:
    return f"{value:.2%}" if measure == "error" else f"{value:.4g}"
