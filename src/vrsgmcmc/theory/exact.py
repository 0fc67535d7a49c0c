"""The exact stationary law of stochastic gradient MCMC on linear-Gaussian problems.

Given its minibatches a step is affine, so mean and covariance of the position solve a linear
equation. Nothing is approximated and nothing is taken from the samplers, which are tested against
this. The parts, each from its own equations:

    problems.py   linear regression with known noise; the Gaussian mean model
    schemes.py    sgld, sghmc and splittings as affine maps of (x, p)
    chains.py     the estimators; one cycle of refreshes and steps
    sweeps.py     independent draws; blocks of a permutation
    affine.py     second moments of random affine maps, and their fixed point
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vrsgmcmc.theory.affine import fixed_point
from vrsgmcmc.theory.chains import chain
from vrsgmcmc.theory.problems import LinearGaussian

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
    for each, ends_step in zip(cycle.maps, cycle.ends_step, strict=True):
        moment = each(moment)
        if ends_step:
            phases.append(moment.mean((0, 1)))
    means = np.stack([x @ phase @ one for phase in phases])
    squares = np.stack([x @ phase @ x.T for phase in phases])
    mean = means.mean(0)
    return Law(
        mean=mean,
        covariance=squares.mean(0) - np.outer(mean, mean),
        phase_means=means,
        phase_covariances=squares - means[:, :, None] * means[:, None, :],
    )
