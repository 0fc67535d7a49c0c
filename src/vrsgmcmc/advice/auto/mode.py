"""The mode that a decision is built on, and where the chains start around it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core, run

from .request import Request
from .site import Site

FAR = 0.3  # sds from the mode, root mean square: nothing is built around such a point
WIDE = np.sqrt(2.0)  # sds: how far the starts are spread
MODES = 0.25  # of the allowance, for a look at other modes
MODES_LEAST = 2e4  # evaluations for it, where there is no budget
KINKS = 0.05  # of the allowance, to look for kinks
BENDS = (
    "The Hessian at the mode says little about the posterior an sd away (kinks, or strong bends): the "
    "metric comes from the gradients' spread."
)
SADDLE = "no mode was found, because the log posterior curves upwards, as that of a network does"
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


def curvature_at(posterior: core.Posterior, data: core.Data, params: core.Params) -> run.Located:
    """The start in place of a mode, with the curvature there, or none."""
    metric, cost = run.mean_metric(posterior, data, jax.tree.map(lambda leaf: leaf[None], params))
    if metric is None:
        row, _ = ravel_pytree(params)
        metric = core.Dense(row, jnp.eye(row.size, dtype=row.dtype))
    return run.Located(params, cost, np.inf, metric, None, False, np.nan, 0.0, (), None)


class Surroundings(NamedTuple):
    """What was seen around a mode."""

    metric: core.Metric
    modes: str  # what several starts found
    count: int = 1  # of modes
    bends: bool = False  # second derivatives at the mode say little about one sd
    notes: tuple[str, ...] = ()
    evaluations: int = 0


def look_around(
    posterior: core.Posterior,
    data: core.Data,
    init: Any,
    key: Any,
    located: run.Located,
    request: Request,
    most: float,
) -> Surroundings:
    """Look for other modes, for kinks, and for a gradient that is no derivative."""
    if not np.isfinite(located.distance):
        return Surroundings(located.metric, SADDLE)
    if not located.distance < FAR:
        away = f"{located.distance:.2g}"
        modes = f"no mode was reached: the search ended {away} sds away from one"
        return Surroundings(located.metric, modes)
    if isinstance(posterior, core.GLM) and posterior.concave:
        return Surroundings(located.metric, "one mode, because the log posterior is concave")
    limited = np.isfinite(request.evaluations)
    room = max(MODES * most, 0.0 if limited else MODES_LEAST)
    ends = run.find_modes(posterior, data, init, located, key=core.fold(key, 2**20 + 1), most=room)
    around = Surroundings(located.metric, str(ends), ends.count, evaluations=ends.evaluations)
    if ends.count > 1:
        return around
    options = {"most": KINKS * most if limited else np.inf}
    bends, cost = run.has_kinks(posterior, data, located, core.fold(key, 2**20 + 4), **options)
    cost += run.check_gradient(posterior, data, located, core.fold(key, 2**20 + 5), **options)
    metric, notes = located.metric, ()
    if bends:
        with suppress(
            run.Saddle
        ):  # the gradients' spread is no metric either: that at the mode stays
            metric, more = run.gradient_metric(posterior, data, located)
            cost, notes = cost + more, (BENDS,)
    spent = around.evaluations + cost
    return around._replace(metric=metric, bends=bends, notes=notes, evaluations=spent)


def finite_starts(site: Site, key: Any, count: int) -> core.Params:
    """Starts spread around the mode, nearer to it if the log posterior is not finite at one of them."""
    some = jax.tree.map(lambda leaf: leaf[:START_ROWS], site.data)
    for width in (WIDE, WIDE / 2, WIDE / 8):
        starts = site.draws(key, count, width)
        if np.all(np.isfinite(heights(site.posterior, some, starts))):
            return starts
    return site.draws(key, count, 0.0)


@core.bounded_jit
def heights(posterior: core.Posterior, data: core.Data, starts: core.Params) -> Any:
    """The log posterior at starts [start, ...], over the data."""

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
