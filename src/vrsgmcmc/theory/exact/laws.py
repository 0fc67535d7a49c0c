"""The stationary law of a chain: mean and covariance of the position, and autocovariances."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vrsgmcmc.core import Estimator, Integrator

from .affine import fixed_point
from .chains import chain
from .draws import resolve
from .problems import Array, LinearGaussian


class Law(NamedTuple):
    """Stationary mean and covariance of the position after a step.

    `mean` and `covariance` are those at a random step, the phases those at each step of one cycle.
    The first phase is the step after the refresh (after the beginning of a sweep).
    """

    mean: Float[Array, " d"]
    covariance: Float[Array, "d d"]
    phase_means: Float[Array, "phases d"]
    phase_covariances: Float[Array, "phases d d"]


def stationary(
    problem: LinearGaussian,
    estimator: Estimator,
    integrator: Integrator,
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
    Gaussian mean model, and elsewhere for at most five data. Without a law: `ValueError`.
    """
    sampler = resolve(problem, estimator, integrator, step_size, batch_size, order, anchor_order)
    cycle = chain(problem, sampler)
    x, one = cycle.select["x"], cycle.select["one"][0]
    moment = fixed_point(cycle.maps, cycle.carry)
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
    estimator: Estimator,
    integrator: Integrator,
    *,
    lags: int,
    step_size: float,
    batch_size: int | None = None,
    order: str = "without_replacement",
    anchor_order: str = "without_replacement",
) -> Float[Array, "lags_and_0 d d"]:
    """Cov(x_{l+k}, x_l), k = 0, ..., lags, for a chain in its stationary law and a random step l.

    At lag 0 it is `stationary(...).covariance`; the arguments and the pairs with a law are the
    same. Given the permutations, the draws after step l do not depend on x_l, so the mean maps turn
    E[z_l x_l^T] into E[z_{l+k} x_l^T].
    """
    if lags < 0:
        raise ValueError(f"lags must be 0 or more, got {lags}")
    sampler = resolve(problem, estimator, integrator, step_size, batch_size, order, anchor_order)
    cycle = chain(problem, sampler)
    x, one, length = cycle.select["x"], cycle.select["one"][0], len(cycle.steps)
    moment = fixed_point(cycle.maps, cycle.carry)
    columns = moment[..., :0]  # E[z_l x_b^T] for the steps b of the first cycle, side by side
    total, mean = np.zeros((lags + 1, len(x), len(x))), np.zeros(len(x))
    for l in range(length + lags):
        for each in cycle.steps[l % length]:
            columns = each.apply_mean(columns)
            moment = each(moment) if l < length else moment
        if l > lags:  # the oldest is past all lags
            columns = columns[..., len(x) :]
        if l < length:
            columns = np.concatenate([columns, moment @ x.T], axis=-1)
            mean += x @ moment.mean((0, 1)) @ one / length
        products = (x @ columns.mean((0, 1))).reshape(len(x), -1, len(x))
        steps = np.arange(max(0, l - lags), min(l + 1, length))
        total[l - steps] += np.moveaxis(products, 1, 0) / length
    return total - np.outer(mean, mean)
