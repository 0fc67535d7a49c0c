"""The table of accuracy: `vr.sample(key, posterior, data, init)` on the problems of benchmarks/.

The references are stored (results/references.npz); benchmarks/references.py makes them by other code.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import Table, importance, laplace
from problems import MU, PROBLEMS, REFERENCES, SCHOOLS, SPEED, TABLE, TAU, TRAPS, regression

import vrsgmcmc as vr

SEEDS = range(10)
SMALL = [name for name in TABLE if name not in ("digits", "linear-500")]
RECORDS = json.loads(REFERENCES.with_suffix(".json").read_text())
MEAN, SD = 0.1, 0.1  # the largest errors that count as right, in sd


def make(name):
    if name in ("breast-cancer", "wine", "digits"):
        pytest.importorskip("sklearn", reason="the data come with scikit-learn")
    return PROBLEMS[name]()


def form(problem, kind):
    posterior = {"glm": problem.posterior, "plain": problem.plain}[kind]
    if posterior is None:
        pytest.skip(f"d = {problem.dimension}: no plain form")
    return posterior


def errors(problem, result):
    """|error| of every mean and sd, in posterior sd."""
    draws = np.asarray(result.draws, np.float64)
    flat = draws.reshape(-1, problem.dimension)
    reference = problem.reference
    means = np.abs(flat.mean(0) - reference.mean) / reference.sd
    return means, np.abs(flat.std(0) / reference.sd - 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["glm", "plain"])
@pytest.mark.parametrize("name", TABLE)
def test_four_arguments_are_enough(name, kind, seed):
    problem = make(name)
    posterior = form(problem, kind)
    result = vr.sample(jax.random.key(seed), posterior, problem.data, problem.init, progress=False)
    means, sds = errors(problem, result)
    assert not np.any(result.diverged)
    assert (means.max() <= MEAN, sds.max() <= SD) == (True, True), (means.max(), sds.max())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TRAPS)
def test_traps_are_told_apart_from_success(name, seed):
    """Two modes, and a funnel: the verdict is "Not good"."""
    problem = PROBLEMS[name]()
    options = {"budget": "3e6 passes"} if name == "funnel" else {}  # of eight rows
    result = vr.sample(
        seed, problem.posterior, problem.data, problem.init, progress=False, **options
    )
    assert not result.accuracy().good


@pytest.mark.slow
def test_eight_schools_without_their_funnel_are_right():
    """Ten parameters and eight rows: theta_j = mu + tau z_j. The funnel's exact moments of mu, tau."""
    y, sd = SCHOOLS

    def logprior(w):
        return (
            -0.5 * (w["mu"] / MU) ** 2
            - 0.5 * ((w["log_tau"] - TAU[0]) / TAU[1]) ** 2
            - 0.5 * jnp.sum(w["z"] ** 2)
        )

    def loglik(w, school):
        j, y, sd = school
        return -0.5 * ((y - w["mu"] - jnp.exp(w["log_tau"]) * w["z"][j]) / sd) ** 2

    data = np.arange(8), y, sd
    init = {"mu": jnp.array(0.0), "log_tau": jnp.array(0.0), "z": jnp.zeros(8)}
    result = vr.sample(0, vr.Posterior(logprior, loglik), data, init, ess=1000, progress=False)
    assert result.settings["integrator"].name == "nuts"
    exact = PROBLEMS["funnel"]().reference
    for name, place in (("mu", 8), ("log_tau", 9)):
        draws = np.asarray(result.draws[name], float)
        assert abs(draws.mean() - exact.mean[place]) < 5 / np.sqrt(1000) * exact.sd[place]
        assert abs(draws.std() / exact.sd[place] - 1) < 5 / np.sqrt(2000) + 0.05


@pytest.mark.slow
def test_every_problem_has_a_reference():
    assert list(RECORDS) == list(PROBLEMS)


@pytest.mark.parametrize("name", RECORDS)
def test_references_are_known_well_enough(name):
    """A tenth of the bar: .0002 in C where N >= 1e5, .002 where N >= 1e4, and where N is small."""
    record = RECORDS[name]
    if record["method"] == "NUTS":
        assert record["ess"] >= 10_000
        assert record["r_hat"] < 1.01
        assert record["divergences"] == 0
    if record["method"] == "importance":
        assert record["pareto_k"] < 0.5
    bar = 2e-5 if record["size"] >= 1e5 else 2e-4
    assert record["floor"] <= bar


@pytest.mark.parametrize("name", SMALL)
def test_both_forms_are_the_posterior_of_the_oracle(name):
    """Gradients on the first rows: of the glm, of the plain form, and of NumPy."""
    problem = make(name)
    first = jax.tree.map(lambda leaf: leaf[:50], problem.data)
    table = Table(problem.family, *(np.asarray(leaf, float) for leaf in first), problem.init.shape)
    if problem.family == "softmax":
        table = table._replace(y=np.asarray(first[1]))
    w = 0.01 * np.random.default_rng(0).normal(size=problem.init.shape)
    expected = table.derivatives(w.ravel())[1]
    for posterior in filter(None, (problem.posterior, problem.plain)):
        gradient = jax.grad(total)(jnp.asarray(w), posterior, jax.tree.map(jnp.asarray, first))
        np.testing.assert_allclose(np.ravel(gradient), expected, rtol=1e-6, atol=1e-6)


def total(w, posterior, data):
    return posterior.logprior(w) + jax.vmap(posterior.loglik, (None, 0))(w, data).sum()


def test_a_problem_is_the_same_on_every_call():
    for name in (*TRAPS, "pima", "student-t"):
        one, two = PROBLEMS[name](), PROBLEMS[name]()
        assert jax.tree.all(jax.tree.map(np.array_equal, one.data, two.data))
    assert [PROBLEMS[name]().size for name in list(SPEED)[:2]] == [10_000, 100_000]


@pytest.mark.slow
@pytest.mark.parametrize("dof", [None, 10])
def test_importance_sampling_of_a_normal_posterior_is_exact(dof):
    """With the normal proposal every weight is 1, with Student's t errors are as large as stated."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3)) * np.array([[1.0, 10.0, 0.1]])
    table = Table("gaussian", x, x.sum(-1) + rng.normal(size=30), (3,))
    covariance = np.linalg.inv(x.T @ x + np.eye(3))
    mean, sd = covariance @ x.T @ table.y, np.sqrt(np.diag(covariance))
    found, record = importance(table, laplace(table), 4000, dof)
    limits = 5 * found[2] + 1e-12, 5 * found[3] + 1e-12
    assert np.all(np.abs(found[0] - mean) <= limits[0])
    assert np.all(np.abs(found[1] - sd) <= limits[1])
    assert record["ess"] <= 4000


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bernoulli", "poisson", "student_t", "softmax"])
def test_importance_sampling_agrees_with_quadrature(family):
    """Eight rows and one column (two numbers for softmax): far from normal."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(8, 1)) * 2, rng.integers(0, 2, 8)
    problem = regression("tiny", family, x, y)
    table = Table.of(problem)
    moments, _ = importance(table, laplace(table), 100_000, dof=5)
    d = problem.dimension
    steps = np.linspace(-9, 9, 801 if d == 1 else 201)
    grid = np.stack(np.meshgrid(*d * [steps]), -1).reshape(-1, d)
    height = table.heights(grid)
    weight = np.exp(height - height.max())
    weight /= weight.sum()
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    assert np.all(np.abs(moments[0] - mean) <= 5 * moments[2])
    assert np.all(np.abs(moments[1] - sd) <= 5 * moments[3])
    assert np.all(moments[3] < 0.01 * sd)
