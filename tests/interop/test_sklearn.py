"""The estimators of scikit-learn against exact answers, and as scikit-learn's users use them."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from vrsgmcmc.sklearn import (
    EXPECTED_FAILURES,
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianPoissonRegression,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2)) * [1.0, 50.0] + [3.0, -100.0]  # columns as people have them
ETA = 0.8 * (X[:, 0] - 3) - 0.03 * (X[:, 1] + 100)
LABELS = np.where(RNG.uniform(size=60) < 1 / (1 + np.exp(-ETA)), "yes", "no")
NUMBERS = 4 + ETA + RNG.normal(size=60)
COUNTS = RNG.poisson(np.exp(0.5 + 0.4 * ETA))
ALL = [
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianPoissonRegression,
]


@pytest.fixture(scope="module")
def logistic():
    return BayesianLogisticRegression(prior_scale=1.0, random_state=0, ess=2000).fit(X, LABELS)


@pytest.fixture(scope="module")
def linear():
    return BayesianLinearRegression(random_state=0, ess=2000).fit(X, NUMBERS)


def moments_on_a_grid(log_density, centre, width, points=41):
    """Means and sds of a density of three numbers, by a sum over a grid."""
    axes = [np.linspace(c - 6 * w, c + 6 * w, points) for c, w in zip(centre, width, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    heights = np.concatenate([log_density(part) for part in np.array_split(grid, 20)])
    weights = np.exp(heights - heights.max())
    weights /= weights.sum()
    mean = weights @ grid
    return mean, np.sqrt(weights @ (grid - mean) ** 2)


def unstandardised(w):
    """What w in units of standard columns are for the columns of X."""
    return w / X.std(axis=0)


def test_logistic_coefficients_are_those_of_the_sum_over_a_grid(logistic):
    sign = np.where(LABELS == "yes", 1.0, -1.0)
    middle, scale = X.mean(axis=0), X.std(axis=0)

    def log_density(grid):  # coefficients in the columns' own units, and the intercept
        eta = X @ grid[:, :2].T + grid[:, 2]
        prior = np.sum((grid[:, :2] * scale) ** 2, axis=1)
        prior += ((grid[:, 2] + grid[:, :2] @ middle) / 10) ** 2
        return -np.logaddexp(0, -sign[:, None] * eta).sum(axis=0) - prior / 2

    slopes, intercepts = logistic.coef_draws_[:, 0], logistic.intercept_draws_
    # the intercept at the middle of the data is hardly correlated with the slopes
    at_middle = intercepts + slopes @ middle[:, None]

    def shifted(grid):
        return log_density(np.column_stack([grid[:, :2], grid[:, 2] - grid[:, :2] @ middle]))

    draws = np.hstack([slopes, at_middle])
    mean, sd = moments_on_a_grid(shifted, draws.mean(axis=0), draws.std(axis=0))
    np.testing.assert_allclose((draws.mean(axis=0) - mean) / sd, 0, atol=0.1)
    np.testing.assert_allclose(draws.std(axis=0) / sd, 1, atol=0.08)
    np.testing.assert_allclose(logistic.coef_, slopes.mean(axis=0)[None])
    np.testing.assert_allclose(logistic.coef_std_, slopes.std(axis=0)[None])


def test_linear_coefficients_with_fixed_scales_have_the_closed_form():
    model = BayesianLinearRegression(prior_scale=0.7, noise_scale=1.3, random_state=1, ess=2000)
    weight = RNG.integers(0, 3, len(X))
    model.fit(X, NUMBERS, sample_weight=weight)
    rows = np.repeat(np.arange(len(X)), weight)
    x, y = X[rows], NUMBERS[rows]
    middle, scale, unit = x.mean(axis=0), x.std(axis=0), y.std()
    design = np.column_stack([(x - middle) / scale, np.ones(len(x))])
    prior = np.diag(1 / np.array([0.7, 0.7, 10.0]) ** 2) / unit**2
    covariance = np.linalg.inv(design.T @ design / 1.3**2 + prior)
    mean = covariance @ design.T @ (y - y.mean()) / 1.3**2
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(model.coef_ * scale, mean[:2], atol=0.1 * sd[:2].max())
    np.testing.assert_allclose(model.coef_std_ * scale, sd[:2], rtol=0.08)
    at_middle = model.intercept_draws_ + model.coef_draws_ @ middle
    np.testing.assert_allclose(at_middle.mean(), y.mean() + mean[2], atol=0.1 * sd[2])
    mean, sd = model.predict(X[:5], return_std=True)
    row = np.column_stack([(X[:5] - middle) / scale, np.ones(5)])
    expected = np.sqrt(1.3**2 + np.einsum("ni,ij,nj->n", row, covariance, row))
    np.testing.assert_allclose(sd, expected, rtol=0.03)


@pytest.mark.slow
def test_linear_regression_samples_its_noise_and_the_scale_of_its_coefficients(linear):
    """A sum over a grid of (w_1, w_2, log sigma), with the scale and the intercept integrated out."""
    from vrsgmcmc.interop.sklearn.priors import FLOOR, WIDE

    x, y = (X - X.mean(axis=0)) / X.std(axis=0), (NUMBERS - NUMBERS.mean()) / NUMBERS.std()
    n = len(y)

    def log_density(grid):
        w, log_sigma = grid[:, :2], grid[:, 2]
        square = np.sum((y[:, None] - x @ w.T) ** 2, axis=0)
        length = np.sum(w**2, axis=1)
        prior = -0.5 * np.log1p(length / FLOOR**2) - length / (4 * WIDE**2)
        prior += log_sigma - 0.5 * np.exp(2 * log_sigma)
        precision = n * np.exp(-2 * log_sigma) + 0.01  # of the intercept, whose mean is 0
        return prior - n * log_sigma - square * np.exp(-2 * log_sigma) / 2 - 0.5 * np.log(precision)

    w = linear.coef_draws_ * X.std(axis=0) / NUMBERS.std()
    log_sigma = np.log(linear.noise_draws_ / NUMBERS.std())
    draws = np.column_stack([w, log_sigma])
    mean, sd = moments_on_a_grid(log_density, draws.mean(axis=0), draws.std(axis=0))
    np.testing.assert_allclose((draws.mean(axis=0) - mean) / sd, 0, atol=0.1)
    np.testing.assert_allclose(draws.std(axis=0) / sd, 1, atol=0.08)
    assert linear.noise_scale_ == pytest.approx(linear.noise_draws_.mean())


def test_the_scale_of_the_coefficients_is_integrated_out_as_the_page_says():
    from scipy.integrate import quad

    from vrsgmcmc.interop.sklearn.priors import FLOOR, WIDE, SampledScale, draw_scales

    d = 5

    def joint(g, square):  # p(g) N(w; 0, s^2 I), with 1 / s^2 = 1 / (d WIDE^2) + g
        return g ** ((d - 3) / 2) * np.exp(-g * FLOOR**2 / 2 - square / 2 * (g + 1 / (d * WIDE**2)))

    def height(square):
        return np.log(quad(joint, 0, np.inf, args=(square,))[0])

    w = np.full(d, 0.4)
    prior = SampledScale(intercept=False)
    ratio = float(prior(w) - prior(2 * w))
    assert ratio == pytest.approx(height(w @ w) - height(4 * w @ w), rel=1e-6)
    scales = draw_scales(np.tile(w, (20_000, 1)), np.random.RandomState(0))
    total = quad(joint, 0, np.inf, args=(w @ w,))[0]
    expected = quad(lambda g: joint(g, w @ w) / np.sqrt(g + 1 / (d * WIDE**2)), 0, np.inf)[0]
    assert scales.mean() == pytest.approx(expected / total, rel=0.02)


@pytest.mark.slow
def test_weights_are_repetitions_within_monte_carlo_error(logistic):
    weight = RNG.integers(0, 3, len(X))
    rows = np.repeat(np.arange(len(X)), weight)
    model = clone(logistic)
    one = model.fit(X, LABELS, sample_weight=weight).predict_proba(X)
    sd = model.coef_std_
    two = clone(logistic).fit(X[rows], LABELS[rows])
    np.testing.assert_allclose((two.coef_ - model.coef_) / sd, 0, atol=0.12)
    np.testing.assert_allclose(two.predict_proba(X), one, atol=0.02)


def test_probabilities_are_means_over_the_posterior(logistic):
    eta = X @ logistic.coef_draws_[:, 0].T + logistic.intercept_draws_[:, 0]
    some = np.unique(np.linspace(0, len(eta[0]) - 1, min(len(eta[0]), 2000)).round().astype(int))
    expected = (1 / (1 + np.exp(-eta[:, some]))).mean(axis=1)
    probabilities = logistic.predict_proba(X)
    np.testing.assert_allclose(probabilities, np.column_stack([1 - expected, expected]), atol=1e-9)
    assert logistic.classes_.tolist() == ["no", "yes"]
    assert set(logistic.predict(X)) <= {"no", "yes"}
    drawn = logistic.sample_y(X, 4000, random_state=0)
    assert drawn.shape == (60, 4000)
    np.testing.assert_allclose((drawn == "yes").mean(axis=1), expected, atol=0.05)


@pytest.mark.slow
def test_numbers_are_predicted_with_their_spread(linear):
    mean, sd = linear.predict(X, return_std=True)
    np.testing.assert_allclose(mean, linear.predict(X))
    drawn = linear.sample_y(X, 4000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=1), mean, atol=0.12)
    np.testing.assert_allclose(drawn.std(axis=1), sd, rtol=0.08)
    assert linear.score(X, NUMBERS) > 0.3


@pytest.mark.slow
def test_counts_are_sampled_in_the_columns_own_units():
    model = BayesianPoissonRegression(random_state=0).fit(X, COUNTS)
    np.testing.assert_allclose(model.coef_, [0.32, -0.012], atol=0.15)
    mean, sd = model.predict(X, return_std=True)
    drawn = model.sample_y(X, 4000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=1) / mean, 1, atol=0.1)
    np.testing.assert_allclose(drawn.std(axis=1) / sd, 1, atol=0.1)
    assert drawn.mean() == pytest.approx(COUNTS.mean(), rel=0.1)
    with pytest.raises(ValueError, match=r"counts or rates, which are 0 or positive, got -1\."):
        model.fit(X, COUNTS - COUNTS.min() - 1)


def test_names_of_columns_go_in_and_are_checked(logistic):
    import pandas as pd
    import polars as pl

    columns = {"age": X[:, 0], "income": X[:, 1]}
    model = clone(logistic).fit(pd.DataFrame(columns), LABELS)
    assert model.feature_names_in_.tolist() == ["age", "income"]
    np.testing.assert_array_equal(model.coef_, logistic.coef_)
    probabilities = model.predict_proba(pl.DataFrame(columns))
    np.testing.assert_array_equal(probabilities, logistic.predict_proba(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame({"income": X[:, 1], "age": X[:, 0]}))


def test_a_fit_is_pickled_and_repeated(logistic):
    copy = pickle.loads(pickle.dumps(logistic))
    np.testing.assert_array_equal(copy.predict_proba(X), logistic.predict_proba(X))
    assert copy.accuracy_.verdict == logistic.accuracy_.verdict
    again = clone(logistic).fit(X, LABELS)
    np.testing.assert_array_equal(again.coef_draws_, logistic.coef_draws_)
    pipeline = make_pipeline(StandardScaler(), clone(logistic)).fit(X, LABELS)
    np.testing.assert_allclose(pipeline.predict_proba(X), logistic.predict_proba(X), atol=0.02)


def test_nothing_is_printed_and_the_verdict_is_kept(logistic, capsys):
    clone(logistic).fit(X, LABELS)
    assert capsys.readouterr() == ("", "")
    assert logistic.accuracy_.good
    assert logistic.n_iter_ == logistic.result_.num_steps


def test_a_result_that_is_not_good_warns():
    model = BayesianLogisticRegression(prior_scale=1.0, ess=20, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"BayesianLogisticRegression: Not good: "):
        model.fit(X, LABELS)


def test_what_is_not_meant_is_refused():
    for kind in ALL:
        with pytest.raises(NotFittedError):
            kind().predict(X)
    with pytest.raises(ValueError, match="at least 2 classes"):
        BayesianLogisticRegression().fit(X, np.ones(60))
    with pytest.raises(ValueError, match=r"prior_scale"):
        BayesianLogisticRegression(prior_scale=-1.0).fit(X, LABELS)
    with pytest.raises(ValueError, match="one number for each of the 60 rows of X"):
        BayesianLinearRegression().fit(X, NUMBERS, sample_weight=np.ones(59))
    with pytest.raises(ValueError, match="0 or positive"):
        BayesianLinearRegression().fit(X, NUMBERS, sample_weight=-np.ones(60))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_networks_predict_classes_and_numbers():
    network = BayesianMLPClassifier(hidden=5, budget="100 passes", random_state=0)
    network.fit(X, LABELS)
    probabilities = network.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert network.score(X, LABELS) > 0.6
    assert network.draws_["W1"].shape[1:] == (2, 5)
    drawn = network.sample_y(X, 2000, random_state=0)
    np.testing.assert_allclose((drawn == "yes").mean(axis=1), probabilities[:, 1], atol=0.08)
    copy = pickle.loads(pickle.dumps(network))
    np.testing.assert_array_equal(copy.predict_proba(X), probabilities)
    network = BayesianMLPRegressor(hidden=5, budget="100 passes", random_state=0).fit(X, NUMBERS)
    mean, sd = network.predict(X, return_std=True)
    assert network.score(X, NUMBERS) > 0.2
    drawn = network.sample_y(X, 2000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=1), mean, atol=0.2)
    np.testing.assert_allclose(drawn.std(axis=1), sd, rtol=0.12)


SOME_CHECKS = {
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_estimators_unfitted",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_get_params_invariance",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_mixin_order",
    "check_estimator_repr",
    "check_fit2d_1sample",
    "check_fit1d",
    "check_estimators_empty_data_messages",
    "check_estimators_nan_inf",
    "check_requires_y_none",
    "check_supervised_y_no_nan",
    "check_complex_data",
    "check_sample_weights_shape",
}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_the_checks_of_scikit_learn_that_take_no_time_pass(kind):
    from sklearn.utils.estimator_checks import estimator_checks_generator

    names = set()
    for estimator, check in estimator_checks_generator(kind()):
        name = getattr(check, "func", check).__name__
        if name in SOME_CHECKS - {"check_estimators_nan_inf", "check_sample_weights_shape"}:
            check(estimator)
            names.add(name)
    assert len(names) >= len(SOME_CHECKS) - 4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_all_checks_of_scikit_learn_pass_but_the_declared_ones(kind):
    name = kind.__name__
    results = check_estimator(
        kind(),
        expected_failed_checks=EXPECTED_FAILURES[name],
        on_skip=None,
        on_fail=None,
    )
    wrong = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert wrong == {}
    assert {r["check_name"] for r in results if r["status"] == "xfail"} <= set(
        EXPECTED_FAILURES[name]
    )
    assert len(results) > 40


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_grid_search_runs_in_processes():
    from sklearn.model_selection import GridSearchCV

    model = BayesianLogisticRegression(random_state=0, ess=100)
    search = GridSearchCV(
        model, {"prior_scale": [0.3, 3.0]}, cv=2, n_jobs=2, scoring="neg_log_loss"
    )
    search.fit(*load_wine(return_X_y=True))
    assert search.best_params_["prior_scale"] in (0.3, 3.0)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


@pytest.mark.slow
def test_defaults_are_good_on_tables_of_scikit_learn():
    x, y = load_wine(return_X_y=True)
    model = BayesianLogisticRegression(random_state=0).fit(x, y)
    assert model.accuracy_.good
    assert model.coef_.shape == (3, 13)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-9)
    assert model.score(x, y) > 0.98
    warm = model.set_params(warm_start=True).fit(x, y)
    assert warm.accuracy_.good
    x, y = load_diabetes(return_X_y=True)
    assert BayesianLinearRegression(random_state=0).fit(x, y).accuracy_.good


def test_without_scikit_learn_the_door_says_what_to_install():
    import subprocess
    import sys

    code = "import sys; sys.modules['sklearn'] = None; import vrsgmcmc as vr; vr.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'vrsgmcmc[sklearn]'" in done.stderr.splitlines()[-1]
