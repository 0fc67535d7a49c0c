"""`locate_mode`: the mode of a posterior and a metric there, with every evaluation counted."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core

from .dense import locate_dense
from .kinks import locate_by_gradients, starts_with_kinks
from .linear import make_target
from .located import Located
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


def likelihood_hessian(
    posterior: core.Posterior, data: core.Data, params: core.Params
) -> tuple[np.ndarray, int]:
    """Minus the second derivative of the log-likelihood over all data, [d, d], and the evaluations."""
    meter = Meter(np.inf)
    target = make_target(posterior, data, params, meter)
    x = np.asarray(ravel_pytree(params)[0], np.float64)
    return target.likelihood_hessian(x), meter.evaluations
