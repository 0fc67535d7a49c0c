"""Check that prior and one-row likelihoods add up to the log density that NumPyro's NUTS samples.

At two random points z, in float64,

    logprior(z) + sum_i loglik(z, row i) = log density of the whole model,

in values and in gradients, and the prior's part by itself. A model that uses several rows at once (a
mean over rows, weights that are normalised inside) does not add up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core

from .numpyro_density import Call, Plates, outside_log_density, sites_log_density, whole_log_density
from .numpyro_sites import Start

POINTS = 2
TRIALS = 12  # random points, nearer and nearer to zero, where densities are not finite
EXACT, COARSE = 1e-5, 2e-3  # relative; the second, where the model itself computes in float32


@core.bounded_jit
def whole(call: Call, params: Any, data: Any) -> Any:
    """NumPyro's log density and gradient, and the part of it outside of the plate."""
    density, gradient = jax.value_and_grad(whole_log_density, 1)(call, params, data)
    outside = outside_log_density(call, Plates(call.model), call.fill(data), params)
    return density, outside, gradient


@core.bounded_jit
def pieces(posterior: core.Posterior, params: Any, data: Any) -> Any:
    """The same from the prior and the likelihoods of single rows."""
    batch = core.Batch(jnp.arange(core.data_size(data)), data)
    density, gradient = jax.value_and_grad(core.log_posterior, 1)(posterior, params, batch)
    return density, posterior.logprior(params), gradient


def check_densities(call: Call, posterior: core.Posterior, data: Any, start: Start) -> None:
    """Raise `ValueError` where the pieces do not add up to NumPyro's log density."""
    with jax.enable_x64(True):
        data = jax.tree.map(as_float64, data)
        points = 0
        for trial in range(TRIALS):
            near = replace(start, radius=start.radius * 0.7 ** max(0, trial - 1))
            params = near(jax.random.key(trial))
            density, outside, gradient = jax.device_get(whole(call, params, data))
            if not (np.isfinite(density) and core.all_finite(gradient)):
                continue
            compare(
                call, params, data, (density, outside, gradient), pieces(posterior, params, data)
            )
            points += 1
            if points == POINTS:
                return
    raise ValueError(
        "from_numpyro: NumPyro's log density or its gradient is not finite at "
        f"{TRIALS - points} of {TRIALS} random starts. Look for observations outside of the support of "
        "their distribution, or scale the columns of the data."
    )


def as_float64(leaf: Any) -> Any:
    floating = jnp.issubdtype(leaf.dtype, jnp.floating)
    return jnp.asarray(np.asarray(leaf), jnp.float64 if floating else None)


def compare(call: Call, params: Any, data: Any, theirs: Any, ours: Any) -> None:
    density, outside, gradient = theirs
    total, prior, own_gradient = jax.device_get(ours)
    rtol = EXACT if density.dtype == np.float64 else COARSE
    inside, likelihood = density - outside, total - prior
    if not agree(outside, prior, rtol):
        raise ValueError(
            f"from_numpyro: outside of the plate {call.plate!r} the log density is {outside:.10g}, but "
            f"{prior:.10g} without the data: {blame(call, params, data)} Compute before what depends "
            "on all rows, and pass it as an argument. If an argument has as many entries as there "
            f"are rows, but not one per row, name the others: rows=(...); now {row_names(call)}."
        )
    if not agree(inside, likelihood, rtol, scale=abs(outside) * 1e-3):
        raise ValueError(
            f"from_numpyro: inside the plate {call.plate!r} the log density is {inside:.10g}, but the "
            f"rows one by one sum up to {likelihood:.10g}. Something in the model depends on several "
            "rows at once (a mean over rows, weights divided by their sum, the number of the row). "
            "Compute it before and pass it as an argument, or name the arguments that "
            f"hold rows: rows=(...); rows are now {row_names(call)}."
        )
    for (name, leaf), mine in zip(
        core.named_leaves(gradient), jax.tree.leaves(own_gradient), strict=True
    ):
        if not np.max(np.abs(leaf - mine), initial=0) <= rtol * max(1, np.max(np.abs(leaf))):
            raise ValueError(
                f"from_numpyro: the gradient in {name}, row by row, differs from NumPyro's by "
                f"{np.max(np.abs(leaf - mine)):.3g}. Look for stop_gradient or custom derivatives, or "
                f"name the arguments that hold rows: rows=(...); rows are now {row_names(call)}."
            )


def agree(a: Any, b: Any, rtol: float, scale: float = 0) -> bool:
    return bool(abs(a - b) <= rtol * max(1, abs(a), scale))


def row_names(call: Call) -> str:
    return ", ".join(row.name for row in call.rows)


def blame(call: Call, params: Any, data: Any) -> str:
    """Which site outside of the plate depends on the rows."""
    densities = []
    for model, arguments in (
        (Plates(call.model), call.fill(data)),
        (Plates(call.model, call.plate), call.fill(call.no_row())),
    ):
        _, sites = sites_log_density(model, arguments, params, call.inside)
        densities.append(
            {
                name: float(jnp.sum(site["fn"].log_prob(site["value"])))
                for name, site in sites.items()
                if site["type"] == "sample"
            }
        )
    names = [n for n, value in densities[0].items() if not agree(value, densities[1].get(n), EXACT)]
    return f"site {' and '.join(map(repr, names)) or 'transforms'} depends on the rows."
