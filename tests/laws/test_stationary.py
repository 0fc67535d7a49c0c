"""The stationary law of every pair that has a closed one, against the exact oracle.

Thousands of short chains from near the exact law; the time averages of x and of (x - mean)^2 of each
chain are independent between chains, so their standard error needs no autocorrelation time. The mean
of Gaussian data is a linear regression on ones, so that both problems, at both temperatures, are
arguments of one compiled program.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.theory import gaussian_mean, linear_regression, stationary

ORDERS = ("without_replacement", "with_replacement", "shuffled", "symmetric")
SIZE, BATCH = 12, 4
rng = np.random.default_rng(7)
MEANS = rng.normal(0.5, 1.0, SIZE)
FEATURES = rng.normal(size=(SIZE, 1)) + 0.5
TARGETS = FEATURES[:, 0] * 0.7 + rng.normal(size=SIZE)

ESTIMATORS = {
    "full": vr.full(),
    "minibatch": vr.minibatch(),
    "practical": vr.practical(anchor_size=6, period=3),
    "practical average": vr.practical(anchor_size=6, period=3, average=2),
    "svrg": vr.svrg(period=4),
    "saga": vr.saga(),
    "control_variate": vr.control_variate(center=jnp.array([0.3])),
}
FRICTION = 3.0


def ascent(x, gradient):
    return gradient(x)


def langevin(temperature):
    """SGLD spelled as an Ito diffusion."""
    return vr.ito(ascent, warm if temperature == 1.0 else cool)


def warm(x):
    return np.sqrt(2.0)


def cool(x):
    return np.sqrt(0.5)


def kinetic(word):
    return lambda temperature: vr.splitting(word, FRICTION, temperature)


# what is sampled, what the oracle is asked for, and a step size for curvatures about 13
INTEGRATORS = {
    "sgld": (vr.sgld, vr.sgld, 0.04),
    "ito": (langevin, vr.sgld, 0.04),
    "sghmc": (*[lambda temperature: vr.sghmc(FRICTION, temperature)] * 2, 0.12),
} | {
    word: (kinetic(word), kinetic(word), 0.25)
    for word in ("BAOAB", "ABOBA", "OBABO", "BAOA", "UBU")
}
SHARP = ("sgld", "BAOAB")  # their standard errors are at most 0.5 %, the others' 1 %


POSTERIOR = vr.models.linear.posterior()
# for the oracle, and the same for the sampler
PROBLEMS = {
    "gaussian": (gaussian_mean(MEANS), (np.ones((SIZE, 1)), MEANS)),
    "linear": (linear_regression(FEATURES, TARGETS), (FEATURES, TARGETS)),
}
CHAINS = 2048


def moments(params, law):
    mean = law["mean"]
    return jnp.stack([params[0], jnp.square(params[0] - mean)])


def measured(data, estimator, integrator, step_size, law, steps, **orders):
    """Mean and standard error over chains of the time averages of x and (x - mean)^2."""
    scale = float(np.sqrt(law.covariance[0, 0]))
    center = jnp.asarray(law.mean)
    result = vr.sample(
        3,
        POSTERIOR,
        data,
        lambda key: center + scale * jax.random.normal(key, (1,)),
        estimator=estimator,
        integrator=integrator,
        step_size=step_size,
        batch_size=BATCH,
        num_steps=steps,
        burn_in=steps // 4,
        num_chains=CHAINS,
        keep="averages",
        observables={"moments": vr.observable(moments, data={"mean": center[0]})},
        progress=False,
        **orders,
    )
    values = result.averages["moments"]
    assert not result.diverged.any()
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(CHAINS)


def agree(
    problem, estimator, integrator, order, anchor_order, sharp=False, temperatures=(1.0, 0.25)
):
    """Measured mean and variance within 4 standard errors of the exact ones, at some temperatures."""
    (exact, data), estimator = PROBLEMS[problem], ESTIMATORS[estimator]
    build, law_of, step_size = INTEGRATORS[integrator]
    error = 0.005 if sharp or integrator in SHARP else 0.01
    steps = 480 if sharp else 240 if integrator in SHARP else 120
    orders = {"order": order, "anchor_order": anchor_order}
    for temperature in temperatures:
        law = stationary(
            exact, estimator, law_of(temperature), step_size=step_size, batch_size=BATCH, **orders
        )
        found, spread = measured(
            data, estimator, build(temperature), step_size, law, steps, **orders
        )
        mean, variance = law.mean[0], law.covariance[0, 0]
        assert spread[1] <= error * variance, f"standard error {spread[1] / variance:.4f}"
        z = (found - np.array([mean, variance])) / spread
        assert np.all(np.abs(z) < 4), f"z = {z}, measured {found}, exact {mean, variance}"


def rows(estimators=tuple(ESTIMATORS), orders=ORDERS):
    """Every estimator with every order that matters to it: (estimator, order, anchor order)."""
    for estimator in estimators:
        for order in ("without_replacement",) if estimator == "full" else orders:
            for anchor_order in orders if estimator == "practical" else ("without_replacement",):
                yield estimator, order, anchor_order


# sweeps close where a minibatch's error does not depend on the position; not for a table of old ones
NO_LAW = [("saga", order, "without_replacement") for order in ("shuffled", "symmetric")]
GAUSSIAN = [row for row in rows() if row not in NO_LAW]
# of the orders for minibatches and for anchors, at least one is Algorithm 1's
STRAIGHT = [row for row in GAUSSIAN if "without_replacement" in row[1:]]
INDEPENDENT = list(rows(orders=("without_replacement", "with_replacement")))
FIRST = [row for row in INDEPENDENT if set(row[1:]) == {"without_replacement"}]
# every estimator, and every order where the error is that of a sample, not of a small difference
PLAIN = [row for row in STRAIGHT if row[0] in ("minibatch", "practical", "saga") or row in FIRST]


@pytest.mark.parametrize(("estimator", "order", "anchor_order"), NO_LAW)
def test_which_rows_have_no_law(estimator, order, anchor_order):
    with pytest.raises(ValueError, match="no closed law"):
        agree("gaussian", estimator, "sgld", order, anchor_order)


# both of them, where both have a law: per-datum Hessians that differ, as those of a regression do,
# make the noise depend on the position
@pytest.mark.parametrize(
    ("estimator", "order", "anchor_order", "integrator"),
    [
        (*row, "sgld")
        if row in FIRST or "shuffled" in row
        else pytest.param(*row, "sgld", marks=pytest.mark.slow)
        for row in PLAIN
    ]
    + [(*row, "BAOAB") for row in FIRST if row[0] in ("practical", "saga")],
)
def test_gaussian_mean_and_linear_regression(estimator, order, anchor_order, integrator):
    """At a temperature each; at both, and with the other orders, below."""
    row = estimator, integrator, order, anchor_order
    agree("gaussian", *row, temperatures=(0.25,))
    problem = "linear" if (estimator, order, anchor_order) in INDEPENDENT else "gaussian"
    agree(problem, *row, temperatures=(1.0,))


@pytest.mark.slow
@pytest.mark.parametrize("integrator", SHARP)
@pytest.mark.parametrize(("estimator", "order", "anchor_order"), GAUSSIAN)
def test_every_order_sharply(estimator, order, anchor_order, integrator):
    agree("gaussian", estimator, integrator, order, anchor_order, sharp=True)
    if (estimator, order, anchor_order) in INDEPENDENT:
        agree("linear", estimator, integrator, order, anchor_order, sharp=True)


@pytest.mark.parametrize(
    "integrator",
    [
        name if name in ("ito", "UBU") else pytest.param(name, marks=pytest.mark.slow)
        for name in INTEGRATORS
        if name not in SHARP
    ],
)
@pytest.mark.parametrize(
    "estimator", [pytest.param("minibatch", marks=pytest.mark.slow), "practical"]
)
def test_other_integrators(estimator, integrator):
    """The other estimators, more sharply, below. Another temperature is another program for `ito`."""
    temperatures = (1.0,) if integrator == "ito" else (1.0, 0.25)
    orders = ("without_replacement",) * 2
    agree("gaussian", estimator, integrator, *orders, temperatures=temperatures)


@pytest.mark.slow
@pytest.mark.parametrize("integrator", [name for name in INTEGRATORS if name not in SHARP])
@pytest.mark.parametrize(("estimator", "order", "anchor_order"), GAUSSIAN)
def test_other_integrators_sharply(estimator, order, anchor_order, integrator):
    agree("gaussian", estimator, integrator, order, anchor_order, sharp=True)


@pytest.mark.parametrize("a", [0.05, 0.2, 0.5])
@pytest.mark.parametrize(
    ("estimator", "batch", "orders", "excess"),
    [
        (vr.full(), 10, {}, (0.03, 0.11, 0.34)),
        (vr.minibatch(), 10, {}, (2.4, 10.5, 31.7)),
        (vr.minibatch(), 30, {}, (0.8, 3.5, 10.6)),
        (vr.practical(100, 10), 10, {}, (1.9, 5.3, 7.8)),
        (vr.minibatch(), 10, {"order": "shuffled"}, (1.7, 9.9, 31.0)),
        (vr.practical(100, 10), 10, {"anchor_order": "shuffled"}, (1.4, 4.9, 7.6)),
    ],
)
def test_excess_variance_on_a_thousand_data(estimator, batch, orders, excess, a):
    """How much wider than the posterior the chain is, against h (N + 1) = a: the known table."""
    data = np.random.default_rng(0).normal(size=1000)
    data *= np.sqrt(0.95 / data.var(ddof=1))
    law = stationary(
        gaussian_mean(data), estimator, vr.sgld(), step_size=a / 1001, batch_size=batch, **orders
    )
    expected = excess[(0.05, 0.2, 0.5).index(a)]
    # two digits are printed there
    np.testing.assert_allclose(law.covariance[0, 0] * 1001 - 1, expected, rtol=0.1, atol=0.005)
