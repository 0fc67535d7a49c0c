"""How many data an anchor needs: Figure 5 of the paper, the CIFAR-10 network of Figure 2. Step 0.01."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vrsgmcmc.estimators import minibatch, practical
from vrsgmcmc.experiments import Outcome, Settings, networks
from vrsgmcmc.experiments.memory import Memory
from vrsgmcmc.experiments.methods import Method
from vrsgmcmc.experiments.mlp_cifar10 import load
from vrsgmcmc.experiments.networks import Experiment, Size
from vrsgmcmc.experiments.shown import Shown
from vrsgmcmc.experiments.statements import AXES, SGLD, Axis, compare, graded, in_common, values_at
from vrsgmcmc.reports import Claim

ANCHORS = (100, 200, 300, 400, 500, 600, 700, 1000, 2000)
COINCIDE = 0.02  # of the loss


def run(settings: Settings, memory: Memory) -> Outcome:
    return networks.run(EXPERIMENT, settings, memory)


def named(anchor_size: int) -> str:
    return f"vrSG-MCMC, n1 = {anchor_size}"


def claims(shown: Mapping[str, Shown]) -> list[Claim]:
    """The paper's two statements: better than SGLD for every n1; the same from n1 = 200 on."""
    anchored = [named(n) for n in ANCHORS if named(n) in shown]
    if SGLD not in shown or not anchored:
        return []
    wins = {
        label: [better(shown[name], shown[SGLD], axis) for name in anchored]
        for label, axis in AXES.items()
    }
    losses = "; ".join(f"{name}: {shown[name].final('nll')[0]:.4f}" for name in [SGLD, *anchored])
    beaten = Claim(
        "vrSG-MCMC beats SGLD for every n1.",
        graded(*(won for each in wins.values() for won in each)),
        "It is lower on most of the curve, and where it ends, for "
        + " and ".join(f"{sum(won)} of {len(won)} n1 by {label}" for label, won in wins.items())
        + f". Test NLL at the end: {losses}.",
    )
    large = [shown[name] for name in anchored if name != named(100)]
    if len(large) < 2:
        return [beaten]
    spreads = {label: widest(large, axis) for label, axis in AXES.items()}
    return [
        beaten,
        Claim(
            "From n1 = 200 on the curves nearly coincide.",
            graded(*(spread < COINCIDE for spread in spreads.values())),
            "Their test NLLs differ by up to "
            + " and ".join(f"{spread:.1%} by {label}" for label, spread in spreads.items())
            + ", at the worst place in the second half of the (logarithmic) axis.",
        ),
    ]


def better(one: Shown, other: Shown, axis: Axis) -> bool:
    found = compare(one, other, axis)
    return found.mostly and found.lower


def widest(curves: Sequence[Shown], axis: Axis) -> float:
    """The largest relative difference between curves, over the second half of what they share."""
    first, last = in_common(axis, curves)
    where = np.geomspace(np.sqrt(first * last), last, 50)
    losses = np.stack([values_at(each, axis, where).mean(1) for each in curves])
    return float(np.max(np.ptp(losses, axis=0) / losses.min(0)))


EXPERIMENT = Experiment(
    title="CIFAR-10: the size of the anchor",
    load=load,
    sizes={
        "smoke": Size(passes=2, tuning=0, seeds=2, points=4, every=0.5),
        "small": Size(passes=5, tuning=0, seeds=1, points=8, every=0.25),
        "paper": Size(passes=100, tuning=0, seeds=3, points=40, every=0.5),
    },
    step_sizes=(0.01,),
    methods={SGLD: Method(minibatch()), **{named(n): Method(practical(n, 10)) for n in ANCHORS}},
    claims=claims,
)
