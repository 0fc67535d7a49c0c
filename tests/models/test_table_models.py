"""The regressions of `models.table`: densities against SciPy, Hessians, values, and predictions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

import vrsgmcmc as vr
from vrsgmcmc.core import GLM
from vrsgmcmc.run.mode.linear import LinearTarget, make_target
from vrsgmcmc.run.mode.target import Meter, Target

table = vr.models.table
RNG = np.random.default_rng(0)
N, P, K = 40, 2, 4
X = RNG.normal(size=(N, P))
CODES = RNG.integers(0, 3, N).astype(np.int32)
NAMES = [*table.FAMILIES]


def targets(family):
    if family.kind == "number":
        return RNG.normal(size=N)
    top = 2 if family.name == "logistic" else K
    return (RNG.poisson(3, N) if family.kind == "count" else np.arange(N) % top).astype(np.int32)


def model(name, groups=None, **options):
    """The family, its posterior, and random parameters."""
    family = table.family(name, K)
    posterior = table.posterior(family, groups=tuple(groups or ()), **options)
    row, unravel = ravel_pytree(table.initial(family, P, groups))
    return family, posterior, unravel(jnp.asarray(RNG.normal(size=row.size) * 0.5))


def expected(name, params, x, y):
    """log p(y | params) of each row, by SciPy."""
    eta = np.asarray(x) @ np.asarray(params["weights"]) + np.asarray(params["intercept"])
    if name == "linear":
        return stats.norm.logpdf(y, eta, np.exp(params["log_sd"]))
    if name == "robust":
        return stats.t.logpdf(y, 4, eta, np.exp(params["log_scale"]))
    if name == "poisson":
        return stats.poisson.logpmf(y, np.exp(eta))
    if name == "negative_binomial":
        r = np.exp(-params["log_dispersion"])
        return stats.nbinom.logpmf(y, r, r / (r + np.exp(eta)))
    if name == "logistic":
        return stats.bernoulli.logpmf(y, 1 / (1 + np.exp(-eta)))
    if name == "softmax":
        odds = np.exp(np.column_stack([np.zeros(len(y)), eta]))
        return np.log((odds / odds.sum(1, keepdims=True))[np.arange(len(y)), y])
    cuts = np.concatenate([[0.0], np.cumsum(np.exp(params["log_gaps"]))])
    below = stats.logistic.cdf(cuts[None] - eta[:, None])
    edges = np.column_stack([np.zeros(len(y)), below, np.ones(len(y))])
    return np.log(np.diff(edges, axis=1)[np.arange(len(y)), y])


@pytest.mark.parametrize("name", NAMES)
def test_the_likelihood_is_that_of_scipy(name):
    family, posterior, params = model(name)
    y = targets(family)
    posterior.check((X, y))
    values = jax.vmap(posterior.loglik, (None, 0))(params, (X, y))
    np.testing.assert_allclose(values, expected(name, params, X, y), rtol=1e-9)
    draws = jax.tree.map(lambda leaf: np.asarray(leaf)[None], params)
    again = table.log_likelihoods(family, table.predictors(family, draws, X), y)
    np.testing.assert_allclose(again[0], values, rtol=1e-9)


@pytest.mark.parametrize(
    "name", ["linear", *(pytest.param(n, marks=pytest.mark.slow) for n in ("softmax", "ordinal"))]
)
def test_the_hessian_takes_one_pass_and_is_that_of_autodiff(name):
    family, posterior, params = model(name)
    data = X, targets(family)
    target = make_target(posterior, data, params, Meter(np.inf))
    assert isinstance(target, LinearTarget)
    row, unravel = ravel_pytree(params)
    row = np.asarray(row)
    general = Target(posterior, data, params, Meter(np.inf))

    def loglik(row):
        return jnp.sum(jax.vmap(posterior.loglik, (None, 0))(unravel(row), data))

    np.testing.assert_allclose(
        target.likelihood_hessian(row), -jax.hessian(loglik)(row), rtol=1e-8, atol=1e-9
    )
    assert target.hessian_cost == N
    directions = RNG.normal(size=(2, row.size))
    fresh = make_target(posterior, data, params, Meter(np.inf))
    for one, other in (
        (fresh.likelihood_slope(row)[1], general.likelihood_slope(row)[1]),
        (fresh.likelihood_products(row, directions), general.likelihood_products(row, directions)),
        (fresh.likelihood_diagonal(row), np.diag(target.likelihood_hessian(row))),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_a_value(name):
    first, second = (table.posterior(table.family(name, K), prior="normal(0, 1)") for _ in "ab")
    assert isinstance(first, GLM)
    assert first == second
    assert hash(first) == hash(second)
    assert first != table.posterior(table.family(name, K), prior="normal(0, 2)")
    assert first.concave == (name in ("logistic", "softmax", "poisson"))
    assert not table.posterior(table.family(name, K), prior="student_t(4, 0, 1)").concave


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("weak", stats.norm(0, 2.5)),
        ("normal(1, 2)", stats.norm(1, 2)),
        ("Student_T(3, 0, 2)", stats.t(3, 0, 2)),
        ("laplace(0.5)", stats.laplace(0, 0.5)),
    ],
)
def test_a_prior_by_name_is_that_of_scipy(text, law):
    w = np.array([-1.0, 0.3, 2.0])
    np.testing.assert_allclose(table.parse_prior(text)(w), law.logpdf(w).sum(), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("norml(0, 1)", "Did you mean normal"),
        ("normal(0)", "takes 2 numbers"),
        ("normal(0, -1)", "above zero"),
        ("laplace(x)", "takes 1 numbers"),
        ("normal(0, inf)", "above zero"),
        ("student_t(0, 0, 1)", "above zero"),
        ("", "known are"),
    ],
)
def test_another_prior_is_refused(text, words):
    with pytest.raises(ValueError, match="prior=") as error:
        table.parse_prior(text)
    assert words in str(error.value)


def test_the_prior_of_all_parameters_is_the_product_of_its_parts():
    _, posterior, params = model("linear", {"shop": 3})
    group = params["groups"]["shop"]
    sd, noise = np.exp(group["log_sd"]), np.exp(params["log_sd"])
    parts = [
        stats.norm.logpdf(params["weights"], 0, 2.5).sum(),
        stats.norm.logpdf(params["intercept"], 0, 5),
        stats.norm.logpdf(group["levels"]).sum(),
        *(stats.expon.logpdf(value) + np.log(value) for value in (sd, noise)),
    ]
    np.testing.assert_allclose(posterior.logprior(params), sum(parts), rtol=1e-12)
    sentence = table.describe_prior(posterior)
    for words in ("N(0, 2.5²)", "N(0, 5²)", "noise sd: Exponential(1)", "sd of (1 | shop)"):
        assert words in sentence


def test_the_prior_of_the_cut_points_counts_the_change_of_variables():
    _, posterior, params = model("ordinal")

    def cuts(row):
        steps = jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.exp(row[1:]))])
        return steps - row[0]

    row = jnp.concatenate([params["intercept"][None], params["log_gaps"]])
    volume = np.linalg.slogdet(jax.jacfwd(cuts)(row))[1]
    wanted = stats.norm.logpdf(cuts(row), 0, 5).sum() + volume
    wanted += stats.norm.logpdf(params["weights"], 0, 2.5).sum()
    np.testing.assert_allclose(posterior.logprior(params), wanted, rtol=1e-12)


def test_cut_points_far_out_have_finite_slopes():
    family, posterior, params = model("ordinal")
    for gap, y in itertools.product((-30.0, 6.0), range(K)):
        params = params | {"log_gaps": jnp.full(K - 2, gap)}
        slope = jax.grad(posterior.loglik)(params, (X[0], jnp.asarray(y)))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))
    assert family.shared == {"log_gaps": (K - 2,)}


@pytest.mark.parametrize("name", ["linear", "softmax"])
def test_group_effects_are_added_to_the_predictor(name):
    family, posterior, params = model(name, {"shop": 3, "day": 3})
    assert not isinstance(posterior, GLM)
    y, groups = targets(family), {"shop": CODES, "day": CODES[::-1].copy()}
    data = {"x": X, "y": y, "groups": groups}
    posterior.check(data)
    values = jax.vmap(posterior.loglik, (None, 0))(params, data)
    shift = sum(
        np.exp(params["groups"][g]["log_sd"]) * np.asarray(params["groups"][g]["levels"])[codes]
        for g, codes in groups.items()
    )
    for i in range(3):
        moved = params | {"intercept": params["intercept"] + shift[i]}
        row = expected(name, moved, X[i : i + 1], y[i : i + 1])
        np.testing.assert_allclose(values[i], row[0], rtol=1e-9)
    draws = jax.tree.map(lambda leaf: np.asarray(leaf)[None], params)
    eta = table.predictors(family, draws, X, groups)
    np.testing.assert_allclose(table.log_likelihoods(family, eta, y)[0], values, rtol=1e-9)


def test_a_new_level_has_an_effect_of_its_own():
    family = table.family("linear")
    draws = {
        "intercept": np.zeros(4000),
        "log_sd": np.zeros(4000),
        "groups": {"shop": {"log_sd": np.full(4000, np.log(3.0)), "levels": np.ones((4000, 2))}},
    }
    codes = {"shop": np.array([0, -1, -1])}
    eta = table.predictors(family, draws, np.zeros((3, 0)), codes, np.random.default_rng(0))[..., 0]
    np.testing.assert_allclose(eta[:, 0], 3)
    np.testing.assert_allclose(eta[:, 1:].std(0), 3, rtol=0.05)
    assert abs(np.corrcoef(eta[:, 1:].T)[0, 1]) < 0.06


@pytest.mark.parametrize("name", NAMES)
def test_draws_of_the_target_have_its_mean(name):
    family = table.family(name, K)
    width = family.width + sum(int(np.prod(shape)) for shape in family.shared.values())
    eta = np.broadcast_to(np.linspace(-0.4, 0.5, width), (100_000, width))
    draws, mean = family.draw(np.random.default_rng(0), eta), family.mean(eta)[0]
    if family.kind == "classes":
        np.testing.assert_allclose(np.bincount(draws) / len(draws), mean, atol=0.006)
        logs = [
            table.log_likelihoods(family, eta[None, :1], np.array([k]))[0, 0]
            for k in range(len(mean))
        ]
        np.testing.assert_allclose(np.exp(logs), mean, rtol=1e-9)
    else:
        assert abs(draws.mean() - mean) < 4 * draws.std() / np.sqrt(len(draws))


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("poisson", (X, np.full(N, -1)), "counts 0, 1, 2"),
        ("softmax", (X, np.full(N, K)), r"in 0\.\.3"),
        ("logistic", (X, np.full(N, 0.5)), "integers"),
        ("linear", (X, np.zeros(3)), "one row per datum"),
    ],
)
def test_other_data_are_refused(name, data, words):
    _, posterior, _ = model(name)
    with pytest.raises(ValueError, match=words):
        posterior.check(data)


def test_data_with_groups_have_their_names():
    _, posterior, _ = model("linear", {"shop": 3})
    for data in ((X, X[:, 0]), {"x": X, "y": X[:, 0], "groups": {"day": CODES}}):
        with pytest.raises(ValueError, match="groups"):
            posterior.check(data)


@pytest.mark.parametrize(("name", "words"), [("logit", "known are"), ("softmax", "three classes")])
def test_another_family_is_refused(name, words):
    with pytest.raises(ValueError, match=words):
        table.family(name, 2)
