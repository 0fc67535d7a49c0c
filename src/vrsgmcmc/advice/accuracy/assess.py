"""Measure how right a result is, by means that do not trust a Gaussian model.

Three parts make the error of a mean or an sd: the finite length of the run (ESS), and the step size and
the noise of the gradient, which coupled runs at h and h/2 show (`coupling.py`). The biases of all
parameters are shrunk towards their common mean, by as much as their own standard errors ask for. On all
data, at a handful of states, Stein's identity E (x - c) . g(x) = -d tells whether the chain is as wide
as the posterior allows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vrsgmcmc import core
from vrsgmcmc.run import Result, need_model

from ..gradients import gradient_program
from .coupling import FEWEST_STEPS, PAIRS, Bias, couple, scheme_of
from .effective import Effective, effective, flatten_draws
from .record import Accuracy

SHARE = 0.5  # of the run's own evaluations, where no budget says otherwise
STATES = 4  # for the look at all data
ROWS = 256  # whose predictions are judged
FEWEST_DRAWS, MOST_DRAWS = 100, 2000  # of each chain, for predictions
Z = 1.96
FEW = 5  # parameters: one alone tells little of the bias, so the look is longer
NEARLY_ALL = 0.95  # of a chain's variance: more than that cannot be told to be bias


def assess(
    result: Result,
    *,
    allowance: float | None = None,
    network: bool = False,
    laplace: tuple[np.ndarray | None, np.ndarray | None] = (None, None),
    modes: str = "",
    ended_by: str = "",
    seed: int = 0,
) -> Accuracy:
    """The accuracy of a result; `allowance` are the evaluations that this may take."""
    if result.draws is None:
        raise ValueError(
            'accuracy: no draws were kept (keep="averages"), and it is about draws. Run with '
            'keep="draws".'
        )
    need_model(result, "accuracy")
    few = core.tree.size(result.state.position) < FEW * len(result.diverged)
    if allowance is None:
        allowance = SHARE * result.evaluations * (4 if few else 1)
    if result.diverged.all() or not len(flatten_draws(result.draws)):
        return assess_nothing(result)
    if network or result.context.posterior.network:
        return assess_predictions(result, allowance, modes, ended_by)
    moments = effective(result.draws)
    names = scalar_names(result)
    none = np.zeros_like(moments.mean)
    mean, sd = Z * moments.mean_error, Z * moments.sd_error
    spent, notes, largest = 0, [], 0.0  # NaN: not measured
    bias = measure_bias(result, moments, 0.75 * allowance, seed)
    if isinstance(bias, str):
        if bias:
            notes, largest = [bias], float("nan")
    else:
        spent += bias.evaluations
        half = bias.variance_error / 2
        sd, widening = bound(bias.variance / 2, half, moments.sd_error, common=True)
        mean, shift = bound(bias.mean, bias.mean_error, moments.mean_error, common=False)
        # so far in units of the chain's own sd, which is wider than the posterior's by `factor`
        factor = 1 / np.sqrt(1 - np.clip(2 * widening, None, NEARLY_ALL))
        sd = sd - np.abs(widening) + np.abs(factor - 1)
        mean, shift = mean * factor, shift * factor
        largest = float(max(np.abs(shift).max(), np.abs(factor - 1).max()))
    virial, error, cost = measure_virial(result, moments, allowance - spent, seed)
    spent += cost
    laplace_mean, laplace_sd = laplace
    if laplace_mean is not None and laplace_sd is not None:
        laplace_mean = (moments.mean - laplace_mean) / moments.sd
        laplace_sd = moments.sd / laplace_sd
    return Accuracy(
        mean=mean,
        sd=sd,
        names=names,
        subject="parameter",
        ess=moments.least,
        r_hat=float(np.max(moments.r_hat + none)),
        bias=largest,
        virial=virial,
        virial_error=error,
        laplace_mean=laplace_mean,
        laplace_sd=laplace_sd,
        evaluations=int(spent),
        ended_by=ended_by,
        modes=modes,
        notes=tuple(notes),
        doubt=lost_chains(result),
    )


def lost_chains(result: Result) -> str:
    """Chains that became non-finite: the posterior reaches where they went."""
    count = int(np.sum(result.diverged))
    if not count:
        return ""
    return f"{count} of {len(result.diverged)} chains became non-finite ({result.divergences[0]})"


def assess_nothing(result: Result) -> Accuracy:
    """Every chain became non-finite."""
    none, nan = np.array([]), float("nan")
    return Accuracy(
        none,
        none,
        (),
        "parameter",
        0.0,
        nan,
        nan,
        nan,
        nan,
        None,
        None,
        0,
        doubt=lost_chains(result) or "no chain has finite draws",
    )


def scalar_names(result: Result) -> tuple[str, ...]:
    names = []
    for name, leaf in core.named_leaves(result.draws):
        shape = leaf.shape[2:]
        places = [",".join(map(str, place)) for place in np.ndindex(*shape)]
        names += [f"{name}[{place}]" if place else name for place in places]
    return tuple(names)


def bound(
    bias: np.ndarray, bias_error: np.ndarray, error: np.ndarray, common: bool
) -> tuple[np.ndarray, np.ndarray]:
    """95 % bounds of |bias + error|, and the biases after shrinkage.

    The biases are taken as normal around `center` (0, or their common mean), with the variance that
    their scatter has beyond its standard errors: what they tell is weighted by that.
    """
    center = float(np.mean(bias)) if common and len(bias) > 1 else 0.0
    spread = max(float(np.mean((bias - center) ** 2 - bias_error**2)), 0.0)
    if len(bias) < FEW:  # too few to tell scatter from chance
        spread = max(spread, float(np.mean(bias_error**2)))
    weight = spread / (spread + bias_error**2 + 1e-300)
    shrunk = center + weight * (bias - center)
    rest = weight * bias_error**2 + np.mean(bias_error**2) / len(bias) * common
    return np.abs(shrunk) + Z * np.sqrt(error**2 + rest), shrunk


def measure_bias(result: Result, moments: Effective, allowance: float, seed: int) -> Bias | str:
    """The bias of step size and noise; or why it is not measured, empty where there is none."""
    posterior, data, sampler = result.context
    if getattr(sampler.integrator, "name", "") == "nuts":
        return ""
    estimator, size = sampler.estimator, core.data_size(data)
    periodic = estimator.refresh_period(size, sampler.batch_size) is not None
    if scheme_of(sampler.integrator) is None or periodic or estimator.table_bytes(result.state, 1):
        return (
            "The bias of the step size is not in the bounds: it is measured for sgld and BAOAB with "
            "minibatch, full and control_variate. Compare with a run at half the step size."
        )
    alive = np.flatnonzero(~result.diverged)
    memory = jax.tree.map(lambda leaf: leaf[alive[0]], result.state.memory)
    each = 3 * estimator.cost(size, sampler.batch_size)
    pairs = PAIRS if allowance >= PAIRS * FEWEST_STEPS * each else 8
    steps = int(min(allowance / (pairs * each), 2 * result.num_steps))
    if steps < 20:
        return "The budget left no evaluations to measure the bias of the step size."
    rng = np.random.default_rng([seed, 7])
    flat = flatten_draws(result.draws)
    rows = flat.reshape(-1, flat.shape[-1])
    row, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], result.state.position))
    picks = rng.choice(len(rows), pairs, replace=len(rows) < pairs)
    starts = jax.vmap(unravel)(jnp.asarray(rows[picks], row.dtype))
    arguments = (posterior, data, sampler, memory, starts, moments.mean, moments.sd)
    return couple(*arguments, num_steps=steps, seed=seed + 1)


def measure_virial(
    result: Result, moments: Effective, allowance: float, seed: int
) -> tuple[float, float, int]:
    """-E (x - c) . g(x) / d over a few states, its standard error, and the evaluations."""
    posterior, data, _ = result.context
    size = core.data_size(data)
    states = int(min(STATES, allowance // size)) if posterior.augment is None else 0
    if states < 2:
        return float("nan"), float("nan"), 0
    flat = flatten_draws(result.draws)
    rows = flat.reshape(-1, flat.shape[-1])
    picks = np.random.default_rng([seed, 8]).choice(len(rows), states, replace=False)
    row, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], result.state.position))
    values = []
    for pick in picks:
        gradient = gradient_program(posterior, data, unravel(jnp.asarray(rows[pick], row.dtype)))
        flat_gradient = np.asarray(ravel_pytree(gradient)[0], np.float64)
        values.append(-np.mean((rows[pick] - moments.mean) * flat_gradient))
    # for a Gaussian each value has the variance 2/d
    spread = max(float(np.std(values, ddof=1)), np.sqrt(2 / len(row)))
    return float(np.mean(values)), spread / np.sqrt(states), states * size


def assess_predictions(result: Result, allowance: float, modes: str, ended_by: str) -> Accuracy:
    """The accuracy of a network: of the log-likelihoods of some rows, not of its weights."""
    posterior, data, _ = result.context
    alive = np.flatnonzero(~result.diverged)
    count = jax.tree.leaves(result.draws)[0].shape[1]
    rows = min(ROWS, core.data_size(data))
    most = int(np.clip(allowance / (rows * len(alive)), FEWEST_DRAWS, MOST_DRAWS))
    rows = int(np.clip(allowance / (most * len(alive)), 1, rows))
    every = max(1, -(-count // most))
    draws = jax.tree.map(lambda leaf: np.asarray(leaf)[alive][:, ::every], result.draws)
    values = np.stack(
        [
            np.asarray(
                _likelihoods(posterior, rows, data, jax.tree.map(lambda a, c=c: a[c], draws))
            )
            for c in range(len(alive))
        ]
    )
    moments = effective(values)
    doubt = "how much each of the modes weighs is not known (a network declares network=True)"
    return Accuracy(
        mean=Z * moments.mean_error,
        sd=Z * moments.sd_error,
        names=tuple(f"row {row}" for row in range(rows)),
        subject="prediction",
        ess=moments.least,
        r_hat=float(np.max(moments.r_hat)),
        bias=float("nan"),
        virial=float("nan"),
        virial_error=float("nan"),
        laplace_mean=None,
        laplace_sd=None,
        evaluations=values.size,
        ended_by=ended_by,
        modes=modes,
        notes=("Judged by the log-likelihoods of rows, not by the weights.",),
        doubt=lost_chains(result) or (doubt if modes and not posterior.network else ""),
    )


@partial(core.bounded_jit, static=2)
def _likelihoods(posterior: core.Posterior, rows: int, data: core.Data, draws: core.Params) -> Any:
    """loglik of the first rows, [draw, row]."""
    batch = core.rows(data, jnp.arange(rows))

    def one(params: core.Params) -> Any:
        return core.row_likelihoods(posterior, params, batch, jax.random.key(0))

    return jax.lax.map(one, draws)
