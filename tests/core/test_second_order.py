"""The second-order control variate: no noise on a quadratic, one formula for glm and others, mistakes.

That it is unbiased with 0, 1, n and N hot rows, in every order, is in `test_estimators.py`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from support.estimator_table import AUGMENTED, CENTER, Euler

import vrsgmcmc as vr
from vrsgmcmc.core import rows
from vrsgmcmc.theory import linear_regression, stationary

SIZE, COUNT = 9, 3
rng = np.random.default_rng(0)
X = jnp.asarray(rng.normal(size=(SIZE, 2)))
WEIGHTS, MATRIX = np.array([0.4, -0.3]), rng.normal(size=(2, 3))

MODELS = {  # posterior, data, a centre, and a point
    "bernoulli": (vr.glm("bernoulli"), (X, jnp.arange(SIZE) % 2), WEIGHTS),
    "poisson": (vr.glm("poisson"), (X, jnp.arange(SIZE) % 4), WEIGHTS),
    "softmax": (vr.glm(vr.likelihoods.softmax(3)), (X, jnp.arange(SIZE) % 3), MATRIX),
    "models.softmax": (
        vr.models.softmax.posterior(num_classes=3),
        (X, jnp.arange(SIZE) % 3),
        jax.tree.map(lambda leaf: 0.3 + leaf, vr.models.softmax.initial(2, 3)),
    ),
    "models.linear": (vr.models.linear.posterior(), (X, X[:, 0]), WEIGHTS),
}


def summed_hessian(posterior, data, center):
    row, unravel = ravel_pytree(center)

    def loglik(row):
        return jnp.sum(jax.vmap(posterior.loglik, (None, 0))(unravel(row), data))

    return -jax.hessian(loglik)(row)


def exact_gradient(posterior, data, point):
    def density(x):
        return posterior.logprior(x) + jnp.sum(jax.vmap(posterior.loglik, (None, 0))(x, data))

    return jax.grad(density)(point)


def estimates(name, hot, linear, count=COUNT, batches=range(4)):
    """At a point away from the centre, one for each of some batches, and the exact gradient."""
    posterior, data, center = MODELS[name]
    center = jax.tree.map(jnp.asarray, center)
    point = jax.tree.map(lambda leaf: leaf + 0.2 + 0.1 * jnp.cos(leaf), center)
    hessian = summed_hessian(posterior, data, center)
    options = {"hot": rows(data, jnp.array(hot, int)), "hessian": hessian, "linear": linear}
    estimator = vr.control_variate(center, 2, **options)
    kernel = vr.kernel(posterior, estimator, Euler(), size=SIZE, batch_size=count)
    state = kernel.init(jax.random.key(0), center)
    state = kernel.refresh(jax.random.key(1), state, vr.Batch(jnp.arange(SIZE), data))
    state, step = state._replace(position=point), jax.jit(kernel.step)
    found = [
        step(jax.random.key(2), state, rows(data, (jnp.arange(count) + 2 * b) % SIZE), 0.1)[1]
        for b in batches
    ]
    return [ravel_pytree(info.gradient)[0] for info in found], ravel_pytree(
        exact_gradient(posterior, data, point)
    )[0]


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("poisson", "softmax") else pytest.param(name, marks=pytest.mark.slow)
        for name in MODELS
    ],
)
def test_the_path_of_a_glm_is_the_general_one(name):
    for hot in ((), (1, 7)):
        one, other = (estimates(name, hot, linear)[0] for linear in (False, True))
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("linear", [False, True])
def test_all_rows_hot_give_the_exact_gradient(linear):
    found, exact = estimates("softmax", range(SIZE), linear)
    np.testing.assert_allclose(found, np.stack([exact] * 4), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("linear", [False, True])
def test_a_quadratic_posterior_has_no_noise(linear):
    found, exact = estimates("models.linear", (4,), linear)
    np.testing.assert_allclose(found, np.stack([exact] * 4), rtol=1e-11, atol=1e-11)


def test_the_residual_is_of_second_order_in_the_distance():
    """The estimate's error falls like |x - c|^2; that of order 1 like |x - c|."""
    posterior, data, center = MODELS["bernoulli"]
    hessian = summed_hessian(posterior, data, jnp.asarray(center))
    errors = {}
    for estimator in (vr.control_variate(center), vr.control_variate(center, 2, None, hessian)):
        kernel = vr.kernel(posterior, estimator, Euler(), size=SIZE)
        state = kernel.init(jax.random.key(0), jnp.asarray(center))
        state = kernel.refresh(jax.random.key(1), state, vr.Batch(jnp.arange(SIZE), data))
        for away in (1e-2, 1e-3):
            there = state._replace(position=center + away * jnp.array([1.0, 2.0]))
            _, info = kernel.step(jax.random.key(2), there, rows(data, jnp.arange(2)), 0.1)
            exact = exact_gradient(posterior, data, there.position)
            errors[str(estimator), away] = np.linalg.norm(info.gradient - exact)
    for name, ratio in (("control_variate", 10), ("control_variate(order=2)", 100)):
        assert errors[name, 1e-2] / errors[name, 1e-3] == pytest.approx(ratio, rel=0.1)


def test_a_run_counts_its_cost_and_resumes(tmp_path):
    posterior, data, center = MODELS["bernoulli"]
    hot = rows(data, jnp.array([2, 5]))
    hessian = summed_hessian(posterior, data, jnp.asarray(center))
    estimator = vr.control_variate(center, 2, hot, hessian, linear=True)
    assert (estimator.cost(SIZE, COUNT), estimator.seeks_mode) == (3 * (COUNT + 2), False)
    assert vr.control_variate(center, 2, hot, hessian).cost(SIZE, COUNT) == 4 * (COUNT + 2)

    def sample(init=center, **options):
        settings = {"step_size": 1e-2, "batch_size": COUNT, "num_chains": 2, "num_steps": 20}
        return vr.sample(
            *(0, posterior, data, init),
            **{"estimator": estimator, "progress": False} | settings | options,
        )

    result = sample(run_dir=tmp_path / "run")
    assert result.evaluations == 2 * (20 * 15 + SIZE)
    np.testing.assert_array_equal(sample(run_dir=tmp_path / "run").draws, result.draws)
    first = sample(num_steps=8)
    rest = sample(num_steps=12, init=first.state)
    np.testing.assert_array_equal(np.concatenate([first.draws, rest.draws], 1), result.draws)


def test_the_hessian_and_the_hot_rows_can_come_later():
    request, hot = vr.control_variate(order=2), vr.Batch(np.array([1]), np.ones(1))
    assert request.seeks_mode
    assert request.seeks_curvature
    known = request.at_mode(np.zeros(2)).with_curvature(np.eye(2), hot, linear=True)
    assert known == vr.control_variate(np.zeros(2), 2, hot, np.eye(2), linear=True)
    assert not known.seeks_mode
    assert not known.seeks_curvature
    assert not vr.control_variate().seeks_curvature


def test_the_exact_law_is_that_of_the_full_gradient():
    problem = linear_regression(np.asarray(X), np.asarray(X[:, 0]))
    settings = {"integrator": vr.sgld(), "step_size": 0.01}
    estimator = vr.control_variate(np.zeros(2), 2, None, np.eye(2))
    one = stationary(problem, estimator, batch_size=2, **settings)
    np.testing.assert_array_equal(
        one.covariance, stationary(problem, vr.full(), **settings).covariance
    )


# ---------------------------------------------------------------- mistakes


def test_without_a_hessian_a_kernel_says_what_is_missing():
    kernel = vr.kernel(MODELS["poisson"][0], vr.control_variate(order=2), vr.sgld(), size=SIZE)
    with pytest.raises(
        ValueError,
        match=r"Hessian at the centre is missing. vr.sample measures it; for a kernel pass",
    ):
        kernel.init(jax.random.key(0), WEIGHTS)


def one_hot(index, items=None):
    return vr.Batch(np.array(index), np.ones(len(index)) if items is None else items)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"order": 3}, ValueError, r"order=3\): order must be 1 or 2"),
        ({"order": True}, ValueError, r"order must be 1 or 2"),
        ({"order": 1, "hessian": np.eye(2)}, ValueError, r"hessian belongs to order=2"),
        ({"center": None, "gradient": np.ones(2)}, ValueError, r"pass the center that it belongs"),
        ({"order": 1, "linear": True, "hessian": None}, ValueError, r"linear belongs to order=2"),
        ({"center": None}, ValueError, r"pass the center too"),
        ({"hessian": np.ones(2)}, ValueError, r"matrix \[d, d\].*got shape \(2,\)"),
        ({"hessian": np.full((2, 2), np.nan)}, ValueError, r"Hessian is not finite"),
        ({"hot": [1, 2]}, TypeError, r"hot must be vr\.Batch\(index, rows\), got list"),
        ({"hot": one_hot([1.5])}, ValueError, r"index of hot must be whole numbers"),
        ({"hot": one_hot([1, 1])}, ValueError, r"names a row twice"),
        ({"hot": one_hot([-1])}, ValueError, r"one below 0"),
        ({"hot": one_hot([1], np.ones(3))}, ValueError, r"names 1 rows, but its items have"),
    ],
)
def test_wrong_arguments(options, error, message):
    right = {"center": WEIGHTS, "order": 2, "hessian": np.eye(2)}
    with pytest.raises(error, match=message):
        vr.control_variate(**right | options)


def test_what_does_not_fit_is_refused_before_a_run():
    posterior, data, center = MODELS["bernoulli"]

    def run(posterior=posterior, center=center, **options):
        estimator = vr.control_variate(center, 2, **{"hessian": np.eye(2)} | options)
        options = {"step_size": 1e-4, "batch_size": 2, "num_steps": 1}
        vr.sample(0, posterior, data, WEIGHTS, estimator=estimator, **options)

    with pytest.raises(ValueError, match="hot names row 9, but there are 9 rows"):
        run(hot=vr.Batch(np.array([9]), jax.tree.map(lambda leaf: leaf[:1], data)))
    with pytest.raises(ValueError, match=r"the Hessian must have shape \(2, 2\), got \(3, 3\)"):
        run(hessian=np.eye(3))
    with pytest.raises(ValueError, match="They must agree"):
        run(center=np.zeros(3))
    with pytest.raises(ValueError, match=r"needs a posterior made by vr\.glm"):
        run(vr.Posterior(posterior.logprior, posterior.loglik), linear=True)
    with pytest.raises(ValueError, match="cannot be used with augment"):
        vr.kernel(AUGMENTED, vr.control_variate(CENTER, 2), vr.sgld(), size=5)
