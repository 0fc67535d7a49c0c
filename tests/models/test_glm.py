"""Likelihoods of a linear predictor against SciPy's densities, and models declared by them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vrsgmcmc as vr
from vrsgmcmc.core import GLM

ETA = np.array([-3.0, -0.4, 0.0, 0.7, 2.5])
COUNTS, NUMBERS, LABELS = np.array([0, 1, 4, 2, 9]), ETA[::-1] / 2, np.array([0, 1, 1, 0, 1])
MEAN, LOGITS = np.exp(ETA), np.stack([ETA, -ETA, ETA**2], 1)
likelihoods = vr.likelihoods

DENSITIES = {  # likelihood, eta, y, log density
    "gaussian": (likelihoods.gaussian(0.7), ETA, NUMBERS, stats.norm.logpdf(NUMBERS, ETA, 0.7)),
    "student_t": (
        *(likelihoods.student_t(3.5, 0.7), ETA, NUMBERS),
        stats.t.logpdf(NUMBERS, 3.5, ETA, 0.7),
    ),
    "bernoulli": (
        *(likelihoods.bernoulli(), ETA, LABELS),
        stats.bernoulli.logpmf(LABELS, 1 / (1 + np.exp(-ETA))),
    ),
    "poisson": (likelihoods.poisson(), ETA, COUNTS, stats.poisson.logpmf(COUNTS, MEAN)),
    "negative_binomial": (
        *(likelihoods.negative_binomial(0.6), ETA, COUNTS),
        stats.nbinom.logpmf(COUNTS, 1 / 0.6, 1 / (1 + 0.6 * MEAN)),
    ),
    "softmax": (
        *(likelihoods.softmax(3), LOGITS, LABELS),
        np.log([np.exp(row)[k] / np.exp(row).sum() for row, k in zip(LOGITS, LABELS, strict=True)]),
    ),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_the_log_density_is_scipy_s(name):
    likelihood, eta, y, expected = DENSITIES[name]
    found = jax.vmap(likelihood)(jnp.asarray(eta), jnp.asarray(y))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    likelihood.check(y)


@pytest.mark.parametrize("name", DENSITIES)
def test_likelihoods_are_values(name):
    """Equal parameters make equal functions, and equal posteriors: nothing compiles twice."""
    given = {"softmax": (3,)}.get(name, ())
    make = getattr(likelihoods, name)
    assert make(*given) == make(*given)
    assert hash(make(*given)) == hash(make(*given))
    assert vr.glm(make(*given), 2.0) == vr.glm(make(*given), 2.0)
    assert hash(vr.glm(make(*given))) == hash(vr.glm(make(*given)))
    assert vr.glm(make(*given), 2.0) != vr.glm(make(*given), 3.0)
    others = {make(*given)} | {likelihoods.gaussian(0.3), likelihoods.softmax(7)}
    assert len(others) == 3


X = np.random.default_rng(0).normal(size=(5, 2))
MODELS = {
    "glm": (vr.glm("poisson"), (X, COUNTS), np.array([0.3, -0.2])),
    "glm of classes": (vr.glm(likelihoods.softmax(3)), (X, LABELS), np.ones((2, 3)) * X[:2, :1]),
    "logistic": (vr.models.logistic.posterior(), (X, LABELS), np.array([0.3, -0.2])),
    "linear": (vr.models.linear.posterior(variance=2.0), (X, NUMBERS), np.array([0.3, -0.2])),
    "softmax": (
        *(vr.models.softmax.posterior(3), (X, LABELS)),
        {"weight": X[:3].T, "bias": X[:3, 0]},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_glm_is_its_likelihood_of_its_linear_predictor(name):
    posterior, data, params = MODELS[name]
    assert isinstance(posterior, GLM)
    posterior.check(data)
    params, (x, y) = jax.tree.map(jnp.asarray, (params, data))
    eta = jax.vmap(posterior.features)(x) @ posterior.coefficients(params)
    rows = jax.vmap(posterior.loglik, (None, 0))(params, (x, y))
    np.testing.assert_allclose(rows, jax.vmap(posterior.likelihood)(eta, y), rtol=1e-12)


def test_a_prior_is_a_variance_or_a_function():
    w = jnp.array([0.5, -2.0])
    expected = stats.norm.logpdf(np.asarray(w), 0, np.sqrt(3)).sum()
    np.testing.assert_allclose(vr.glm("gaussian", 3.0).logprior(w), expected, rtol=1e-12)

    def own(w):
        return -jnp.sum(jnp.abs(w))

    assert vr.glm("gaussian", own).logprior is own


def test_an_own_likelihood_is_a_function():
    def laplace(eta, y):
        return -jnp.abs(y - eta)

    posterior = vr.glm(laplace)
    posterior.check((X, NUMBERS))
    assert posterior.loglik(jnp.ones(2), (jnp.ones(2), 1.0)) == -1.0


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: vr.glm("binomial"), ValueError, r"glm\('binomial'\): known are gaussian, bern"),
        (lambda: vr.glm("posson"), ValueError, r"Did you mean poisson\?"),
        (lambda: vr.glm("softmax"), ValueError, r"vr\.likelihoods\.softmax\(10\)"),
        (lambda: vr.glm(3), TypeError, r"a name or a function .* got int"),
        (lambda: likelihoods.gaussian(0), ValueError, r"gaussian\(scale=0\).*positive"),
        (lambda: likelihoods.student_t(dof=-1), ValueError, r"student_t\(dof=-1\).*positive"),
        (lambda: likelihoods.negative_binomial(0), ValueError, r"dispersion=0\).*positive"),
        (lambda: likelihoods.softmax(1), ValueError, r"softmax\(num_classes=1\).*at least 2"),
        (
            lambda: likelihoods.softmax(3)(jnp.ones(2), 0),
            ValueError,
            r"3 classes, and a linear pred",
        ),
    ],
)
def test_wrong_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("likelihood", "data", "message"),
    [
        ("gaussian", X, r"glm: the data must be a tuple \(x, y\)"),
        ("gaussian", (X, NUMBERS[:4]), r"got 5 rows in x and 4 in y"),
        ("gaussian", (X[0], NUMBERS), r"glm: x must have"),
        ("gaussian", (X, np.array(list("abcde"))), r"gaussian: y must be numbers \[N\]"),
        ("student_t", (X, X), r"student_t: y must be numbers \[N\], got .* shape \(5, 2\)"),
        ("bernoulli", (X, 2 * LABELS - 1), r"labels must be in 0\.\.1.*such as -1 and 1"),
        ("bernoulli", (X, NUMBERS), r"bernoulli: labels must be integers"),
        ("poisson", (X, NUMBERS), r"poisson: y must hold counts 0, 1, 2, .*, got 1.25 in row 0"),
        ("negative_binomial", (X, -COUNTS), r"got -1 in row 1 \(4 of 5 rows\)"),
        (likelihoods.softmax(3), (X, COUNTS), r"softmax: labels must be in 0\.\.2"),
    ],
)
def test_data_that_are_not_meant(likelihood, data, message):
    with pytest.raises(ValueError, match=message):
        vr.glm(likelihood).check(data)


@pytest.mark.parametrize(
    ("likelihood", "concave"),
    [
        (vr.likelihoods.gaussian(0.5), True),
        (vr.likelihoods.bernoulli(), True),
        (vr.likelihoods.poisson(), True),
        (vr.likelihoods.negative_binomial(0.7), True),
        (vr.likelihoods.student_t(3.0), False),
    ],
)
def test_what_is_declared_concave_is(likelihood, concave):
    """The second derivative in eta, at every count and predictor of a grid."""
    eta = jnp.linspace(-30.0, 30.0, 601)
    second = jax.vmap(jax.grad(jax.grad(likelihood)), (0, None))
    bends = np.stack([second(eta, float(y)) for y in (0, 1)])
    assert vr.glm(likelihood).concave == concave
    assert np.all(bends <= 0) == concave


def test_a_softmax_is_concave_and_an_own_function_is_not_known_to_be():
    softmax = vr.likelihoods.softmax(4)
    for eta in np.random.default_rng(0).normal(size=(20, 4)) * 5:
        assert np.linalg.eigvalsh(jax.hessian(softmax)(jnp.asarray(eta), 2))[-1] <= 1e-12
    assert vr.glm(softmax).concave
    assert vr.models.logistic.posterior().concave
    assert not vr.glm("bernoulli", lambda w: -jnp.sum(jnp.log1p(w**2))).concave
    assert not vr.glm(lambda eta, y: -((y - eta) ** 2)).concave
