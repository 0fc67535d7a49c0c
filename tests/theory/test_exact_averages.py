"""The error of averages: against closed forms and all sequences of minibatches."""

import numpy as np
import pytest
from support.plain_samplers import (
    FULL,
    INDEPENDENT,
    MINIBATCH,
    SAGA,
    SGHMC,
    SHORT_SVRG,
    THOUSAND,
    TWELVE,
    describe,
    label,
    name_of,
    practical,
    regression,
    sgld,
    splitting,
    subsets,
)
from support.trajectories import trajectories

from vrsgmcmc.theory import gaussian_mean, mse, stationary
from vrsgmcmc.theory.exact import moments as fourth

FEW = gaussian_mean([0.3, -1.2, 2.9], noise_variance=0.8, prior_variance=3.0)


def enumerate_errors(problem, *arguments, burn_in=0, **settings):
    """(bias, variance) of the averages: of x, of x^2, and of x^2 by Gaussian closure."""
    means, covariances = trajectories(problem, *arguments, **settings)
    means, covariances = means[:, burn_in:], covariances[:, :, burn_in:, burn_in:]
    posterior_mean, posterior_covariance = problem.posterior()
    count = means.shape[1]

    def quadratic(mean, covariance):
        along = np.einsum("...ld,...dlk,...kd->...d", mean, covariance, mean)
        return (2 * (covariance**2).sum((-1, -2)) + 4 * along) / count**2

    average = means.mean(1)
    spread = covariances.sum((2, 3)) / count**2
    position = average.mean(0) - posterior_mean, spread.mean(0) + average.var(0)

    square = (means**2).mean(1) + np.einsum("sdll->sd", covariances) / count
    bias = square.mean(0) - posterior_mean**2 - np.diag(posterior_covariance)
    exact = bias, quadratic(means, covariances).mean(0) + square.var(0)

    mean = means.mean(0)
    apart = means - mean
    total = covariances.mean(0) + np.einsum("sld,skd->dlk", apart, apart) / len(means)
    return {"position": position, "square": exact, "gaussian": (bias, quadratic(mean, total))}


def agree(error, expected):
    np.testing.assert_allclose(error.bias, expected[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(error.variance, expected[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(error.mse, error.bias**2 + error.variance)


def check(problem, estimator, integrator, *, exact, steps=4, burn_in=1, batch_size=1, **orders):
    """`mse` against all sequences; `exact`: whether fourth moments are exact."""
    h = 0.1 if integrator.name == "sgld" else 0.25
    start = [1.7, -0.4][: problem.features.shape[1]]
    settings = dict(start=start, burn_in=burn_in, batch_size=batch_size, **orders)
    expected = enumerate_errors(problem, estimator, integrator, h, steps=steps, **settings)
    arguments = problem, estimator, integrator
    settings |= dict(step_size=h, num_steps=steps)
    agree(mse(*arguments, **settings), expected["position"])
    settings |= dict(observable="square")
    agree(mse(*arguments, closure="gaussian", **settings), expected["gaussian"])
    if exact:
        agree(mse(*arguments, **settings), expected["square"])
    else:
        with pytest.raises(ValueError, match="no exact law for averages of squares"):
            mse(*arguments, **settings)


CENTER = describe("control_variate", center=[0.4])
INTEGRATORS = [
    sgld(0.7),
    sgld(0.0),
    SGHMC,
    *map(splitting, ("BAOAB", "OBABO", "UBU", "ABOBOB")),
    splitting("BAOAB", temperature=0.0),
]


@pytest.mark.parametrize("order", INDEPENDENT)
@pytest.mark.parametrize("integrator", INTEGRATORS, ids=name_of)
@pytest.mark.parametrize(
    "estimator",
    [FULL, MINIBATCH, SHORT_SVRG, CENTER, practical(2, 2), practical(2, 3, 2)],
    ids=label,
)
def test_gaussian_mean_against_all_sequences(estimator, integrator, order):
    orders = dict(batch_size=2 if estimator is MINIBATCH else 1, order=order, anchor_order=order)
    check(FEW, estimator, integrator, exact=True, **orders)


@pytest.mark.parametrize("order", ["shuffled", "symmetric"])
@pytest.mark.parametrize("integrator", [sgld(0.7), splitting("BAOAB")], ids=name_of)
def test_gaussian_sweeps_against_all_sequences(integrator, order):
    check(FEW, MINIBATCH, integrator, exact=False, steps=7, burn_in=2, order=order)
    orders = dict(order="shuffled", anchor_order=order)
    check(FEW, practical(1, 2), integrator, exact=False, steps=7, burn_in=1, **orders)
    check(FEW, SHORT_SVRG, integrator, exact=True, order=order)


@pytest.mark.parametrize("order", INDEPENDENT)
@pytest.mark.parametrize("integrator", [sgld(0.7), SGHMC, splitting("OBABO")], ids=name_of)
@pytest.mark.parametrize(
    "estimator",
    [
        MINIBATCH,
        SAGA,
        SHORT_SVRG,
        describe("control_variate", center=[0.4, 1.0]),
        practical(2, 1, 3),
    ],
    ids=label,
)
def test_regression_against_all_sequences(estimator, integrator, order):
    steps = 3 if estimator.name == "practical" else 4
    check(regression(3, 2), estimator, integrator, exact=False, steps=steps, order=order)


@pytest.mark.parametrize("order", ["shuffled", "symmetric"])
@pytest.mark.parametrize("estimator", [MINIBATCH, SAGA, SHORT_SVRG, practical(2, 2)], ids=label)
def test_spelled_out_sweeps_against_all_sequences(estimator, order):
    orders = dict(order=order, anchor_order="shuffled")
    integrator = splitting("BAOAB") if estimator is SAGA else sgld(0.7)
    steps = 4 if estimator.name == "practical" else 7
    check(regression(3, 1), estimator, integrator, exact=False, steps=steps, burn_in=0, **orders)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 6])
def test_moments_of_the_error(count, replace):
    values = np.array([0.3, -1.2, 2.9, 0.9, -0.5, 4.0])
    draws = np.array(subsets(6, count, INDEPENDENT[not replace]))
    errors = 6 / count * (values - values.mean())[draws].sum(1)
    expected = [(errors**k).mean() for k in range(5)]
    result = fourth.error_moments(values, count, replace=replace)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-10)
    for few in (2, 3):  # fewer data than moments
        errors = few * (values[:few] - values[:few].mean())
        result = fourth.error_moments(values[:few], 1, replace=replace)
        np.testing.assert_allclose(result[4], (errors**4).mean(), rtol=1e-12)


CURVE = [1, 7, 40, 300, 5000, 100_000, 1_000_000]


def full_gradient(a, T, x0, n):
    """E and Var of sum_{l <= n} x_l of an AR(1), x' = q x + N(0, 2 h T), measured from its mean."""
    h, q = a / 1001, 1 - a
    weights = (1 - q ** np.arange(1.0, n + 1)) / a
    return x0 * q * weights[-1], 2 * h * T * (weights**2).sum()


@pytest.mark.parametrize("a", [0.01, 0.3, 1.5])
def test_average_of_an_autoregression(a):
    problem, T, x0 = gaussian_mean(THOUSAND), 0.7, -0.6
    settings = dict(step_size=a / 1001, start=problem.posterior()[0] + x0)
    error = mse(problem, FULL, sgld(T), num_steps=CURVE, **settings)
    for point, n in enumerate(CURVE):
        mean, variance = full_gradient(a, T, x0, n)
        # from far off, the square of the mean is taken away from the second moment
        np.testing.assert_allclose(error.bias[point], mean / n, rtol=1e-9)
        np.testing.assert_allclose(error.variance[point], variance / n**2, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("a", [0.1, 1.5])
def test_average_of_squares_of_an_autoregression(a):
    problem, x0, n, burn_in = gaussian_mean(THOUSAND), 0.2, 150, 20
    mean, variance = problem.posterior()
    h, q, l = a / 1001, 1 - a, np.arange(burn_in + 1, n + 1)
    m = mean[0] + q**l * x0
    spread = 2 * h * (1 - q ** (2 * np.minimum.outer(l, l))) / (1 - q**2)
    c = q ** np.abs(np.subtract.outer(l, l)) * spread
    bias = (m**2 + np.diag(c)).mean() - mean**2 - variance[0]
    expected = (2 * (c**2).sum() + 4 * m @ c @ m) / len(l) ** 2
    settings = dict(start=mean + x0, num_steps=n, burn_in=burn_in, observable="square")
    for closure in (None, "gaussian"):
        error = mse(problem, FULL, sgld(), step_size=h, closure=closure, **settings)
        np.testing.assert_allclose(error.bias, bias, rtol=1e-9)
        np.testing.assert_allclose(error.variance, [expected], rtol=1e-9)


@pytest.mark.parametrize("closure", [None, "gaussian"])
@pytest.mark.parametrize("observable", ["position", "square"])
@pytest.mark.parametrize("integrator", [sgld(), splitting("BAOAB", 3.0)], ids=name_of)
def test_curve_is_separate_calls(integrator, observable, closure):
    stops = [9, 33, 71, 400]
    settings = dict(step_size=0.05, batch_size=4, burn_in=8, observable=observable, closure=closure)
    for start in (1.5, None):
        arguments = (TWELVE, practical(6, 3), integrator)
        curve = mse(*arguments, start=start, num_steps=stops, **settings)
        assert curve.bias.shape == curve.variance.shape == curve.mse.shape == (4, 1)
        for point, stop in enumerate(stops):
            alone = mse(*arguments, start=start, num_steps=stop, **settings)
            np.testing.assert_allclose(curve.bias[point], alone.bias, rtol=1e-9, atol=1e-14)
            np.testing.assert_allclose(curve.variance[point], alone.variance, rtol=1e-9)


@pytest.mark.parametrize("integrator", [sgld(), splitting("BAOAB", 3.0)], ids=name_of)
def test_stationary_start(integrator):
    """From the stationary law every step has its moments; averages of one step show them."""
    settings = dict(step_size=0.05, batch_size=4)
    arguments = (TWELVE, practical(6, 3, 4), integrator)
    law, posterior = stationary(*arguments, **settings), TWELVE.posterior()[1][0]
    for j, variance in enumerate(law.phase_covariances[:, 0, 0]):
        window = dict(burn_in=j, num_steps=j + 1, **settings)
        error = mse(*arguments, **window)
        np.testing.assert_allclose(error.variance, [variance], rtol=1e-9)
        for closure in (None, "gaussian"):
            square = mse(*arguments, observable="square", closure=closure, **window)
            np.testing.assert_allclose(square.bias, variance - posterior, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("integrator", [sgld(), splitting("BAOAB", 3.0)], ids=name_of)
@pytest.mark.parametrize("estimator", [MINIBATCH, practical(3, 3)], ids=label)
def test_closure_is_exact_for_gaussian_errors(estimator, integrator, monkeypatch):
    """Give the errors a Gaussian's moments: both recursions then say the same, at any length."""
    h = 0.05 if integrator.name == "sgld" else 0.25
    moments = fourth.error_moments

    def gaussian(*arguments, **keywords):
        variance = moments(*arguments, **keywords)[2]
        return np.array([1.0, 0.0, variance, 0.0, 3 * variance**2])

    for step_size in (h, h / 20):  # settles at once, and after thousands of steps
        settings = dict(start=1.5, num_steps=[5, 64, 1000, 70_001], burn_in=2, observable="square")
        settings |= dict(step_size=step_size, batch_size=2)
        closed = mse(TWELVE, estimator, integrator, closure="gaussian", **settings)
        if step_size == h:
            true = mse(TWELVE, estimator, integrator, **settings)
            assert not np.allclose(closed.variance, true.variance, rtol=1e-3)
        with monkeypatch.context() as patch:
            patch.setattr(fourth, "error_moments", gaussian)
            agree(mse(TWELVE, estimator, integrator, **settings), closed)


def test_closure_on_the_papers_gaussian():
    """The error that `mse` states: of the MSE of theta^2, N = 1000, n1 = 200, m = 10."""
    largest = {}
    problem = gaussian_mean(np.random.default_rng(2).normal(size=1000) + 1.0)
    for a in (0.05, 0.5):
        for estimator, n in [
            (MINIBATCH, 1),
            (MINIBATCH, 10),
            (MINIBATCH, 100),
            (practical(200, 10), 1),
        ]:
            settings = dict(step_size=a / 1001, batch_size=n, start=0.0, observable="square")
            settings |= dict(num_steps=[10, 100, 1000, 10_000, 100_000])
            true = mse(problem, estimator, sgld(), **settings).mse
            closed = mse(problem, estimator, sgld(), closure="gaussian", **settings).mse
            error = np.abs(closed / true - 1).max()
            largest[estimator.name, n] = max(error, largest.get((estimator.name, n), 0))
    stated = {("minibatch", 1): 5e-2, ("minibatch", 10): 5e-3, ("minibatch", 100): 3e-4}
    for row, bound in (stated | {("practical", 1): 4e-4}).items():
        assert bound / 2 < largest[row] < bound


def test_minibatches_of_algorithm_1_do_not_matter_on_the_gaussian():
    settings = dict(step_size=1e-4, start=0.0, num_steps=[10, 1000], observable="square")
    errors = [
        mse(gaussian_mean(THOUSAND), practical(200, 10), sgld(), batch_size=n, **settings).mse
        for n in (1, 10, 100)
    ]
    np.testing.assert_array_equal(errors[0], errors[1])
    np.testing.assert_array_equal(errors[0], errors[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(observable="cube"), "observable must be 'position' or 'square', got 'cube'"),
        (dict(closure="normal"), "closure must be None or 'gaussian', got 'normal'"),
        (dict(num_steps=0), "increasing numbers, above burn_in .0 or more.; got num_steps=0"),
        (dict(num_steps=[5, 5]), r"got num_steps=\[5, 5\] and burn_in=0"),
        (dict(num_steps=[]), "num_steps must be a number, or increasing numbers"),
        (dict(num_steps=5, burn_in=5), "num_steps=5 and burn_in=5"),
        (dict(burn_in=-1), "num_steps=10 and burn_in=-1"),
        (dict(start=[1.0, 2.0]), "as many finite numbers as there are dimensions, 1, or be None"),
        (dict(start=np.nan), "None for the stationary law; got nan"),
        (dict(step_size=10.0, start=None), "no stationary law"),
        (dict(integrator=describe("psgld", temperature=1.0)), "'psgld' has no closed law"),
        (dict(estimator=SAGA, order="shuffled"), "saga with order='shuffled' has no closed law"),
        (
            dict(estimator=SAGA, observable="square"),
            "saga has no exact law for averages of squares: its errors depend on past positions",
        ),
        (
            dict(observable="square", order="shuffled"),
            "minibatch with data drawn 'shuffled' has no exact law.*depend on each other.*closure=",
        ),
        (
            dict(problem=regression(12, 1), observable="square"),
            "minibatch on this problem has no exact law.*depend on the position.*closure=",
        ),
    ],
)
def test_messages(change, message):
    call = dict(problem=TWELVE, estimator=MINIBATCH, integrator=sgld(), step_size=0.05)
    call |= dict(batch_size=4, num_steps=10, start=0.5) | change
    with pytest.raises(ValueError, match=message):
        mse(call.pop("problem"), call.pop("estimator"), call.pop("integrator"), **call)


def test_an_unstable_run_has_an_error_too():
    error = mse(TWELVE, FULL, sgld(), step_size=1.0, num_steps=3, start=0.5)
    assert abs(error.bias[0]) > 1
    assert np.isfinite(error.mse[0])
