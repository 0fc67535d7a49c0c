"""Curves of a score against a cost, compared on the part of the cost axis that all of them have.

"Lower" means lower where that part ends, by more than two standard errors over seeds, or at all where
there is one seed. Where curves have nothing in common, or left the numbers, nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

PLACES = 50  # at which curves are compared, evenly on a logarithmic axis


class Curve(NamedTuple):
    cost: Float[np.ndarray, " points"]
    values: Float[np.ndarray, "points chain"]

    def at(self, where: Float[np.ndarray, " places"]) -> Float[np.ndarray, "places chain"]:
        """The values between the points."""
        x = np.log(self.cost)
        return np.stack([np.interp(np.log(where), x, column) for column in self.values.T], 1)


class Comparison(NamedTuple):
    """Of two curves. None: it cannot be said."""

    share: float  # of what they have in common, where the first is the lower one
    ends: tuple[float, float]  # means over seeds, where that ends
    lower: bool | None  # whether the first is the lower one there

    @property
    def mostly(self) -> bool | None:
        return None if np.isnan(self.share) else self.share > 0.5


def compare(one: Curve, other: Curve) -> Comparison:
    first, last = in_common([one, other])
    if not first < last:
        return Comparison(np.nan, (np.nan, np.nan), None)
    where = np.geomspace(first, last, PLACES)
    ours, theirs = one.at(where), other.at(where)
    a, b = ours.mean(1), theirs.mean(1)
    if not np.isfinite(a + b).all():
        return Comparison(np.nan, (float(a[-1]), float(b[-1])), None)
    deviation = np.hypot(standard_error(ours[-1]), standard_error(theirs[-1]))
    lower = a[-1] + 2 * np.nan_to_num(deviation) < b[-1]
    return Comparison(float(np.mean(a < b)), (float(a[-1]), float(b[-1])), bool(lower))


def in_common(curves: Sequence[Curve]) -> tuple[float, float]:
    """Where the part of the axis begins that all curves have, and where it ends."""
    return max(each.cost[0] for each in curves), min(each.cost[-1] for each in curves)


def standard_error(values: Float[np.ndarray, " n"]) -> float:
    """Of the mean; NaN for one value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def graded(*held: bool | None) -> str:
    if None in held:
        return "not tested"
    return "yes" if all(held) else "in part" if any(held) else "no"


def or_unknown(value: float, text: str) -> str:
    return text if np.isfinite(value) else "unknown"


def along(found: Mapping[str, Comparison]) -> str:
    """In words, for each axis."""
    return "; ".join(
        f"on an unknown part of the curve by {label}"
        if np.isnan(each.share)
        else f"on {each.share:.0%} of the curve by {label}, ending at {each.ends[0]:.4f} against "
        f"{each.ends[1]:.4f}"
        for label, each in found.items()
    )
