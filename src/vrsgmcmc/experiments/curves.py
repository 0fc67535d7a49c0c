"""Curves of a score against a cost, and the comparison of two of them.

Curves are compared on the part of the cost axis that all of them cover. "Lower" means lower at the end
of that part, by more than two standard errors over seeds, or at all with one seed. Curves that do not
overlap, or became non-finite, are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from vrsgmcmc.core import Sampler

from .methods import paper_evaluations
from .segments import Trace

PLACES = 50  # at which curves are compared, evenly on a logarithmic axis


class Curve(NamedTuple):
    cost: Float[np.ndarray, " points"]
    values: Float[np.ndarray, "points chain"]

    def at(self, cost: Float[np.ndarray, " places"]) -> Float[np.ndarray, "places chain"]:
        """The values at other costs, interpolated on a logarithmic axis."""
        x = np.log(self.cost)
        return np.stack([np.interp(np.log(cost), x, column) for column in self.values.T], 1)


class Comparison(NamedTuple):
    """Result of comparing two curves; `lower` is None if they cannot be compared."""

    share: float  # of the common part of the axis, where the first curve is lower
    ends: tuple[float, float]  # means over seeds at the end of that part
    lower: bool | None  # whether the first curve is lower there

    @property
    def mostly_lower(self) -> bool | None:
        return None if np.isnan(self.share) else self.share > 0.5

    @property
    def clearly_lower(self) -> bool | None:
        """Lower on most of the common part, and at its end."""
        return None if self.lower is None else bool(self.mostly_lower and self.lower)


class MethodResult(NamedTuple):
    """The curves of a method at its best step size, and what they cost."""

    sampler: Sampler
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
        return self.sampler.evaluations(self.size, self.trace.ends) / self.size

    def paper_passes(self) -> Float[np.ndarray, " points"]:
        return paper_evaluations(self.sampler, self.size, self.trace.ends) / self.size

    def seconds(self) -> Float[np.ndarray, " points"]:
        """For one chain: the time of all chains, divided by their number."""
        return self.trace.seconds / len(self.trace.diverged)

    def curve(self, axis: Axis, measure: str = "nll") -> Curve:
        """A score on the test data against a cost."""
        return Curve(axis(self), self.scores["test"][measure])

    def final(self, measure: str, rows: str = "test") -> tuple[float, float]:
        """The mean over chains at the end, and its standard error (NaN for one chain)."""
        values = self.scores[rows][measure][-1]
        return float(values.mean()), standard_error(values)


Results: TypeAlias = Mapping[str, MethodResult]  # by the name of the method
Axis: TypeAlias = Callable[[MethodResult], np.ndarray]  # the cost of each point of a curve
AXES: dict[str, Axis] = {
    "data passes": MethodResult.passes,
    "passes as the paper counts (n1/m + n2 per step)": MethodResult.paper_passes,
    "seconds for one chain": MethodResult.seconds,
}


def point_rows(columns: Mapping[str, np.ndarray], **labels: Any) -> list[dict[str, Any]]:
    """A row for each point of a curve: the labels, and its value in every column."""
    points = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [{**labels, **dict(zip(columns, point, strict=True))} for point in points]


def compare(one: Curve, other: Curve) -> Comparison:
    first, last = common_range([one, other])
    if not first < last:
        return Comparison(np.nan, (np.nan, np.nan), None)
    costs = np.geomspace(first, last, PLACES)
    ours, theirs = one.at(costs), other.at(costs)
    a, b = ours.mean(1), theirs.mean(1)
    if not np.isfinite(a + b).all():
        return Comparison(np.nan, (float(a[-1]), float(b[-1])), None)
    deviation = np.hypot(standard_error(ours[-1]), standard_error(theirs[-1]))
    lower = a[-1] + 2 * np.nan_to_num(deviation) < b[-1]
    return Comparison(float(np.mean(a < b)), (float(a[-1]), float(b[-1])), bool(lower))


def common_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """The first and the last cost of the part of the axis that all curves cover."""
    return max(each.cost[0] for each in curves), min(each.cost[-1] for each in curves)


def standard_error(values: Float[np.ndarray, " n"]) -> float:
    """Of the mean; NaN for one value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def grade(*conditions: bool | None) -> str:
    """The answer to a claim with these conditions; None: one of them could not be tested."""
    if None in conditions:
        return "not tested"
    return "yes" if all(conditions) else "in part" if any(conditions) else "no"


def if_finite(value: float, text: str) -> str:
    return text if np.isfinite(value) else "unknown"


def describe_comparisons(comparisons: Mapping[str, Comparison]) -> str:
    """In words, for each axis."""
    return "; ".join(
        f"on an unknown part of the curve by {label}"
        if np.isnan(each.share)
        else f"on {each.share:.0%} of the curve by {label}, ending at {each.ends[0]:.4f} against "
        f"{each.ends[1]:.4f}"
        for label, each in comparisons.items()
    )


def three_digits(value: float) -> str:
    """2670, where the format .3g has 2.67e+03."""
    return f"{float(f'{value:.3g}'):g}"


def format_score(measure: str, value: float) -> str:
    return f"{value:.2%}" if measure == "error" else f"{value:.4g}"
