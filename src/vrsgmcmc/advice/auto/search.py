"""No mode to build on: shuffled minibatches, at a step size that short chains find.

Chains side by side, each with another step size, are scored by the fit to some of the data; half of the
best step size is taken.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core, run
from vrsgmcmc.core.estimators import minibatch
from vrsgmcmc.core.integrators import sgld

from .decision import Decision
from .request import ACCURACY, Request

STEP_SIZES = np.geomspace(1.0, 1e-4, 8)  # times 1/N
STEPS, ROWS = 400, 512
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
    size = core.data_size(data)
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
    steps = int(np.clip(0.15 * request.evaluations / each, 50, STEPS))
    rows = min(ROWS, size)
    some = jax.tree.map(lambda leaf: leaf[:rows], data)
    trials = run.sample(
        core.fold(key, 2**20 + 2),
        posterior,
        data,
        init,
        **vars(sampler),
        num_steps=steps,
        num_chains=len(STEP_SIZES),
        burn_in=steps // 2,
        observables={"fit": core.observable(Fit(posterior), data=some, every=10)},
        keep="averages",
        progress=False,
    )
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
    cost = request.num_chains * sampler.cost_per_step(size)
    if request.seconds is not None:  # by the pace of the search
        allowance = spent + (1 - ACCURACY) * request.seconds / trials.seconds * trials.evaluations
    most = request.value("num_steps", int(np.clip((allowance - spent) / cost, 100, 10**8)))
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
