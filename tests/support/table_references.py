"""Posteriors of table models by other means: NumPyro's NUTS, and quadrature for the linear model."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from scipy.special import logsumexp


def exact_linear(x, y, prior_sd=2.5, intercept_sd=5.0):
    """Means and sds of (intercept, weights, log_sd): given the sd, which is one number, all is normal.

    p(log s | y) is s exp(-s) N(y; 0, s^2 I + F V F^T) up to a constant, on a grid; F = (1, x).
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    features = np.column_stack([np.ones(len(x)), x])
    n, p = features.shape
    variance = np.array([intercept_sd**2, *[prior_sd**2] * (p - 1)])
    gram, moment, square = features.T @ features, features.T @ y, y @ y
    best = max(square - moment @ np.linalg.lstsq(gram, moment, rcond=None)[0], 1e-12) / n
    grid = 0.5 * np.log(best) + np.linspace(-14, 14, 801) / np.sqrt(2 * n)
    logs, means, variances = [], [], []
    for log_sd in grid:
        precision = gram / np.exp(2 * log_sd) + np.diag(1 / variance)
        covariance = np.linalg.inv(precision)
        mean = covariance @ moment / np.exp(2 * log_sd)
        fit = square / np.exp(2 * log_sd) - mean @ precision @ mean
        logs.append(
            log_sd - np.exp(log_sd) - n * log_sd - 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * fit
        )
        means.append(mean)
        variances.append(np.diag(covariance))
    weight = np.exp(np.array(logs) - logsumexp(logs))
    mean = weight @ np.array(means)
    sd = np.sqrt(weight @ (np.array(variances) + np.square(means)) - mean**2)
    noise = weight @ grid
    spread = np.sqrt(weight @ np.square(grid - noise))
    return np.append(mean, noise), np.append(sd, spread)


def with_groups(eta, groups, levels, width=()):
    for name, codes in groups.items():
        sd = numpyro.sample(f"{name}_sd", dist.Exponential(1.0).expand(width).to_event(len(width)))
        shape = (levels[name], *width)
        z = numpyro.sample(f"{name}_z", dist.Normal(0, 1).expand(shape).to_event(len(shape)))
        eta = eta + (sd * z)[codes]
    return eta


def numpyro_model(family, x, y, groups, levels, classes, center):
    """The same model in NumPyro's words; `weights` and `intercept` have our names."""
    width = (classes - 1,) if family == "softmax" else ()
    ndim = len(width)
    weights = numpyro.sample(
        "weights", dist.Normal(0, 2.5).expand((x.shape[1], *width)).to_event(1 + ndim)
    )
    if family == "ordinal":
        cuts = numpyro.sample(
            "cuts", dist.ImproperUniform(constraints.ordered_vector, (), (classes - 1,))
        )
        numpyro.factor("cut_prior", dist.Normal(0, 5).log_prob(cuts).sum())
        numpyro.sample("y", dist.OrderedLogistic(x @ weights, cuts), obs=y)
        return
    intercept = numpyro.sample("intercept", dist.Normal(center, 5.0).expand(width).to_event(ndim))
    eta = with_groups(x @ weights + intercept, groups, levels, width)
    if family == "linear":
        numpyro.sample("y", dist.Normal(eta, numpyro.sample("sd", dist.Exponential(1.0))), obs=y)
    elif family == "robust":
        scale = numpyro.sample("scale", dist.Exponential(1.0))
        numpyro.sample("y", dist.StudentT(4.0, eta, scale), obs=y)
    elif family == "logistic":
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)
    elif family == "softmax":
        logits = jnp.concatenate([jnp.zeros((len(y), 1)), eta], 1)
        numpyro.sample("y", dist.Categorical(logits=logits), obs=y)
    elif family == "poisson":
        numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=y)
    else:
        phi = numpyro.sample("dispersion", dist.Exponential(1.0))
        numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(eta), 1 / phi), obs=y)


def nuts(problem, draws=2500, chains=2, warmup=1000):
    """Draws by name, [draw, ...], of the same posterior by NumPyro."""
    data, groups = problem.data, {}
    if isinstance(data, dict):
        data, groups = (data["x"], data["y"]), data["groups"]
    levels = {group.name: len(group.levels) for group in problem.design.groups}
    center = problem.posterior.logprior.intercept.mean
    kernel = numpyro.infer.NUTS(numpyro_model, target_accept_prob=0.9, dense_mass=not groups)
    mcmc = numpyro.infer.MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method="sequential",
        progress_bar=False,
    )
    classes = len(problem.design.target.labels)
    x, y = (jnp.asarray(leaf) for leaf in data)
    with warnings.catch_warnings(), jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        warnings.simplefilter("ignore")  # its own
        mcmc.run(jax.random.key(1), problem.family.name, x, y, groups, levels, classes, center)
    return {name: np.asarray(values) for name, values in mcmc.get_samples().items()}


def our_draws(problem, result):
    """Draws of a result under the names of `nuts`."""
    draws = problem.draws(result, most=None)
    out = {
        name: np.asarray(draws[name], float) for name in ("weights", "intercept") if name in draws
    }
    for name, other in (("log_sd", "sd"), ("log_scale", "scale"), ("log_dispersion", "dispersion")):
        if name in draws:
            out[other] = np.exp(draws[name])
    if "log_gaps" in draws:
        steps = np.cumsum(np.exp(draws["log_gaps"]), 1)
        out["cuts"] = np.column_stack([0 * steps[:, :1], steps]) - out.pop("intercept")[:, None]
    for name, group in draws.get("groups", {}).items():
        out[f"{name}_sd"], out[f"{name}_z"] = np.exp(group["log_sd"]), group["levels"]
    return out


def worst_errors(ours, theirs):
    """The largest |difference of means| / sd, and of |ratio of sds - 1|."""
    assert ours.keys() == theirs.keys()
    mean, sd = [], []
    for name, values in theirs.items():
        spread = values.std(0, ddof=1)
        mean.append(np.max(np.abs(ours[name].mean(0) - values.mean(0)) / spread))
        sd.append(np.max(np.abs(ours[name].std(0, ddof=1) / spread - 1)))
    return max(mean), max(sd)
