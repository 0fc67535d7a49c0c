"""The methods that the experiments compare, and what their steps cost."""

import math
from collections.abc import Mapping
from typing import Any

from vrsgmcmc.core import Sampler
from vrsgmcmc.core.estimators import minibatch, practical, svrg
from vrsgmcmc.core.integrators import sgld

ANCHORED = "vrSG-MCMC, n1 = "
SGLD, EQUAL, PAPER = "SGLD, n = 10", "SGLD, n = 30", f"{ANCHORED}100"
SHUFFLED, SVRG, SVRG10 = "vrSG-MCMC, shuffled anchors", "SVRG-LD", "SVRG-LD, m = 10"
METHODS = {
    SGLD: Sampler(minibatch(), sgld()),
    EQUAL: Sampler(minibatch(), sgld(), batch_size=30),  # costs per step what n1 = 100 does
    PAPER: Sampler(practical(100, 10), sgld()),
    SHUFFLED: Sampler(practical(100, 10), sgld(), anchor_order="shuffled"),
    SVRG: Sampler(svrg(), sgld()),
    SVRG10: Sampler(svrg(10), sgld()),
}
DEEP = {name: METHODS[name] for name in (SGLD, EQUAL, PAPER)}  # where a data pass takes long


def paper_evaluations(sampler: Sampler, size: int, steps: Any) -> Any:
    """Gradient evaluations as the paper counts: n1/m + n2 per step, where a pair counts one."""
    return steps * min(sampler.batch_size, size) + sampler.visits(size, steps)


def check_passes(
    methods: Mapping[str, Sampler], size: int, passes: float, *, steps: int = 1
) -> None:
    """Raise a ValueError if a method needs more data passes than `passes` for `steps` steps."""
    least = {name: float(each.evaluations(size, steps)) / size for name, each in methods.items()}
    if dear := {name: cost for name, cost in least.items() if cost > passes}:
        listed = "; ".join(f"{n}: {math.ceil(100 * cost) / 100:g}" for n, cost in dear.items())
        raise ValueError(
            f"--passes {passes:g}: the fewest steps of these methods, {steps}, cost more passes over "
            f"the data: {listed}. Give more passes, or name other methods with --methods."
        )
