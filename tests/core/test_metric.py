"""A metric: L, its transpose and its inverse; the chain in z is the plain chain of the problem in z.

Nothing is sampled: two chains are driven by the same noise, or a step is read off as an affine map.
"""

from itertools import product
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.linalg import solve_discrete_lyapunov
from support.estimator_table import PLAIN, START, estimators, flat, make_data, take

import vrsgmcmc as vr
from vrsgmcmc.core import Dense, Diagonal, LowRank, Metric, as_metric
from vrsgmcmc.core.kernel import Kernel
from vrsgmcmc.theory import linear_regression, stationary

SIZE, COUNT, ANCHOR = 5, 2, 3
DATA = make_data(SIZE)
rng = np.random.default_rng(0)
CENTER = jnp.asarray(rng.normal(size=3))
SCALE = jnp.asarray([0.5, 2.0, 1.3])
DIRECTIONS = jnp.asarray(np.linalg.qr(rng.normal(size=(3, 2)))[0])
METRICS = {
    "dense": Dense(CENTER, jnp.asarray(rng.normal(size=(3, 3)) + 2 * np.eye(3))),
    "diagonal": Diagonal(CENTER, SCALE),
    "low rank": LowRank(CENTER, SCALE, DIRECTIONS, jnp.asarray([3.0, 0.2])),
}
ZERO, ONES = jnp.zeros(3), jnp.ones(3)
IDENTITIES = {
    "dense": Dense(ZERO, jnp.eye(3)),
    "diagonal": Diagonal(ZERO, ONES),
    "low rank": LowRank(ZERO, ONES, DIRECTIONS, jnp.ones(2)),
}
INTEGRATORS = {
    "sgld": vr.sgld(0.5),
    "leimkuhler_matthews": vr.leimkuhler_matthews(0.5),
    "sghmc": vr.sghmc(1.3, 0.5),
    "sgnht": vr.sgnht(1.3, 0.5),
    "BAOAB": vr.splitting("BAOAB", 1.3, 0.5),
}


def matrix_of(function):
    return np.stack([function(row) for row in jnp.eye(3)], 1)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_stretch_pull_and_shrink_are_one_matrix(metric):
    L = matrix_of(metric.stretch)
    np.testing.assert_allclose(matrix_of(metric.pull), L.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(matrix_of(metric.shrink), np.linalg.inv(L), rtol=1e-11, atol=1e-12)
    z = {"bias": jnp.array(0.3), "weight": jnp.array([-1.0, 2.0])}
    x = metric.position(z)
    np.testing.assert_allclose(flat(x), CENTER + L @ flat(z), rtol=1e-12)
    np.testing.assert_allclose(flat(metric.coordinates(x)), flat(z), rtol=1e-12)
    np.testing.assert_allclose(flat(metric.gradient(z)), L.T @ flat(z), rtol=1e-12)


def test_the_matrices_are_the_definitions():
    np.testing.assert_array_equal(matrix_of(METRICS["dense"].stretch), METRICS["dense"].factor)
    np.testing.assert_array_equal(matrix_of(METRICS["diagonal"].stretch), np.diag(SCALE))
    middle = np.eye(3) + DIRECTIONS @ np.diag([2.0, -0.8]) @ DIRECTIONS.T
    found = matrix_of(METRICS["low rank"].stretch)
    np.testing.assert_allclose(found, np.diag(SCALE) @ middle, rtol=1e-12, atol=1e-14)


def path(posterior, estimator, integrator, start, metric=None, steps=2):
    """Positions and estimates of a few steps, and the last state."""
    kernel = vr.kernel(posterior, estimator, integrator, size=SIZE, batch_size=COUNT, metric=metric)
    state, history = kernel.init(jax.random.key(0), start), []
    state = kernel.refresh(jax.random.key(1), state, take(DATA, jnp.arange(kernel.anchor_size)))
    for l in range(steps):
        index = jnp.arange(SIZE if estimator.uses_all_data else COUNT) + l * (SIZE > COUNT)
        state, info = kernel.step(jax.random.key(2 + l), state, take(DATA, index % SIZE), 0.05)
        history.append((flat(state.position), flat(info.gradient)))
    return state, history


PAIRS = list(product(estimators(ANCHOR, variants=False), INTEGRATORS))


SOON = ("sgld", "BAOAB")  # the other integrators take long to compile with every estimator


@pytest.mark.parametrize(
    ("estimator", "integrator"),
    [pytest.param(*pair, marks=[pytest.mark.slow] * (pair[1] not in SOON)) for pair in PAIRS],
    ids=[f"{e.name}-{name}" for e, name in PAIRS],
)
def test_the_identity_changes_nothing(estimator, integrator):
    _, plain = path(PLAIN, estimator, INTEGRATORS[integrator], START)
    kinds = IDENTITIES if (estimator.name, integrator) == ("minibatch", "sgld") else ["dense"]
    for kind in kinds:
        _, moved = path(PLAIN, estimator, INTEGRATORS[integrator], START, IDENTITIES[kind])
        np.testing.assert_allclose(
            np.ravel(plain[0] + plain[-1]), np.ravel(moved[0] + moved[-1]), rtol=0, atol=1e-12
        )


@pytest.mark.parametrize(
    ("name", "integrator"),
    [*product(["dense"], INTEGRATORS), ("diagonal", "sgld"), ("low rank", "sgld")],
)
def test_the_chain_in_z_is_the_plain_chain_of_the_problem_in_z(name, integrator):
    """The posterior written in z, by hand, and the same noise; the table of SAGA stays in x."""
    metric = METRICS[name]

    def in_x(z):
        return metric.position(z)

    transformed = vr.Posterior(
        lambda z: PLAIN.logprior(in_x(z)), lambda z, datum: PLAIN.loglik(in_x(z), datum)
    )
    for estimator in (vr.minibatch(), vr.saga()):
        state, history = path(PLAIN, estimator, INTEGRATORS[integrator], START, metric)
        there = metric.coordinates(START)
        plain, in_z = path(transformed, estimator, INTEGRATORS[integrator], there)
        np.testing.assert_allclose(
            flat(state.dynamics.z), flat(plain.position), rtol=1e-10, atol=1e-11
        )
        for (x, _), (z, _) in zip(history, in_z, strict=True):
            here = CENTER + matrix_of(metric.stretch) @ z
            np.testing.assert_allclose(x, here, rtol=1e-10, atol=1e-11)


def test_the_stationary_law_in_z_is_the_oracle_s():
    """x = a Q z, Q a rotation: in z the prior is N(0, 2/a^2), and the features are a X Q."""
    a, (c, s) = 0.4, (np.cos(0.7), np.sin(0.7))
    L = a * np.array([[c, -s], [s, c]])
    features, targets = rng.normal(size=(6, 2)) + 0.5, rng.normal(size=6)
    data, h = (jnp.asarray(features), jnp.asarray(targets)), 0.3
    posterior = vr.models.linear.posterior(prior_variance=2.0)
    metric = as_metric((np.zeros(2), L))
    kernel = vr.kernel(posterior, vr.full(), vr.sgld(), size=6, metric=metric)

    def one(key, z):
        state = kernel.init(key, metric.position(z))
        state, _ = kernel.step(key, state, vr.Batch(jnp.arange(6), data), h)
        return state.dynamics.z

    key = jax.random.key(3)
    noise = np.asarray(one(key, jnp.zeros(2)))
    M = np.stack([np.asarray(one(key, unit)) - noise for unit in jnp.eye(2)], 1)
    covariance = solve_discrete_lyapunov(M, 2 * h * np.eye(2))
    problem = linear_regression(features @ L, targets, prior_variance=2.0 / a**2)
    law = stationary(problem, vr.full(), vr.sgld(), step_size=h)
    np.testing.assert_allclose(covariance, law.covariance, rtol=1e-9)


def test_without_a_metric_a_step_is_the_same_program():
    """As text, that of a sampler that has no such field."""
    estimator, integrator = vr.minibatch(), vr.splitting("BAOAB", 1.3)
    kernel = vr.kernel(PLAIN, estimator, integrator, size=SIZE)
    bare = SimpleNamespace(
        estimator=estimator, integrator=integrator, dynamics=integrator, clip=None, batch_size=0
    )
    texts = []
    for each in (kernel, Kernel(PLAIN, bare, SIZE)):
        state = each.init(jax.random.key(0), START)
        arguments = jax.random.key(1), state, take(DATA, jnp.arange(COUNT)), 0.1
        texts.append(jax.jit(lambda *a, each=each: each.step(*a)).lower(*arguments).as_text())
    assert texts[0] == texts[1]


def test_a_continued_chain_is_the_unbroken_one():
    """z is stored, not computed again from x: bit for bit."""

    def run(num_steps, init=START):
        return vr.sample(
            *(0, PLAIN, DATA, init),
            estimator=vr.minibatch(),
            integrator=INTEGRATORS["BAOAB"],
            metric=METRICS["dense"],
            step_size=0.05,
            batch_size=2,
            num_steps=num_steps,
            num_chains=2,
            progress=False,
        )

    whole, first = run(20), run(7)
    rest = run(13, first.state)
    for name, draws in whole.draws.items():
        parts = np.concatenate([first.draws[name], rest.draws[name]], 1)
        np.testing.assert_array_equal(parts, draws)
    z = jax.tree.map(lambda leaf: leaf[0], whole.state.dynamics.z)
    x = METRICS["dense"].position(z)
    np.testing.assert_allclose(
        flat(x), [*whole.draws["bias"][0, -1:], *whole.draws["weight"][0, -1]]
    )


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "integrator", [vr.psgld(), vr.ito(lambda x, g: g(x), lambda x: 1.0)], ids=["psgld", "ito"]
)
def test_integrators_that_cannot_move_in_z(integrator):
    with pytest.raises(ValueError, match=rf"{integrator.name}\(\) cannot be used with a metric: "):
        vr.kernel(PLAIN, vr.full(), integrator, size=SIZE, metric=METRICS["dense"])


FULL = {"estimator": vr.full(), "step_size": 1e-3, "num_steps": 1}


@pytest.mark.parametrize(
    ("metric", "error", "message"),
    [
        (np.eye(3), TypeError, r"metric must be None, or \(center, L\)"),
        ((START, np.eye(2)), ValueError, r"there are 3 parameters, got .* \[2, 2\]"),
        ((START, np.ones((3, 2))), ValueError, r"there are 3 parameters, got .* \[3, 2\]"),
        ((START, np.ones(4)), ValueError, r"there are 3 parameters, got .* \[4\]"),
        ((np.zeros(2), np.eye(3)), ValueError, r"there are 3 parameters, got .* \[\[2\]"),
        ((START, np.full(3, np.nan)), ValueError, r"the centre and L must be finite"),
        ((START, np.array([1.0, 0.0, 1.0])), ValueError, r"L is singular"),
        ((START, np.ones((3, 3))), ValueError, r"L is singular"),
    ],
)
def test_metrics_that_do_not_fit(metric, error, message):
    with pytest.raises(error, match=message):
        vr.sample(0, PLAIN, DATA, START, **FULL, metric=metric)


def test_a_pair_is_a_metric():
    dense, diagonal = as_metric((START, np.eye(3))), as_metric((START, np.ones(3)))
    assert isinstance(dense, Dense)
    assert isinstance(diagonal, Diagonal)
    assert isinstance(dense, Metric)
    np.testing.assert_array_equal(dense.center, ravel_pytree(START)[0])
    assert as_metric(dense) is dense
    assert as_metric(None) is None
