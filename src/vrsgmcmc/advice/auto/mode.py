"""The mode that a decision is built on, and where the chains start around it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core, run

from .site import Site

FAR = 0.3  # sds from the mode, root mean square: nothing is built around such a point
WIDE = np.sqrt(2.0)  # sds: how far the starts are spread
START_ROWS = 256  # that tell whether a start is inside the support


def seek_mode(
    posterior: core.Posterior,
    data: core.Data,
    params: core.Params,
    kind: str,
    share: float,
    longest: float,
    seed: int,
) -> tuple[run.Located, int]:
    """The mode for `share` evaluations, or `longest` if it is not reached for these; and the cost."""
    located = run.locate_mode(posterior, data, params, kind=kind, most=share, seed=seed)
    cost = located.evaluations
    if located.distance < FAR or longest - cost <= share:
        return located, cost
    again = run.locate_mode(
        posterior, data, located.params, kind=kind, most=longest - cost, seed=seed
    )
    note = "The search for the mode took more than its share: it was not reached before."
    return again._replace(notes=(*again.notes, note)), cost + again.evaluations


def finite_starts(site: Site, key: Any, count: int) -> core.Params:
    """Starts spread around the mode, nearer to it if the log posterior is not finite at one of them."""
    some = jax.tree.map(lambda leaf: leaf[:START_ROWS], site.data)
    for width in (WIDE, WIDE / 2, WIDE / 8):
        starts = site.draws(key, count, width)
        if np.all(np.isfinite(_heights(site.posterior, some, starts))):
            return starts
    return site.draws(key, count, 0.0)


@core.bounded_jit
def _heights(posterior: core.Posterior, data: core.Data, starts: core.Params) -> Any:
    def height(params: core.Params) -> Any:
        rows = core.row_likelihoods(posterior, params, core.all_rows(data), jax.random.key(0))
        return posterior.logprior(params) + jnp.sum(rows)

    return jax.lax.map(height, starts)


def laplace_mean(site: Site, located: run.Located) -> np.ndarray:
    """The mode in one row, a Newton step nearer than where the search ended."""
    row, _ = ravel_pytree(located.params)
    if located.gradient is None:
        return np.asarray(row, np.float64)
    slope = jnp.asarray(located.gradient, row.dtype)
    return np.asarray(row + site.metric.stretch(site.metric.pull(slope)), np.float64)
