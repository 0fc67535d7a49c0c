"""Plans: choices, costs, predictions and messages."""

import dataclasses
import math
from datetime import timedelta
from importlib import import_module
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from support.linear_plan import (
    COVARIANCE,
    DATA,
    MEAN,
    POSTERIOR,
    SIZE,
    START,
    VARIANCES,
    X,
    Y,
    moments,
    scores,
)

import vrsgmcmc as vr
from vrsgmcmc.advice.plan import LARGEST, parse_budget, planner, trial
from vrsgmcmc.advice.plan.candidates import (
    FEWEST_STEPS,
    Candidate,
    Case,
    best_of_each_kind,
    integrators,
    rank,
    samplers,
)
from vrsgmcmc.advice.plan.planner import cheapest
from vrsgmcmc.advice.plan.walk import levers, schedule, walk
from vrsgmcmc.core import Sampler
from vrsgmcmc.core.kernel import check_sizes
from vrsgmcmc.theory import forecast, predict
from vrsgmcmc.theory.forecast.local import Local

BUDGET = 150 * SIZE


def local_model():
    curvature, directions = np.linalg.eigh(np.linalg.inv(COVARIANCE))
    rows = X @ directions
    hessians = rows[:, :, None] * rows[:, None, :]
    gradients = rows * (Y - X @ MEAN)[:, None]
    return Local(
        SIZE,
        MEAN,
        directions,
        curvature,
        np.diagonal(hessians.mean(0)).copy(),
        np.cov(gradients.T),
        hessians.var(0, ddof=1),
        0,
    )


def make_case(num_chains=4, **changes):
    case = Case(POSTERIOR, DATA, jnp.asarray(MEAN), local_model(), num_chains)
    return case._replace(**changes)


def make_candidate(estimator, batch_size=10, num_steps=100, step_size=1e-3):
    sampler = Sampler(estimator, vr.sgld(), step_size, batch_size)
    return Candidate(sampler, num_steps, 0.0, 0.0)


def cost(candidate):
    return candidate.sampler.evaluations(SIZE, candidate.num_steps)


# ------------------------------------------------------------------------------------ a plan


def record_cost(patch, module, name, cost, parts):
    """Append the cost of each call of a module's function to `parts`."""
    function = getattr(module, name)

    def call(*arguments, **options):
        output = function(*arguments, **options)
        parts.append((name, cost(output)))
        return output

    patch.setattr(module, name, call)


@pytest.fixture(scope="module")
def plan_and_costs():
    """A plan for one chain, and the costs of its parts."""
    parts = []
    with pytest.MonkeyPatch.context() as patch:
        module = import_module("vrsgmcmc.advice.plan.pilot")
        record_cost(patch, module, "find_mode", evaluations, parts)
        record_cost(patch, module, "local", evaluations, parts)
        record_cost(patch, module, "newton", lambda output: output[1] * SIZE, parts)
        record_cost(patch, trial, "levers", len, parts)
        record_cost(patch, trial, "walk", lambda output: output[1], parts)
        plan = vr.plan(POSTERIOR, DATA, START, budget=BUDGET, num_chains=1)
    return plan, parts


def evaluations(result):
    return result.evaluations


def test_everything_is_counted(plan_and_costs):
    plan, parts = plan_and_costs
    assert [name for name, _ in parts] == ["find_mode", "local", "newton", "levers", "walk"]
    assert plan.pilot == sum(cost for _, cost in parts)
    assert plan.budget == BUDGET
    costs_of = dict(parts)
    rows = costs_of["local"] // 7  # 1 + 2 d for each row
    assert 24 <= rows <= SIZE // 4
    assert costs_of["newton"] in (SIZE, 2 * SIZE, 3 * SIZE)
    assert costs_of["levers"] == SIZE
    assert costs_of["walk"] <= trial.TRIAL * BUDGET
    assert plan.pilot < 0.2 * BUDGET


def test_the_mode_is_found(plan_and_costs):
    plan, _ = plan_and_costs
    away = np.asarray(plan.init) - MEAN
    assert away @ np.linalg.solve(COVARIANCE, away) < 0.01 * 3


def test_a_plan_runs_as_predicted(plan_and_costs):
    """96 independent runs, as the chains of one program."""
    plan, _ = plan_and_costs
    result = vr.sample(
        5,
        POSTERIOR,
        DATA,
        plan.init,
        **{**plan, "num_chains": 96},
        keep="averages",
        observables=moments(MEAN),
        progress=False,
    )
    assert not result.diverged.any()
    assert result.evaluations / 96 + plan.pilot <= plan.budget
    assert result.evaluations / 96 + plan.pilot > 0.99 * plan.budget
    assert result.evaluations / 96 == cost(plan.choice)
    each = scores(result, 1, MEAN, VARIANCES)
    error = each.std(ddof=1) / math.sqrt(len(each))
    assert error < 0.2 * each.mean()
    assert 1 / 1.5 < each.mean() / plan.score < 1.5


def test_parts_of_the_score(plan_and_costs):
    plan, _ = plan_and_costs
    assert plan.score == pytest.approx(plan.bias + plan.variance)
    assert 0 < plan.bias < plan.score
    assert plan.score == plan.choice.score
    there: Any = forecast(
        local_model(),
        plan["estimator"],
        plan["integrator"],
        [plan["step_size"]],
        batch_size=plan["batch_size"],
        order=plan["order"],
        num_steps=plan["num_steps"],
    )
    assert plan.score == pytest.approx(float(there.score[0]), rel=0.5)  # it used a sample


def test_runners_up(plan_and_costs):
    plan, _ = plan_and_costs
    scores = [candidate.score for candidate in plan.runners_up]
    assert scores == sorted(scores)
    assert len(scores) == 5
    assert plan.score < 1.06 * scores[0]
    ways = [candidate.sampler for candidate in plan.runners_up]
    kinds = {(way.estimator.name, way.integrator.name, way.order) for way in ways}
    assert len(kinds) == 5


def test_a_plan_is_a_mapping(plan_and_costs):
    plan, _ = plan_and_costs
    assert dict(plan) == plan.settings
    names = "estimator integrator step_size batch_size order anchor_order num_steps num_chains thin"
    assert list(plan.keys()) == names.split()
    with pytest.raises(KeyError):
        plan["key"]


def test_words(plan_and_costs):
    lines = str(plan_and_costs[0]).splitlines()
    plan = plan_and_costs[0]
    assert lines[0].startswith(f"{plan.choice}, step size {plan.choice.sampler.step_size:.3g}")
    assert lines[0].endswith(f"{plan.choice.num_steps:,} steps, 1 chains, thin {plan.thin}")
    assert lines[1].startswith(f"predicted error C = {plan.score:.3g} (like ")
    assert lines[2] == f"60,000 gradients, {plan.pilot:,} of them for this plan"
    assert [line[:13] for line in lines[3:]] == ["  then  C = 0"] * 5
    with_note = dataclasses.replace(plan, note="Beware.")
    assert str(with_note).endswith("\nBeware.")


def test_the_same_seed_gives_the_same_plan(plan_and_costs):
    """Also with the budget in passes instead of evaluations."""
    plan, _ = plan_and_costs
    again = vr.plan(POSTERIOR, DATA, lambda key: START, budget="150 passes", num_chains=1)
    assert again.settings == plan.settings
    assert str(again) == str(plan)
    np.testing.assert_array_equal(again.init, plan.init)


# -------------------------------------------------------------------------------- its parts


@pytest.mark.parametrize(
    ("budget", "evaluations", "seconds"),
    [
        (None, None, None),
        (12_345, 12_345, None),
        (1e6, 1e6, None),
        ("200 passes", 200 * SIZE, None),
        ("0.5 pass", SIZE / 2, None),
        ("1e6 evaluations", 1e6, None),
        ("2 s", None, 2.0),
        ("60s", None, 60.0),
        (" 1.5 min ", None, 90.0),
        ("2 h", None, 7200.0),
        (timedelta(minutes=2), None, 120.0),
    ],
)
def test_budgets(budget, evaluations, seconds):
    assert parse_budget(budget, SIZE) == (evaluations, seconds)


@pytest.mark.parametrize(
    ("estimator", "batch_size", "each", "anchor", "period"),
    [
        (vr.full(), SIZE, SIZE, 0, None),
        (vr.minibatch(), 10, 10, 0, None),
        (vr.practical(100, 10), 10, 20, 100, 10),
        (vr.svrg(), 10, 20, SIZE, 40),
        (vr.svrg(7), 5, 10, SIZE, 7),
        (vr.saga(), 10, 10, SIZE, None),
        (vr.control_variate(jnp.zeros(3)), 10, 20, SIZE, None),
    ],
)
def test_costs(estimator, batch_size, each, anchor, period):
    """A run pays for whole refreshes, for the first one before its first step."""
    sampler = make_candidate(estimator, batch_size).sampler
    assert estimator.cost(SIZE, batch_size) == each
    assert estimator.refresh_size(SIZE) == anchor
    assert estimator.refresh_period(SIZE, batch_size) == period
    for num_steps in (1, 6, 7, 8, 39, 40, 41, 400, 1003):
        refreshes = 1 if period is None else math.ceil(num_steps / period)
        total = sampler.evaluations(SIZE, num_steps)
        assert total == each * num_steps + anchor * refreshes
        assert sampler.affordable_steps(SIZE, total) == num_steps
        assert sampler.affordable_steps(SIZE, total + each - 1) == num_steps
        # a second per step, and a tenth for each datum
        seconds = num_steps + 0.1 * total + 0.01
        assert sampler.affordable_steps(SIZE, seconds, 1.0, 0.1) == num_steps


def test_ranking():
    case = make_case()
    ranking = rank(case, 100.0 * SIZE)
    best = ranking[0]
    assert [c.score for c in ranking[1:]] == sorted(c.score for c in ranking[1:])
    lowest = min(c.score for c in ranking)
    assert best.score < 1.05 * lowest
    close = [c for c in ranking if c.score < 1.05 * lowest]
    assert best.num_steps == min(c.num_steps for c in close)
    names = {(c.sampler.estimator.name, c.sampler.integrator.name) for c in ranking}
    every = ("full", "minibatch", "practical", "svrg", "saga", "control_variate")
    assert names == {(e, i) for e in every for i in ("sgld", "splitting")}
    for each in ranking[:12]:
        assert cost(each) <= 100 * SIZE
        assert each.num_steps >= FEWEST_STEPS
        way = each.sampler
        there: Any = forecast(
            case.model,
            way.estimator,
            way.integrator,
            [way.step_size / 1.5, way.step_size, way.step_size * 1.5],
            batch_size=way.batch_size,
            order=way.order,
            anchor_order=way.anchor_order,
            num_steps=each.num_steps,
            num_chains=4,
        )
        assert each.score == pytest.approx(float(there.score[1]), rel=1e-9)
        assert each.score <= 1.02 * there.score.min()  # the best of a fine grid
    kinds = best_of_each_kind(ranking)
    assert kinds[0] is best
    assert len({str(kind).split(",")[0].split("(")[0] for kind in kinds}) == 6
    assert rank(case, 200.0 * SIZE)[0].score < best.score
    with pytest.raises(ValueError, match="does not allow 20 steps of any sampler"):
        rank(case, 50.0)


def test_candidates():
    """Every candidate can run."""
    augmented = dataclasses.replace(POSTERIOR, augment=lambda key, item: item)
    for case, left_out in (
        (make_case(), set()),
        (make_case(posterior=augmented), {"control_variate"}),
        (make_case(model=local_model()._replace(size=15)), {"minibatch", "svrg", "practical"}),
    ):
        ways = list(samplers(case, vr.sgld()))
        names = {way.estimator.name for way in ways}
        assert not names & left_out
        assert "full" in names
        size = case.model.size
        for way in ways:
            check_sizes("plan", way.estimator, size, way.batch_size)
    model = local_model()
    for integrator, steps in integrators(model):
        fastest = steps * (model.curvature.max() ** (1.0 if integrator.name == "sgld" else 0.5))
        assert fastest.max() == pytest.approx(1.0)


class Errors:
    """In place of `rank`: the error as a function of the allowance, and all allowances so far."""

    def __init__(self, error):
        self.error, self.allowances = error, []

    def __call__(self, case, allowance):
        self.allowances.append(allowance)
        return [make_candidate(vr.saga())._replace(score=self.error(allowance))]


@pytest.mark.parametrize("scale", [600.0, 5e3, 1e5, 1e7])
@pytest.mark.parametrize("power", [0.6, 1.0])
def test_cheapest(monkeypatch, scale, power):
    """The search for the smallest budget needs few rankings when the error falls like this."""
    errors = Errors(lambda allowance: 0.25 / (1 + (allowance / scale) ** 3) ** (power / 3))
    monkeypatch.setattr(planner, "rank", errors)
    evaluations, ranking = cheapest(make_case(), 1000, 0.01)
    enough = scale * ((25 ** (3 / power)) - 1) ** (1 / 3)
    allowance = (evaluations * (1 - trial.TRIAL) - 1000) / 4
    assert ranking[0].score == errors.error(allowance) <= 0.01
    assert enough <= allowance <= 1.27 * enough
    assert len(errors.allowances) < 16
    # within a budget: the smallest one, or all of it
    most = 0.9 * evaluations / 1.27
    assert cheapest(make_case(), 1000, 0.01, most=most)[0] == most
    again, _ = cheapest(make_case(), 1000, 0.01, most=3 * evaluations)
    assert again < 1.3 * evaluations


def test_cheapest_has_limits(monkeypatch):
    monkeypatch.setattr(planner, "rank", Errors(lambda allowance: 0.004))
    evaluations, _ = cheapest(make_case(), 1000, 0.01)  # the smallest one of the search
    assert evaluations == pytest.approx((1000 + 4 * 2 * SIZE) / (1 - trial.TRIAL))
    errors = Errors(lambda allowance: 0.02)
    monkeypatch.setattr(planner, "rank", errors)
    with pytest.raises(ValueError, match=r"not reached within ten million passes.* C = 0\.02"):
        cheapest(make_case(), 1000, 0.01)
    assert max(errors.allowances) == 1e7 * SIZE


class Trials:
    """In place of `walk`: a list of how far out each trial goes."""

    def __init__(self, *spreads, peak=0.0):
        self.spreads, self.peak, self.calls = list(spreads), peak, []

    def __call__(self, case, sampler, num_steps, num_chains, top, seed):
        self.calls.append((sampler.step_size, num_steps, num_chains))
        spread = self.spreads[min(len(self.calls), len(self.spreads)) - 1]
        squares = np.full((num_chains, num_steps), spread)
        if len(self.calls) == 1:
            squares[-1, -1] += self.peak
        return squares, 1000


@pytest.mark.parametrize(
    ("spreads", "peak", "halvings"),
    [((1.0,), 0.0, 0), ((40.0, 1.2), 0.0, 1), ((np.nan, 90.0, 1.0), 0.0, 2), ((1.0,), 200.0, 1)],
)
def test_trials_halve_the_step_size(monkeypatch, spreads, peak, halvings):
    """When the mean of a chain is too far out, or one step of one chain is."""
    trials = Trials(*spreads, peak=peak)
    monkeypatch.setattr(trial, "walk", trials)
    begin = make_candidate(vr.svrg(), num_steps=5000, step_size=0.2 / local_model().curvature.max())
    end, evaluations, note = trial.run_trial(make_case(), begin, 1e6, 0)
    assert evaluations == 1000 * (halvings + 1) + SIZE
    assert end.sampler.step_size == pytest.approx(begin.sampler.step_size / 2**halvings)
    assert (end.num_steps, end.sampler.estimator) == (5000, begin.sampler.estimator)
    steps, counts, chains = zip(*trials.calls, strict=True)
    np.testing.assert_allclose(steps, begin.sampler.step_size / 2.0 ** np.arange(halvings + 1))
    assert set(chains) == {4}
    assert set(counts) == {begin.sampler.affordable_steps(SIZE, 0.05 * 1e6 / 4)}
    text = f"The step size was divided by {2**halvings}: a trial went further out than the model"
    assert note.startswith(text) if halvings else note == ""


def test_trials_that_never_fit(monkeypatch):
    trials = Trials(1e9)
    monkeypatch.setattr(trial, "walk", trials)
    begin = make_candidate(vr.minibatch(), num_steps=300, step_size=1e-4)
    end, evaluations, note = trial.run_trial(make_case(), begin, 1e5, 0)
    assert len(trials.calls) == 6
    assert evaluations == 6000 + SIZE
    assert end.sampler.step_size == pytest.approx(1e-4 / 32)
    assert "divided by 32" in note
    assert "the model does not fit" in note
    few = Trials(1e9)  # trials stop after their share of the budget
    monkeypatch.setattr(trial, "walk", few)
    trial.run_trial(make_case(), begin, 15_000, 0)
    assert [call[1:] for call in few.calls] == [(18, 4)] * 2


def test_a_step_without_a_law_is_not_believed(monkeypatch):
    """A step size without a stationary law is halved although the trial stays finite."""
    monkeypatch.setattr(trial, "walk", Trials(1.0))
    begin = make_candidate(vr.full(), SIZE, step_size=3.0 / local_model().curvature.max())
    end, _, note = trial.run_trial(make_case(), begin, 1e6, 0)
    assert end.sampler.step_size == pytest.approx(begin.sampler.step_size / 2)
    assert "divided by 2" in note


@pytest.mark.parametrize(
    "estimator",
    [vr.full(), vr.minibatch(), vr.practical(50, 7), vr.svrg(9), vr.saga(), vr.control_variate()],
    ids=lambda estimator: estimator.name,
)
def test_a_walk_is_a_chain(estimator):
    """It spreads as the posterior does, for every estimator."""
    case, sampler = make_case(), make_candidate(estimator).sampler
    if estimator.name == "control_variate":
        sampler = dataclasses.replace(sampler, estimator=vr.control_variate(case.mode))
    curvature = case.model.curvature
    sampler = dataclasses.replace(sampler, step_size=0.02 / curvature.max(), batch_size=20)
    squares, evaluations = walk(case, sampler, 200, 8, np.arange(3), 0)
    assert squares.shape == (8, 200)
    assert evaluations == 8 * sampler.evaluations(SIZE, 200)
    assert 0.1 < squares[:, -50:].mean() < 3
    wild = dataclasses.replace(sampler, step_size=3 / curvature.max())
    assert not np.all(walk(case, wild, 200, 2, np.arange(3), 0)[0] < 1e6)


def test_trials_meet_the_rows_of_highest_leverage():
    far = np.array([7, 123])
    x = X.copy()
    x[far] *= 30
    case = make_case(data=(jnp.asarray(x), jnp.asarray(Y)))
    top = levers(case, SIZE, 0)
    assert set(top[:2]) == set(far)
    assert sorted(top) == list(range(SIZE))
    sampler = make_candidate(vr.minibatch(), 5).sampler
    rows = schedule(np.random.default_rng(0), sampler, SIZE, 40, top)
    assert rows.shape == (40, 5)
    assert set(top[:4]) <= set(rows.ravel())
    assert all(len(set(each)) == 5 for each in rows)


# ------------------------------------------------------------------------------ what it stores


def test_draws_stay_few(plan_and_costs):
    """All draws take at most 128 MiB; a chain keeps 1,000, or four for each effective one."""
    plan, _ = plan_and_costs
    assert plan.thin == max(1, plan.choice.num_steps // 1000)
    long = plan.choice._replace(num_steps=10**9)
    for score, draws in ((1e-2, 1000), (1e-5, 4e5), (1e-9, 2**27 / plan.init.nbytes)):
        other = dataclasses.replace(plan, choice=long, score=score)
        assert other["thin"] == pytest.approx(10**9 / draws, rel=0.01)


def test_a_mode_out_of_reach_is_no_plan():
    """This log posterior grows for ever."""

    def loglik(x, datum):
        return datum * jnp.sum(jnp.log1p(jnp.square(x - 1)))

    posterior = vr.Posterior(lambda x: 0.0, loglik)
    with pytest.raises(
        ValueError, match=r"search for a mode did not converge\. After .* Scale the features alike"
    ):
        vr.plan(posterior, np.linspace(0.5, 1.5, 300), jnp.zeros(2), budget="100 passes")


def test_features_of_other_scales():
    """One feature times 1000: the mode is reached, or there is no plan."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SIZE, 3))
    y = (rng.uniform(size=SIZE) < 1 / (1 + np.exp(-x.sum(1)))).astype(int)
    x = x * [1.0, 1e3, 1.0]
    logistic = vr.models.logistic.posterior()
    with pytest.warns(UserWarning, match=r"leaves \d+ steps of a chain, worth .* too little to tr"):
        plan = vr.plan(logistic, (x, y), jnp.zeros(3), budget="200 passes")
    assert plan.pilot <= 0.75 * plan.budget
    assert "too little to trust" in str(plan)
    signed, mode = np.where(y[:, None] == 1, x, -x), np.asarray(plan.init)
    p = 1 / (1 + np.exp(signed @ mode))
    precision = np.eye(3) + (signed * (p * (1 - p))[:, None]).T @ signed
    step = np.linalg.solve(precision, signed.T @ p - mode)
    assert step @ precision @ step < 0.3**2 * 3


# ---------------------------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (dict(), TypeError, "plan: give a budget .evaluations, '200 passes', '60 s'. or a target"),
        (dict(budget=0), ValueError, r"plan\(budget=0\): budget must be positive"),
        (dict(budget=-5.0), ValueError, r"plan\(budget=-5.0\): budget must be positive"),
        (dict(budget=math.inf), ValueError, "budget must be a finite number"),
        (dict(budget=True), ValueError, "budget must be a finite number"),
        (dict(budget="0 passes"), ValueError, "budget must be positive"),
        (dict(budget=timedelta(seconds=-1)), ValueError, "budget must be positive"),
        (
            dict(budget="a lot"),
            ValueError,
            "write a number of evaluations, '200 passes', '60 s' or",
        ),
        (dict(budget="200 epochs"), ValueError, r"plan\(budget='200 epochs'\): write a number"),
        (dict(budget="1.2.3 s"), ValueError, "write a number of evaluations"),
        (dict(budget="passes"), ValueError, "write a number of evaluations"),
        (dict(target=0.0), ValueError, r"plan\(target=0.0\): target must be positive"),
        (dict(target="small"), ValueError, "target must be a finite number"),
        (dict(budget=1e6, num_chains=0), ValueError, r"plan\(num_chains=0\): num_chains must be"),
        (dict(budget=1e6, init=jnp.zeros(3, int)), TypeError, "parameters must be floating"),
        (dict(budget=1e6, init=jnp.full(3, jnp.nan)), ValueError, "holds NaN or infinite"),
        (dict(budget=1e6, init=jnp.zeros(2)), ValueError, "loglik"),
        (dict(budget=1e6, data=(X[:5], Y)), ValueError, "same number of rows"),
        (dict(budget=1e6, posterior="posterior"), TypeError, "posterior"),
        (dict(budget=1e6, data=(np.where(X > 2, np.nan, X), Y)), ValueError, "NaN or infinite"),
    ],
)
def test_bad_arguments(changes, error, message):
    posterior, data = changes.pop("posterior", POSTERIOR), changes.pop("data", DATA)
    with pytest.raises(error, match=message):
        vr.plan(posterior, data, changes.pop("init", START), **changes)


def test_too_many_parameters():
    wide = (np.ones((4, LARGEST + 1)), np.ones(4))
    with pytest.raises(ValueError, match=r"plan: 129 parameters are more than 128.*vr\.audit"):
        vr.plan(POSTERIOR, wide, jnp.zeros(LARGEST + 1), budget=1e6)


def test_too_small_a_budget(monkeypatch):
    """An error before any work, or as soon as the trial leaves too little."""

    def refuse(*arguments):
        raise AssertionError("no work")

    monkeypatch.setattr(planner, "pilot", refuse)
    with pytest.raises(ValueError, match=r"2,000 evaluations are too few .* at least ([\d,]+) \("):
        vr.plan(POSTERIOR, DATA, START, budget=2000)
    with pytest.raises(
        ValueError, match=r"plan\(budget='5 passes'\).*at least 4,\d+ \(1.\.\d passes"
    ):
        vr.plan(POSTERIOR, DATA, START, budget="5 passes")

    def run_trial(case, candidate, evaluations, seed):
        return candidate, 3900, ""

    monkeypatch.setattr(planner, "run_trial", run_trial)
    monkeypatch.setattr(
        planner, "pilot", lambda *arguments: (jnp.asarray(MEAN), local_model(), 1000)
    )
    with pytest.raises(
        ValueError, match="planning took 4,900 evaluations and leaves fewer than 20"
    ):
        vr.plan(POSTERIOR, DATA, START, budget=5000)
    # a trial that took more than its share shortens the run and changes the prediction
    short = vr.plan(POSTERIOR, DATA, START, budget=10_000, num_chains=1)
    assert short.pilot == 4900
    assert cost(short.choice) <= 10_000 - 4900
    assert cost(short.choice) > 10_000 - 4900 - 2 * SIZE
    again: Any = predict(
        local_model(), short.choice.sampler, num_steps=short.choice.num_steps, num_chains=1
    )
    assert short.score == pytest.approx(float(again.score[0]))
