"""The paper's statements, answered from the curves of the methods: test loss of the average prediction.

How two curves are compared is said in `compare.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from vrsgmcmc.core.estimators import minibatch, practical, svrg
from vrsgmcmc.experiments.compare import (
    PLACES,
    along,
    compare,
    graded,
    in_common,
    or_unknown,
    standard_error,
)
from vrsgmcmc.experiments.methods import Method
from vrsgmcmc.experiments.shown import Shown, told
from vrsgmcmc.reports import Claim

Axis: TypeAlias = Callable[[Shown], np.ndarray]  # what the points of a curve cost

ANCHORED = "vrSG-MCMC, n1 = "
SGLD, EQUAL, PAPER = "SGLD, n = 10", "SGLD, n = 30", f"{ANCHORED}100"
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
COINCIDE = 0.02  # of the loss


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
    compared = {
        measure: {
            label: compare(ours.curve(axis, measure), theirs.curve(axis, measure))
            for label, axis in AXES.items()
        }
        for measure in ours.measures
    }
    losses = compared["nll"].values()
    ends = [each.lower for found in compared.values() for each in found.values()]
    names = [name for name in (SGLD, EQUAL, PAPER, SHUFFLED) if name in shown]
    return Claim(
        "vrSG-MCMC converges faster per data pass than SGLD, with lower final test error and loss.",
        graded(*ends, *(each.mostly for each in losses)),
        f"vrSG-MCMC has the lower test NLL {along(compared['nll'])}. At the end: "
        + "; ".join(f"{name}: {at_the_end(shown[name])}" for name in names)
        + ".",
    )


def svrg_ends_lower(shown: Mapping[str, Shown]) -> Claim:
    found, ends = {}, []
    for label, axis in AXES.items():
        ours, theirs = shown[PAPER].curve(axis), shown[SVRG].curve(axis)
        found[label] = compare(ours, theirs)
        ends.append(compare(theirs, ours).lower)
    return Claim(
        "SVRG-LD can end lower but converges more slowly per pass than vrSG-MCMC.",
        graded(*ends, *(each.mostly for each in found.values())),
        f"vrSG-MCMC has the lower test NLL {along(found)}.",
    )


def smoother(shown: Mapping[str, Shown]) -> Claim:
    rough = {name: roughness(shown[name]) for name in (SGLD, EQUAL, PAPER) if name in shown}
    (ours, error), (theirs, other) = rough[PAPER], rough[SGLD]
    answer = graded(ours < theirs, ours + 2 * np.hypot(error, other) < theirs)
    listed = ", ".join(
        f"{name}: {or_unknown(value, f'{value:.4f} ± {se:.4f}')}"
        for name, (value, se) in rough.items()
    )
    return Claim(
        "Curves are smoother with variance reduction.",
        answer if np.isfinite(ours + theirs) else "not tested",
        "Mean size of the second difference of the last sample's test NLL, and its standard error, "
        f"over the last half of the points: {listed}.",
    )


def equal_time(shown: Mapping[str, Shown]) -> Claim:
    found = compare(shown[PAPER].curve(Shown.seconds), shown[SGLD].curve(Shown.seconds))
    return Claim(
        "At equal wall-clock time vrSG-MCMC improves on SGLD.",
        graded(found.mostly, found.lower),
        f"vrSG-MCMC has the lower test NLL {along({'seconds': found})}.",
    )


def every_anchor(shown: Mapping[str, Shown]) -> list[Claim]:
    """The two statements about n1: better than SGLD for every one; the same from n1 = 200 on."""
    sizes = {n: each for n, each in shown.items() if n.startswith(ANCHORED)}
    if SGLD not in shown or len(sizes) < 2:
        return []
    wins = {
        label: [better(each, shown[SGLD], axis) for each in sizes.values()]
        for label, axis in AXES.items()
    }
    plain = {n: each for n, each in shown.items() if n.startswith("SGLD")}
    losses = "; ".join(f"{n}: {each.final('nll')[0]:.4f}" for n, each in (plain | sizes).items())
    beaten = Claim(
        "vrSG-MCMC beats SGLD for every n1.",
        graded(*(won for each in wins.values() for won in each)),
        "It is lower on most of the curve, and where it ends, for "
        + " and ".join(f"{won.count(True)} of {len(won)} n1 by {a}" for a, won in wins.items())
        + f". Test NLL at the end: {losses}.",
    )
    large = [each for n, each in sizes.items() if int(n.removeprefix(ANCHORED)) >= 200]
    if len(large) < 2:
        return [beaten]
    spreads = {label: widest(large, axis) for label, axis in AXES.items()}
    return [
        beaten,
        Claim(
            "From n1 = 200 on the curves nearly coincide.",
            graded(*(None if np.isnan(s) else s < COINCIDE for s in spreads.values())),
            "Their test NLLs differ by up to "
            + " and ".join(
                f"{'an unknown part' if np.isnan(spread) else f'{spread:.1%}'} by {label}"
                for label, spread in spreads.items()
            )
            + ", at the worst place in the second half of the (logarithmic) axis.",
        ),
    ]


def better(one: Shown, other: Shown, axis: Axis) -> bool | None:
    found = compare(one.curve(axis), other.curve(axis))
    return None if found.lower is None else bool(found.mostly and found.lower)


def widest(curves: Sequence[Shown], axis: Axis) -> float:
    """The largest relative difference between curves, over the second half of what they share.

    NaN where they share nothing, or left the numbers.
    """
    found = [each.curve(axis) for each in curves]
    first, last = in_common(found)
    if not first < last:
        return np.nan
    where = np.geomspace(np.sqrt(first * last), last, PLACES)
    losses = np.stack([each.at(where).mean(1) for each in found])
    return float(np.max(np.ptp(losses, axis=0) / losses.min(0)))


def roughness(each: Shown) -> tuple[float, float]:
    """How much the last sample's loss jumps over the last half of the points, and the error of it.

    That of the average prediction does not jump: it bends, more where it falls more. The error is over
    seeds, or over the jumps where there is one seed.
    """
    values = each.scores["test_sample"]["nll"]
    values = values[len(values) // 2 :]
    if len(values) < 4:
        return np.nan, np.nan
    jumps = np.abs(np.diff(values, 2, axis=0))
    repeated = jumps.mean(0) if jumps.shape[1] > 1 else jumps[:, 0]
    return float(jumps.mean()), standard_error(repeated)


def at_the_end(each: Shown) -> str:
    return ", ".join(f"test {m} {told(m, each.final(m)[0])}" for m in each.measures)
