"""The pieces of a NumPyro model are its log density; sites, predictions and ArviZ come back."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro.infer import log_likelihood
from numpyro.infer.util import constrain_fn, potential_energy
from support.numpyro_models import MODELS, N, X, group, hierarchical, labels, values

import vrsgmcmc as vr
from vrsgmcmc import core

ROWS = {
    "logistic": {"X", "y"},
    "plate of a number": {"X", "y"},
    "subsampled": {"X", "y"},
    "indexed": {"data/X", "data/y"},
    "hierarchical": {"X", "group", "y"},
    "non-centred": {"X", "group", "y"},
    "regression on groups": {"X", "group", "y"},
    "several sites": {"X", "y", "counts", "present", "weights"},
    "factors outside": {"X", "y"},
    "vectors": {"Y"},
    "mixture": {"y"},
    "table": {"Y"},
    "as many groups": {"y", "group"},
}


@pytest.fixture(autouse=True)
def lenient():
    """NumPyro itself lets ranks differ, and uses keys twice."""
    with jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        yield


QUICK = ("logistic", "indexed", "non-centred", "several sites", "as many groups")


def as_jax(leaf):
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


BOTH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]


@pytest.mark.parametrize("name", BOTH)
def test_prior_and_rows_add_up_to_the_log_density_of_numpyro(name):
    model, args, kwargs = MODELS[name]
    problem = vr.from_numpyro(model, *args, **kwargs)
    posterior, data, init = problem
    assert set(data) == ROWS[name]
    params = init(jax.random.key(7))
    whole = {**kwargs, "batch": None} if name in ("subsampled", "indexed") else kwargs
    args, whole = jax.tree.map(as_jax, (args, whole))
    oracle = lambda p: -potential_energy(model, args, whole, p)  # noqa: E731
    expected = jax.jit(jax.value_and_grad(oracle))(params)
    batch = core.Batch(jnp.arange(N), data)
    density = lambda p: core.log_posterior(posterior, p, batch)  # noqa: E731
    actual = jax.jit(jax.value_and_grad(density))(params)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), actual, expected
    )


def test_each_row_has_the_log_likelihood_that_numpyro_gives_it():
    model, args, kwargs = MODELS["several sites"]
    problem = vr.from_numpyro(model, *args, **kwargs)
    params = problem.init(jax.random.key(3))
    sites = constrain_fn(model, args, kwargs, params)
    terms = log_likelihood(model, {n: v[None] for n, v in sites.items()}, *args, **kwargs)
    weights = args[4]
    tilt = -0.1 * (X @ sites["slopes"]) ** 2
    rows = jax.vmap(problem.posterior.loglik, (None, 0))(params, problem.data)
    np.testing.assert_allclose(rows, terms["y"][0] + weights * terms["counts"][0] + tilt, rtol=1e-9)


def test_draws_come_back_in_the_support_of_every_site():
    problem = vr.from_numpyro(*MODELS["non-centred"][:1], X, group, 4, y=values)
    draws = jax.vmap(jax.vmap(problem.init))(jax.random.split(jax.random.key(0), (2, 5)))
    sites = problem.constrain(draws)
    assert {n: v.shape for n, v in sites.items()} == {
        **{name: (2, 5) for name in ("location", "spread", "slope", "upper", "sigma")},
        "level_decentered": (2, 5, 4),
        "level": (2, 5, 4),
        "mean": (2, 5, N),
    }
    np.testing.assert_allclose(sites["spread"], np.exp(draws["spread"]), rtol=1e-12)
    level = sites["location"][..., None] + sites["spread"][..., None] * sites["level_decentered"]
    np.testing.assert_allclose(sites["level"], level, rtol=1e-12)
    assert np.all((sites["upper"] > 0) & (sites["upper"] < np.exp(sites["slope"])))
    mean = sites["level"][..., group] + sites["slope"][..., None] * X[:, 0]
    np.testing.assert_allclose(sites["mean"], mean, rtol=1e-12)
    (alone,) = problem.constrain({n: v[1, 2] for n, v in draws.items()}, sites="level").values()
    np.testing.assert_allclose(alone, level[1, 2], rtol=1e-12)


def test_equal_calls_make_equal_posteriors():
    model, args, kwargs = MODELS["regression on groups"]
    first = vr.from_numpyro(model, *args, **kwargs)
    copies = [np.array(each) for each in args]
    assert vr.from_numpyro(model, *copies, **kwargs).posterior == first.posterior
    assert hash(vr.from_numpyro(model, *copies, **kwargs).posterior) == hash(first.posterior)
    copies[2][0, 0] += 1
    assert vr.from_numpyro(model, *copies, **kwargs).posterior != first.posterior


@pytest.mark.slow
def test_a_run_predicts_and_goes_to_arviz():
    """The posterior is Gaussian and known; predictions have its mean and spread."""
    rng = np.random.default_rng(1)
    y = 1.5 + rng.normal(size=50)

    def model(n, y=None):
        mean = numpyro.sample("mean", numpyro.distributions.Normal(0, 10).expand([1]).to_event(1))
        double = numpyro.deterministic("double", 2 * mean)
        with numpyro.plate("unit", n):
            numpyro.sample("y", numpyro.distributions.Normal(double[0] / 2, 1.0), obs=y)

    problem = vr.from_numpyro(model, 50, y)
    result = vr.sample(0, *problem, progress=False)
    precision = 50 + 1 / 100
    sites = problem.constrain(result.draws)
    assert abs(sites["mean"].mean() - y.sum() / precision) < 0.1 / np.sqrt(precision)
    assert abs(sites["mean"].std() * np.sqrt(precision) - 1) < 0.1
    leading = result.draws["mean"].shape[:2]
    later = problem.predict(result.draws, 3)
    assert later["y"].shape == (*leading, 3)
    assert abs(later["y"].std() - np.sqrt(1 + 1 / precision)) < 0.05
    assert not np.array_equal(later["y"], problem.predict(result.draws, 3, rng_key=1)["y"])
    again = problem.predict({"mean": result.draws["mean"][0, :9]})
    assert again["y"].shape == (9, 50)
    assert not np.array_equal(again["y"][0], y)
    tree = problem.to_arviz(result)
    assert set(tree["posterior"].data_vars) == {"mean", "double"}
    np.testing.assert_allclose(tree["posterior"]["double"], sites["double"])


def test_arviz_gets_the_plates_as_dimensions():
    problem = vr.from_numpyro(hierarchical, X, group, 4, y=values)
    result = vr.sample(
        0, *problem, estimator=vr.full(), step_size=1e-4, num_steps=4, num_chains=2, progress=False
    )
    posterior = problem.to_arviz(result)["posterior"]
    assert posterior["level"].dims == ("chain", "draw", "group")
    assert posterior["mean"].dims == ("chain", "draw", "data")
    assert posterior["spread"].dims == ("chain", "draw")
    assert [*posterior["group"].to_numpy()] == [0, 1, 2, 3]
    only = problem.to_arviz(result, sites=("level",))["posterior"]
    assert set(only.data_vars) == {"level"}


def test_float32_runs_and_is_checked_in_float64():
    model, _, _ = MODELS["logistic"]
    with jax.enable_x64(False):
        problem = vr.from_numpyro(model, X, y=labels)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(problem.data)} == {"float32", "int32"}
        params = problem.init(jax.random.key(0))
        row = jax.tree.map(lambda leaf: leaf[0], problem.data)
        assert problem.posterior.loglik(params, row).dtype == jnp.float32
        assert problem.posterior.logprior(params).dtype == jnp.float32
