"""`locate_mode`: the mode of a posterior and a metric there, with every evaluation counted."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core

from .curvature import Factor, dense
from .dense import locate_dense
from .kinks import locate_by_gradients, starts_with_kinks
from .linear import LinearTarget, make_target
from .located import Located
from .search import fisher_information
from .sparse import locate_sparse
from .target import Meter

KINDS = ("hessian", "low_rank", "diagonal")


def locate_mode(
    posterior: core.Posterior,
    data: core.Data,
    params: core.Params,
    *,
    kind: str = "hessian",
    most: float = np.inf,
    seed: int = 0,
    wait: Callable[[Any], Any] = jax.block_until_ready,
) -> Located:
    """The mode near `params` and a metric there, for about `most` evaluations at most.

    `kind` is "hessian", a dense H (to some 2,000 parameters); "low_rank", a diagonal and some
    directions; or "diagonal". `seed` draws the subsamples. `wait` is called with what was computed,
    and may end the search by raising. `NoMode` is raised where there is none, `CoarseNumbers` where
    rounding would spoil the gradients; `converged` says whether the mode was reached.
    """
    core.one_of("locate_mode", "kind", kind, KINDS)
    began = time.perf_counter()
    full = make_target(posterior, data, params, Meter(most, wait))
    x = full.round(np.asarray(ravel_pytree(params)[0], np.float64))
    if kind != "hessian":
        located = locate_sparse(full, x, kind, seed)
    elif starts_with_kinks(full, x, seed):
        located = locate_by_gradients(full, x, seed)
    else:
        located = locate_dense(full, x, seed)
    return located._replace(seconds=time.perf_counter() - began)


def mean_metric(
    posterior: core.Posterior, data: core.Data, points: core.Params
) -> tuple[core.Dense | None, int]:
    """The metric of the mean of H over points [point, ...], centred at their mean, and the evaluations.

    H of the likelihood is that of the gradients' squares, unless the model is a glm: elsewhere second
    derivatives need not be positive away from a mode. None: the mean is not positive.
    """
    params = jax.tree.map(lambda leaf: leaf[0], points)
    full = make_target(posterior, data, params, Meter(np.inf))
    rows = np.asarray(jax.vmap(lambda tree: ravel_pytree(tree)[0])(points), np.float64)
    total = np.zeros((full.dimension,) * 2)
    for x in rows:
        exact = isinstance(full, LinearTarget)
        total += full.likelihood_hessian(x) if exact else fisher_information(full, x)
        total += full.prior_hessian(x)
    model = dense(total / len(rows))
    if not isinstance(model, Factor):
        return None, full.meter.evaluations
    parts = rows.mean(0), model.root
    metric = core.Dense(*(jnp.asarray(each, full.dtype) for each in parts))
    return metric, full.meter.evaluations


def likelihood_hessian(
    posterior: core.Posterior, data: core.Data, params: core.Params
) -> tuple[np.ndarray, int]:
    """Minus the second derivative of the log-likelihood over all data, [d, d], and the evaluations."""
    meter = Meter(np.inf)
    target = make_target(posterior, data, params, meter)
    x = np.asarray(ravel_pytree(params)[0], np.float64)
    return target.likelihood_hessian(x), meter.evaluations
