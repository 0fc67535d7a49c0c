"""The curvature where the posterior has its mass, where that at the mode misleads.

The joint mode of a hierarchical model may be far from the mass of its posterior, with other scales.
Draws x ~ q of the Gaussian approximation tell: log p(x | D) - log q(x) varies little where it fits.
Where it does not, a short run of NUTS goes to the mass, and the metric is that of the mean curvature
over the places where its chains end; and again, until the trajectories are short.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core, run
from vrsgmcmc.core.estimators import full

from .mode import heights
from .pilot import run_pilot
from .site import Site

DRAWS = 32  # that tell whether the Gaussian fits
MISFIT = 3.0  # the sd of their log weights
ROUNDS, STEPS, WARM_UP = 5, 50, 25  # of NUTS
DOUBLINGS = 6  # at most, of a trajectory
GAIN = 0.8  # of the leapfrogs with another metric: this one is better
MOST_FAILURES = 2  # rounds without a better one
SHORT = 20.0  # leapfrogs of a step: such a metric is good enough
NOTE = (
    "The Gaussian at the mode does not fit: the metric is the curvature where NUTS went from there."
)


class Adapted(NamedTuple):
    """A metric, where the chains stand in it, and the cost."""

    metric: core.Metric
    starts: core.Params  # leaves [chain, ...]
    evaluations: int = 0
    notes: tuple[str, ...] = ()
    leapfrogs: float = np.inf  # of a step


def adapt_metric(
    site: Site, starts: core.Params, integrator: Any, allowance: float, key: Any, reached: bool
) -> Adapted:
    """The site's metric if the Gaussian fits, else one from short runs of NUTS.

    `allowance` evaluations are for all of it. `reached`: the site is at a mode.
    """
    unchanged = Adapted(site.metric, starts)
    if not isinstance(site.metric, core.Dense) or DRAWS * site.size > allowance:
        return unchanged
    cost = DRAWS * site.size
    if reached and misfit(site, core.fold(key, 0)) < MISFIT:
        return unchanged._replace(evaluations=cost)
    chains, metric, leapfrogs = len(jax.tree.leaves(starts)[0]), site.metric, 2.0**DOUBLINGS
    best, failures = unchanged, 0
    nuts = replace(integrator, warm_up=WARM_UP, max_doublings=DOUBLINGS)
    for number in range(ROUNDS):
        if cost + chains * STEPS * leapfrogs * site.size > allowance:
            break
        result = run_pilot(
            core.fold(key, 1 + number),
            site.posterior,
            site.data,
            run.Starts(starts),
            core.Sampler(full(), nuts, 0.5, site.size, metric=metric),
            num_steps=STEPS,
            num_chains=chains,
            burn_in=STEPS - 1,
            chain_method="sequential",
        )
        cost += result.evaluations
        if result.diverged.any():
            break
        leapfrogs = result.evaluations / (chains * STEPS * site.size)
        starts = jax.tree.map(lambda leaf: jnp.asarray(leaf[:, -1]), result.draws)
        failures += 1
        if leapfrogs < GAIN * best.leapfrogs:
            best, failures = Adapted(metric, starts, leapfrogs=leapfrogs), 0
        if leapfrogs < SHORT or failures == MOST_FAILURES:
            break
        better, more = run.mean_metric(site.posterior, site.data, starts)
        metric, cost = metric if better is None else better, cost + more
    notes = () if best.metric is site.metric else (NOTE,)
    return best._replace(evaluations=cost, notes=notes)


def misfit(site: Site, key: Any) -> float:
    """The sd of log p(x | D) - log q(x), x ~ q, over a few draws."""
    draws = site.draws(key, DRAWS)
    squares = site.squares(draws) * core.tree.size(site.mode)
    weights = np.asarray(heights(site.posterior, site.data, draws), np.float64) + squares / 2
    return float(np.std(weights)) if np.all(np.isfinite(weights)) else np.inf
