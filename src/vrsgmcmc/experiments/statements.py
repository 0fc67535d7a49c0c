"""The paper's statements about networks, answered from the curves of the methods.

"Lower" means lower test loss of the average prediction. Two curves are compared over the part of a
cost axis that both have, on a logarithmic scale, and where that part ends: there by more than two
standard errors over seeds, or at all where there is one seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from vrsgmcmc.estimators import minibatch, practical, svrg
from vrsgmcmc.experiments.methods import Method
from vrsgmcmc.experiments.shown import Shown, standard_error, told
from vrsgmcmc.reports import Claim

Axis: TypeAlias = Callable[[Shown], np.ndarray]  # what the points of a curve cost

SGLD, EQUAL, PAPER = "SGLD, n = 10", "SGLD, n = 30", "vrSG-MCMC, n1 = 100"
SHUFFLED, SVRG, SVRG10 = "vrSG-MCMC, shuffled anchors", "SVRG-LD", "SVRG-LD, m = 10"
METHODS = {
    SGLD: Method(minibatch()),
    EQUAL: Method(minibatch(), batch_size=30),  # costs per step what n1 = 100 does
    PAPER: Method(practical(100, 10)),
    SHUFFLED: Method(practical(100, 10), anchor_order="shuffled"),
    SVRG: Method(svrg()),
    SVRG10: Method(svrg(10)),
}
DEEP = {name: METHODS[name] for name in (SGLD, EQUAL, PAPER)}  # for networks whose passes are dear
AXES = {"data passes": Shown.passes, "the paper's count": Shown.paper_passes}


def answers(shown: Mapping[str, Shown]) -> list[Claim]:
    """What the methods that were run can say."""
    if SGLD not in shown or PAPER not in shown:
        return []
    found = [faster(shown)]
    if SVRG in shown:
        found.append(svrg_ends_lower(shown))
    return [*found, smoother(shown), equal_time(shown)]


def faster(shown: Mapping[str, Shown]) -> Claim:
    ours, theirs = shown[PAPER], shown[SGLD]
    found = {label: compare(ours, theirs, axis) for label, axis in AXES.items()}
    errors = [compare(ours, theirs, axis, ours.measures[1]).lower for axis in AXES.values()]
    names = [name for name in (SGLD, EQUAL, PAPER, SHUFFLED) if name in shown]
    return Claim(
        "vrSG-MCMC converges faster per data pass than SGLD, with lower final test error and loss.",
        graded(*errors, *(held for each in found.values() for held in (each.mostly, each.lower))),
        f"vrSG-MCMC has the lower test NLL {along(found)}. At the end: "
        + "; ".join(f"{name}: {at_the_end(shown[name])}" for name in names)
        + ".",
    )


def svrg_ends_lower(shown: Mapping[str, Shown]) -> Claim:
    found = {label: compare(shown[PAPER], shown[SVRG], axis) for label, axis in AXES.items()}
    ends = [compare(shown[SVRG], shown[PAPER], axis).lower for axis in AXES.values()]
    return Claim(
        "SVRG-LD can end lower but converges more slowly per pass than vrSG-MCMC.",
        graded(*ends, *(each.mostly for each in found.values())),
        f"vrSG-MCMC has the lower test NLL {along(found)}.",
    )


def smoother(shown: Mapping[str, Shown]) -> Claim:
    rough = {name: roughness(shown[name]) for name in (SGLD, EQUAL, PAPER) if name in shown}
    (ours, error), (theirs, other) = rough[PAPER], rough[SGLD]
    answer = graded(ours < theirs, ours + 2 * np.hypot(error, other) < theirs)
    listed = ", ".join(f"{name}: {value:.4f} ± {se:.4f}" for name, (value, se) in rough.items())
    return Claim(
        "Curves are smoother with variance reduction.",
        answer if np.isfinite(ours + theirs) else "not tested",
        f"Mean second difference of the last sample's test NLL in the second half: {listed}.",
    )


def equal_time(shown: Mapping[str, Shown]) -> Claim:
    found = compare(shown[PAPER], shown[SGLD], Shown.seconds)
    return Claim(
        "At equal wall-clock time vrSG-MCMC improves on SGLD.",
        graded(found.mostly, found.lower),
        f"vrSG-MCMC has the lower test NLL {along({'seconds': found})}.",
    )


def graded(*held: bool) -> str:
    return "yes" if all(held) else "in part" if any(held) else "no"


class Comparison(NamedTuple):
    """Of two curves, on what they have in common of a cost axis."""

    share: float  # of it, where the first is the lower one
    ends: tuple[float, float]  # means over seeds, where it ends
    lower: bool  # whether the first is the lower one there

    @property
    def mostly(self) -> bool:
        return self.share > 0.5


def compare(one: Shown, other: Shown, axis: Axis, measure: str = "nll") -> Comparison:
    where = np.geomspace(*in_common(axis, (one, other)), 50)
    ours, theirs = (values_at(each, axis, where, measure) for each in (one, other))
    deviation = np.hypot(standard_error(ours[-1]), standard_error(theirs[-1]))
    a, b = ours.mean(1), theirs.mean(1)
    return Comparison(
        float(np.mean(a < b)),
        (float(a[-1]), float(b[-1])),
        bool(a[-1] + 2 * np.nan_to_num(deviation) < b[-1]),
    )


def along(found: Mapping[str, Comparison]) -> str:
    return "; ".join(
        f"on {each.share:.0%} of the curve by {label}, ending at {each.ends[0]:.4f} against "
        f"{each.ends[1]:.4f}"
        for label, each in found.items()
    )


def in_common(axis: Axis, curves: Sequence[Shown]) -> tuple[float, float]:
    """Where the part of an axis begins that all curves have, and where it ends."""
    return max(axis(each)[0] for each in curves), min(axis(each)[-1] for each in curves)


def values_at(
    each: Shown, axis: Axis, where: Float[np.ndarray, " places"], measure: str = "nll"
) -> Float[np.ndarray, "places chain"]:
    """Test scores between the points of a curve."""
    x, values = np.log(axis(each)), each.scores["test"][measure]
    return np.stack([np.interp(np.log(where), x, column) for column in values.T], 1)


def roughness(each: Shown) -> tuple[float, float]:
    """How much the last sample's loss jumps between points in the second half, and the error of it.

    The error is over seeds, or over the jumps where there is one seed.
    """
    ends = each.trace.ends
    values = each.scores["test_sample"]["nll"][ends > ends[-1] / 2]
    if len(values) < 4:
        return np.nan, np.nan
    jumps = np.abs(np.diff(values, 2, axis=0))
    repeated = jumps.mean(0) if jumps.shape[1] > 1 else jumps[:, 0]
    return float(jumps.mean()), standard_error(repeated)


def at_the_end(each: Shown) -> str:
    return ", ".join(f"test {m} {told(m, each.final(m)[0])}" for m in each.measures)
