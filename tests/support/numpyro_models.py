"""NumPyro models as their users write them, with small data: (model, args, kwargs) by name."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.handlers import mask, reparam, scale
from numpyro.infer.reparam import LocScaleReparam

N = 24
numbers = np.random.default_rng(0)
X = numbers.normal(size=(N, 3))
Z = numbers.normal(size=(4, 2))
group = numbers.integers(0, 4, N)
labels = (numbers.random(N) < 0.5).astype(int)
values = X[:, 0] + numbers.normal(size=N)
counts = numbers.poisson(2, N)
weights = numbers.random(N) + 0.5
present = numbers.random(N) < 0.7


def logistic(X, y=None):
    intercept = numpyro.sample("intercept", dist.Normal(0, 5))
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("data", X.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=intercept + X @ slopes), obs=y)


def plate_of_a_number(X, y, size):
    slopes = numpyro.sample("slopes", dist.StudentT(4).expand([3]))
    sigma = numpyro.sample("sigma", dist.Exponential(1))
    with numpyro.plate("data", size):
        numpyro.sample("y", dist.Normal(X @ slopes, sigma), obs=y)


def subsampled(X, y, batch=5):
    slopes = numpyro.sample("slopes", dist.Laplace(0, 1).expand([3]).to_event(1))
    with numpyro.plate("data", X.shape[0], subsample_size=batch):
        rows = numpyro.subsample(X, event_dim=1)
        numpyro.sample("y", dist.Poisson(jnp.exp(rows @ slopes)), obs=numpyro.subsample(y, 0))


def indexed(data, loud=None, link="identity", batch=7):
    assert (loud, link) == (None, "identity")
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("data", N, subsample_size=batch) as index:
        mean = data["X"][index] @ slopes
        numpyro.sample("y", dist.Cauchy(mean, 2.0), obs=data["y"][index])


def hierarchical(X, group, groups, y=None):
    location = numpyro.sample("location", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("group", groups):
        level = numpyro.sample("level", dist.Normal(location, spread))
    slope = numpyro.sample("slope", dist.Uniform(-2, 3))
    upper = numpyro.sample("upper", dist.Uniform(0, jnp.exp(slope)))
    sigma = numpyro.deterministic("sigma", jnp.exp(slope) + upper)
    with numpyro.plate("data", X.shape[0]):
        mean = numpyro.deterministic("mean", level[group] + slope * X[:, 0])
        numpyro.sample("y", dist.Normal(mean, sigma), obs=y)


def regression_on_groups(X, group, Z, y):
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([Z.shape[1]]).to_event(1))
    spread = numpyro.sample("spread", dist.LogNormal(0, 1))
    with numpyro.plate("group", Z.shape[0]):
        level = numpyro.sample("level", dist.Normal(Z @ slopes, spread))
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=level[group]), obs=y)


def several_sites(X, y, counts, present, weights):
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([3]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1))
    with numpyro.plate("data", X.shape[0]):
        numpyro.factor("tilt", -0.1 * (X @ slopes) ** 2)
        with mask(mask=present):
            numpyro.sample("y", dist.Normal(X @ slopes, sigma), obs=y)
        with scale(scale=weights):
            numpyro.sample("counts", dist.Poisson(jnp.exp(0.3 * X @ slopes)), obs=counts)


def factors_outside(X, y):
    slopes = numpyro.sample("slopes", dist.ImproperUniform(dist.constraints.real, (), (3,)))
    numpyro.factor("ridge", -jnp.sum(slopes**2))
    numpyro.sample("total", dist.Normal(slopes.sum(), 0.5), obs=1.2)
    with scale(scale=0.5), numpyro.plate("data", X.shape[0]):
        numpyro.sample("y", dist.Normal(X @ slopes, 1.0), obs=y)


def vectors(Y):
    corr = numpyro.sample("corr", dist.LKJCholesky(3, 2.0))
    sds = numpyro.sample("sds", dist.Gamma(2, 2).expand([3]).to_event(1))
    mean = numpyro.sample("mean", dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3)))
    with numpyro.plate("data", Y.shape[0]):
        numpyro.sample("Y", dist.MultivariateNormal(mean, scale_tril=sds[:, None] * corr), obs=Y)


def mixture(y):
    shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(2)))
    transform = dist.transforms.OrderedTransform()
    means = numpyro.sample(
        "means", dist.TransformedDistribution(dist.Normal(0, 2).expand([2]).to_event(1), transform)
    )
    with numpyro.plate("data", y.shape[0]):
        parts = dist.Normal(means, 1.0)
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(shares), parts), obs=y)


def table(Y):
    row_sd = numpyro.sample("row_sd", dist.HalfNormal(1))
    with numpyro.plate("column", 3, dim=-1):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("data", Y.shape[0], dim=-2), numpyro.plate("column", 3, dim=-1):
        numpyro.sample("Y", dist.Normal(mean, row_sd), obs=Y)


def as_many_groups(y, place, group):
    """As many groups as rows; the model itself says that `place` is not per row."""
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("data", y.shape[0]) as index:
        mean = slope * place[group[index]]
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y[index])


noncentred = reparam(hierarchical, config={"level": LocScaleReparam(0)})

MODELS: dict[str, tuple[Any, tuple, dict]] = {
    "logistic": (logistic, (X,), {"y": labels}),
    "plate of a number": (plate_of_a_number, (X, values, N), {}),
    "subsampled": (subsampled, (X, counts), {}),
    "indexed": (indexed, ({"X": jnp.asarray(X), "y": values}, None), {"link": "identity"}),
    "hierarchical": (hierarchical, (X, group, 4), {"y": values}),
    "non-centred": (noncentred, (X, group, 4), {"y": values}),
    "regression on groups": (regression_on_groups, (X, group, Z, labels), {}),
    "several sites": (several_sites, (X, values, counts, present, weights), {}),
    "factors outside": (factors_outside, (X, values), {}),
    "vectors": (vectors, (X,), {}),
    "mixture": (mixture, (values,), {}),
    "table": (table, (X,), {}),
    "as many groups": (as_many_groups, (values, numbers.normal(size=N), np.arange(N)[::-1]), {}),
}
