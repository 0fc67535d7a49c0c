"""`vr.sample` without a step size: what it chooses, what that costs, and that it is right."""

from importlib import import_module
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc import run
from vrsgmcmc.advice.auto import length, residuals, scale
from vrsgmcmc.advice.auto.allowance import pilot_allowance
from vrsgmcmc.advice.auto.request import Request
from vrsgmcmc.advice.auto.site import Site
from vrsgmcmc.run import store

RNG = np.random.default_rng(0)
N, D = 4000, 3
X = RNG.normal(size=(N, D)) * np.array([1.0, 30.0, 0.1])
Y = X @ np.array([1.0, -0.1, 2.0]) + RNG.normal(size=N)
MEAN, COVARIANCE = vr.models.linear.exact((X, Y))
SD = np.sqrt(np.diag(COVARIANCE))
LINEAR = vr.glm("gaussian")
PLAIN = vr.Posterior(LINEAR.logprior, LINEAR.loglik)
LABELS = (RNG.random(N) < 1 / (1 + np.exp(-X @ np.array([1.0, 0.05, 3.0])))).astype(int)
START = jnp.zeros(D)
CALL = {"progress": False, "ess": 400}
SAMPLE = import_module("vrsgmcmc.advice.sample")
CHEAP = CALL | {"budget": "200 passes"}


def sample(key=0, posterior=LINEAR, data=(X, Y), init=START, **options):
    return vr.sample(key, posterior, data, init, **CHEAP | options)


def errors(result):
    draws = np.asarray(result.draws).reshape(-1, D)
    return np.abs(draws.mean(0) - MEAN) / SD, np.abs(draws.std(0, ddof=1) / SD - 1)


@pytest.fixture(scope="module")
def result():
    return sample()


@pytest.mark.parametrize(
    "posterior", [LINEAR, pytest.param(PLAIN, marks=pytest.mark.slow)], ids=["glm", "plain"]
)
def test_a_regression_in_bad_scales_is_right(posterior):
    result = sample(posterior=posterior)
    mean, sd = errors(result)
    assert np.all(mean < 0.25)  # five standard errors of 400 draws
    assert np.all(sd < 0.18)
    assert result.accuracy().ess >= 400
    assert result.total_passes <= 200
    assert result.decision.evaluations <= max(4, 0.15 * 200) * N
    assert result.data_passes == pytest.approx(result.total_passes / 4)


@pytest.mark.slow
def test_few_data_get_nuts():
    few = X[:60], Y[:60]
    result = vr.sample(0, LINEAR, few, START, **CALL)
    assert result.settings["integrator"].name == "nuts"
    assert result.accuracy().good
    mean, covariance = vr.models.linear.exact(few)
    draws = np.asarray(result.draws).reshape(-1, D)
    assert np.all(np.abs(draws.mean(0) - mean) < 0.25 * np.sqrt(np.diag(covariance)))


def test_it_says_what_it_chose_and_why(result):
    text = str(result)
    for words in (
        "control_variate(order=2)",
        "BAOAB",
        "Hessian at the mode",
        "passes",
        "considered",
    ):
        assert words in text
    assert "one mode, because the log posterior is concave" in text
    assert result.accuracy() is result.record


def test_the_same_call_makes_the_same_draws(result):
    np.testing.assert_array_equal(sample().draws, result.draws)
    assert not np.array_equal(sample(key=1).draws[:, :10], result.draws[:, :10])


def test_a_run_directory_repeats_no_pilot(tmp_path, result, monkeypatch):
    stored = sample(run_dir=tmp_path / "run")
    np.testing.assert_array_equal(stored.draws, result.draws)
    monkeypatch.setattr(SAMPLE, "decide", pytest.fail)
    again = sample(run_dir=tmp_path / "run")
    np.testing.assert_array_equal(again.draws, result.draws)
    assert again.total_passes == result.total_passes
    assert str(again.accuracy()) == str(result.accuracy())
    with pytest.raises(store.RunError, match="another call:\n  ess: 400 in the run, 500 here"):
        sample(run_dir=tmp_path / "run", ess=500)


@pytest.mark.slow
def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path, result, monkeypatch):
    looks, real = [], run.loop.Loop.look

    def stop_at_the_first_look(self):
        looks.append(self.steps)
        if len(looks) == 3:
            raise KeyboardInterrupt
        real(self)

    monkeypatch.setattr(run.loop.Loop, "look", stop_at_the_first_look)
    with pytest.raises(KeyboardInterrupt):
        sample(run_dir=tmp_path / "run")
    monkeypatch.setattr(SAMPLE, "decide", pytest.fail)
    np.testing.assert_array_equal(sample(run_dir=tmp_path / "run").draws, result.draws)


def test_a_directory_of_something_else_is_refused_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "diary.txt").write_text("mine")
    monkeypatch.setattr(SAMPLE, "decide", pytest.fail)
    with pytest.raises(store.RunError, match="not empty and not a run"):
        sample(run_dir=tmp_path)


@pytest.mark.slow
def test_a_damaged_decision_is_refused(tmp_path):
    sample(run_dir=tmp_path / "run")
    path = tmp_path / "run" / "decision.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(store.RunError, match=r"decision\.json is damaged"):
        sample(run_dir=tmp_path / "run")


def test_with_a_step_size_nothing_is_chosen():
    options = {"num_steps": 200, "num_chains": 2, "progress": False}
    ours = vr.sample(0, LINEAR, (X, Y), START, step_size=1e-5, **options)
    plain = run.sample(0, LINEAR, (X, Y), START, step_size=1e-5, **options)
    np.testing.assert_array_equal(ours.draws, plain.draws)
    assert ours.decision is None
    assert ours.settings["estimator"] == vr.practical()


@pytest.mark.slow
def test_what_is_named_is_kept():
    result = sample(estimator=vr.svrg(), integrator=vr.sgld(), batch_size=50, thin=2, burn_in=30)
    settings = result.settings
    assert (settings["estimator"], settings["integrator"]) == (vr.svrg(), vr.sgld())
    assert (settings["batch_size"], settings["thin"], settings["burn_in"]) == (50, 2, 30)
    assert settings["metric"] is not None
    assert sample(num_steps=300).num_steps == 300


@pytest.mark.slow
def test_without_draws_the_forecast_ends_the_run(result):
    averages = sample(keep="averages", observables={"x": lambda w: w})
    assert averages.num_steps == averages.decision.forecast <= result.decision.num_steps
    assert averages.record is None
    assert np.all(np.abs(averages.averages["x"].mean(0) - MEAN) < 0.3 * SD)


@pytest.mark.slow
def test_a_metric_by_its_name_with_a_step_size():
    options = {"integrator": vr.splitting("BAOAB", 1.0), "estimator": vr.control_variate()}
    options |= {"batch_size": 200, "num_steps": 2000, "burn_in": 50, "progress": False}
    result = vr.sample(0, LINEAR, (X, Y), START, step_size=0.4, metric="hessian", **options)
    mean, sd = errors(result)
    assert np.all(mean < 0.25)
    assert np.all(sd < 0.15)


def mixture(mu, y):
    """Two modes, at +3 and -3."""
    return jnp.logaddexp(-0.5 * (y - mu) ** 2, -0.5 * (y + mu) ** 2)


LEVER = X.copy()
LEVER[:2] = [[80.0, -1600.0, 0.0], [0.0, 1200.0, -20.0]]  # far out, and labels undecided
SECOND = {"estimator": vr.control_variate(order=2), "batch_size": 20}


def lever_hessian(w):
    eta = LEVER @ np.asarray(w, float)
    weight = np.exp(-np.logaddexp(0, eta) - np.logaddexp(0, -eta))
    return LEVER.T @ (weight[:, None] * LEVER)


@pytest.mark.parametrize("step_size", [pytest.param("auto", marks=pytest.mark.slow), 0.1])
def test_order_2_by_its_name_is_completed(step_size, tmp_path):
    """Centre, G(c), Hessian and hot rows come from the mode, are counted and stored."""
    options = SECOND | {"step_size": step_size, "metric": "hessian", "num_steps": 300}
    options |= {"burn_in": 50, "progress": False}
    data = jnp.asarray(LEVER), jnp.asarray(LABELS)
    whole = vr.sample(0, vr.glm("bernoulli"), data, START, **options)
    estimator = whole.settings["estimator"]
    assert estimator.linear
    assert estimator.hot_count >= 1
    assert set(np.asarray(estimator.hot.index)) <= {0, 1}
    located = run.locate_mode(vr.glm("bernoulli"), data, START)
    np.testing.assert_allclose(estimator.hessian, lever_hessian(estimator.center), rtol=1e-6)
    chains = 4 * 300 * 3 * (20 + estimator.hot_count)
    assert whole.evaluations >= chains + located.evaluations
    directory = tmp_path / "run"
    for _ in range(2):  # made, and loaded
        again = vr.sample(0, vr.glm("bernoulli"), data, START, run_dir=directory, **options)
        np.testing.assert_array_equal(again.draws, whole.draws)
        assert again.settings["estimator"].hot_count == estimator.hot_count


@pytest.mark.slow
def test_order_2_without_a_guard_or_with_a_centre_of_its_own():
    data, options = (LEVER, LABELS), {"step_size": 0.05, "num_steps": 20, "progress": False}
    posterior = vr.glm("bernoulli")
    bare = vr.control_variate(order=2, guard=None)
    result = vr.sample(0, posterior, data, START, estimator=bare, **options)
    assert result.settings["estimator"].hot_count == 0
    center = jnp.array([1.0, 0.05, 3.0])
    own = vr.control_variate(center, order=2)
    result = vr.sample(0, posterior, data, center, estimator=own, metric="hessian", **options)
    estimator = result.settings["estimator"]
    np.testing.assert_array_equal(estimator.center, center)
    np.testing.assert_allclose(estimator.hessian, lever_hessian(center), rtol=1e-6)


def test_order_2_of_many_parameters_is_refused(monkeypatch):
    monkeypatch.setattr("vrsgmcmc.advice.auto.centre.LARGEST_DENSE", 2)
    own = vr.control_variate(START, order=2)
    with pytest.raises(ValueError, match=r"3 parameters have a Hessian of 9 numbers.*Use order=1"):
        vr.sample(0, LINEAR, (X, Y), START, estimator=own, step_size=0.1, progress=False)


@pytest.mark.slow
def test_several_modes_are_told_apart_from_success():
    y = np.where(RNG.random(500) < 0.5, 3.0, -3.0) + RNG.normal(size=500)
    posterior = vr.Posterior(lambda mu: -0.5 * (mu / 10) ** 2, mixture)
    result = vr.sample(0, posterior, y, lambda key: 5 * jax.random.normal(key), **CHEAP)
    assert "2 modes" in result.decision.why
    accuracy = result.accuracy()
    assert not accuracy.good
    assert "how much each of the modes weighs is not known" in accuracy.verdict
    assert "2 modes seen" in accuracy.verdict


def test_no_mode_is_an_error_that_names_the_parameter():
    x = np.stack([np.ones(50), np.linspace(-1, 1, 50)], 1)
    y = (x[:, 1] > 0).astype(int)  # separable
    with pytest.raises(run.NoMode, match="x\\["):
        vr.sample(0, vr.glm("bernoulli", lambda w: 0.0 * jnp.sum(w)), (x, y), jnp.zeros(2), **CALL)


@pytest.mark.slow
def test_a_saddle_is_taken_for_a_network(monkeypatch):
    def seek(*_):
        raise run.Saddle("it curves upwards")

    decide = import_module("vrsgmcmc.advice.auto.decide")
    monkeypatch.setattr(decide, "seek_mode", seek)
    result = sample(posterior=PLAIN, budget="60 passes")
    assert "curves upwards" in result.decision.why
    assert not result.accuracy().good
    with pytest.raises(run.NoMode, match="upwards"):
        sample(budget="60 passes")


def test_a_search_that_does_not_reach_the_mode_goes_on(monkeypatch):
    """Twenty of 20,000 events: small subsamples have none of them."""
    mode = import_module("vrsgmcmc.advice.auto.mode")
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(20_000), rng.normal(size=(20_000, 2))])
    y = (rng.random(20_000) < 1 / (1 + np.exp(7.5 - x[:, 1]))).astype(int)
    data = jnp.asarray(x), jnp.asarray(y)
    posterior = vr.glm("bernoulli", 100.0)
    options = {"params": jnp.zeros(3), "kind": "hessian", "share": 20_000.0, "seed": 0}
    first, cost = mode.seek_mode(posterior, data, longest=0.0, **options)
    assert first.distance > mode.FAR
    located, whole = mode.seek_mode(posterior, data, longest=20 * 20_000.0, **options)
    assert located.distance < mode.FAR
    assert cost < whole <= 20 * 20_000
    assert "more than its share" in located.notes[-1]


@pytest.mark.slow
def test_a_network_is_judged_by_its_predictions():
    posterior = vr.models.mlp.classifier(2)
    data = X[:200].astype(np.float32), LABELS[:200]
    start = vr.models.mlp.initial(D, 2, hidden=3)
    result = vr.sample(0, posterior, data, start, **CHEAP | {"budget": "100 passes"})
    assert result.decision.network
    assert "a network has many equal modes" in result.decision.why
    assert result.accuracy().subject == "prediction"
    assert len(result.accuracy().names) == 200


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"step_size": 1e-3, "ess": 100}, ValueError, "with a step_size the length of a run is"),
        ({"step_size": 1e-3, "ess": None}, ValueError, "sample\\(budget=...\\): with a step_size"),
        ({"metric": "hesian"}, ValueError, "metric"),
        ({"ess": -1}, ValueError, "ess"),
        ({"budget": "soon"}, ValueError, "write a number of evaluations"),
        ({"budget": "2 passes"}, ValueError, "Give at least 5 passes"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        (
            {"memory_limit": 10},
            ValueError,
            "100 of 4 chains need 9,600 bytes. Give at least 38,400",
        ),
        ({"estimator": "svrg"}, TypeError, "estimator"),
        ({"init": jnp.zeros(5)}, ValueError, r"parameters of shapes \(5,\)"),
        ({"data": (X, Y[:, None])}, ValueError, "y"),
        ({"order": "sorted"}, ValueError, "order"),
        ({"integrator": vr.psgld()}, ValueError, "cannot be used with a metric"),
    ],
)
def test_mistakes_are_found_at_once(options, error, message):
    with pytest.raises(error, match=message):
        sample(**options)


def test_a_state_is_continued_by_its_settings(result):
    with pytest.raises(ValueError, match="continued with the settings that made it"):
        sample(init=result.state)


def test_a_plan_is_the_same_decision(result):
    plan = vr.plan(LINEAR, (X, Y), START, budget="200 passes", ess=400, seed=0)
    assert plan.decision.sampler.to_json() == result.decision.sampler.to_json()
    assert plan.pilot == result.decision.evaluations
    assert "control_variate(order=2)" in str(plan)
    run_of_plan = vr.sample(0, LINEAR, (X, Y), plan.init, **plan, progress=False)
    count = run_of_plan.draws.shape[1]
    np.testing.assert_array_equal(run_of_plan.draws[:, :100], result.draws[:, : min(count, 100)])


# --- the parts -----------------------------------------------------------------------------------


def located(posterior, data):
    return run.locate_mode(posterior, jax.tree.map(jnp.asarray, data), START)


def test_residuals_are_those_of_each_row():
    posterior, data = vr.glm("bernoulli"), (jnp.asarray(X[:300]), jnp.asarray(LABELS[:300]))
    mode = located(posterior, data)
    site = Site(posterior, data, mode.params, mode.metric)
    for order in (1, 2):
        found = residuals.measure_residuals(site, order, allowance=1e9, seed=3)
        rng, L = np.random.default_rng([3, 19]), np.asarray(mode.metric.factor)
        expected = np.zeros((300, D))
        for z in rng.normal(size=(residuals.DRAWS, D)):
            away = jnp.asarray(L @ z)
            rows = jax.vmap(jax.grad(posterior.loglik), (None, 0))
            rest = rows(mode.params + away, data) - rows(mode.params, data)
            if order == 2:
                hessians = jax.vmap(jax.hessian(posterior.loglik), (None, 0))(mode.params, data)
                rest = rest - hessians @ away
            expected += np.asarray(rest @ L) ** 2 / residuals.DRAWS
        # the suspects, which are looked at again elsewhere, and the rest as here
        rest_of = np.setdiff1d(np.arange(300), found.top)
        others = found.energy - found.top_energy.sum(0)
        assert len(found.top) == residuals.MOST_HOT
        assert np.all(others > 0.5 * expected[rest_of].sum(0))
        assert np.all(np.diff(found.top_energy.sum(1)) <= 0)
        np.testing.assert_allclose(found.without(residuals.MOST_HOT), others)


def test_a_sample_of_rows_holds_those_of_highest_leverage():
    x = X.copy()
    x[17] *= 1000
    posterior, data = vr.glm("bernoulli"), (jnp.asarray(x), jnp.asarray(LABELS))
    mode = located(posterior, data)
    leverages = residuals.leverages(posterior, data, mode.params, mode.metric)
    exact = np.sum((x @ np.asarray(mode.metric.factor)) ** 2, 1)
    np.testing.assert_allclose(leverages, exact, rtol=1e-9)
    rng = np.random.default_rng(0)
    place = (posterior, data, mode.params, mode.metric)
    index, weights, levers = residuals.choose_rows(*place, 100, rng)
    np.testing.assert_array_equal(levers, leverages[index])
    assert 17 in index
    assert weights.sum() == pytest.approx(N)
    assert len(set(index)) == len(index) == 100


@pytest.mark.parametrize("energy", [1e-12, 1e-3, 1.0])
def test_a_scale_keeps_its_inflation(energy):
    noise = residuals.Residuals(1, np.full(4, energy), np.array([], int), np.zeros((0, 4)), 0)
    for inflation in (0.03, 0.003):
        found = scale.fit(noise, 1000, inflation, 2)
        assert found.inflation <= inflation * (1 + 1e-9)
        assert found.inflation == pytest.approx(
            found.step_size * 1000 / found.batch_size * energy / 2
        )
        assert scale.FEWEST_ROWS <= found.batch_size <= 1000


def test_hot_rows_are_taken_only_where_they_pay():
    top, one = np.arange(3), np.array([[5.0, 5.0], [1e-6, 1e-6], [1e-6, 1e-6]])
    with_lever = residuals.Residuals(2, one.sum(0) + 1e-4, top, one, 0)
    assert scale.fit(with_lever, 10_000, 0.02, 3).hot == 1
    without = residuals.Residuals(2, np.full(2, 1e-6), top, one * 1e-9, 0)
    assert scale.fit(without, 10_000, 0.02, 3).hot == 0


def test_the_grid_of_looks():
    steps = length.grid(forecast=1000, most=1e9, burn_in=50, thin=4)
    assert steps[0] == 850
    assert all((step - 50) % 4 == 0 for step in steps)
    assert all(1.1 < b / a < 1.4 for a, b in pairwise(steps[:-1]))
    assert steps[-1] <= 50 + length.MOST * 1000
    assert length.grid(forecast=1000, most=300, burn_in=50, thin=4)[-1] <= 300


def test_the_pilot_has_a_share():
    request = Request(evaluations=1000 * N)
    assert pilot_allowance(request, N, glm=True) == 15 * N
    assert pilot_allowance(request, N, glm=False) == 150 * N
    assert pilot_allowance(Request(evaluations=20 * N), N, glm=True) == 4 * N
    many = 100_000  # too many for NUTS
    assert pilot_allowance(Request(), many, glm=True) == 15 * many
    assert pilot_allowance(Request(), many, glm=False) == 60 * many
