"""How many data an anchor needs: Figure 5 of the paper, the CIFAR-10 network of Figure 2. Step 0.01."""

from __future__ import annotations

from collections.abc import Mapping

from vrsgmcmc.estimators import minibatch, practical
from vrsgmcmc.experiments import Outcome, Settings, networks
from vrsgmcmc.experiments.memory import Memory
from vrsgmcmc.experiments.methods import Method
from vrsgmcmc.experiments.mlp_cifar10 import load
from vrsgmcmc.experiments.networks import Experiment, Size
from vrsgmcmc.experiments.shown import Shown
from vrsgmcmc.experiments.statements import SGLD, ends_lower, graded, share_lower
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
    baseline = shown[SGLD]
    wins = [
        ends_lower(shown[name], baseline, "nll")
        and share_lower(shown[name], baseline, Shown.passes) > 0.5
        for name in anchored
    ]
    losses = "; ".join(f"{name}: {shown[name].final('nll')[0]:.4f}" for name in [SGLD, *anchored])
    better = Claim(
        "vrSG-MCMC beats SGLD for every n1.",
        graded(*wins),
        f"It ends lower, and is lower on most of the curve, for {sum(wins)} of {len(wins)} n1. Test "
        f"NLL at the end: {losses}.",
    )
    large = [shown[name].final("nll")[0] for name in anchored if name != named(100)]
    if len(large) < 2:
        return [better]
    spread = (max(large) - min(large)) / min(large)
    return [
        better,
        Claim(
            "From n1 = 200 on the curves nearly coincide.",
            graded(spread < COINCIDE),
            f"Their test NLLs at the end differ by up to {spread:.1%}, from {min(large):.4f} to "
            f"{max(large):.4f}.",
        ),
    ]


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
