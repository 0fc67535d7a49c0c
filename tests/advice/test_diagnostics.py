"""Kernel Stein discrepancies and noise ratios against quadrature, closed forms and enumeration.

Draws at the nodes of a quadrature rule, weighted by weight times density, make of `ksd` the
population's discrepancy. For that there is a second formula, without derivatives of the kernel
(Liu, Lee and Jordan 2016): with delta = s_p - s_q, the difference of the scores of target and law,

    KSD^2(q, p) = E_q E_q delta(x) k(x, y) delta(y)
"""

import math
from functools import cache, partial
from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import vrsgmcmc as vr
from vrsgmcmc.advice import diagnostics
from vrsgmcmc.advice.diagnostics import gradient_noise_ratio, kernel_stein_discrepancy, ksd


def normal(*shape):
    return np.random.default_rng(11).normal(size=shape)


BASE = {
    "imq": lambda x, y, c, beta: (c**2 + jnp.sum((x - y) ** 2)) ** beta,
    "rbf": lambda x, y, c, beta: jnp.exp(-jnp.sum((x - y) ** 2) / (2 * c**2)),
}
KERNELS = [("imq", 1.0, -0.5), ("imq", 0.6, -0.3), ("rbf", 0.8, -0.5)]


class Mixture:
    """A mixture of normals in one dimension: density and score."""

    def __init__(self, *parts):
        self.share, self.mean, self.sd = np.array(parts, float).T[:, :, None]

    def parts(self, x):
        return self.share / self.sd * np.exp(-0.5 * ((x - self.mean) / self.sd) ** 2)

    def density(self, x):
        return self.parts(x).sum(0) / np.sqrt(2 * np.pi)

    def score(self, x):
        parts = self.parts(x)
        return -(parts * (x - self.mean) / self.sd**2).sum(0) / parts.sum(0)


TARGET = Mixture((0.7, -0.5, 1.0), (0.3, 1.5, 0.6))
LAWS = {
    "shifted": Mixture((1.0, 0.4, 1.0)),
    "narrow": Mixture((1.0, 0.0, 0.5)),
    "mixture": Mixture((0.4, -1.0, 0.7), (0.6, 1.0, 0.9)),
}
# the trapezoidal rule: on the whole line its error falls like exp(-2 pi width / spacing)
NODES = np.arange(-14.0, 14.0, 0.05)


def column(values):
    return np.asarray(values)[:, None]


def at_nodes(law, target, **options):
    """The population's KSD^2."""
    return ksd(
        column(NODES), column(target.score(NODES)), weights=law.density(NODES), **options
    ).squared


@pytest.mark.parametrize(("kernel", "c", "beta"), KERNELS)
@pytest.mark.parametrize("law", LAWS)
def test_the_population_discrepancy_by_quadrature(law, kernel, c, beta):
    q = LAWS[law]
    # Gauss-Legendre, a rule other than the nodes'
    nodes, weights = np.polynomial.legendre.leggauss(160)
    nodes, weights = 9 * nodes, 9 * weights
    delta = (TARGET.score(nodes) - q.score(nodes)) * q.density(nodes) * weights
    r = (nodes[:, None] - nodes[None]) ** 2
    k = (c**2 + r) ** beta if kernel == "imq" else np.exp(-r / (2 * c**2))
    want = delta @ k @ delta
    assert want > 1e-3
    computed = at_nodes(q, TARGET, kernel=kernel, bandwidth=c, beta=beta)
    np.testing.assert_allclose(computed, want, rtol=0, atol=1e-9)


def test_the_population_discrepancy_by_adaptive_quadrature():
    """The double integral of the Stein kernel itself, its derivatives by hand."""
    m, v = 0.4, 0.64

    def integrand(x, y):
        s, t, apart = -x, -y, x - y
        base = 1.0 + apart**2
        by_x = -apart * base**-1.5
        by_xy = base**-1.5 - 3 * apart**2 * base**-2.5
        k0 = by_xy - s * by_x + t * by_x + s * t * base**-0.5
        return k0 * math.exp(-((x - m) ** 2 + (y - m) ** 2) / (2 * v)) / (2 * math.pi * v)

    want, error = integrate.dblquad(integrand, -6, 7, -6, 7, epsabs=1e-9, epsrel=1e-9)
    assert error < 1e-8
    computed = at_nodes(Mixture((1.0, m, math.sqrt(v))), Mixture((1.0, 0.0, 1.0)))
    np.testing.assert_allclose(computed, want, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("kernel", "c", "beta"), KERNELS)
@pytest.mark.parametrize("law", [TARGET, *LAWS.values()], ids=["target", *LAWS])
def test_a_law_has_no_discrepancy_from_itself(law, kernel, c, beta):
    assert abs(at_nodes(law, law, kernel=kernel, bandwidth=c, beta=beta)) < 1e-13


@pytest.mark.parametrize("c", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("m", "v"), [(0.0, 1.0), (0.7, 1.0), (0.0, 0.3), (-0.4, 2.0)])
def test_closed_form_of_two_normals_with_the_gaussian_kernel(m, v, c):
    """q = N(m, v), p = N(0, 1), for which delta(x) = -m + (1/v - 1)(x - m)."""
    want = c / np.sqrt(c**2 + 2 * v) * (m**2 + (1 - v) ** 2 / (c**2 + 2 * v))
    law, standard = Mixture((1.0, m, np.sqrt(v))), Mixture((1.0, 0.0, 1.0))
    computed = at_nodes(law, standard, kernel="rbf", bandwidth=c)
    np.testing.assert_allclose(computed, want, rtol=0, atol=1e-12)


X3, S3 = normal(2, 7, 3) + 2.0


@cache
def stein_by_autodiff(kernel, c, beta):
    """k0 of all pairs of X3, as its definition has it."""
    k = partial(BASE[kernel], c=c, beta=beta)
    by_x, by_y = jax.grad(k, 0), jax.grad(k, 1)

    def k0(x, s, y, t):
        mixed = jnp.trace(jax.jacfwd(by_y, 0)(x, y))
        return mixed + s @ by_y(x, y) + t @ by_x(x, y) + (s @ t) * k(x, y)

    pairs = jax.vmap(jax.vmap(k0, (None, None, 0, 0)), (0, 0, None, None))
    return np.asarray(jax.jit(pairs)(X3, S3, X3, S3))


@pytest.mark.parametrize(("kernel", "c", "beta"), KERNELS)
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("block", [3, 256])
def test_both_statistics_in_three_dimensions_by_autodiff(
    kernel, c, beta, unbiased, block, monkeypatch
):
    monkeypatch.setattr(diagnostics, "BLOCK", block)
    w = np.linspace(0.5, 1.5, 7)
    shares = np.outer(w, w) * (1 - np.eye(7) if unbiased else 1)
    want = np.sum(shares * stein_by_autodiff(kernel, c, beta)) / np.sum(shares)
    options = {"kernel": kernel, "bandwidth": c, "beta": beta}
    computed = ksd(X3, S3, weights=w, unbiased=unbiased, **options)
    np.testing.assert_allclose(computed.squared, want, rtol=1e-12)
    assert computed.value == np.sqrt(computed.squared)
    assert computed.evaluations == 0


def test_a_negative_u_statistic_has_the_value_zero():
    computed = ksd(column([-1.0, 1.0]), column([1.0, -1.0]), unbiased=True)  # of N(0, 1)
    # -2 phi' - 4 r phi'' + 2 phi' (t - s)(x - y) + phi s t at r = 4
    assert np.isclose(computed.squared, 5**-1.5 - 12 * 5**-2.5 - 4 * 5**-1.5 - 5**-0.5)
    assert computed.squared < 0
    assert computed.value == 0.0


def test_the_u_statistic_is_unbiased_and_the_v_statistic_is_too_large():
    """The mean over all samples of 3 out of 4 points, with and without replacement."""
    x, s = normal(2, 4, 2)
    law = ksd(x, s).squared  # of the law that picks each point with probability 1/4
    apart = ksd(x, s, unbiased=True).squared

    def mean(samples, **options):
        return np.mean([ksd(x[list(i)], s[list(i)], **options).squared for i in samples])

    independent = list(product(range(4), repeat=3))
    np.testing.assert_allclose(mean(independent, unbiased=True), law, rtol=1e-12)
    own = np.mean(2 * 0.5 * x.shape[1] + np.sum(s**2, 1))  # E k0(x, x) of imq with c = 1
    np.testing.assert_allclose(mean(independent), law + (own - law) / 3, rtol=1e-12)
    subsets = list(combinations(range(4), 3))
    np.testing.assert_allclose(mean(subsets, unbiased=True), apart, rtol=1e-12)


def test_weights_count_draws():
    x, s = normal(2, 4, 2)
    often = [0, 0, 0, 1, 3, 3]
    repeated = ksd(x[often], s[often]).squared
    np.testing.assert_allclose(ksd(x, s, weights=[3, 1, 0, 2]).squared, repeated, rtol=1e-12)
    np.testing.assert_allclose(ksd(x, s, weights=[6, 2, 0, 4]).squared, repeated, rtol=1e-12)


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
def test_preconditioned_discrepancies_do_not_depend_on_the_coordinates(kernel):
    x, s = normal(2, 50, 3)
    A = np.array([[1.0], [1e-3], [30.0]]) * (np.eye(3) + normal(3, 3) / 6)
    C = np.cov(x.T, ddof=0)
    y, t = x @ A.T + 5.0, s @ np.linalg.inv(A)  # y = A x has the score A'^-1 s
    discrepancy = partial(ksd, kernel=kernel)
    want = discrepancy(x, s, precondition=True).value
    assert abs(want / discrepancy(x, s).value - 1) > 1e-3
    np.testing.assert_allclose(discrepancy(x, s, precondition=C).value, want, rtol=1e-10)
    np.testing.assert_allclose(discrepancy(y, t, precondition=True).value, want, rtol=1e-8)
    np.testing.assert_allclose(discrepancy(y, t, precondition=A @ C @ A.T).value, want, rtol=1e-8)


def test_the_unit_covariance_changes_nothing_and_a_scale_is_a_bandwidth():
    x, s = normal(2, 20, 2)
    plain = ksd(x, s, bandwidth=2.0, kernel="rbf").squared
    np.testing.assert_allclose(
        ksd(x, s, bandwidth=2.0, kernel="rbf", precondition=np.eye(2)).squared, plain, rtol=1e-12
    )
    scaled = ksd(x, s, kernel="rbf", precondition=4.0 * np.eye(2)).squared
    np.testing.assert_allclose(scaled, 4.0 * plain, rtol=1e-12)
    one = ksd(x[:, :1], s[:, :1], precondition=True).squared
    np.testing.assert_allclose(
        ksd(x[:, :1], s[:, :1], precondition=np.cov(x[:, 0], ddof=0)).squared, one, rtol=1e-12
    )


def test_the_median_bandwidth():
    x = column([0.0, 1.0, 3.0])  # distances 1, 2, 3
    s = column([0.3, -0.2, 0.5])
    for kernel in ("imq", "rbf"):
        computed = ksd(x, s, kernel=kernel, bandwidth="median")
        assert computed == ksd(x, s, kernel=kernel, bandwidth=2.0)


def test_digits_survive_far_from_the_origin():
    x, s = normal(2, 30, 2)
    np.testing.assert_allclose(ksd(x + 1e6, s).squared, ksd(x, s).squared, rtol=1e-8)


def test_the_precision_is_double_where_the_program_s_is_single():
    x, s = normal(2, 30, 2)
    want = ksd(x, s)
    with jax.enable_x64(False):
        assert jnp.ones(()).dtype == jnp.float32
        assert ksd(x, s) == want


# Draws of a posterior

DATA = 0.5 + normal(300, 2)
POSTERIOR = vr.models.gaussian.posterior(variance=2.0, prior_variance=3.0)
MEAN, VARIANCE = vr.models.gaussian.exact(DATA, variance=2.0, prior_variance=3.0)


@pytest.mark.parametrize("precondition", [True, False])
def test_scores_of_the_posterior_and_their_cost(precondition):
    draws = MEAN + 0.1 * normal(3, 5, 2)
    computed = kernel_stein_discrepancy(POSTERIOR, DATA, draws, precondition=precondition)
    x = draws.reshape(15, 2)
    want = ksd(x, (MEAN - x) / VARIANCE, precondition=precondition)
    np.testing.assert_allclose(computed.squared, want.squared, rtol=1e-10)
    np.testing.assert_allclose(computed.value, want.value, rtol=1e-10)
    assert computed.evaluations == 15 * 300


def split_loglik(params, x):
    return -0.5 * (x[0] - params["a"]) ** 2 - 0.5 * jnp.sum((x[1] - params["b"]["c"]) ** 2)


def split_logprior(params):
    return -0.5 * (params["a"] ** 2 + jnp.sum(params["b"]["c"] ** 2))


SPLIT = vr.Posterior(split_logprior, split_loglik)


def test_chains_draws_and_leaves_may_be_laid_out_in_any_way():
    draws = {"a": normal(2, 6), "b": {"c": normal(2, 6, 2, 1)}}
    want = kernel_stein_discrepancy(SPLIT, DATA, draws).squared
    x = np.concatenate([draws["a"].reshape(12, 1), draws["b"]["c"].reshape(12, 2)], axis=1)
    total = DATA.sum(0)[[0, 1, 1]]
    np.testing.assert_allclose(ksd(x, total - 301 * x, precondition=True).squared, want, rtol=1e-10)
    one_chain = jax.tree.map(lambda leaf: leaf.reshape(1, 12, *leaf.shape[2:]), draws)
    np.testing.assert_allclose(
        kernel_stein_discrepancy(SPLIT, DATA, one_chain).squared, want, rtol=1e-12
    )
    swapped = jax.tree.map(lambda leaf: np.swapaxes(leaf, 0, 1)[::-1], draws)
    np.testing.assert_allclose(
        kernel_stein_discrepancy(SPLIT, DATA, swapped).squared, want, rtol=1e-10
    )


def test_a_sampler_with_large_steps_is_further_from_the_posterior():
    """The last draws of 256 chains: independent, so the U-statistic of the exact law is near 0."""
    run = partial(
        vr.sample,
        5,
        POSTERIOR,
        DATA,
        MEAN,
        estimator=vr.minibatch(),
        integrator=vr.sgld(),
        batch_size=30,
        num_steps=200,
        burn_in=0,
        thin=200,
        num_chains=256,
        progress=False,
    )
    small, large = (
        kernel_stein_discrepancy(
            POSTERIOR,
            DATA,
            run(step_size=a * VARIANCE).draws,
            precondition=VARIANCE * np.eye(2),
            unbiased=True,
        )
        for a in (0.02, 0.8)
    )
    assert small.evaluations == 256 * 300
    assert abs(small.squared) < 0.04
    assert large.squared > 0.2


# Noise against noise


def batches(values, size):
    """Every sum of `size` of the values, scaled to N of them."""
    return np.array(
        [
            values[list(i)].sum(0) * len(values) / size
            for i in combinations(range(len(values)), size)
        ]
    )


def test_noise_ratio_by_quadrature_over_minibatches_and_injected_noise():
    """One step's two parts of variance, in one dimension: enumeration and Gauss-Hermite."""
    x = np.array([-1.2, 0.1, 0.4, 0.9, 2.0, 3.1])
    posterior = vr.models.gaussian.posterior()
    h, T, theta = 0.03, 0.7, 0.2
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    estimates = batches(x - theta, 2) - theta
    steps = theta + h * estimates[:, None] + np.sqrt(2 * h * T) * nodes
    shares = np.broadcast_to(weights / len(estimates), steps.shape)
    whole = np.sum(shares * (steps - np.sum(shares * steps)) ** 2)
    exact = theta + h * np.mean(estimates) + np.sqrt(2 * h * T) * nodes
    injected = np.sum(weights * (exact - np.sum(weights * exact)) ** 2)
    ratios = gradient_noise_ratio(posterior, x, theta, step_size=h, temperature=T, batch_size=2)
    np.testing.assert_allclose(ratios.minibatch, whole / injected - 1, rtol=1e-10)
    assert ratios.practical is None
    assert ratios.svrg is None


def test_noise_ratio_is_what_the_noise_adds_to_the_stationary_variance():
    """Exact for independent minibatches; for anchors the limit of small steps."""
    x, h = DATA[:20, 0], 1e-6
    anchors = {"anchor_size": 5, "period": 4}
    full, plain, practical = (
        vr.theory.stationary(
            vr.theory.gaussian_mean(x), estimator, vr.sgld(), step_size=h, batch_size=2
        ).covariance.item()
        for estimator in (vr.full(), vr.minibatch(), vr.practical(**anchors))
    )
    ratios = gradient_noise_ratio(
        vr.models.gaussian.posterior(), x, 0.1, 0.3, step_size=h, batch_size=2, **anchors
    ).zero_frequency
    np.testing.assert_allclose(ratios.minibatch, plain / full - 1, rtol=1e-8)
    np.testing.assert_allclose(ratios.practical, practical / full - 1, rtol=1e-3)


def test_noise_ratio_of_every_leaf_and_estimator_by_enumeration():
    """Leaves of 1 and 2 numbers: each has its own dimension, and the total 3."""
    data = DATA[:5] * np.array([1.0, 3.0])
    params = {"a": jnp.array(0.3), "b": {"c": jnp.array([[0.1], [-0.4]])}}
    anchor = {"a": jnp.array(0.1), "b": {"c": jnp.array([[1.1], [0.4]])}}

    def quartic(params, x):  # gradients whose difference depends on the datum
        return split_loglik(params, x) - 0.1 * (x[0] - params["a"]) ** 4

    posterior = vr.Posterior(split_logprior, quartic)
    h, T = 0.02, 0.5
    ratios = gradient_noise_ratio(
        posterior,
        data,
        params,
        anchor,
        step_size=h,
        temperature=T,
        batch_size=2,
        anchor_size=3,
        period=4,
    )
    rows = jax.vmap(jax.grad(quartic), (None, 0))
    alpha, beta = (
        {"a": rows(at, data)["a"][:, None], "b.c": rows(at, data)["b"]["c"][..., 0]}
        for at in (params, anchor)
    )

    def ratio(errors):
        return h**2 * np.mean(np.sum(errors**2, -1)) / (2 * h * T * errors.shape[-1])

    def all_ratios(a, b):
        a, b = np.asarray(a), np.asarray(b)
        plain = batches(a, 2) - a.sum(0)
        step = batches(a - b, 2) - (a - b).sum(0)
        both = step[:, None] + batches(b, 3)[None] - b.sum(0)
        return ratio(plain), ratio(both), ratio(step), ratio(both - step[:, None])

    whole = [np.concatenate([each["a"], each["b.c"]], axis=1) for each in (alpha, beta)]
    blocks = ratios.blocks or {}
    assert set(blocks) == {"a", "b.c"}
    for block, gradients in (
        (ratios, whole),
        (blocks["a"], (alpha["a"], beta["a"])),
        (blocks["b.c"], (alpha["b.c"], beta["b.c"])),
    ):
        plain, practical, svrg, anchor = all_ratios(*gradients)
        np.testing.assert_allclose(block[:3], (plain, practical, svrg), rtol=1e-10, atol=1e-15)
        zero = (plain, svrg + 4 * anchor, svrg)
        np.testing.assert_allclose(block.zero_frequency, zero, rtol=1e-10, atol=1e-15)


# Bad input

X = normal(6, 2)
NAN = np.where(np.arange(6)[:, None] < 2, np.nan, X)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, X[:5]), {}, r"got \(6, 2\) and \(5, 2\)"),
        ((X[:, 0], X[:, 0]), {}, r"One parameter is \[n, 1\]"),
        ((X[:1], X[:1]), {}, "n >= 2"),
        ((X[:, :0], X[:, :0]), {}, r"\(6, 0\)"),
        ((NAN, X), {}, "2 of 6 draws, 0 scores are not finite"),
        ((X, NAN), {}, "0 of 6 draws, 2 scores are not finite"),
        ((X, X), {"kernel": "gauss"}, "kernel must be imq or rbf"),
        ((X, X), {"beta": -1.5}, "beta between -1 and 0"),
        ((X, X), {"beta": 0.0}, "beta between -1 and 0"),
        ((X, X), {"bandwidth": -1.0}, "bandwidth positive"),
        ((X, X), {"bandwidth": "mean"}, "bandwidth positive"),
        ((0 * X, X), {"bandwidth": "median"}, "where most draws differ"),
        ((X, X), {"weights": np.ones(5)}, r"got \[1\. 1\. 1\. 1\. 1\.\]"),
        ((X, X), {"weights": -np.ones(6)}, ">= 0"),
        ((X, X), {"weights": [np.nan, 1, 1, 1, 1, 1]}, "finite"),
        ((X, X), {"weights": np.zeros(6)}, "1 or more positive"),
        ((X, X), {"weights": np.eye(6)[0], "unbiased": True}, "2 or more positive"),
        ((X, X), {"precondition": np.eye(3)}, r"covariance \[2, 2\]"),
        ((X, X), {"precondition": np.array([[1e-9, 0.0], [1e-9, 1e-9]])}, r"covariance \[2, 2\]"),
        ((X, X), {"precondition": -np.eye(2)}, "singular"),
        ((X * np.array([1.0, 0.0]), X), {"precondition": True}, "singular"),
        ((np.tile(X, 4), np.tile(X, 4)), {"precondition": True}, "fewer draws than parameters"),
    ],
)
def test_bad_arguments_of_ksd(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        ksd(*arguments, **options)


@pytest.mark.parametrize(
    ("posterior", "data", "draws", "message"),
    [
        (POSTERIOR, DATA, None, r"got draws of shapes \[\]"),
        (POSTERIOR, DATA, np.zeros(4), r"one chain: x\[None\]"),
        (SPLIT, DATA, {"a": np.zeros((2, 3)), "b": {"c": np.zeros((3, 2, 2))}}, "chain, draw"),
        (SPLIT, (DATA, DATA[:9]), np.zeros((2, 3, 2)), "the same length"),
        (SPLIT, np.array(1.0), np.zeros((2, 3, 2)), "the same length"),
        (POSTERIOR, DATA, np.full((1, 3, 2), np.nan), "3 of 3 draws"),
        (vr.models.logistic.posterior(), (X, np.arange(6)), np.zeros((1, 3, 2)), "label"),
        (vr.Posterior(split_logprior, split_loglik, jax.random.fold_in), DATA, X, "augment"),
    ],
)
def test_bad_draws_and_data(posterior, data, draws, message):
    with pytest.raises(ValueError, match=message):
        kernel_stein_discrepancy(posterior, data, draws)


@pytest.mark.parametrize("options", [{"step_size": 0.0}, {"step_size": 0.1, "temperature": -1.0}])
def test_bad_step_or_temperature(options):
    with pytest.raises(ValueError, match="must be positive"):
        gradient_noise_ratio(POSTERIOR, DATA, MEAN, batch_size=2, **options)
