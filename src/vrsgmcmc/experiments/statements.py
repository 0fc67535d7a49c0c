"""The paper's statements about networks, answered from the curves of the methods.

"Lower" means lower test loss of the average prediction. Two curves are compared over the part of the
cost axis that both have, on a logarithmic scale, and at the end by more than two standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float

from vrsgmcmc.estimators import minibatch, practical, svrg
from vrsgmcmc.experiments.methods import Method
from vrsgmcmc.experiments.shown import Shown, told
from vrsgmcmc.reports import Claim

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
    shares = {
        "data passes": share_lower(ours, theirs, Shown.passes),
        "the paper's count": share_lower(ours, theirs, Shown.paper_passes),
    }
    ends = [ends_lower(ours, theirs, measure) for measure in ours.measures]
    early = [share > 0.5 for share in shares.values()]
    names = [name for name in (SGLD, EQUAL, PAPER, SHUFFLED) if name in shown]
    along = ", ".join(f"{share:.0%} of the curve by {label}" for label, share in shares.items())
    evidence = "; ".join(f"{name}: {at_the_end(shown[name])}" for name in names)
    return Claim(
        "vrSG-MCMC converges faster per data pass than SGLD, with lower final test error and loss.",
        graded(*ends, *early),
        f"vrSG-MCMC has the lower test NLL on {along}. At the end: {evidence}.",
    )


def svrg_ends_lower(shown: Mapping[str, Shown]) -> Claim:
    early = share_lower(shown[PAPER], shown[SVRG], Shown.passes)
    return Claim(
        "SVRG-LD can end lower but converges more slowly per pass than vrSG-MCMC.",
        graded(ends_lower(shown[SVRG], shown[PAPER], "nll"), early > 0.5),
        f"At the end: SVRG-LD test NLL {shown[SVRG].final('nll')[0]:.4f}, vrSG-MCMC "
        f"{shown[PAPER].final('nll')[0]:.4f}; vrSG-MCMC is lower on {early:.0%} of the curve.",
    )


def smoother(shown: Mapping[str, Shown]) -> Claim:
    rough = {name: roughness(shown[name]) for name in (SGLD, EQUAL, PAPER) if name in shown}
    unknown = not all(map(np.isfinite, rough.values()))
    listed = ", ".join(f"{name}: {value:.4f}" for name, value in rough.items())
    return Claim(
        "Curves are smoother with variance reduction.",
        "not tested" if unknown else graded(rough[PAPER] < rough[SGLD]),
        f"Mean second difference of the last sample's test NLL in the second half: {listed}.",
    )


def equal_time(shown: Mapping[str, Shown]) -> Claim:
    ours, theirs = shown[PAPER], shown[SGLD]
    share = share_lower(ours, theirs, Shown.seconds)
    until = np.array([min(ours.seconds()[-1], theirs.seconds()[-1])])
    last = [loss_at(each, each.seconds(), until)[0] for each in (ours, theirs)]
    return Claim(
        "At equal wall-clock time vrSG-MCMC improves on SGLD.",
        graded(share > 0.5, last[0] < last[1]),
        f"Lower test NLL on {share:.0%} of the common time; at its end {last[0]:.4f} against "
        f"{last[1]:.4f}.",
    )


def graded(*held: bool) -> str:
    return "yes" if all(held) else "in part" if any(held) else "no"


def share_lower(one: Shown, other: Shown, axis: Callable[[Shown], np.ndarray]) -> float:
    """On which part of a cost axis the first has the lower loss."""
    x, y = axis(one), axis(other)
    where = np.geomspace(max(x[0], y[0]), min(x[-1], y[-1]), 50)
    return float(np.mean(loss_at(one, x, where) < loss_at(other, y, where)))


def loss_at(
    each: Shown, axis: Float[np.ndarray, " points"], where: Float[np.ndarray, " places"]
) -> Float[np.ndarray, " places"]:
    """The mean over seeds, between the points of a curve."""
    return np.interp(np.log(where), np.log(axis), each.scores["test"]["nll"].mean(1))


def ends_lower(one: Shown, other: Shown, measure: str) -> bool:
    """By more than two standard errors, or at all where there is one seed."""
    (a, da), (b, db) = one.final(measure), other.final(measure)
    return bool(a + 2 * np.nan_to_num(np.hypot(da, db)) < b)


def roughness(each: Shown) -> float:
    """How much the last sample's loss jumps between points in the second half of a run."""
    ends = each.trace.ends
    values = each.scores["test_sample"]["nll"][ends > ends[-1] / 2]
    return float(np.abs(np.diff(values, 2, axis=0)).mean()) if len(values) > 2 else float("nan")


def at_the_end(each: Shown) -> str:
    return ", ".join(f"test {m} {told(m, each.final(m)[0])}" for m in each.measures)
