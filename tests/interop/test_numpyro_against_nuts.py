"""`vr.sample` on NumPyro models against NumPyro's NUTS: means within 0.1 sd, sds within 10 %."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.handlers import reparam
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam
from support.numpyro_models import logistic

import vrsgmcmc as vr


@pytest.fixture(autouse=True)
def lenient():
    """NumPyro itself lets ranks differ, and uses keys twice."""
    with jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        yield


def baseball(player, at_bats, players, hits=None):
    """Partially pooled chances of a hit; the players are outside of the plate over the data."""
    loc = numpyro.sample("loc", dist.Normal(-1, 1))
    scale = numpyro.sample("scale", dist.HalfCauchy(1))
    alpha = numpyro.sample("alpha", dist.Normal(0, 1).expand([players]))
    logit = numpyro.deterministic("logit", loc + scale * alpha)
    with numpyro.plate("data", player.shape[0]):
        numpyro.sample("hits", dist.Binomial(at_bats, logits=logit[player]), obs=hits)


def eight_schools(school, sigma, schools, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([schools]))
    with numpyro.plate("data", school.shape[0]):
        numpyro.sample("y", dist.Normal(theta[school], sigma), obs=y)


def varying_intercepts(x, group, groups, y=None):
    location = numpyro.sample("location", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("group", groups):
        level = numpyro.sample("level", dist.Normal(location, spread))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(level[group] + slope * x, sigma), obs=y)


HITS = np.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7])
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def baseball_case():
    return baseball, (np.arange(18), np.full(18, 45), 18), {"hits": HITS}


def eight_schools_case():
    model = reparam(eight_schools, config={"theta": LocScaleReparam(0)})
    return model, (np.arange(8), ERRORS, 8), {"y": EFFECTS}


def hierarchical_case(size=600):
    rng = np.random.default_rng(3)
    x, group = rng.normal(size=size), rng.integers(0, 6, size)
    y = rng.normal(size=6)[group] + 0.7 * x + 1.5 * rng.normal(size=size)
    model = reparam(varying_intercepts, config={"level": LocScaleReparam(0)})
    return model, (x, group, 6), {"y": y}


def logistic_case(size=100_000):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(size, 10))
    y = (rng.random(size) < 1 / (1 + np.exp(-X @ rng.normal(size=10) / 3))).astype(int)
    return logistic, (X,), {"y": y}


def assert_alike(case, draws, warmup=500, **options):
    model, args, kwargs = case
    problem = vr.from_numpyro(model, *args, **kwargs)
    result = vr.sample(1, *problem, progress=False, **options)
    ours = problem.constrain(result.draws)
    nuts = MCMC(NUTS(model), num_warmup=warmup, num_samples=draws, progress_bar=False)
    arrays = jax.tree.map(lambda a: jnp.asarray(a) if isinstance(a, np.ndarray) else a, args)
    nuts.run(jax.random.key(2), *arrays, **jax.tree.map(jnp.asarray, kwargs))
    theirs = {n: np.asarray(v) for n, v in nuts.get_samples().items()}
    assert {*theirs} <= {*ours}
    for name, value in theirs.items():
        sd = value.std(0)
        error = (ours[name].mean((0, 1)) - value.mean(0)) / sd
        assert np.max(np.abs(error)) < 0.1, (name, error, str(result))
        ratio = ours[name].std((0, 1)) / sd
        assert np.max(np.abs(ratio - 1)) < 0.1, (name, ratio, str(result))


@pytest.mark.slow
@pytest.mark.parametrize("case", [baseball_case, eight_schools_case], ids=lambda c: c.__name__)
def test_small_hierarchical_models_agree_with_nuts(case):
    assert_alike(case(), 8_000, warmup=1_000)


@pytest.mark.slow
def test_a_hierarchical_regression_agrees_with_nuts():
    assert_alike(hierarchical_case(), 4_000)


@pytest.mark.slow
def test_a_large_logistic_regression_agrees_with_nuts():
    assert_alike(logistic_case(), 1_500, warmup=300)


@pytest.mark.slow
def test_a_small_logistic_regression_agrees_with_nuts():
    """Every step visits all rows, in a metric that fits, so that a short run is enough."""
    model, (X,), kwargs = logistic_case(300)
    case = model, (X[:, :2],), kwargs
    assert_alike(case, 2_500, estimator=vr.full(), integrator=vr.nuts(), step_size=0.3, **NUTS_RUN)


NUTS_RUN = {"num_steps": 900, "burn_in": 100, "num_chains": 4}
