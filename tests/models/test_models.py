"""The built-in models against their formulas, written out in NumPy."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from vrsgmcmc.core import Posterior
from vrsgmcmc.models import checks, gaussian, linear, logistic, softmax

N, D, K = 7, 3, 4
VARIANCE, PRIOR_VARIANCE = 0.7, 2.5
RNG = np.random.default_rng(20)
X = RNG.normal(size=(N, D))
REAL = RNG.normal(size=N)
BINARY = np.array([0, 1, 1, 0, 1, 0, 0])
CLASSES = np.array([0, 1, 2, 3, 3, 0, 2])
THETA, W = RNG.normal(size=()), RNG.normal(size=D)
NET = {"weight": RNG.normal(size=(D, K)), "bias": RNG.normal(size=K)}


def total(posterior, params, data):
    """logprior + sum_i loglik, the way the library computes it."""
    rows = jax.vmap(posterior.loglik, (None, 0))(params, data)
    assert rows.shape == (len(jax.tree.leaves(data)[0]),)
    return posterior.logprior(params) + jnp.sum(rows)


log_density = jax.jit(total, static_argnums=0)
value_and_slope = jax.jit(jax.value_and_grad(total, argnums=1), static_argnums=0)
curvature = jax.jit(jax.hessian(total, argnums=1), static_argnums=0)


def gaussian_case(theta, x):
    theta_gradient = np.sum(x - theta, axis=0) / VARIANCE - theta / PRIOR_VARIANCE
    density = (
        stats.norm(theta, np.sqrt(VARIANCE)).logpdf(x).sum()
        + stats.norm(0, np.sqrt(PRIOR_VARIANCE)).logpdf(theta).sum()
    )
    posterior = gaussian.posterior(variance=VARIANCE, prior_variance=PRIOR_VARIANCE)
    return posterior, theta, x, density, theta_gradient


def linear_case():
    density = (
        stats.norm(X @ W, np.sqrt(VARIANCE)).logpdf(REAL).sum()
        + stats.norm(0, np.sqrt(PRIOR_VARIANCE)).logpdf(W).sum()
    )
    gradient = X.T @ (REAL - X @ W) / VARIANCE - W / PRIOR_VARIANCE
    posterior = linear.posterior(variance=VARIANCE, prior_variance=PRIOR_VARIANCE)
    return posterior, W, (X, REAL), density, gradient


def logistic_case():
    probability = 1 / (1 + np.exp(-X @ W))
    density = (
        np.log(np.where(BINARY == 1, probability, 1 - probability)).sum()
        + stats.norm(0, np.sqrt(PRIOR_VARIANCE)).logpdf(W).sum()
    )
    gradient = X.T @ (BINARY - probability) - W / PRIOR_VARIANCE
    return logistic.posterior(prior_variance=PRIOR_VARIANCE), W, (X, BINARY), density, gradient


def softmax_case():
    logits = X @ NET["weight"] + NET["bias"]
    probability = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    residual = np.eye(K)[CLASSES] - probability
    prior = stats.norm(0, np.sqrt(PRIOR_VARIANCE))
    density = np.log(probability[np.arange(N), CLASSES]).sum() + sum(
        prior.logpdf(leaf).sum() for leaf in NET.values()
    )
    gradient = {
        "weight": X.T @ residual - NET["weight"] / PRIOR_VARIANCE,
        "bias": residual.sum(axis=0) - NET["bias"] / PRIOR_VARIANCE,
    }
    posterior = softmax.posterior(K, prior_variance=PRIOR_VARIANCE)
    return posterior, NET, (X, CLASSES), density, gradient


CASES = {
    "gaussian": gaussian_case(THETA, REAL),
    "gaussian-vector": gaussian_case(W, X),
    "linear": linear_case(),
    "logistic": logistic_case(),
    "softmax": softmax_case(),
}
every_case = pytest.mark.parametrize(
    ("posterior", "params", "data", "density", "gradient"), CASES.values(), ids=CASES
)


@every_case
def test_density_and_gradient_are_the_formulas(posterior, params, data, density, gradient):
    params, data = jax.tree.map(jnp.asarray, (params, data))
    posterior.check(data)
    value, slope = value_and_slope(posterior, params, data)
    np.testing.assert_allclose(value, density, rtol=1e-12)
    assert jax.tree.structure(slope) == jax.tree.structure(gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-10), slope, gradient)


@every_case
def test_float32_agrees(posterior, params, data, density, gradient):
    with jax.enable_x64(False):
        params, data = jax.tree.map(jnp.asarray, (params, data))
        value, slope = value_and_slope(posterior, params, data)
        assert {leaf.dtype for leaf in jax.tree.leaves((value, slope))} == {jnp.dtype("float32")}
    np.testing.assert_allclose(value, density, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), slope, gradient)


@every_case
def test_chains_are_vmapped(posterior, params, data, density, gradient):
    params, data = jax.tree.map(jnp.asarray, (params, data))
    chains = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), params)
    slopes = jax.jit(jax.vmap(jax.grad(lambda params: total(posterior, params, data))))(chains)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[0], b, atol=1e-10), slopes, gradient)


def test_gaussian_exact_posterior():
    for theta, data in ((THETA, REAL), (W, X)):
        posterior, _, data, _, _ = gaussian_case(theta, data)
        mean, variance = gaussian.exact(data, variance=VARIANCE, prior_variance=PRIOR_VARIANCE)
        assert mean.shape == data.shape[1:]
        _, slope = value_and_slope(posterior, mean, data)
        np.testing.assert_allclose(slope, np.zeros(mean.shape), atol=1e-10)
        hessian = curvature(posterior, mean, data)
        np.testing.assert_allclose(-hessian * variance, np.eye(D) if mean.ndim else 1, atol=1e-10)


def test_gaussian_exact_posterior_by_hand():
    mean, variance = gaussian.exact(np.array([1.0, 2.0, 6.0]))  # precision 1 + 3
    assert (float(mean), variance) == (9 / 4, 1 / 4)


def test_linear_exact_posterior():
    posterior, _, data, _, _ = CASES["linear"]
    mean, covariance = linear.exact(data, variance=VARIANCE, prior_variance=PRIOR_VARIANCE)
    hessian = curvature(posterior, mean, data)
    np.testing.assert_allclose(-hessian, np.linalg.inv(covariance), rtol=1e-10, atol=1e-10)
    _, slope = value_and_slope(posterior, mean, data)
    np.testing.assert_allclose(slope, np.zeros(D), atol=1e-10)


def test_linear_density_minus_exact_posterior_is_the_log_evidence():
    posterior, params, data, _, _ = CASES["linear"]
    mean, covariance = linear.exact(data, variance=VARIANCE, prior_variance=PRIOR_VARIANCE)
    spread = VARIANCE * np.eye(N) + PRIOR_VARIANCE * X @ X.T
    evidence = stats.multivariate_normal(np.zeros(N), spread).logpdf(REAL)
    for at in (params, mean + 1.0):
        joint = log_density(posterior, at, data)
        found = joint - stats.multivariate_normal(mean, covariance).logpdf(at)
        np.testing.assert_allclose(found, evidence, rtol=1e-10)


@pytest.mark.parametrize("x64", [True, False])
def test_logistic_is_stable_far_from_the_boundary(x64):
    with jax.enable_x64(x64):
        logits = np.array([-1000.0, -30.0, 0.0, 30.0, 1000.0])
        both = jax.jit(jax.value_and_grad(logistic.loglik))
        tolerance = 1e-12 if x64 else 2e-6
        for label, sign in ((0, -1), (1, 1)):
            for logit in logits:
                value, slope = both(jnp.array([logit]), (jnp.ones(1), jnp.asarray(label)))
                np.testing.assert_allclose(value, special.log_expit(sign * logit), rtol=tolerance)
                expected = sign * special.expit(-sign * logit)
                np.testing.assert_allclose(slope[0], expected, rtol=tolerance, atol=1e-300)


def test_softmax_is_stable_far_from_the_boundary():
    params = {"weight": jnp.zeros((1, 3)), "bias": jnp.array([1000.0, 0.0, -1000.0])}
    loglik = softmax.posterior(3).loglik
    values = [float(loglik(params, (jnp.ones(1), jnp.asarray(label)))) for label in range(3)]
    assert values == [0.0, -1000.0, -2000.0]


def test_softmax_of_two_classes_is_logistic_in_the_difference():
    two = {"weight": jnp.asarray(NET["weight"][:, :2]), "bias": jnp.asarray(NET["bias"][:2])}
    difference = jnp.concatenate(
        [two["bias"][1:] - two["bias"][:1], two["weight"][:, 1] - two["weight"][:, 0]]
    )
    x = jnp.asarray(np.column_stack([np.ones(N), X]))
    np.testing.assert_allclose(
        softmax.predict(two, X)[:, 1], logistic.predict(difference, x), rtol=1e-12
    )
    datum = (jnp.asarray(X[0]), jnp.asarray(1))
    np.testing.assert_allclose(
        softmax.posterior(2).loglik(two, datum),
        logistic.loglik(difference, (x[0], datum[1])),
        rtol=1e-12,
    )


def test_predictions_are_the_likelihood_of_each_label():
    for row in jnp.asarray(X):
        one = logistic.predict(jnp.asarray(W), row)
        assert one.shape == ()
        for label, probability in ((0, 1 - one), (1, one)):
            loglik = logistic.loglik(jnp.asarray(W), (row, jnp.asarray(label)))
            np.testing.assert_allclose(jnp.exp(loglik), probability, rtol=1e-12)
        net = jax.tree.map(jnp.asarray, NET)
        many = softmax.predict(net, row)
        for label in range(K):
            loglik = softmax.posterior(K).loglik(net, (row, jnp.asarray(label)))
            np.testing.assert_allclose(jnp.exp(loglik), many[label], rtol=1e-12)


def test_predictions_of_a_table_are_those_of_its_rows():
    np.testing.assert_allclose(
        logistic.predict(W, X), [logistic.predict(W, row) for row in X], rtol=1e-12
    )
    np.testing.assert_allclose(
        softmax.predict(NET, X), [softmax.predict(NET, row) for row in X], rtol=1e-12
    )


def test_starts_are_zero_with_the_model_s_shapes():
    starts = (gaussian.initial(), gaussian.initial(D), linear.initial(D), logistic.initial(D))
    assert [start.shape for start in starts] == [(), (D,), (D,), (D,)]
    net = softmax.initial(D, K)
    assert jax.tree.map(jnp.shape, net) == {"weight": (D, K), "bias": (K,)}
    assert not any(leaf.any() for leaf in jax.tree.leaves((starts, net)))
    np.testing.assert_allclose(softmax.predict(net, X), np.full((N, K), 1 / K))
    np.testing.assert_allclose(logistic.predict(starts[-1], X), np.full(N, 0.5))


MAKERS = {
    "gaussian": (gaussian.posterior, (), {"variance": 3.0, "prior_variance": 2.0}),
    "linear": (linear.posterior, (), {"variance": 3.0, "prior_variance": 2.0}),
    "logistic": (logistic.posterior, (), {"prior_variance": 2.0}),
    "softmax": (softmax.posterior, (K,), {"prior_variance": 2.0}),
}


@pytest.mark.parametrize(("make", "sizes", "numbers"), MAKERS.values(), ids=MAKERS)
def test_equal_arguments_give_equal_posteriors(make, sizes, numbers):
    defaults, posterior = make(*sizes), make(*sizes, **numbers)
    assert isinstance(posterior, Posterior)
    assert posterior == make(*sizes, **numbers)
    assert hash(posterior) == hash(make(*sizes, **numbers))
    assert posterior == make(*sizes, **{name: int(number) for name, number in numbers.items()})
    assert defaults == make(*sizes, **dict.fromkeys(numbers, 1.0))
    assert hash(defaults) == hash(make(*sizes, **dict.fromkeys(numbers, 1)))
    for name, number in numbers.items():
        assert defaults != make(*sizes, **{name: number})


def test_another_number_of_classes_is_another_posterior():
    assert softmax.posterior(3) != softmax.posterior(4)


def test_many_other_posteriors_do_not_push_one_out_of_the_cache():
    first = gaussian.posterior(variance=0.1, prior_variance=0.2)
    for number in range(1, 200):
        gaussian.posterior(variance=float(number), prior_variance=float(number))
    assert gaussian.posterior(variance=0.1, prior_variance=0.2) == first


def test_equal_posteriors_are_traced_once():
    traces = []

    def density(posterior, params, data):
        traces.append(posterior)
        return total(posterior, params, data)

    compiled = jax.jit(density, static_argnums=0)
    data = (jnp.asarray(X), jnp.asarray(CLASSES))
    for _ in range(3):
        compiled(softmax.posterior(K, prior_variance=2), softmax.initial(D, K), data)
    assert len(traces) == 1


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan])
@pytest.mark.parametrize(("make", "sizes", "numbers"), MAKERS.values(), ids=MAKERS)
def test_a_variance_is_finite_and_positive(make, sizes, numbers, bad):
    for name in numbers:
        message = f"^{name} must be a finite number above zero, got {re.escape(repr(bad))}. It is"
        with pytest.raises(ValueError, match=message):
            make(*sizes, **{name: bad})


@pytest.mark.parametrize("exact", [gaussian.exact, linear.exact])
@pytest.mark.parametrize("name", ["variance", "prior_variance"])
def test_the_exact_posteriors_refuse_the_same_variances(exact, name):
    data = REAL if exact is gaussian.exact else (X, REAL)
    with pytest.raises(ValueError, match=rf"^{name} must be a finite number above zero, got -1\.0"):
        exact(data, **{name: -1.0})


@pytest.mark.parametrize("bad", [None, "wide", np.ones(2), 1j])
def test_a_variance_is_a_number(bad):
    with pytest.raises(ValueError, match=r"^variance must be a finite number above zero, got"):
        checks.as_variance("variance", bad)


@pytest.mark.parametrize("bad", [1, 0, -3, True])
def test_softmax_needs_two_classes(bad):
    message = rf"\(num_classes={bad}\): num_classes must be a whole number, at least 2\.$"
    with pytest.raises(ValueError, match=r"^softmax\.posterior" + message):
        softmax.posterior(bad)
    with pytest.raises(ValueError, match=r"^softmax\.initial" + message):
        softmax.initial(D, bad)


LOGISTIC, SOFTMAX = logistic.posterior(), softmax.posterior(3)
ROWS = np.zeros((5, 2))
BAD_LABELS = [
    (
        LOGISTIC,
        np.array([1, -1, 1, -1, 1]),
        "logistic: labels must be in 0..1, got 2 of 5 outside; the first is -1 in row 1. "
        "Two other labels, such as -1 and 1 or 1 and 2, become 0 and 1 with "
        "numpy.unique(y, return_inverse=True)[1].",
    ),
    (
        LOGISTIC,
        np.array([1, 2, 1, 2, 2]),
        r"got 3 of 5 outside; the first is 2 in row 1. Two other",
    ),
    (LOGISTIC, np.array([0, 1, 0, 1, 2]), "got 1 of 5 outside; the first is 2 in row 4."),
    (LOGISTIC, np.array([0, 1, 0, 255, 1], np.uint8), "the first is 255 in row 3."),
    (LOGISTIC, np.array([0, 1, 2**40, 1, 0]), "the first is 1099511627776 in row 2."),
    (
        LOGISTIC,
        np.array([0.0, 1.0, 0.0, 1.0, 0.5]),
        "logistic: labels must be integers, got dtype float64. Use y.astype(int).",
    ),
    (
        SOFTMAX,
        np.array([1, 2, 3, 3, 1]),
        "softmax: labels must be in 0..2, got 2 of 5 outside; the first is 3 in row 2. "
        "num_classes is 3; to number the labels from 0 use "
        "numpy.unique(y, return_inverse=True)[1].",
    ),
    (SOFTMAX, np.array([-1, 0, 1, 2, 2]), "got 1 of 5 outside; the first is -1 in row 0."),
    (SOFTMAX, np.zeros(5), "softmax: labels must be integers, got dtype float64."),
]


@pytest.mark.parametrize(("posterior", "labels", "message"), BAD_LABELS)
def test_wrong_labels_are_refused(posterior, labels, message):
    for y in (labels, jnp.asarray(labels)):
        with pytest.raises(ValueError, match=re.escape(message)):
            posterior.check((ROWS, y))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.bool_])
def test_any_integers_will_do_as_labels(dtype):
    y = BINARY.astype(dtype)
    LOGISTIC.check((X, y))
    SOFTMAX.check((X, y))
    np.testing.assert_allclose(
        log_density(LOGISTIC, W, (X, y)), log_density(LOGISTIC, W, (X, BINARY)), rtol=1e-12
    )


GAUSSIAN, LINEAR = gaussian.posterior(), linear.posterior()
BAD_DATA = [
    (GAUSSIAN, [1.0, 2.0], "gaussian: the data must be one array [N] or [N, d], got a list."),
    (GAUSSIAN, (ROWS, np.zeros(5)), "gaussian: the data must be one array [N] or [N, d], got a"),
    (GAUSSIAN, np.zeros((2, 2, 2)), "must have shape [N] or [N, d], got (2, 2, 2)."),
    (GAUSSIAN, np.zeros(()), "must have shape [N] or [N, d], got ()."),
    (GAUSSIAN, np.zeros(0), "gaussian: the data is empty, got shape (0,). Give at least one row."),
    (GAUSSIAN, np.zeros(3, complex), "must hold real numbers, got dtype complex128."),
    (GAUSSIAN, np.array(["a", "b"]), "must hold real numbers, got dtype <U1."),
    (LINEAR, ROWS, "linear: the data must be a tuple (x, y) with x [N, d] and y [N], got a nd"),
    (LINEAR, (ROWS, ROWS, ROWS), "got a tuple of 3. Write data = (x, y)."),
    (LINEAR, (ROWS, np.zeros((5, 1))), "linear: y must have shape [N], got (5, 1)."),
    (LINEAR, (np.zeros(5), np.zeros(5)), "linear: x must have shape [N, d], got (5,)."),
    (LINEAR, (np.zeros((5, 0)), np.zeros(5)), "linear: x is empty, got shape (5, 0)."),
    (LINEAR, (ROWS, np.zeros(4)), "got 5 rows in x and 4 in y. Take the same rows of both."),
    (LOGISTIC, {"x": ROWS, "y": np.zeros(5, int)}, "logistic: the data must be a tuple (x, y)"),
    (LOGISTIC, (ROWS, np.zeros((5, 1), int)), "logistic: y must have shape [N], got (5, 1)."),
    (SOFTMAX, (np.zeros((5, 2, 2)), np.zeros(5, int)), "softmax: x must have shape [N, d], got"),
    (SOFTMAX, (ROWS, np.eye(5, dtype=int)), "softmax: y must have shape [N], got (5, 5)."),
]


@pytest.mark.parametrize(("posterior", "data", "message"), BAD_DATA)
def test_data_of_another_shape_are_refused(posterior, data, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        posterior.check(data)


@pytest.mark.parametrize(("theta", "datum"), [((), (3,)), ((3,), ()), ((1,), (3,))])
def test_gaussian_parameters_do_not_broadcast(theta, datum):
    message = f"theta must have the shape of one datum, got theta {theta} and a datum {datum}."
    with pytest.raises(ValueError, match=re.escape(message)):
        GAUSSIAN.loglik(jnp.zeros(theta), jnp.zeros(datum))


@pytest.mark.parametrize(("name", "shape"), [("weight", (2, 4)), ("bias", (1,)), ("bias", ())])
def test_softmax_parameters_have_one_column_per_class(name, shape):
    params = softmax.initial(2, 3) | {name: jnp.zeros(shape)}
    message = (
        f"softmax: {name} must have 3 columns, one per class, got shape {shape}. "
        "Start from initial(2, 3)."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        SOFTMAX.loglik(params, (jnp.zeros(2), jnp.asarray(0)))
