"""The mode and the curvature that samplers are built on: right, counted, refused if there is none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import vrsgmcmc as vr
from vrsgmcmc import core
from vrsgmcmc.run import (
    CoarseNumbers,
    NoMode,
    find_modes,
    gradient_metric,
    has_kinks,
    locate_mode,
    mode,
)
from vrsgmcmc.run.mode import linear, target
from vrsgmcmc.run.mode.target import Meter

RNG = np.random.default_rng(0)
BERNOULLI = vr.glm("bernoulli")


def flat(w):
    return 0.0 * jnp.sum(w)


def plain(posterior):
    """The same model, not declared as a generalised linear one."""
    return vr.Posterior(posterior.logprior, posterior.loglik)


def logistic(size, dimension, seed=0, scales=1.0, correlation=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, dimension))
    x[:, 1] = correlation * x[:, 0] + np.sqrt(1 - correlation**2) * x[:, 1]
    logits = x @ rng.normal(size=dimension) / np.sqrt(dimension)
    y = (rng.uniform(size=size) < 1 / (1 + np.exp(-logits))).astype(int)
    return jnp.asarray(x * scales), jnp.asarray(y)


def exact_mode(posterior, data, params):
    """By Newton's method in float64, halved where the log posterior does not grow; and H there."""
    flat_params, unravel = ravel_pytree(params)

    def log_posterior(x):
        return posterior.logprior(unravel(x)) + jnp.sum(
            jax.vmap(posterior.loglik, (None, 0))(unravel(x), data)
        )

    value, slope = jax.jit(log_posterior), jax.jit(jax.grad(log_posterior))
    hessian = jax.jit(jax.hessian(log_posterior))
    x = flat_params
    for _ in range(100):
        step = jnp.linalg.solve(-hessian(x), slope(x))
        length = 1.0
        while not value(x + length * step) >= value(x) and length > 1e-6:
            length /= 2
        x = x + length * step
        if jnp.abs(step).max() < 1e-9 * jnp.abs(x).max():
            break
    return np.asarray(x), -np.asarray(hessian(x))


def logistic_mode(data, variance=1.0):
    """The mode and H of a logistic regression in NumPy, by damped Newton steps."""
    x, y = (np.asarray(each, float) for each in data)
    w = np.zeros(x.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -500, 500)))
        hessian = np.eye(len(w)) / variance + (x * (p * (1 - p))[:, None]).T @ x
        step = np.linalg.solve(hessian, x.T @ (y - p) - w / variance)
        length = np.sqrt(step @ hessian @ step)
        w = w + step / max(1.0, length / 3)
        if length < 1e-9:
            break
    return w, hessian


def check(located, x, hessian):
    """Where it is and how far it says it is; the spectrum of H in z."""
    d = len(x)
    away = np.asarray(ravel_pytree(located.params)[0], float) - x
    distance = np.sqrt(away @ hessian @ away / d)
    assert located.converged
    assert distance < 0.1
    assert located.distance == pytest.approx(distance, rel=0.3, abs=2e-3)
    np.testing.assert_array_equal(located.metric.center, ravel_pytree(located.params)[0])
    root = np.asarray(located.metric.factor, float)
    return np.linalg.eigvalsh(root.T @ hessian @ root)


SOFTMAX = vr.models.softmax
FAMILIES = {
    "gaussian": (vr.likelihoods.gaussian(0.7), lambda eta, rng: rng.normal(eta, 0.7)),
    "student_t": (vr.likelihoods.student_t(4.0, 0.5), lambda eta, rng: eta + rng.standard_t(4)),
    "bernoulli": (vr.likelihoods.bernoulli(), lambda eta, rng: rng.uniform(size=len(eta)) < 0.5),
    "poisson": (vr.likelihoods.poisson(), lambda eta, rng: rng.poisson(np.exp(eta))),
    "negative_binomial": (
        vr.likelihoods.negative_binomial(0.5),
        lambda eta, rng: rng.poisson(np.exp(eta)),
    ),
}


def family(name, size=150, d=3):
    """A posterior of a family, data, and some parameters."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(size, d))
    if name == "softmax":
        y = rng.integers(0, 4, size)
        return vr.glm(vr.likelihoods.softmax(4)), (jnp.asarray(x), jnp.asarray(y)), jnp.ones((d, 4))
    if name == "softmax with a bias":
        y = rng.integers(0, 4, size)
        return SOFTMAX.posterior(4), (jnp.asarray(x), jnp.asarray(y)), SOFTMAX.initial(d, 4)
    likelihood, draw = FAMILIES[name]
    y = draw(x.sum(1) / 2, rng)
    y = y.astype(int) if np.asarray(y).dtype == bool else y
    return vr.glm(likelihood), (jnp.asarray(x), jnp.asarray(y)), jnp.zeros(d)


@pytest.mark.parametrize("name", [*FAMILIES, "softmax", "softmax with a bias"])
def test_one_pass_makes_the_hessian_of_a_linear_model(name):
    posterior, data, params = family(name)
    x, unravel = ravel_pytree(params)
    x = x + jnp.asarray(RNG.normal(size=x.shape)) * 0.3
    meter = Meter(np.inf)
    full = linear.make_target(posterior, data, params, meter)
    assert isinstance(full, linear.LinearTarget)

    def likelihood(x):
        return jnp.sum(jax.vmap(posterior.loglik, (None, 0))(unravel(x), data))

    hessian = -jax.hessian(likelihood)(x)
    size = core.data_size(data)
    np.testing.assert_allclose(full.likelihood_hessian(np.asarray(x)), hessian, atol=1e-9)
    assert meter.evaluations == size
    np.testing.assert_allclose(
        full.likelihood_diagonal(np.asarray(x)), np.diagonal(hessian), atol=1e-9
    )
    direction = RNG.normal(size=x.size)
    product = full.likelihood_products(np.asarray(x), direction[None])[0]
    np.testing.assert_allclose(product, hessian @ direction, atol=1e-9)
    assert meter.evaluations == 3 * size
    value, gradient = full.likelihood_slope(np.asarray(x))
    assert value == pytest.approx(float(likelihood(x)))
    np.testing.assert_allclose(gradient, jax.grad(likelihood)(x), atol=1e-9)


def test_any_posterior_has_the_same_derivatives():
    posterior, data, params = family("softmax with a bias")
    x = RNG.normal(size=16)
    one, other = (
        linear.make_target(each, data, params, Meter(np.inf))
        for each in (posterior, plain(posterior))
    )
    assert type(other) is target.Target
    for part_one, part_other in zip(one.slope(x), other.slope(x), strict=True):
        np.testing.assert_allclose(part_one, part_other, atol=1e-9)
    np.testing.assert_allclose(one.likelihood_hessian(x), other.likelihood_hessian(x), atol=1e-9)
    direction = RNG.normal(size=16)
    np.testing.assert_allclose(one.product(x, direction), other.product(x, direction), atol=1e-9)
    np.testing.assert_allclose(one.prior_diagonal(x), np.diagonal(one.prior_hessian(x)), atol=1e-9)
    assert other.meter.evaluations == len(data[1]) * (1 + 2 * 16 + 2)


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("name", ["student_t", "poisson", "softmax with a bias"])
def test_the_mode_is_reached_and_the_metric_is_its_curvature(name, declared):
    posterior, data, params = family(name)
    posterior = posterior if declared else plain(posterior)
    located = locate_mode(posterior, data, params)
    spectrum = check(located, *exact_mode(posterior, data, located.params))
    np.testing.assert_allclose(spectrum, 1.0, atol=0.1)
    assert located.exact
    assert located.notes == ()


def test_a_table_as_it_comes():
    x, y = vr.datasets.pima()
    data = jnp.asarray(np.insert(x, 0, 1.0, axis=1)), jnp.asarray(y)
    located = locate_mode(vr.glm("bernoulli", 100.0), data, jnp.zeros(9))
    spectrum = check(located, *logistic_mode(data, 100.0))
    np.testing.assert_allclose(spectrum, 1.0, atol=0.1)
    assert located.evaluations <= 15 * 768


@pytest.mark.parametrize("declared", [True, False])
def test_scales_and_correlated_columns_do_not_matter(declared):
    data = logistic(4000, 5, scales=np.array([1.0, 1.0, 1e3, 1e-3, 1.0]), correlation=0.99)
    posterior = vr.glm("bernoulli", 100.0)
    posterior = posterior if declared else plain(posterior)
    located = locate_mode(posterior, data, jnp.zeros(5), most=40 * 4000)
    spectrum = check(located, *logistic_mode(data, 100.0))
    np.testing.assert_allclose(spectrum, 1.0, atol=0.05)
    assert located.condition > 1e9


@pytest.mark.parametrize("dimension", [5, 50])
def test_four_passes_are_enough_for_a_linear_model(dimension):
    size = 10_000
    data = logistic(size, dimension)
    located = locate_mode(BERNOULLI, data, jnp.zeros(dimension), most=4 * size)
    assert located.evaluations <= 4 * size
    x, hessian = logistic_mode(data)
    away = np.asarray(located.params) - x
    assert np.sqrt(away @ hessian @ away / dimension) < 0.1
    assert located.distance < 0.1
    more = locate_mode(BERNOULLI, data, jnp.zeros(dimension))
    assert more.evaluations <= 15 * size
    assert more.exact
    features, labels = (np.asarray(each, float) for each in data)
    p = 1 / (1 + np.exp(-features @ np.asarray(more.params)))
    hessian = (features * (p * (1 - p))[:, None]).T @ features
    np.testing.assert_allclose(more.likelihood_hessian, hessian, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(more.gradient, features.T @ (labels - p) - more.params, atol=1e-6)


@pytest.mark.slow
def test_four_passes_are_enough_for_many_rows():
    data = logistic(100_000, 50)
    located = locate_mode(BERNOULLI, data, jnp.zeros(50), most=4e5)
    assert located.evaluations <= 4e5
    assert located.exact
    check(located, *logistic_mode(data))


def test_more_columns_than_rows():
    data = logistic(60, 300)
    located = locate_mode(BERNOULLI, data, jnp.zeros(300))
    spectrum = check(located, *logistic_mode(data))
    np.testing.assert_allclose(spectrum, 1.0, atol=0.2)


def rare_events():
    """20 positives of 50,000 rows."""
    rng = np.random.default_rng(2)
    x = np.insert(rng.normal(size=(50_000, 3)), 0, 1.0, axis=1)
    p = np.exp(x @ np.array([0.0, 1.0, 0.5, 0.0]))
    y = np.zeros(50_000, int)
    y[rng.choice(50_000, 20, replace=False, p=p / p.sum())] = 1
    return jnp.asarray(x), jnp.asarray(y)


def test_nine_passes_are_enough_for_rare_events():
    """Most subsamples have no positive, and their modes are far away."""
    data = rare_events()
    for seed in range(3):
        located = locate_mode(
            vr.glm("bernoulli", 25.0), data, jnp.zeros(4), most=9 * 50_000, seed=seed
        )
        assert located.evaluations <= 9 * 50_000
        assert located.exact
        x, y = (np.asarray(each, float) for each in data)
        p = 1 / (1 + np.exp(-x @ np.asarray(located.params)))
        gradient = x.T @ (y - p) - located.params / 25
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.eye(4) / 25
        assert np.sqrt(gradient @ np.linalg.solve(hessian, gradient) / 4) < 0.1


def test_a_sweep_of_a_linear_model_counts_once():
    posterior, data, params = family("poisson")
    meter = Meter(np.inf)
    full = linear.make_target(posterior, data, params, meter)
    x = np.full(3, 0.1)
    value, gradient = full.likelihood_slope(x)
    hessian = full.likelihood_hessian(x)
    assert meter.evaluations == 2 * 150
    again = full.likelihood_slope(x)
    assert meter.evaluations == 2 * 150  # the sweep of the Hessian had these, too
    assert again[0] == pytest.approx(value)
    np.testing.assert_allclose(again[1], gradient, rtol=1e-12)
    some = full.subsample(50, 0)
    assert np.abs(some.likelihood_slope(x)[1] - gradient).max() > 1e-3
    assert np.abs(full.likelihood_hessian(x + 0.1) - hessian).max() > 1e-3
    assert meter.evaluations == 3 * 150 + 50


def hierarchy(groups, size, seed=3):
    """Effects b of groups with an unknown sd exp(lt), all zero at the start."""
    rng = np.random.default_rng(seed)
    g = rng.integers(0, groups, size)
    y = 1 + (0.5 * rng.normal(size=groups))[g] + rng.normal(size=size)

    def logprior(p):
        effects = -0.5 * jnp.sum(p["b"] ** 2) * jnp.exp(-2 * p["lt"]) - groups * p["lt"]
        return effects - 0.5 * (p["mu"] / 5) ** 2 - 0.5 * p["lt"] ** 2

    posterior = vr.Posterior(logprior, lambda p, d: -0.5 * (d[1] - p["mu"] - p["b"][d[0]]) ** 2)
    params = {"mu": jnp.zeros(()), "lt": jnp.zeros(()), "b": jnp.zeros(groups)}
    return posterior, (jnp.asarray(g), jnp.asarray(y)), params


@pytest.mark.parametrize(
    ("groups", "size"), [(50, 2_000), pytest.param(200, 20_000, marks=pytest.mark.slow)]
)
def test_effects_of_unknown_spread_are_not_sent_to_zero(groups, size):
    """At b = 0 the density rises steeply to small sds, where its highest point has no mass."""
    posterior, data, params = hierarchy(groups, size)
    located = locate_mode(posterior, data, params, most=36 * size)
    assert located.converged
    assert float(located.params["lt"]) == pytest.approx(np.log(0.5), abs=0.5)


def test_a_normal_prior_has_the_same_curvature_everywhere():
    one = linear.make_target(plain(BERNOULLI), logistic(20, 3), jnp.zeros(3), Meter(np.inf))
    assert one.prior_excess(np.ones(3)) == 0.0
    other = linear.make_target(*hierarchy(10, 50), Meter(np.inf))
    excess = other.prior_excess(np.zeros(12))  # b, lt, mu
    assert np.diagonal(excess)[10] == pytest.approx(2 * 10, rel=0.6)  # the Fisher information of lt


@pytest.mark.slow
def test_evaluations_are_those_of_the_programs(monkeypatch):
    """Rows are counted where the model is evaluated, from the shapes that its programs get."""
    rows = []

    def watch(module, name, each):
        inner = getattr(module, name)

        def call(*arguments):
            rows.append(each(*arguments))
            return inner(*arguments)

        monkeypatch.setattr(module, name, call)

    watch(target, "_slope", lambda _, batch, __: len(batch.index))
    watch(target, "_products", lambda _, batch, __, v: 2 * len(batch.index) * len(v))
    watch(target, "_row_gradients", lambda _, batch, __: len(batch.index))
    watch(target, "_row_curvatures", lambda _, batch, *__: 2 * len(batch.index))
    data = logistic(3000, 4)
    located = locate_mode(plain(BERNOULLI), data, jnp.zeros(4), most=30_000)
    assert located.evaluations == sum(rows)
    rows.clear()
    modes = find_modes(plain(BERNOULLI), data, jnp.zeros(4), located, key=0)
    assert modes.evaluations == sum(rows)
    rows.clear()
    assert has_kinks(plain(BERNOULLI), data, located, 0) == (False, sum(rows))


def test_it_is_a_pure_function():
    data = logistic(3000, 4)
    one, other = (locate_mode(BERNOULLI, data, jnp.zeros(4), seed=3) for _ in range(2))
    assert one.evaluations == other.evaluations
    np.testing.assert_array_equal(one.metric.factor, other.metric.factor)


def test_separable_data_with_a_flat_prior_have_no_mode():
    x = np.random.default_rng(2).normal(size=(200, 3))
    data = jnp.asarray(x), jnp.asarray((x[:, 1] > 0).astype(int))
    for posterior in (vr.glm("bernoulli", flat), plain(vr.glm("bernoulli", flat))):
        with pytest.raises(NoMode, match=r"hardly falls along a direction of x\[1\].*proper prior"):
            locate_mode(posterior, data, jnp.zeros(3))
    assert locate_mode(vr.glm("bernoulli", 10.0), data, jnp.zeros(3)).converged


@pytest.mark.slow
def test_columns_that_depend_on_each_other_are_named():
    x, y = logistic(300, 3)
    data = jnp.concatenate([x, x[:, :1] * 2], axis=1), y
    with pytest.raises(NoMode, match=r"flat along a direction of x\[\d\], x\[\d\].*drop a column"):
        locate_mode(vr.glm("bernoulli", flat), data, jnp.zeros(4))


def test_the_end_of_a_support_is_named():
    scale = vr.Posterior(
        lambda p: jnp.where(p["sigma"] > 0, -p["sigma"], -jnp.inf), lambda p, t: -p["sigma"] * t**2
    )
    data = jnp.asarray(RNG.normal(size=50))
    with pytest.raises(NoMode, match=r"no mode inside its support: it grows in sigma.*logarithm"):
        locate_mode(scale, data, {"sigma": jnp.asarray(1.0)})
    with pytest.raises(NoMode, match=r"no mode to search from this start: .*Start inside"):
        locate_mode(scale, data, {"sigma": jnp.asarray(-1.0)})
    near = vr.Posterior(
        lambda p: jnp.where(p["rate"] > 0, -p["rate"] + 2 * jnp.log(jnp.abs(p["rate"])), -jnp.inf),
        lambda p, t: 0.0 * t * p["rate"],
    )
    with pytest.raises(
        NoMode, match="of the draws from the Gaussian at the mode lie outside, in rate"
    ):
        locate_mode(near, data, {"rate": jnp.asarray(1.0)})


def test_a_saddle_is_left_or_refused():
    ridge = vr.Posterior(lambda x: x[0] ** 2 - x[1] ** 2, lambda x, t: 0.0 * t * x[0])
    with pytest.raises(NoMode, match=r"curves upwards along a direction of x\[0\]"):
        locate_mode(ridge, jnp.ones(50), jnp.zeros(2))
    posterior, data = mixture()
    located = locate_mode(posterior, data, jnp.zeros(2))  # a saddle: both means in the middle
    assert located.converged
    assert sorted(np.round(np.asarray(located.params))) == [-3, 3]


def mixture():
    """Two components without labels."""
    rng = np.random.default_rng(3)
    data = jnp.asarray(np.concatenate([rng.normal(-3, 1, 100), rng.normal(3, 1, 100)]))
    return vr.Posterior(
        lambda m: -0.5 * jnp.sum(m**2) / 25,
        lambda m, t: jnp.logaddexp(-0.5 * (t - m[0]) ** 2, -0.5 * (t - m[1]) ** 2),
    ), data


def test_two_modes_are_told_from_one():
    posterior, data = mixture()
    located = locate_mode(posterior, data, jnp.array([-3.0, 3.0]))
    for init in (jnp.zeros(2), lambda key: 3 * jax.random.normal(key, (2,))):
        modes = find_modes(posterior, data, init, located, key=1)
        assert modes.count == 2
        assert modes.gaps == pytest.approx((0.0, 0.0), abs=0.1)
        assert str(modes).startswith("2 modes seen from")
    data = logistic(2000, 3)
    located = locate_mode(BERNOULLI, data, jnp.zeros(3))
    modes = find_modes(BERNOULLI, data, jnp.zeros(3), located, key=1)
    assert str(modes) == "one mode seen from 8 starts"


@pytest.mark.slow
def test_jumps_come_in_pairs():
    """y ~ N(t^2, 1) has modes near 2 and -2; one jump of a pair goes each way."""
    data = jnp.asarray(4 + np.random.default_rng(0).normal(size=20))
    posterior = vr.Posterior(lambda t: -((t - 1) ** 2) / 8, lambda t, y: -0.5 * (y - t**2) ** 2)
    located = locate_mode(posterior, data, jnp.asarray(1.0))
    counts = [
        find_modes(posterior, data, 1.0, located, key=core.fold(core.as_key(k), 2**20 + 1)).count
        for k in range(8)
    ]
    assert counts == [2] * 8


def test_searches_that_all_fail_are_said_to():
    assert str(mode.Modes(0, 4, 4, (), 100, 900)) == (
        "no search for other modes ended at a mode, of 4; the pilot has no room for 4 more"
    )


def test_searches_for_modes_end_with_the_budget():
    """A search begins only if there is room for it, and what is said is what was done."""
    data = logistic(2000, 3)
    located = locate_mode(BERNOULLI, data, jnp.zeros(3))
    whole = find_modes(BERNOULLI, data, jnp.zeros(3), located, key=1)
    few = find_modes(BERNOULLI, data, jnp.zeros(3), located, key=1, most=whole.evaluations // 2)
    assert few.evaluations <= whole.evaluations // 2
    assert 0 < few.starts < 8
    assert few.starts + few.lost + few.missing == 8
    assert (
        str(few)
        == f"one mode seen from {few.starts} starts; the pilot has no room for {few.missing} more"
    )
    none = find_modes(BERNOULLI, data, jnp.zeros(3), located, key=1, most=10)
    assert none.evaluations == 0
    assert "not looked for" in str(none)


def test_kinks_take_the_metric_from_gradients():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2000, 3))
    data = jnp.asarray(x), jnp.asarray(x.sum(1) + rng.laplace(size=2000))
    posterior = vr.glm(lambda eta, y: -jnp.abs(y - eta))
    located = locate_mode(posterior, data, jnp.zeros(3))
    assert located.converged
    assert any("kinks" in note for note in located.notes)
    assert has_kinks(posterior, data, located, 0)[0]
    np.testing.assert_allclose(located.params, 1.0, atol=0.1)
    metric, evaluations = gradient_metric(posterior, data, located, rows=2000)
    assert evaluations == 2000
    whitened = metric.factor.T @ (x.T @ x + np.eye(3)) @ metric.factor
    np.testing.assert_allclose(whitened, np.eye(3), atol=0.15)


def test_a_hinge_has_no_kink_at_the_start():
    """At zero every margin is on the slope: no row has curvature, and no gradient changes."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4000, 3))
    data = jnp.asarray(x), jnp.asarray(np.sign(x.sum(1) + rng.logistic(size=4000)))
    posterior = vr.Posterior(
        loglik=lambda w, row: -jnp.maximum(0.0, 1.0 - row[1] * (row[0] @ w)),
        logprior=lambda w: -jnp.sum(w**2) / 50,
    )
    located = locate_mode(posterior, data, jnp.zeros(3))
    assert located.converged
    assert located.kinks
    assert located.evaluations < 30 * 4000

    def height(w):
        return jnp.sum(jax.vmap(posterior.loglik, (None, 0))(w, data)) + posterior.logprior(w)

    moves = 0.5 * rng.normal(size=(50, 3)) @ np.asarray(located.metric.factor).T
    around = jnp.asarray(np.asarray(located.params) + moves)
    assert float(jnp.max(jax.vmap(height)(around))) < float(height(located.params)) + 0.1
    modes = find_modes(posterior, data, jnp.zeros(3), located, key=1)
    assert str(modes) == "one mode seen from 8 starts"


@pytest.mark.parametrize("kind", ["low_rank", "diagonal"])
@pytest.mark.parametrize("declared", [True, False])
def test_metrics_of_many_parameters(kind, declared):
    data = logistic(2000, 6, correlation=0.95)
    posterior = BERNOULLI if declared else plain(BERNOULLI)
    located = locate_mode(posterior, data, jnp.zeros(6), kind=kind)
    x, hessian = logistic_mode(data)
    away = np.asarray(located.params) - x
    assert np.sqrt(away @ hessian @ away / 6) < 0.15
    root = np.asarray(jax.vmap(located.metric.stretch)(jnp.eye(6))).T
    spectrum = np.linalg.eigvalsh(root.T @ hessian @ root)
    if kind == "low_rank":
        np.testing.assert_allclose(spectrum, 1.0, atol=0.35)
    else:
        np.testing.assert_allclose(np.diagonal(root.T @ hessian @ root), 1.0, atol=0.2)


@pytest.mark.slow
def test_nine_passes_are_enough_for_many_parameters():
    """A subsample of fewer rows than parameters says little about H; all data do."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2000, 1200)) * 3 / np.sqrt(1200)
    y = (rng.uniform(size=2000) < 1 / (1 + np.exp(-x @ rng.normal(size=1200)))).astype(int)
    data = jnp.asarray(x), jnp.asarray(y)
    located = locate_mode(BERNOULLI, data, jnp.zeros(1200), kind="low_rank", most=9 * 2000)
    assert located.evaluations <= 9 * 2000
    assert located.converged
    p = 1 / (1 + np.exp(-x @ np.asarray(located.params)))
    hessian = (x * (p * (1 - p))[:, None]).T @ x + np.eye(1200)
    gradient = x.T @ (y - p) - located.params
    assert np.sqrt(gradient @ np.linalg.solve(hessian, gradient) / 1200) < 0.15


def test_float32_is_enough_for_a_condition_number_of_1e9():
    with jax.enable_x64(False):
        x, y = logistic(3000, 4, scales=np.array([1.0, 1.0, 1e3, 3e-2]), correlation=0.99)
        data = jnp.asarray(x, jnp.float32), y
        located = locate_mode(vr.glm("bernoulli", 100.0), data, jnp.zeros(4, jnp.float32))
        assert located.metric.factor.dtype == jnp.float32
        data64, params = (
            (np.asarray(data[0], float), np.asarray(y)),
            np.asarray(located.params, float),
        )
        factor = np.asarray(located.metric.factor, float)
    assert located.condition > 1e9
    exact, hessian = logistic_mode(data64, 100.0)
    away = params - exact
    assert np.sqrt(away @ hessian @ away / 4) < 0.1
    np.testing.assert_allclose(factor.T @ hessian @ factor, np.eye(4), atol=0.05)


def test_numbers_that_are_too_coarse_are_named():
    with jax.enable_x64(False):
        rng = np.random.default_rng(5)
        x = np.stack([np.ones(2000), 1e5 + rng.normal(size=2000)], axis=1)
        y = x[:, 1] - 1e5 + rng.normal(size=2000)
        data = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
        posterior = vr.glm("gaussian", 1e12)
        with pytest.raises(CoarseNumbers, match=r"float32 is too coarse for x\[\d\].*standardise"):
            locate_mode(posterior, data, jnp.zeros(2, jnp.float32))


@pytest.mark.parametrize("kind", ["hessian", "diagonal"])
@pytest.mark.parametrize("declared", [True, False])
def test_a_column_of_nanoseconds_is_named(declared, kind):
    with jax.enable_x64(False):
        rng = np.random.default_rng(5)
        x = np.stack([np.ones(300), 1.7e18 + 1e16 * rng.normal(size=300)], axis=1)
        data = jnp.asarray(x, jnp.float32), jnp.asarray(rng.normal(size=300), jnp.float32)
        posterior = vr.glm("gaussian", 1e6)
        posterior = posterior if declared else plain(posterior)
        with pytest.raises(
            CoarseNumbers, match=r"float32 cannot hold the curvature in x\[1\].*subtract their mean"
        ):
            locate_mode(posterior, data, jnp.zeros(2, jnp.float32), kind=kind)


def test_nearly_equal_columns_have_no_control_variate_of_order_2():
    """Entries of H of size 3,000 cancel down to 1e-4 along their difference, finer than float32."""
    with jax.enable_x64(False):
        rng = np.random.default_rng(6)
        a, noise = rng.normal(size=(2, 3000))
        for width, coarse in ((1e-4, True), (0.1, False)):
            x = np.stack([a, a + width * noise, np.ones(3000)], axis=1)
            data = jnp.asarray(x, jnp.float32), jnp.asarray(a, jnp.float32)
            located = locate_mode(vr.glm("gaussian", 1e4), data, jnp.zeros(3, jnp.float32))
            assert located.converged
            assert (located.likelihood_hessian is None) == coarse
            named = ("x[0], x[1]", "x[1], x[0]")
            assert any(f"H along {each}, so" in "".join(located.notes) for each in named) == coarse


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind must be one of 'hessian', 'low_rank', 'diagonal'"):
        locate_mode(BERNOULLI, logistic(10, 2), jnp.zeros(2), kind="dense")


def test_the_package_offers_what_it_says():
    assert mode.locate_mode is locate_mode
