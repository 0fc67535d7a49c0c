"""A control variate at the mode, with what the caller leaves open: G(c), the Hessian, the hot rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core, run
from vrsgmcmc.core.estimators import control_variate

from ..gradients import gradient_program
from .allowance import LARGEST_DENSE
from .request import METRICS
from .residuals import measure_residuals
from .scale import LARGEST_INFLATION, fit, row_cost
from .site import Site

BATCH = 10  # rows of a minibatch, where the caller does not say
GUARD_PASSES = 15.0  # for the look at residuals, where there is no budget


def center_at_mode(
    site: Site, located: run.Located, order: int, hot: np.ndarray
) -> tuple[core.Estimator, int]:
    """A control variate whose every step visits the rows `hot`, and the evaluations; order 2 only where
    the exact Hessian was measured with the mode."""
    gradient, cost = gradient_at_mode(site, located)
    if order == 1:
        return control_variate(site.mode, gradient=gradient, hot=rows_of(site, hot)), cost
    estimator = control_variate(site.mode, order=2, gradient=gradient)
    return add_curvature(estimator, site, located.likelihood_hessian, hot), cost


def complete(
    estimator: core.Estimator,
    site: Site,
    located: run.Located,
    batch_size: int,
    allowance: float,
    seed: int,
) -> tuple[core.Estimator, int]:
    """An estimator with the mode and the curvature that it seeks, and the evaluations."""
    cost, hessian = 0, located.likelihood_hessian
    if estimator.seeks_mode:
        gradient, cost = gradient_at_mode(site, located)
        estimator = estimator.at_mode(site.mode, gradient)
    elif estimator.seeks_curvature:  # at a centre of its own
        site, hessian = site._replace(mode=getattr(estimator, "center", site.mode)), None
    if not estimator.seeks_curvature:
        return estimator, cost
    hessian, more = (hessian, 0) if hessian is not None else measure_hessian(site)
    cost, hot = cost + more, np.array([], int)
    if getattr(estimator, "guard", None) is not None:
        residuals = measure_residuals(site, 2, allowance, seed)
        per_row = row_cost(2, site.posterior)
        count = fit(residuals, site.size, LARGEST_INFLATION, per_row, batch_size).hot
        cost, hot = cost + residuals.evaluations, residuals.top[:count]
    return add_curvature(estimator, site, hessian, hot), cost


def add_curvature(
    estimator: core.Estimator, site: Site, hessian: Any, hot: np.ndarray
) -> core.Estimator:
    kind = jnp.result_type(*jax.tree.leaves(site.mode))
    linear = isinstance(site.posterior, core.GLM)
    return estimator.with_curvature(jnp.asarray(hessian, kind), rows_of(site, hot), linear)


def rows_of(site: Site, index: np.ndarray) -> core.Batch | None:
    return core.rows(site.data, jnp.asarray(index, jnp.int32)) if len(index) else None


def gradient_at_mode(site: Site, located: run.Located) -> tuple[core.Params, int]:
    """G(c), the gradient without the prior's part, once for all chains; and the evaluations."""
    row, unravel = ravel_pytree(core.prior_gradient(site.posterior, site.mode))
    gradient, cost = located.gradient, 0
    if gradient is None:
        gradient, cost = gradient_program(site.posterior, site.data, site.mode), site.size
        gradient = np.asarray(ravel_pytree(gradient)[0], np.float64)
    return unravel(jnp.asarray(gradient - np.asarray(row, np.float64), row.dtype)), cost


def measure_hessian(site: Site) -> tuple[np.ndarray, int]:
    """The likelihood's Hessian at the centre over all data, and the evaluations."""
    dimension = core.tree.size(site.mode)
    if dimension > LARGEST_DENSE:
        raise ValueError(
            f"control_variate(order=2): {dimension:,} parameters have a Hessian of {dimension**2:,} "
            f"numbers, and at most {LARGEST_DENSE:,} parameters are taken. Use order=1."
        )
    return run.likelihood_hessian(site.posterior, site.data, site.mode)


def find_curvature(
    posterior: core.Posterior, data: Any, init: Any, key: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """What the curvature at the mode near `init` adds to the options of a run with a step size.

    These are a metric that is given by its name, and the Hessian that an estimator seeks.
    """
    metric, estimator = options.get("metric"), options.get("estimator")
    named = isinstance(metric, str)
    if not named and not getattr(estimator, "seeks_curvature", False):
        return {}
    what = f"metric={metric!r}" if named else "estimator=control_variate(order=2)"
    if named:
        core.one_of("sample", "metric", metric, METRICS)
    if isinstance(init, core.State):
        raise ValueError(
            f"sample({what}): a state is continued with what it was made with. Give the "
            f"{'metric' if named else 'centre and the Hessian'} that it was made with."
        )
    data, _ = run.as_data(data)
    params = run.as_params(init(core.fold(key, 2**20)) if run.is_function(init) else init)
    kind = metric if isinstance(metric, str) else "hessian"
    located = run.locate_mode(posterior, data, params, kind=kind)
    if not located.converged:
        raise ValueError(
            f"sample({what}): the search for a mode ended {located.distance:.2g} posterior "
            "standard deviations away from it. Scale the columns alike, or start elsewhere."
        )
    answer: dict[str, Any] = {"search_cost": located.evaluations}
    if named:
        answer["metric"] = located.metric
    if estimator is not None:
        site = Site(posterior, data, located.params, located.metric)
        batch_size, seed = options.get("batch_size", BATCH), core.key_seed(key)
        estimator, cost = complete(
            estimator, site, located, batch_size, GUARD_PASSES * site.size, seed
        )
        answer |= {"estimator": estimator, "search_cost": located.evaluations + cost}
    return answer
