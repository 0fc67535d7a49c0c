"""Stationary laws and weak orders, computed from the library's own steps.

Nothing is sampled, except in the slow tests at the end. A step is a map of z = (x, p) and of the
normals that it draws; the map is read off `kernel.step` at temperature 0, its noise off the
difference that the temperature makes. From these:

    quadratic, any dimension   z' = M z + c + B xi: the covariance solves S = M S M^T + B B^T
    any target, x alone        the transition matrix on a grid, and its fixed point
    any target, (x, p)         the transition operator on polynomials, and its fixed functional

A mistake in the library moves the law, or the slope of its error in h.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov
from scipy.stats import norm

import vrsgmcmc as vr
from vrsgmcmc.core.integrators.splitting import Kinetic
from vrsgmcmc.core.rng import fold, normal_like
from vrsgmcmc.theory import linear_regression, stationary

F = 1.3  # friction


def advance(posterior, integrator, data, key, z, h):
    """One step of the library with the exact gradient, in the midst of a run with step size h.

    z is [1, d], the position, or [2, d], position and momentum. Not compiled: that takes longer.
    """
    size = jax.tree.leaves(data)[0].shape[0]
    kernel = vr.kernel(posterior, vr.full(), integrator, size=size)
    if integrator.name == "splitting":
        dynamics = Kinetic(z[1], jnp.asarray(h))
    else:
        dynamics = z[1] if len(z) == 2 else integrator.init(key, z[0])
    state = vr.State(z[0], dynamics, memory=(), step=jnp.zeros((), jnp.int32))
    state, _ = kernel.step(key, state, vr.Batch(jnp.arange(size), data), h)
    p = state.dynamics.momentum if integrator.name == "splitting" else state.dynamics
    return jnp.stack([state.position, p][: len(z)])


def normals(integrator, key, z):
    """All normals of that step, [m, d]."""
    key, x = fold(key, 0), z[0]
    if integrator.name == "splitting":
        word = integrator.word
        body = 1 + max(word.rfind("A"), word.rfind("U"))
        keys = []
        for number, letter in enumerate(word[body:] + word[:body]):
            flow = fold(key, number)
            keys += {"O": [flow], "U": [fold(flow, 0), fold(flow, 1)]}.get(letter, [])
        return jnp.stack([normal_like(each, x) for each in keys])
    if integrator.name == "ito":
        return normal_like(key, (z[0], z[1]))[1][None]
    return normal_like(key, x)[None]


def slope(steps, errors):
    """Of log |error| in log h."""
    return np.polyfit(np.log(steps), np.log(np.abs(errors)), 1)[0]


# ---------------------------------------------------------------- on a quadratic


@cache
def euler_maruyama(T):
    """sghmc's equation by `ito`: x moves with the old p, unlike in `sghmc`."""
    return vr.ito(
        lambda x, gradient: (x[1], gradient(x[0]) - F * x[1]),
        lambda x: (jnp.zeros_like(x[0]), jnp.full_like(x[1], jnp.sqrt(2 * F * T))),
        lambda key, params: jnp.zeros_like(params),
    )


WORDS = ("BAOAB", "ABOBA", "OBABO", "BAOA", "OABAO", "UBU")
MAKE = {"sgld": vr.sgld, "sghmc": partial(vr.sghmc, F), "ito": euler_maruyama}
MAKE |= {word: partial(vr.splitting, word, F) for word in WORDS}

POSTERIOR = vr.models.linear.posterior(variance=1.5, prior_variance=2.0)
_rng = np.random.default_rng(0)
REGRESSION = _rng.normal(size=(5, 2)) + 0.5, _rng.normal(size=5)
# Of these data the posterior is N(0, I): X^T X / 1.5 + I / 2 = I.
STANDARD = np.sqrt(0.75) * np.eye(5, 2), np.zeros(5)


@cache
def law(name, h, T=1.0, standard=True):
    """Stationary mean and covariance of z, flattened, from the affine step z' = M z + c + B xi."""
    data = jax.tree.map(jnp.asarray, STANDARD if standard else REGRESSION)
    shape = (1 if name == "sgld" else 2, 2)
    size, count = np.prod(shape), 16
    keys = jax.random.split(jax.random.key(1), count)

    def moved(z, T):
        step = jax.vmap(lambda key, z: advance(POSTERIOR, MAKE[name](T), data, key, z, h))
        return np.asarray(step(keys, jnp.reshape(z, (count, *shape)))).reshape(count, size)

    c, *rows = moved(np.eye(count, size, -1), 0.0)[: size + 1]
    M = np.stack(rows, 1) - c[:, None]
    z = np.random.default_rng(2).normal(size=(count, size))
    noise = moved(z, T) - c - z @ M.T
    draw = jax.vmap(lambda key: normals(MAKE[name](T), key, jnp.zeros(shape)))
    xi = np.asarray(draw(keys)).reshape(count, -1)
    B = np.linalg.lstsq(xi, noise, rcond=None)[0].T
    np.testing.assert_allclose(xi @ B.T, noise, atol=1e-12, err_msg="the step is not affine")
    return np.linalg.solve(np.eye(size) - M, c), solve_discrete_lyapunov(M, B @ B.T)


def variances(name, h, T=1.0):
    """Of position and momentum, where the posterior is N(0, I); sgld: of the position."""
    return np.diag(law(name, h, T)[1])[::2]


@pytest.mark.parametrize("T", [1.0, 0.25])
def test_sgld_variance_on_a_quadratic(T):
    for h in (0.01, 1.5):
        np.testing.assert_allclose(variances("sgld", h, T), T / (1 - h / 2), rtol=1e-12)


@pytest.mark.parametrize("T", [1.0, 0.25])
def test_baoab_position_is_exact_on_a_quadratic(T):
    for h in (0.1, 1.2):
        np.testing.assert_allclose(variances("BAOAB", h, T)[0], T, rtol=1e-12)


def test_order_two_on_a_quadratic():
    """ABOBA's position, which is the one after the last A, is exact too: its momentum shows it."""
    steps = np.array([0.1, 0.2, 0.4])
    obabo, aboba = (np.array([variances(word, h) for h in steps]) for word in ("OBABO", "ABOBA"))
    assert abs(slope(steps, obabo[:, 0] - 1) - 2) < 0.05
    assert abs(slope(steps, aboba[:, 1] - 1) - 2) < 0.05
    np.testing.assert_allclose(aboba[:, 0], 1, rtol=1e-12)


def test_order_one_on_a_quadratic():
    """sgld, sghmc and its Euler-Maruyama by ito, in all of the covariance; the last two meet."""
    steps = np.array([0.002, 0.004, 0.008])
    covariances = {
        name: np.array([law(name, h)[1] for h in steps]) for name in ("sgld", "sghmc", "ito")
    }
    for found in covariances.values():
        errors = np.abs(found - np.eye(found.shape[1])).max((1, 2))
        assert abs(slope(steps, errors) - 1) < 0.05
    apart = np.abs(covariances["ito"] - covariances["sghmc"]).max((1, 2))
    assert apart[0] < 0.01
    assert slope(steps, apart) > 0.95


@pytest.mark.parametrize("name", [name for name in MAKE if name != "ito"])
def test_law_is_the_exact_one(name):
    """`vr.theory` knows the equations and not the samplers: a coupled posterior in two dimensions."""
    T, problem = 0.6, linear_regression(*REGRESSION, noise_variance=1.5, prior_variance=2.0)
    mean, covariance = law(name, 0.2, T, standard=False)
    expected = stationary(problem, vr.full(), MAKE[name](T), step_size=0.2)
    np.testing.assert_allclose(mean[:2], expected.mean, rtol=1e-9)
    np.testing.assert_allclose(covariance[:2, :2], expected.covariance, rtol=1e-9)


# ---------------------------------------------------------------- averages of two noises


def averaged_law(h, T, standard=True):
    """Mean and covariance of x under `leimkuhler_matthews`, from its step (x, xi) -> (x', xi')."""
    data = jax.tree.map(jnp.asarray, STANDARD if standard else REGRESSION)
    keys, z = jax.random.split(jax.random.key(1), 16), np.random.default_rng(2).normal(size=(16, 4))
    integrator = vr.leimkuhler_matthews(T)
    step = jax.vmap(lambda key, z: advance(POSTERIOR, integrator, data, key, z, h))
    moved = np.asarray(step(keys, jnp.reshape(z, (16, 2, 2)))).reshape(16, 4)
    draw = jax.vmap(lambda key: normals(integrator, key, jnp.zeros((2, 2))))
    inputs = np.column_stack([z, np.asarray(draw(keys)).reshape(16, 2), np.ones(16)])
    A = np.linalg.lstsq(inputs, moved, rcond=None)[0].T
    np.testing.assert_allclose(inputs @ A.T, moved, atol=1e-12, err_msg="the step is not affine")
    M, B, c = A[:, :4], A[:, 4:6], A[:, 6]
    covariance = solve_discrete_lyapunov(M, B @ B.T)
    return np.linalg.solve(np.eye(4) - M, c)[:2], covariance[:2, :2]


@pytest.mark.parametrize("T", [1.0, 0.25])
def test_leimkuhler_matthews_is_exact_on_a_quadratic(T):
    for h in (0.01, 1.5):
        np.testing.assert_allclose(averaged_law(h, T)[1], T * np.eye(2), rtol=1e-11, atol=1e-11)
    problem = linear_regression(*REGRESSION, noise_variance=1.5, prior_variance=2.0)
    mean, covariance = averaged_law(0.2, T, standard=False)
    settings = {"integrator": vr.leimkuhler_matthews(T), "step_size": 0.2}
    law = stationary(problem, vr.full(), **settings)
    for expected in (law, problem.posterior()):
        np.testing.assert_allclose(mean, expected[0], rtol=1e-9)
    np.testing.assert_allclose(covariance, law.covariance, rtol=1e-9)
    np.testing.assert_allclose(covariance, T * problem.posterior()[1], rtol=1e-9)


# ---------------------------------------------------------------- on another target

# U = x^2/2 + cos x is flat in the middle, and its gradient is Lipschitz: 0 <= U'' = 1 - cos x <= 2.
FLAT = vr.Posterior(lambda x: -jnp.sum(x**2 / 2 + jnp.cos(x)), lambda x, datum: 0.0 * datum)
NO_DATA = jnp.zeros(1)
GRID = np.linspace(-7.5, 7.5, 301)
ENERGY, FORCE = GRID**2 / 2 + np.cos(GRID), np.sin(GRID) - GRID


def mean_square(density):
    return np.sum(density * GRID**2) / np.sum(density)


def fixed_density(make, h, T=1.0):
    """The stationary density of x' = m(x) + s(x) xi on the grid; the library gives m and s."""
    key, z, spacing = jax.random.key(0), jnp.asarray(GRID)[None], GRID[1] - GRID[0]
    mean, moved = (
        np.asarray(advance(FLAT, make(temperature), NO_DATA, key, z, h)[0])
        for temperature in (0.0, T)
    )
    scale = (moved - mean) / np.asarray(normals(make(T), key, z)[0])
    transition = norm.pdf(GRID[:, None], mean, scale) * spacing
    equations, right = transition - np.eye(len(GRID)), np.zeros(len(GRID))
    equations[0], right[0] = spacing, 1  # the density sums to 1 in place of one equation
    density = np.linalg.solve(equations, right)
    np.testing.assert_allclose(transition @ density, density, atol=1e-9)
    return density


@pytest.mark.parametrize("T", [1.0, 0.5])
def test_sgld_has_order_one(T):
    truth, steps = mean_square(np.exp(-ENERGY / T)), np.array([0.02, 0.04, 0.08, 0.16])
    errors = [mean_square(fixed_density(vr.sgld, h, T)) - truth for h in steps]
    assert abs(slope(steps, errors) - 1) < 0.2
    assert abs(errors[0]) < 0.02 * truth


def test_psgld_without_memory_has_another_law():
    """With decay 0, G = 1/(eps + |g|/N) at x itself: the law tends to exp(-U/T)/G, as documented."""
    T, eps, steps = 0.5, 1.0, np.array([0.04, 0.08, 0.16])
    limit = mean_square((eps + np.abs(FORCE)) * np.exp(-ENERGY / T))
    errors = [mean_square(fixed_density(partial(vr.psgld, 0.0, eps), h, T)) - limit for h in steps]
    assert abs(slope(steps, errors) - 1) < 0.2
    assert abs(errors[0]) < 0.02 * limit
    assert mean_square(np.exp(-ENERGY / T)) < 0.9 * limit


def hermite(count, x):
    """The orthonormal polynomials of the standard normal law, [..., count]."""
    values = [np.ones_like(x), x]
    for k in range(1, count - 1):
        values.append((x * values[k] - np.sqrt(k) * values[k - 1]) / np.sqrt(k + 1))
    return np.stack(values, -1)


def gauss_hermite(count):
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / np.sqrt(2 * np.pi)


def kinetic_mean_square(make, h, count=22):
    """E x^2 under the stationary law of (x, p), from the transition operator on polynomials.

    The words here ask for the gradient before they draw, so z' = m(z) + b xi with one b for all z.
    Polynomials have degree below `count` in x and in p; the error of E x^2 is then 1e-6.
    """
    nodes, weights = gauss_hermite(count + 8)
    key, z = jax.random.key(0), np.stack(np.meshgrid(nodes, nodes)).reshape(2, -1)
    mean, moved = (
        np.asarray(advance(FLAT, make(temperature), NO_DATA, key, jnp.asarray(z), h))
        for temperature in (0.0, 1.0)
    )
    xi, noise = np.asarray(normals(make(1.0), key, jnp.asarray(z))), moved - mean
    B = np.linalg.lstsq(xi.T, noise.T, rcond=None)[0].T
    np.testing.assert_allclose(B @ xi, noise, atol=1e-11, err_msg="the noise depends on z")
    (smaller, larger), axes = np.linalg.eigh(B @ B.T)
    assert abs(smaller) < 1e-12 * larger
    b = np.sqrt(larger) * axes[:, 1:]

    def basis(z):
        x, p = hermite(count, z)
        return (x[:, :, None] * p[:, None, :]).reshape(-1, count**2)

    draws = zip(*gauss_hermite(20), strict=True)
    image = sum(weight * basis(mean + b * value) for value, weight in draws)
    P = basis(z).T @ (np.outer(weights, weights).reshape(-1, 1) * image)
    # v P = v with v(1) = 1, and x^2 = 1 + sqrt(2) h_2(x)
    v = np.linalg.solve(np.eye(count**2 - 1) - P[1:, 1:].T, P[0, 1:])
    return 1 + np.sqrt(2) * v[2 * count - 1]


def averaged_mean_square(h, count=24):
    """E x^2 under the law of `leimkuhler_matthews`: y = x - sqrt(h/2) xi is a chain by itself.

    x = y + sqrt(h/2) xi with xi ~ N(0, 1) independent of y, and the library's step gives the next y.
    """
    (nodes, weights), (normal, chances) = gauss_hermite(count + 8), gauss_hermite(30)
    y, xi = (each.ravel() for each in np.meshgrid(nodes, normal, indexing="ij"))
    key, scale = jax.random.key(0), np.sqrt(h / 2)
    z = jnp.stack([jnp.asarray(y + scale * xi), jnp.asarray(xi)])
    x, new = np.asarray(advance(FLAT, vr.leimkuhler_matthews(), NO_DATA, key, z, h))
    image = hermite(count, (x - scale * new).reshape(len(nodes), -1))
    P = hermite(count, nodes).T @ (weights[:, None] * np.einsum("j,ijk->ik", chances, image))
    v = np.linalg.solve(np.eye(count - 1) - P[1:, 1:].T, P[0, 1:])
    return 1 + np.sqrt(2) * v[1] + h / 2


def test_leimkuhler_matthews_has_order_two():
    truth, steps = mean_square(np.exp(-ENERGY)), np.array([0.05, 0.1, 0.2])
    errors = np.array([averaged_mean_square(h) - truth for h in steps])
    assert abs(slope(steps, errors) - 2) < 0.15
    assert abs(errors[0]) < 0.002 * truth


def test_splittings_have_order_two_and_baoab_is_the_best():
    truth, steps = mean_square(np.exp(-ENERGY)), np.array([0.1, 0.2, 0.4])
    obabo, aboba, baoab = (
        np.array([kinetic_mean_square(MAKE[word], h) - truth for h in steps])
        for word in ("OBABO", "ABOBA", "BAOAB")
    )
    for errors in (obabo, aboba, baoab):
        assert abs(slope(steps, errors) - 2) < 0.1
    assert np.all(np.abs(baoab) < np.abs(obabo) / 10)
    assert np.all(np.abs(baoab) < np.abs(aboba) / 10)


# ---------------------------------------------------------------- no closed law: by sampling

CURVATURES = (1.0, 1.0, 1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 4.0, 4.0)  # d = 10
QUADRATIC = vr.Posterior(
    lambda x: -0.1 * jnp.sum(jnp.array(CURVATURES) * x**2),
    lambda x, datum: -0.2 * datum * jnp.sum(jnp.array(CURVATURES) * x**2),
)


def sampled_variances(integrator, h, T, *, num_steps, burn_in, num_chains):
    """Times curvature over temperature, 1 where right, for the two curvatures, with standard errors."""
    result = vr.sample(
        1,
        QUADRATIC,
        jnp.ones(2),
        lambda key: jnp.sqrt(T / jnp.array(CURVATURES)) * jax.random.normal(key, (10,)),
        estimator=vr.full(),
        integrator=integrator,
        step_size=h,
        batch_size=2,
        num_steps=num_steps,
        burn_in=burn_in,
        num_chains=num_chains,
        observables={"square": jnp.square},
        keep="averages",
        progress=False,
    )
    ratio = result.averages["square"] * np.array(CURVATURES) / T
    chains = ratio.reshape(num_chains, 2, 5).mean(2)
    return chains.mean(0), chains.std(0, ddof=1) / np.sqrt(num_chains)


def agrees(found, errors, halved, more_errors):
    """Within 2 %, and halving the step changes nothing that these many chains could see."""
    both = np.hypot(errors, more_errors)
    assert np.all(both < 0.005)
    assert np.all(np.abs(found - 1) < 0.02)
    assert np.all(np.abs(halved - found) < 4 * both)


@pytest.mark.slow
def test_psgld_variance():
    """Within 2 %, where G is nearly constant: only there has psgld the posterior as its law.

    G must forget slowly against the chain: with rate r = h G k per step, the variance is too large by
    about r / 2 (Euler) and by (1 - decay) / (2 r) (G follows x). Here the rates are 0.005 and 0.01.
    """
    N, T = 2, 0.5
    integrator, h = vr.psgld(decay=1 - 2e-5, temperature=T), 0.005 * np.sqrt(T) / N
    settings = dict(num_steps=100_000, burn_in=50_000, num_chains=250)
    found, errors = sampled_variances(integrator, h, T, **settings)
    halved, more_errors = sampled_variances(integrator, h / 2, T, **settings)
    agrees(found, errors, halved, more_errors)


@pytest.mark.slow
@pytest.mark.parametrize("T", [1.0, 0.25])
def test_sgnht_variance(T):
    """Within 2 % at d = 10, where a thermostat driven by |p| - d has ten times the variance."""
    settings = dict(burn_in=2000, num_chains=1000)
    integrator, h = vr.sgnht(1.0, T), 0.02
    found, errors = sampled_variances(integrator, h, T, num_steps=7000, **settings)
    halved, more_errors = sampled_variances(integrator, h / 2, T, num_steps=12_000, **settings)
    agrees(found, errors, halved, more_errors)
