"""The exact law of stochastic gradient MCMC on linear-Gaussian problems.

Given its minibatches a step is affine, so mean and covariance of the position solve a linear
equation. Nothing is approximated and nothing is taken from the samplers, which are tested against
this. The parts, each from its own equations:

    problems.py   linear regression with known noise; the Gaussian mean model
    schemes.py    sgld, sghmc and splittings as affine maps of (x, p)
    chains.py     the estimators; one cycle of refreshes and steps
    sweeps.py     independent draws; blocks of a permutation
    affine.py     second moments of random affine maps, and their fixed point
    averages.py   the error of an average over a run of given length: `mse`
    closure.py    the same for squares, as if all positions were jointly Gaussian
    moments.py    the same for squares, exactly: fourth moments of the Gaussian mean model
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vrsgmcmc.theory.exact.affine import fixed_point
from vrsgmcmc.theory.exact.averages import AverageError, mse
from vrsgmcmc.theory.exact.chains import chain
from vrsgmcmc.theory.exact.problems import LinearGaussian

__all__ = ["AverageError", "Law", "autocovariance", "mse", "stationary"]

Array = np.ndarray


class Law(NamedTuple):
    """Stationary mean and covariance of the position after a step.

    `mean` and `covariance` are those at a random step; the phases those at each step of one cycle,
    the first being the step that follows the refresh (the beginning of a sweep).
    """

    mean: Float[Array, " d"]
    covariance: Float[Array, "d d"]
    phase_means: Float[Array, "phases d"]
    phase_covariances: Float[Array, "phases d d"]


def stationary(
    problem: LinearGaussian,
    estimator: Any,
    integrator: Any,
    *,
    step_size: float,
    batch_size: int | None = None,
    order: str = "without_replacement",
    anchor_order: str = "without_replacement",
) -> Law:
    """The law that a chain of constant step size converges to.

    `estimator` and `integrator` are descriptions: a `name` and the attributes that go with it
    (`practical` anchor_size, period, average; `svrg` period; `control_variate` center; `sgld`
    temperature; `sghmc` friction, temperature; `splitting` word, friction, temperature; `full`,
    `minibatch` and `saga` none). `center=None` is the posterior mean.

    Independent draws have a law on every problem. Sweeps ("shuffled", "symmetric") have one where a
    minibatch's error does not depend on the position, as for `minibatch` and `practical` on the
    Gaussian mean model, and elsewhere for at most five data. What has none is a `ValueError`.
    """
    cycle = chain(
        problem,
        estimator,
        integrator,
        step_size=step_size,
        batch_size=batch_size,
        order=order,
        anchor_order=anchor_order,
    )
    x, one = cycle.select["x"], cycle.select["one"][0]
    moment = fixed_point(cycle.maps, cycle.carried)[None, None]
    phases = []
    for step in cycle.steps:
        for each in step:
            moment = each(moment)
        phases.append(moment.mean((0, 1)))
    means = np.stack([x @ phase @ one for phase in phases])
    squares = np.stack([x @ phase @ x.T for phase in phases])
    mean, origin = means.mean(0), problem.posterior()[0]
    return Law(
        mean=origin + mean,
        covariance=squares.mean(0) - np.outer(mean, mean),
        phase_means=origin + means,
        phase_covariances=squares - means[:, :, None] * means[:, None, :],
    )


def autocovariance(
    problem: LinearGaussian,
    estimator: Any,
    integrator: Any,
    *,
    lags: int,
    step_size: float,
    batch_size: int | None = None,
    order: str = "without_replacement",
    anchor_order: str = "without_replacement",
) -> Float[Array, "lags_and_0 d d"]:
    """Cov(x_{l+k}, x_l), k = 0, ..., lags, for a chain in its stationary law and a random step l.

    At lag 0 it is `stationary(...).covariance`; the arguments and the pairs that have a law are
    the same. What is drawn after step l does not depend on x_l, given the permutations in force, so
    E[z_{l+k} x_l^T] follows E[z_l x_l^T] by the mean maps.
    """
    if lags < 0:
        raise ValueError(f"lags must be 0 or more, got {lags}")
    cycle = chain(
        problem,
        estimator,
        integrator,
        step_size=step_size,
        batch_size=batch_size,
        order=order,
        anchor_order=anchor_order,
    )
    x, one, length = cycle.select["x"], cycle.select["one"][0], len(cycle.steps)
    moment = fixed_point(cycle.maps, cycle.carried)[None, None]
    columns = moment[..., :0]  # E[z_l x_b^T] for the steps b of the first cycle, side by side
    total, mean = np.zeros((lags + 1, len(x), len(x))), np.zeros(len(x))
    for l in range(length + lags):
        for each in cycle.steps[l % length]:
            columns = each.expected(columns)
            moment = each(moment) if l < length else moment
        if l > lags:  # the oldest is past all lags
            columns = columns[..., len(x) :]
        if l < length:
            columns = np.concatenate([columns, moment @ x.T], axis=-1)
            mean += x @ moment.mean((0, 1)) @ one / length
        seen = (x @ columns.mean((0, 1))).reshape(len(x), -1, len(x))
        steps = np.arange(max(0, l - lags), min(l + 1, length))
        total[l - steps] += np.moveaxis(seen, 1, 0) / length
    return total - np.outer(mean, mean)
