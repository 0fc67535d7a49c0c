"""What the NumPyro door refuses, in which words, and what it says to do instead."""

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from support.numpyro_models import N, X, group, labels, logistic, numbers, values

import vrsgmcmc as vr

BATS = np.full(18, 45)
HITS = np.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7])
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


@pytest.fixture(autouse=True)
def lenient():
    """NumPyro itself lets ranks differ, and uses keys twice."""
    with jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        yield


def slopes():
    return numpyro.sample("slopes", dist.Normal(0, 1).expand([3]).to_event(1))


def baseball(at_bats, hits):
    share = numpyro.sample("share", dist.Uniform(0, 1))
    with numpyro.plate("players", at_bats.shape[0]):
        chance = numpyro.sample("chance", dist.Beta(10 * share, 10 * (1 - share)))
        numpyro.sample("hits", dist.Binomial(at_bats, probs=chance), obs=hits)


def eight_schools(sigma, y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def discrete(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2]))
    with numpyro.plate("data", N):
        kind = numpyro.sample("kind", dist.Bernoulli(0.5), infer={"enumerate": "parallel"})
        numpyro.sample("y", dist.Normal(mean[kind], 1), obs=y)


def two_plates(y, z):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("first", N):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)
    with numpyro.plate("second", 5):
        numpyro.sample("z", dist.Normal(mean, 1), obs=z)


def no_plate(X, y):
    numpyro.sample("y", dist.Normal(X @ slopes(), 1), obs=y)


def closed_over(X):
    b = slopes()
    with numpyro.plate("data", N):
        numpyro.sample("y", dist.Normal(X @ b, 1), obs=values)


def closed_over_all():
    b = slopes()
    with numpyro.plate("data", N):
        numpyro.sample("y", dist.Normal(X @ b, 1), obs=values)


def standardised(X, y):
    b = slopes()
    with numpyro.plate("data", N):
        numpyro.sample("y", dist.Normal((X - X.mean(0)) @ b, 1), obs=y)


def empirical_prior(X, y):
    width = numpyro.sample("width", dist.Exponential(1 / (1 + jnp.std(y))))
    b = slopes()
    with numpyro.plate("data", N):
        numpyro.sample("y", dist.Normal(X @ b, width), obs=y)


def counts_groups(group, y):
    level = numpyro.sample("level", dist.Normal(0, 1).expand([len(np.unique(group))]))
    with numpyro.plate("data", N):
        numpyro.sample("y", dist.Normal(level[group], 1), obs=y)


def param(X, y):
    width = numpyro.param("width", 1.0, constraint=dist.constraints.positive)
    b = slopes()
    with numpyro.plate("data", N):
        numpyro.sample("y", dist.Normal(X @ b, width), obs=y)


def nothing_latent(y):
    with numpyro.plate("data", N):
        numpyro.sample("y", dist.Normal(0, 1), obs=y)


def numbered(y):
    trend = numpyro.sample("trend", dist.Normal(0, 1))
    with numpyro.plate("data", N) as index:
        numpyro.sample("y", dist.Normal(trend * index, 1), obs=y)


def square(K, y):
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    noise = jnp.linalg.slogdet(jnp.eye(N) + scale * K @ K.T)[1] / N if K.shape[0] == N else scale
    with numpyro.plate("data", N):
        numpyro.sample("y", dist.Normal(0, noise), obs=y)


LATENT = "is inside the plate {plate!r} of the data"
OUTSIDE = "Sample it before the plate, {name} = numpyro.sample({name!r}, fn.expand([J])"
REFUSALS = [
    (baseball, (BATS, HITS), {}, [LATENT.format(plate="players"), OUTSIDE.format(name="chance")]),
    (
        eight_schools,
        (ERRORS, EFFECTS),
        {},
        [LATENT.format(plate="schools"), OUTSIDE.format(name="theta"), "theta[group]"],
    ),
    (discrete, (values,), {}, ["'kind' is a discrete latent variable", "MixtureSameFamily"]),
    (
        two_plates,
        (values, values[:5]),
        {},
        ["several plates of data ('y' in 'first'; 'z' in 'second')", "numpyro.factor(name, "],
    ),
    (no_plate, (X, values), {}, ["no plate says", 'with numpyro.plate("data", N):']),
    (closed_over, (X,), {}, ["reads data of shape [24] from outside", "def model(X, y)"]),
    (closed_over_all, (), {}, ["(arguments: none)", "from_numpyro(model, X, y)"]),
    (
        numpyro.handlers.condition(logistic, data={"y": labels}),
        (X,),
        {},
        ["reads data of shape [24] from outside"],
    ),
    (standardised, (X, values), {}, ["depends on several rows at once", "Compute it before"]),
    (empirical_prior, (X, values), {}, ["site 'width' depends on the rows", "pass it as an"]),
    (counts_groups, (group, values), {}, ["len(np.unique(group))", "pass it as an argument (J="]),
    (param, (X, values), {}, ["'width' is a numpyro.param", "ImproperUniform"]),
    (nothing_latent, (values,), {}, ["no latent sites"]),
    (logistic, (X,), {}, ["no observed site", "numpyro.sample(..., obs=...) is None or missing"]),
    (numbered, (values,), {}, ["depends on several rows at once", "the number of the row"]),
    (logistic, (X,), {"y": labels, "rows": ("X", "z")}, ["no argument is called 'z'", "X, y"]),
    (logistic, (X,), {"y": labels, "rows": "X"}, ["site 'y' still has 24 values with one row"]),
    (square, (numbers.normal(size=(N, 2)), values), {}, ["depends on several rows at once"]),
    (logistic, (X.tolist(),), {"y": labels}, ["object has no attribute 'shape'"]),
    (
        logistic,
        (np.where(X > 1, np.nan, X),),
        {"y": labels},
        ["data leaf X holds", "NaN", "Remove or impute those rows"],
    ),
]


@pytest.mark.parametrize(
    ("model", "args", "kwargs", "words"), REFUSALS, ids=lambda v: getattr(v, "__name__", "")
)
def test_a_refusal_says_why_and_what_to_do(model, args, kwargs, words):
    with pytest.raises((ValueError, AttributeError)) as error:
        vr.from_numpyro(model, *args, **kwargs)
    for each in words:
        assert re.search(re.escape(each), str(error.value)), str(error.value)


def test_rows_by_name_leave_other_arguments_whole():
    """A kernel over all rows is no data; without rows= it is cut, and the check notices."""
    K = np.abs(numbers.normal(size=(N, 2)))
    problem = vr.from_numpyro(square, K, values, rows="y")
    assert set(problem.data) == {"y"}


def test_a_wrong_call_is_named():
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        vr.from_numpyro(no_plate, X)


@pytest.mark.parametrize(
    ("draws", "words"),
    [
        (np.zeros((2, 3)), "must be a dict with the sites"),
        ({"slopes": np.zeros((2, 3))}, "must be a dict with the sites"),
        ({"slopes": np.zeros((2, 4)), "intercept": np.zeros(2)}, "does not end in [3]"),
        ({"slopes": np.zeros((2, 3)), "intercept": np.zeros(5)}, "different leading axes"),
    ],
)
def test_draws_of_another_model_are_refused(draws, words):
    problem = vr.from_numpyro(logistic, X, y=labels)
    with pytest.raises(ValueError, match=re.escape(words)):
        problem.constrain(draws)
    with pytest.raises(ValueError, match="sites"):
        problem.constrain({"slopes": np.zeros(3), "intercept": np.zeros(())}, sites=("slope",))


def test_draws_that_do_not_fit_in_memory_are_refused_with_the_site_to_blame():
    def model(x):
        wide = numpyro.deterministic("wide", jnp.zeros((1000, 1000)))
        mean = numpyro.sample("mean", dist.Normal(wide[0, 0], 1))
        with numpyro.plate("data", N):
            numpyro.sample("x", dist.Normal(mean, 1), obs=x)

    problem = vr.from_numpyro(model, values)
    draws = {"mean": np.zeros((4, 1000))}
    with pytest.raises(ValueError, match=r"largest is 'wide' with shape \[1000, 1000\]"):
        problem.constrain(draws)
    assert problem.constrain(draws, sites=["mean"])["mean"].shape == (4, 1000)


def test_a_missing_numpyro_is_named_with_its_command():
    code = """
import sys
sys.modules["numpyro"] = None
import vrsgmcmc as vr
try:
    vr.from_numpyro(print)
except ImportError as error:
    sys.exit("pip install 'vrsgmcmc[numpyro]'" not in str(error))
sys.exit(2)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
