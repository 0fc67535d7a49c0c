"""No mode to build on: shuffled minibatches, at a step size that short chains find.

Chains side by side, each with another step size, are scored by the fit to some of the data; half of the
best step size is taken.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core
from vrsgmcmc.core.estimators import full, minibatch
from vrsgmcmc.core.integrators import sgld

from .decision import Decision
from .pilot import run_pilot
from .request import ACCURACY, NUTS_GRADIENTS, Request, is_nuts

STEP_SIZES = np.geomspace(1.0, 1e-4, 8)  # times 1/N
FEWEST_STEPS, STEPS, ROWS = 10, 400, 512
MANY_STEPS = 1000  # of a chain, at the least, where no budget is given
BATCH = 32
DRAWS = 1000  # of a chain, about
PASSES, MOST_EVALUATIONS = 2000, 1e8  # where no budget is given


@dataclasses.dataclass(frozen=True)
class Fit:
    """The mean log-likelihood of rows. Equal for equal posteriors, so that it compiles once."""

    posterior: core.Posterior

    def __call__(self, params: core.Params, data: Any) -> Any:
        batch = core.all_rows(data)
        return jnp.mean(core.row_likelihoods(self.posterior, params, batch, jax.random.key(0)))


def decide_by_search(
    key: Any,
    posterior: core.Posterior,
    data: core.Data,
    init: Any,
    request: Request,
    why: str,
    spent: int = 0,
) -> Decision:
    """SGLD on shuffled minibatches, unless the caller names others."""
    size, began = core.data_size(data), time.monotonic()
    if is_nuts(request.integrator):
        return decide_nuts(request, size, why, spent)
    sampler = core.Sampler(
        request.value("estimator", minibatch()),
        request.value("integrator", sgld()),
        STEP_SIZES / size,
        request.value("batch_size", min(BATCH, max(1, size // 4))),
        request.value("order", "shuffled"),
        request.value("anchor_order", "without_replacement"),
        request.clip,
    )
    each = len(STEP_SIZES) * sampler.cost_per_step(size)
    cost = request.num_chains * sampler.cost_per_step(size)
    steps = int(np.clip(0.15 * request.evaluations / each, FEWEST_STEPS, STEPS))
    needed = spent + FEWEST_STEPS * each + FEWEST_STEPS * cost
    if needed > (1 - ACCURACY) * request.evaluations:
        raise ValueError(
            f"sample(budget=...): a step size has to be searched, because {why}. The search and the "
            f"shortest run take {needed / size:.3g} passes. Give a budget of at least "
            f"{np.ceil(needed / (1 - ACCURACY) / size):.0f} passes, or a step_size."
        )
    rows, every = min(ROWS, size), max(1, min(10, steps // 4 - 1))  # few steps, with a small budget
    some = jax.tree.map(lambda leaf: leaf[:rows], data)
    pilot = partial(
        run_pilot,
        core.fold(key, 2**20 + 2),
        posterior,
        data,
        init,
        sampler,
        num_chains=len(STEP_SIZES),
        observables={"fit": core.observable(Fit(posterior), data=some, every=every)},
        keep="averages",
    )
    trials = pilot(num_steps=steps, burn_in=steps // 2)
    spent += trials.evaluations
    fits = np.nan_to_num(
        np.asarray(trials.averages["fit"], np.float64), nan=-np.inf, neginf=-np.inf
    )
    if not np.isfinite(fits).any():
        raise ValueError(
            f"no step size from {STEP_SIZES[-1] / size:.2g} to {STEP_SIZES[0] / size:.2g} kept a "
            "chain finite. Standardise the columns, or give a smaller step_size."
        )
    best = float(STEP_SIZES[int(np.argmax(fits))]) / size
    sampler = replace(sampler, step_size=float(f"{best / 2:.3g}"))
    allowance = min(PASSES * size, MOST_EVALUATIONS)
    if np.isfinite(request.evaluations):
        allowance = (1 - ACCURACY) * request.evaluations
    if request.seconds is not None:  # by the pace of the search without its compilation
        left = (1 - ACCURACY) * (request.seconds - (time.monotonic() - began))
        again = pilot(num_steps=max(steps // 4, 2), burn_in=1)
        spent += again.evaluations
        allowance = spent + left / max(again.seconds, 1e-6) * again.evaluations
    limited = request.seconds is not None or np.isfinite(request.evaluations)
    fewest = FEWEST_STEPS if limited else MANY_STEPS
    most = int(np.clip((allowance - spent) / cost, fewest, 10**8))
    if request.names("num_steps"):
        most = min(request.num_steps, most) if limited else request.num_steps
    burn_in = request.value("burn_in", most // 2)
    thin = request.value("thin", max(1, (most - burn_in) // DRAWS))
    notes = ["There is no mode to take a metric from: the chain moves in the parameters."]
    return Decision(
        sampler,
        None,
        request.num_chains,
        burn_in,
        thin,
        (most,),
        np.inf,
        int(spent),
        request.evaluations,
        notes=tuple(notes if request.names("metric") and request.metric is not None else ()),
        why=f"Chosen by a search, because {why}: half of {best:.2g}, the step size that fitted "
        f"the data best in {steps} steps. The first half of the run is burn-in.",
    )


def decide_nuts(request: Request, size: int, why: str, spent: int) -> Decision:
    """NUTS in the parameters, where the caller names it and there is no mode."""
    warm_up = request.integrator.warm_up
    most = 4 * (warm_up + DRAWS)
    if np.isfinite(request.evaluations):
        left = (1 - ACCURACY) * request.evaluations - spent
        most = int(np.clip(left / (request.num_chains * NUTS_GRADIENTS * size), 2 * warm_up, most))
    return Decision(
        core.Sampler(full(), request.integrator, 0.5, size),
        None,
        request.num_chains,
        request.value("burn_in", 2 * warm_up if most > 3 * warm_up else warm_up),
        request.value("thin", 1),
        (request.value("num_steps", most),),
        np.inf,
        int(spent),
        request.evaluations,
        chain_method="sequential",
        why=f"NUTS was named; it moves in the parameters, because {why}.",
    )
