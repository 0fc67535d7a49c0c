"""Is the gradient of the log-likelihood its derivative?

Samplers and searches use gradients alone. `jnp.round`, `argmax`, casts to integers and `stop_gradient`
have a gradient of zero, so a likelihood made of these is ignored without a word. Here differences of
its values are compared with the integral of its gradients, over two posterior standard deviations.
Where kinks bend the gradient more than a rule of three points sees, a change between those that the
least and the largest of the gradients promise is fine.
"""

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core

from .linear import make_target
from .located import Located
from .target import Meter, Target, Vector

DIRECTIONS = 4
ROWS, FEWEST_ROWS = 500, 50
COST = 4 * DIRECTIONS + 1  # evaluations of each row
LARGEST_SHARE = 0.5  # of the larger of the two
LARGEST = 3.0  # nats
ROUNDING = 8.0  # times the model's eps, and the root mean square of the rows' terms


def check_gradient(
    posterior: core.Posterior,
    data: core.Data,
    located: Located,
    key: core.PRNGKey,
    *,
    most: float = np.inf,
) -> int:
    """Raise `ValueError` where the log-likelihood's gradient at the mode is not its derivative.

    Returns the evaluations, on a subsample that takes at most about `most`.
    """
    meter = Meter(np.inf)
    full = make_target(posterior, data, located.params, meter)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(core.as_key(key))).tolist())
    rows = int(np.clip(most / COST, FEWEST_ROWS, ROWS))
    target = full.subsample(rows, int(rng.integers(2**31)))
    x = np.asarray(located.metric.center, np.float64)
    middle = target.likelihood_slope(x)[1]
    for z in rng.normal(size=(DIRECTIONS, full.dimension)):
        unit = jnp.asarray(z / np.linalg.norm(z), full.dtype)
        move = np.asarray(located.metric.stretch(unit), np.float64)
        low, high = target.round(x - move), target.round(x + move)
        move = (high - low) / 2
        below, above = row_terms(target, low), row_terms(target, high)
        gradients = target.likelihood_slope(low)[1], middle, target.likelihood_slope(high)[1]
        slopes = target.weight * np.array([2 * float(each @ move) for each in gradients])
        change = target.weight * float(np.sum(above - below))
        promise = float(slopes @ np.array([1.0, 4.0, 1.0])) / 6  # Simpson's rule
        if not np.isfinite(change + promise):
            continue
        size = float(np.linalg.norm(np.concatenate([below, above])))
        noise = ROUNDING * target.eps * target.weight * size
        gap, larger = abs(change - promise), max(abs(change), abs(promise))
        room = max(LARGEST_SHARE * larger, LARGEST, noise)
        if gap > room and not slopes.min() <= change <= slopes.max():
            raise ValueError(
                "the gradient of the log-likelihood is not its derivative: over two posterior standard "
                f"deviations around the mode, loglik changes by {change:.3g}, while its gradients say "
                f"{promise:.3g} (from {target.rows:,} rows). round, argmax, casts to integers and "
                "stop_gradient have a gradient of zero: write loglik without them, or with smooth "
                "functions in their place."
            )
    return meter.evaluations


def row_terms(target: Target, x: Vector) -> Vector:
    """loglik of each row."""
    terms = _row_terms(target.posterior, target.batch(), target.params(x))
    target.meter.count(target.rows, terms)
    return np.asarray(terms, np.float64)


@core.bounded_jit
def _row_terms(posterior: core.Posterior, batch: core.Batch, params: core.Params):
    return core.row_likelihoods(posterior, params, batch, jax.random.key(0))
