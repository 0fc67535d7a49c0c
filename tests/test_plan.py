"""Plans: what they choose, what they cost, what they predict, and messages."""

import dataclasses
import math
from datetime import timedelta
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.plans import LARGEST, cheapest, parse_budget, pilot, trial
from vrsgmcmc.plans.candidates import (
    FEWEST_STEPS,
    Case,
    Choice,
    affordable,
    costs,
    distinct,
    rank,
    total_cost,
)
from vrsgmcmc.theory import forecast, linear_regression
from vrsgmcmc.theory.local import Local

IID = "without_replacement"
SIZE = 400
rng = np.random.default_rng(0)
X = rng.normal(size=(SIZE, 3)) * [1.0, 0.5, 0.3]
Y = X @ rng.normal(size=3) + rng.normal(size=SIZE)
PROBLEM = linear_regression(X, Y)
MEAN, COVARIANCE = PROBLEM.posterior()
VARIANCES = np.diagonal(COVARIANCE)
POSTERIOR, DATA, START = vr.models.linear.posterior(), (X, Y), jnp.zeros(3)
BUDGET = 150 * SIZE


def local_model():
    curvature, directions = np.linalg.eigh(np.linalg.inv(COVARIANCE))
    rows = X @ directions
    hessians = rows[:, :, None] * rows[:, None, :]
    gradients = rows * (Y - X @ MEAN)[:, None]
    return Local(
        SIZE,
        MEAN,
        directions,
        curvature,
        np.diagonal(hessians.mean(0)).copy(),
        np.cov(gradients.T),
        hessians.var(0, ddof=1),
        0,
    )


def make_case(num_chains=4, pace=None, **changes):
    case = Case(POSTERIOR, DATA, jnp.asarray(MEAN), local_model(), num_chains, pace)
    return case._replace(**changes)


def choice(estimator, batch_size=10, num_steps=100, step_size=1e-3, integrator=None):
    integrator = integrator or vr.sgld()
    return Choice(estimator, integrator, batch_size, IID, IID, step_size, num_steps, 0.0, 0.0)


def first(x):
    return x


def square(x, center):
    return jnp.square(x - center)


def score(posterior, data, plan, mean, variances, groups, seed=5):
    """C of each of `groups` runs, all in one program."""
    settings = plan.settings | {"num_chains": groups * plan.num_chains}
    result = vr.sample(
        seed,
        posterior,
        data,
        plan.init,
        **settings,
        keep="averages",
        observables={"first": first, "square": vr.observable(square, data=jnp.asarray(mean))},
        progress=False,
    )
    shape = groups, plan.num_chains, -1
    away = np.asarray(result.averages["first"] - jnp.asarray(mean)[None]).reshape(shape).mean(1)
    spread = np.asarray(result.averages["square"]).reshape(shape).mean(1) - away**2
    errors = away**2 / variances + (spread - variances) ** 2 / (2 * variances**2)
    return errors.mean(-1) / 2


# ------------------------------------------------------------------------------------ a plan


@pytest.fixture(scope="module")
def planned():
    """A plan, and what its parts said they cost."""
    parts = []

    def noted(module, name, cost):
        function = getattr(module, name)

        def call(*arguments, **options):
            found = function(*arguments, **options)
            parts.append((name, cost(found)))
            return found

        patch.setattr(module, name, call)

    with pytest.MonkeyPatch.context() as patch:
        searching = pilot.__globals__  # the module `vrsgmcmc.plans.pilot`
        module = SimpleNamespace()
        del module
        patch.setitem(searching, "find_mode", counted(searching["find_mode"], parts, 1, "search"))
        patch.setitem(searching, "newton", counted(searching["newton"], parts, 1, "newton"))
        patch.setitem(
            searching, "local", counted(searching["local"], parts, "evaluations", "local")
        )
        running = trial.tried.__globals__
        patch.setitem(
            running, "sample", counted(running["sample"], parts, "evaluations", "trial")
        )
        plan = vr.plan(POSTERIOR, DATA, START, budget=BUDGET)
    return plan, parts
