"""`vr.table`: from a frame to a posterior, effects in own units, predictions and scores."""

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import brier_score_loss
from support.table_references import exact_linear

import vrsgmcmc as vr
from vrsgmcmc.core import GLM

RNG = np.random.default_rng(0)
N = 80
FRAME = pd.DataFrame(
    {
        "carat": RNG.gamma(4.0, 0.2, N).round(3),
        "cut": RNG.choice(["Fair", "Good", "Ideal"], N),
        "shop": RNG.choice(["north", "south", "west"], N),
    }
)
SHIFT = FRAME["cut"].map({"Fair": 0.0, "Good": 30.0, "Ideal": 90.0})
FRAME["price"] = 100 + 400 * FRAME["carat"] + SHIFT + 25 * RNG.normal(size=N)
FRAME["sold"] = np.where(RNG.random(N) < 1 / (1 + np.exp(3 - 4 * FRAME["carat"])), "yes", "no")
FRAME["visits"] = RNG.poisson(np.exp(0.5 + FRAME["carat"]))
COLUMNS = ["carat", "cut"]
PRICE = vr.table(FRAME, "price", features=COLUMNS)


@pytest.fixture(scope="module")
def result():
    """One short run; its chains also carry the draws of other tests."""
    return vr.sample(0, *PRICE, progress=False, ess=800, num_chains=2)


def with_normal_draws(result, problem, spread=0.1, seed=0):
    """A result whose draws are normal around the problem's start, whatever the model."""
    rng = np.random.default_rng(seed)
    shape = (2, len(result.draw_steps))
    init = problem.init(jax.random.key(0)) if callable(problem.init) else problem.init

    def normal(leaf):
        return np.asarray(leaf) + spread * rng.normal(size=(*shape, *leaf.shape))

    return result.with_draws(jax.tree.map(normal, init))


def test_a_linear_table_has_the_exact_posterior(result):
    mean, sd = exact_linear(*PRICE.data)
    draws = PRICE.draws(result, most=None)
    ours = np.column_stack([draws["intercept"], draws["weights"], draws["log_sd"]])
    np.testing.assert_array_less(np.abs(ours.mean(0) - mean) / sd, 0.15)
    np.testing.assert_allclose(ours.std(0) / sd, 1, atol=0.15)


def test_effects_are_those_of_least_squares_in_own_units(result):
    effects = PRICE.effects(result)
    levels = [(FRAME["cut"] == level).to_numpy(float) for level in ("Good", "Ideal")]
    features = np.column_stack([np.ones(N), FRAME["carat"], *levels])
    weights, rest, *_ = np.linalg.lstsq(features, FRAME["price"].to_numpy(), rcond=None)
    noise = np.sqrt(rest[0] / (N - 4))
    errors = noise * np.sqrt(np.diag(np.linalg.inv(features.T @ features)))
    rows = [
        effects[n]
        for n in ("intercept", "carat", "cut: Good instead of Fair", "cut: Ideal instead of Fair")
    ]
    for row, weight, error in zip(rows, weights, errors, strict=True):
        assert abs(row.own.mean - weight) < 0.25 * error
        np.testing.assert_allclose(row.own.sd, error, rtol=0.15)
        width = row.own.high_90 - row.own.low_90
        np.testing.assert_allclose(width / row.own.sd, 2 * stats.norm.ppf(0.95), rtol=0.12)
        assert row.own.low_90 < row.own.low_50 < row.own.median < row.own.high_50 < row.own.high_90
    np.testing.assert_allclose(effects["noise sd"].own.mean, noise, rtol=0.05)
    carat = effects["carat"]
    unit = FRAME["carat"].std(ddof=0) / FRAME["price"].std(ddof=0)
    np.testing.assert_allclose(carat.standardised.mean, carat.own.mean * unit, rtol=1e-6)
    assert carat.positive == 1.0
    assert carat.ratio is None
    assert "cut: Ideal instead of Fair" in str(effects)
    assert len(effects.to_pandas()) == len(effects)


def test_predictions_of_a_number_are_in_its_units(result):
    new = pd.DataFrame({"carat": [0.8, 1.0], "cut": ["Ideal", "Fair"]})
    predictions = PRICE.predict(result, new)
    np.testing.assert_allclose(predictions.mean, [100 + 320 + 90, 100 + 400], atol=25)
    np.testing.assert_allclose(predictions.high - predictions.low, 2 * 1.645 * 25, rtol=0.3)
    np.testing.assert_array_equal(predictions.to_pandas()["mean"], predictions.mean)
    with pytest.raises(ValueError, match="no classes"):
        _ = predictions.probabilities


def test_scores_have_a_baseline_beside_them(result):
    scores = PRICE.scores(result, FRAME)
    likelihoods = PRICE.log_likelihood(result)
    draws = PRICE.draws(result)
    design, i = PRICE.design, 7
    scale = design.target.scale
    means = design.target.center + scale * (draws["intercept"] + draws["weights"] @ design.x[i])
    wanted = stats.norm.logpdf(FRAME["price"][i], means, scale * np.exp(draws["log_sd"]))
    np.testing.assert_allclose(likelihoods[:, i], wanted, rtol=1e-3, atol=1e-3)
    pointwise = np.log(np.exp(likelihoods).mean(0))
    np.testing.assert_allclose(scores.model["log_score"], pointwise.mean(), rtol=1e-6)
    assert 15 < scores.model["rmse"] < 35 < scores.baseline["rmse"]
    np.testing.assert_allclose(scores.baseline["rmse"], FRAME["price"].std(ddof=0))
    assert scores.model["log_score"] > scores.baseline["log_score"]
    assert 0.8 < scores.model["coverage_90"] <= 1
    assert "baseline" in str(scores)
    with pytest.raises(ValueError, match="test_fraction"):
        PRICE.scores(result)


def test_simulated_targets_look_like_the_table(result):
    draws = PRICE.simulate(result, key=3)
    assert draws.shape[1] == N
    np.testing.assert_allclose(draws.mean(), FRAME["price"].mean(), rtol=0.05)
    np.testing.assert_allclose(draws.std(1).mean(), FRAME["price"].std(), rtol=0.1)
    np.testing.assert_array_equal(draws, PRICE.simulate(result, key=3))
    assert not np.array_equal(draws, PRICE.simulate(result, key=4))


def test_classes_have_probabilities_odds_ratios_and_the_brier_score_of_sklearn(result):
    problem = vr.table(FRAME, "sold", features=COLUMNS)
    assert problem.family.name == "logistic"
    other = with_normal_draws(result, problem)
    predictions = problem.predict(other, FRAME)
    np.testing.assert_allclose(predictions.probabilities.sum(1), 1)
    assert set(predictions.label) <= {"no", "yes"}
    assert "P(yes)" in predictions.to_pandas()
    scores = problem.scores(other, FRAME)
    truth = (FRAME["sold"] == "yes").to_numpy(int)
    np.testing.assert_allclose(
        scores.model["brier"], brier_score_loss(truth, predictions.probabilities[:, 1])
    )
    share = truth.mean()
    np.testing.assert_allclose(scores.baseline["brier"], share * (1 - share))
    np.testing.assert_allclose(scores.baseline["accuracy"], max(share, 1 - share))
    row = problem.effects(other)["carat"]
    draws = problem.draws(other, most=None)["weights"][:, 0]
    scale = problem.design.columns[0].scale
    np.testing.assert_allclose(row.ratio.mean, np.exp(draws / scale).mean())
    np.testing.assert_allclose(row.ratio.median, np.exp(np.median(draws) / scale), rtol=1e-6)
    assert "odds ratio" in str(problem.effects(other))


def test_several_classes_are_compared_with_the_first(result):
    problem = vr.table(FRAME, "cut", features=["carat"])
    effects = problem.effects(with_normal_draws(result, problem))
    assert effects["carat", "Ideal instead of Fair"].kind == "number"
    with pytest.raises(KeyError, match="2 outcomes"):
        _ = effects["carat"]
    with pytest.raises(KeyError, match="there are"):
        _ = effects["weight"]


def test_an_ordered_target_has_cut_points(result):
    ordered = FRAME.assign(
        cut=pd.Categorical(FRAME["cut"], ["Fair", "Good", "Ideal"], ordered=True)
    )
    problem = vr.table(ordered, "cut", features=["carat"], model="ordinal")
    assert "Order of the classes: Fair < Good < Ideal." in problem.notes
    other = with_normal_draws(result, problem)
    effects, draws = problem.effects(other), problem.draws(other, most=None)
    assert effects["Fair | Good"].kind == "cut point"
    (column,) = problem.design.columns
    shift = draws["weights"][:, 0] * column.center / column.scale
    np.testing.assert_allclose(
        effects["Good | Ideal"].own.mean,
        np.mean(np.exp(draws["log_gaps"][:, 0]) - draws["intercept"] + shift),
    )


def test_a_count_has_rate_ratios_and_a_prior_around_its_mean(result):
    problem = vr.table(FRAME, "visits", features=COLUMNS, model="negative_binomial")
    center = problem.posterior.logprior.intercept.mean
    assert abs(center - np.log(FRAME["visits"].mean())) < 0.01
    other = with_normal_draws(result, problem)
    effects = problem.effects(other)
    assert effects.ratio == "rate ratio"
    assert effects["dispersion"].ratio is None
    assert problem.simulate(other).dtype.kind == "i"
    scores = problem.scores(other, FRAME)
    np.testing.assert_allclose(scores.baseline["rmse"], FRAME["visits"].std(ddof=0))


def test_groups_have_an_sd_and_new_levels_are_named(result):
    problem = vr.table(FRAME, formula="price ~ carat + (1 | shop)")
    assert not isinstance(problem.posterior, GLM)
    assert set(problem.data) == {"x", "y", "groups"}
    problem.posterior.check(problem.data)
    other = with_normal_draws(result, problem)
    effects = problem.effects(other)
    assert effects["sd of (1 | shop)"].own.mean > 0
    assert effects["shop: west"].kind == "group level"
    new = pd.DataFrame({"carat": [0.8, 1.0], "shop": ["east", "west"]})
    predictions = problem.predict(other, new)
    assert any("east" in note for note in predictions.notes)
    assert predictions.sd[0] > predictions.sd[1]


def test_rows_are_held_out_and_new_ones_are_read_alike(result):
    problem = vr.table(FRAME, "price", features=COLUMNS, test_fraction=0.25)
    assert len(problem.data[1]) == 60
    other = with_normal_draws(result, problem)
    held_out = FRAME.iloc[problem.design.test.rows]
    assert problem.scores(other).model == problem.scores(other, held_out).model
    some = held_out.assign(price=held_out["price"].where(np.arange(len(held_out)) > 0))
    assert problem.scores(other, some).rows == len(held_out) - 1


def test_a_class_that_the_rows_did_not_have_is_refused(result):
    problem = vr.table(FRAME, "sold", features=COLUMNS)
    with pytest.raises(ValueError, match="do not have: maybe"):
        problem.rows(FRAME.assign(sold="maybe"), target=True)
    rows = problem.rows(FRAME.assign(sold=["", *FRAME["sold"][1:]]), target=True)
    assert len(rows.y) == N - 1


def test_a_network_has_predictions_and_no_effects(result):
    problem = vr.table(FRAME, "price", features=COLUMNS, model="mlp", hidden=3)
    assert problem.posterior.network
    other = with_normal_draws(result, problem)
    assert problem.predict(other, FRAME).mean.shape == (N,)
    assert np.isfinite(problem.scores(other, FRAME).model["log_score"])
    with pytest.raises(ValueError, match="no meaning by itself"):
        problem.effects(other)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "logit"}, "Did you mean"),
        ({"prior": "norml(0, 1)"}, "known are"),
        ({"model": "logistic"}, "price"),
        ({"model": "ordinal"}, "these are no classes of ordinal. Use linear"),
    ],
)
def test_a_mistake_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        vr.table(FRAME, "price", features=COLUMNS, **options)


@pytest.mark.parametrize(
    ("target", "model"),
    [("price", None), ("price", "robust"), ("price", "mlp"), ("sold", None), ("visits", "poisson")],
)
def test_the_model_is_said_once(target, model):
    problem = vr.table(FRAME, target, features=COLUMNS, model=model, test_fraction=0.2)
    (note,) = [note for note in problem.notes if "Model: " in note]
    assert note.startswith(f"Model: {model or problem.design.target.model}")
    other = vr.table(problem.design, model="robust") if target == "price" else problem
    assert sum("Model: " in note for note in other.notes) == 1


def test_a_rating_has_an_order_of_numbers():
    problem = vr.table(FRAME.assign(stars=np.arange(N) % 11), "stars", model="ordinal")
    order = " < ".join(map(str, range(11)))
    assert f"Order of the classes: {order}." in problem.notes


def test_a_flat_prior_needs_independent_columns():
    double = FRAME.assign(grams=FRAME["carat"] / 5)
    with pytest.raises(ValueError, match="'grams' depends on others"):
        vr.table(double, "price", features=["carat", "grams"], prior="flat", collinear="keep")
    problem = vr.table(FRAME, "price", features=["carat"], prior="flat")
    assert "flat" in problem.notes[-1]


def test_the_result_of_another_model_is_refused(result):
    other = vr.table(FRAME, "sold", features=COLUMNS)
    with pytest.raises(ValueError, match="another model"):
        other.effects(result)


def test_equal_tables_make_equal_posteriors():
    assert vr.table(FRAME, "price", features=COLUMNS).posterior == PRICE.posterior
