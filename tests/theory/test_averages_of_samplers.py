"""The error of averages over runs of the samplers themselves."""

from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
from support.plain_samplers import TWELVE

import vrsgmcmc as vr
from vrsgmcmc.theory import linear_regression, mse

rng = np.random.default_rng(7)
FEATURES = rng.normal(size=(12, 1)) + 0.5
TARGETS = FEATURES[:, 0] * 0.7 + rng.normal(size=12)
PROBLEMS = {
    "gaussian": (TWELVE, vr.models.gaussian.posterior(), TWELVE.targets[:, None]),
    "linear": (
        linear_regression(FEATURES, TARGETS),
        vr.models.linear.posterior(),
        (FEATURES, TARGETS),
    ),
}
ESTIMATORS = {
    "full": vr.full(),
    "minibatch": vr.minibatch(),
    "practical": vr.practical(anchor_size=6, period=3),
    "practical average": vr.practical(anchor_size=6, period=3, average=5),
    "svrg": vr.svrg(period=4),
    "saga": vr.saga(),
    "control_variate": vr.control_variate(center=jnp.array([0.3])),
}
DYNAMICS = {
    "sgld": (vr.sgld(), 0.04),
    "sghmc": (vr.sghmc(3.0), 0.12),
    "BAOAB": (vr.splitting("BAOAB", 3.0), 0.2),
    "OBABO": (vr.splitting("OBABO", 3.0), 0.2),
    "UBU": (vr.splitting("UBU", 3.0), 0.2),
}


def powers(params):
    return jnp.stack([params[0], params[0] ** 2])


def check_samplers(problem, estimator, integrator, **orders):
    """Bias and MSE of the averages of x and x^2 over 8192 chains, within 4 standard errors.

    In sixteen calls of one program: compilation takes longer for more chains.
    """
    exact, posterior, data = PROBLEMS[problem]
    dynamics, h = DYNAMICS[integrator]
    settings = dict(step_size=h, batch_size=4, num_steps=25, burn_in=3, **orders)
    averages = []
    for seed in range(16):
        result = vr.sample(
            seed,
            posterior,
            data,
            jnp.array([1.2]),
            estimator=ESTIMATORS[estimator],
            integrator=dynamics,
            num_chains=512,
            keep="averages",
            observables={"powers": powers},
            progress=False,
            **settings,
        )
        averages.append(result.averages["powers"])
    mean, covariance = exact.posterior()
    for power, observable in enumerate(("position", "square")):
        try:
            error = mse(
                exact, ESTIMATORS[estimator], dynamics, start=1.2, observable=observable, **settings
            )
        except ValueError:
            assert observable == "square"
            assert problem == "linear" or estimator == "saga" or "shuffled" in orders.values()
            continue
        truth = (mean[0], mean[0] ** 2 + covariance[0, 0])[power]
        off = np.concatenate(averages)[:, power] - truth
        for sample, expected in ((off, error.bias[0]), (off**2, error.mse[0])):
            z = (sample.mean() - expected) / (sample.std(ddof=1) / np.sqrt(len(sample)))
            assert abs(z) < 4, f"{observable}: z = {z}, {sample.mean()} against {expected}"


FIRST = [
    ("gaussian", "practical average", "sgld"),
    ("gaussian", "minibatch", "BAOAB"),
    ("linear", "svrg", "OBABO"),
]


@pytest.mark.parametrize(("problem", "estimator", "integrator"), FIRST)
def test_against_the_samplers(problem, estimator, integrator):
    check_samplers(problem, estimator, integrator)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "estimator", "integrator"),
    [row for row in product(PROBLEMS, ESTIMATORS, DYNAMICS) if row not in FIRST],
)
def test_others_against_the_samplers(problem, estimator, integrator):
    check_samplers(problem, estimator, integrator)


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ["sgld", "BAOAB"])
@pytest.mark.parametrize(
    ("estimator", "orders"),
    [
        ("minibatch", dict(order="shuffled")),
        ("minibatch", dict(order="with_replacement")),
        ("practical", dict(anchor_order="shuffled")),
        ("practical", dict(anchor_order="with_replacement")),
        ("saga", dict(order="with_replacement")),
    ],
)
def test_other_orders_against_the_samplers(estimator, orders, integrator):
    check_samplers("gaussian", estimator, integrator, **orders)
