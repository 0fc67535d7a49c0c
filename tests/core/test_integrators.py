"""One-step maps: every integrator against its equations, written out again in plain NumPy.

The paths below get the library's own normals, under the keys that `kernel.step` and the integrators
document, so agreement is to rounding over several steps of varying length. Temperature and friction
are never 1, where a root, a square or a product could hide. `test_weak_order.py` has the laws that
these steps lead to.

Mistakes found in other libraries, and what catches them here (weak: in test_weak_order.py):

    BAOAB never moves (a half-update done twice)    test_path[splitting-BAOAB], weak test_baoab_...
    noise grows as T instead of sqrt(T)             test_path, test_temperature, weak test_baoab_...
    temperature 0 refused, or still random          test_temperature
    friction noise f sqrt(2h), not sqrt(2 f h)      test_path[sghmc], [sgnht]
    SGHMC ignores temperature in its momentum       test_path[sghmc], test_law_of_the_first_momentum
    momentum with half the variance                 test_path, test_law_of_the_first_momentum
    thermostat driven by |p|, not |p|^2             test_path[sgnht], weak test_sgnht_variance (slow)
    noise of standard deviation h, not sqrt(2h)     test_path[sgld], weak test_sgld_variance_...
    two gradients per step in a splitting           test_words_with_one_gradient,
                                                    test_one_gradient_per_step
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.linalg import expm
from support.quadratic import (
    DIMENSION,
    FULL_MATRIX,
    SIZE,
    START,
    STEP_SIZES,
    TREE,
    F,
    T,
    flat,
    gradient,
    normals,
    refused,
    start,
    step,
)

import vrsgmcmc as vr
from vrsgmcmc.core.rng import fold, normal_like

# ---------------------------------------------------------------- the equations, in NumPy
#
# A path yields what is known after each step. noise(l, *tags): the normals of step l, under the key
# of that step folded with the tags; first: those that the momentum starts from.


def sgld_path(x, steps, noise, first):
    for l, h in enumerate(steps):
        x = x + h * gradient(x) + np.sqrt(2 * h * T) * noise(l)
        yield {"x": x}


def leimkuhler_matthews_path(x, steps, noise, first):
    old = first
    for l, h in enumerate(steps):
        new = noise(l)
        x = x + h * gradient(x) + np.sqrt(2 * h * T) * (old + new) / 2
        yield {"x": x, "xi": new}
        old = new


def psgld_path(x, steps, noise, first, a=0.9, eps=0.05):
    v = np.zeros_like(x)
    for l, h in enumerate(steps):
        g = gradient(x)
        v = a * v + (1 - a) * (g / SIZE) ** 2
        G = 1 / (eps + np.sqrt(v))
        x = x + h * G * g + np.sqrt(2 * h * T * G) * noise(l)
        yield {"x": x, "v": v}


def sghmc_path(x, steps, noise, first):
    p = np.sqrt(T) * first
    for l, h in enumerate(steps):
        p = (1 - h * F) * p + h * gradient(x) + np.sqrt(2 * F * T * h) * noise(l)
        x = x + h * p
        yield {"x": x, "p": p}


def sgnht_path(x, steps, noise, first):
    p, z = np.sqrt(T) * first, F
    for l, h in enumerate(steps):
        p = (1 - h * z) * p + h * gradient(x) + np.sqrt(2 * F * T * h) * noise(l)
        x = x + h * p
        z = z + h * (np.sum(p**2) / x.size - T)
        yield {"x": x, "p": p, "z": z}


def splitting_path(x, steps, noise, first, word):
    """The word, letter by letter, with a gradient at each B.

    Known after a step is what the word's last A or U left; the library runs the rest with its next
    step, whose key it uses there: flows are numbered in the order of running.
    """
    p = np.sqrt(T) * first
    body = 1 + max(word.rfind("A"), word.rfind("U"))
    rest = len(word) - body
    for l, h in enumerate(steps):
        for place, letter in enumerate(word):
            t = h / word.count(letter)
            normal = partial(noise, *((l, rest + place) if place < body else (l + 1, place - body)))
            if letter == "A":
                x = x + t * p
            elif letter == "B":
                p = p + t * gradient(x)
            elif letter == "O":
                p = np.exp(-F * t) * p + np.sqrt(T * (1 - np.exp(-2 * F * t))) * normal()
            else:
                mean, root = expm(t * np.array([[0, 1], [0, -F]])), u_root(t, F)
                x, p = mean @ [x, p] + np.sqrt(T) * root @ [normal(1), normal(0)]
            if place + 1 == body:
                yield {"x": x, "p": p}


def u_covariance(t, f):
    """Of (x, p) after a time t from rest, at temperature 1: integrals of the response to dW.

    A kick at time t - s has become ((1 - e^{-fs})/f, e^{-fs}) at time t. All terms are positive.
    """
    nodes, weights = np.polynomial.legendre.leggauss(80)
    s, weights = t * (nodes + 1) / 2, t * weights / 2
    response = np.stack([-np.expm1(-f * s) / f, np.exp(-f * s)])
    return np.einsum("is,js,s->ij", response, response, 2 * f * weights)


def u_root(t, f):
    """The root R of it with p moved by the second normal alone: R = [[rest, slope], [0, scale]]."""
    (xx, xp), (_, pp) = u_covariance(t, f)
    return np.array([[np.sqrt(xx - xp**2 / pp), xp / np.sqrt(pp)], [0, np.sqrt(pp)]])


def diagonal_path(x, steps, noise, first):
    for l, h in enumerate(steps):
        x = x + h * (gradient(x) - np.sin(x)) + np.sqrt(2 * h * T) / (1 + x**2) * noise(l)
        yield {"x": x}


def full_matrix_path(x, steps, noise, first):
    for l, h in enumerate(steps):
        matrix = np.sqrt(2 * T) * np.cos(x)[:, None] * FULL_MATRIX
        x = x + h * gradient(x) + np.sqrt(h) * matrix @ noise(l)
        yield {"x": x}


def underdamped_path(x, steps, noise, first):
    """Euler-Maruyama for (x, p): unlike sghmc's, this x' uses the old p."""
    p = np.sqrt(T) * first
    for l, h in enumerate(steps):
        _, normal = np.split(noise(l, pair=True), 2)
        old, p = p, p + h * (gradient(x) - F * p) + np.sqrt(2 * F * T * h) * normal
        x = x + h * old
        yield {"x": x, "p": p}


# ---------------------------------------------------------------- the same, as `ito` takes them


def number_ito(T):
    return vr.ito(lambda x, gradient: gradient(x), lambda x: jnp.sqrt(2 * T))


def value_ito(T):
    return vr.ito(
        lambda x, gradient: jax.tree.map(lambda g: 1.0 * g, gradient), lambda x: jnp.sqrt(2 * T)
    )


def diagonal_ito(T):
    return vr.ito(
        lambda x, gradient: jax.tree.map(lambda x, g: g - jnp.sin(x), x, gradient(x)),
        lambda x: jax.tree.map(lambda x: jnp.sqrt(2 * T) / (1 + x**2), x),
    )


def full_matrix_ito(T):
    def diffusion(x):
        def apply(z):
            values, unravel = ravel_pytree(z)
            return unravel(jnp.sqrt(2 * T) * jnp.cos(flat(x)) * (FULL_MATRIX @ values))

        return apply

    return vr.ito(lambda x, gradient: gradient(x), diffusion)


def underdamped_ito(T, call=True):
    def drift(x, gradient):
        params, p = x
        g = gradient(params) if call else gradient
        return p, jax.tree.map(lambda g, p: g - F * p, g, p)

    def diffusion(x):
        params, p = x
        moving = jax.tree.map(lambda p: jnp.full_like(p, jnp.sqrt(2 * F * T)), p)
        return jax.tree.map(jnp.zeros_like, params), moving

    def auxiliary(key, params):
        return jax.tree.map(lambda z: jnp.sqrt(T) * z, normal_like(key, params))

    return vr.ito(drift, diffusion, auxiliary)


# ---------------------------------------------------------------- the table


class Row(NamedTuple):
    """An integrator of the library at a temperature, its path, and its own variables by name."""

    make: Callable[[float], Any]
    path: Callable
    own: Callable[[Any], dict] = lambda dynamics: {}


def word_row(word):
    return Row(
        lambda T: vr.splitting(word, F, T),
        partial(splitting_path, word=word),
        lambda dynamics: {"p": dynamics.momentum},
    )


WORDS = ("BAOAB", "ABOBA", "OBABO", "BAOA", "AOAB", "OABAO", "UBU", "BUB")
momentum = dict(own=lambda dynamics: {"p": dynamics})

TABLE: dict[str, dict[str, Row]] = {
    "sgld": {"": Row(vr.sgld, sgld_path)},
    "leimkuhler_matthews": {
        "": Row(vr.leimkuhler_matthews, leimkuhler_matthews_path, lambda dynamics: {"xi": dynamics})
    },
    "psgld": {
        "": Row(partial(vr.psgld, 0.9, 0.05), psgld_path, lambda dynamics: {"v": dynamics}),
        "memoryless": Row(
            partial(vr.psgld, 0.0, 0.05),
            partial(psgld_path, a=0.0),
            lambda dynamics: {"v": dynamics},
        ),
    },
    "sghmc": {"": Row(partial(vr.sghmc, F), sghmc_path, **momentum)},
    "sgnht": {
        "": Row(
            partial(vr.sgnht, F),
            sgnht_path,
            lambda dynamics: {"p": dynamics.momentum, "z": dynamics.friction},
        )
    },
    "splitting": {word: word_row(word) for word in WORDS},
    "ito": {
        "number": Row(number_ito, sgld_path),
        "value": Row(value_ito, sgld_path),
        "diagonal": Row(diagonal_ito, diagonal_path),
        "matrix": Row(full_matrix_ito, full_matrix_path),
        "auxiliary": Row(underdamped_ito, underdamped_path, **momentum),
        "auxiliary-value": Row(partial(underdamped_ito, call=False), underdamped_path, **momentum),
    },
}
ROWS = {
    f"{name}-{kind}".strip("-"): row for name, kinds in TABLE.items() for kind, row in kinds.items()
}
every_row = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


def test_every_integrator_has_its_rows():
    assert set(TABLE) == set(vr.INTEGRATORS)
    for name, kinds in TABLE.items():
        assert kinds
        assert all(row.make(T).name == name for row in kinds.values())


def compare_paths(row, params):
    """Positions and the integrator's own variables, step by step, 1e-12."""
    integrator, begin = row.make(T), jax.random.key(5)
    keys = [jax.random.key(100 + l) for l in range(len(STEP_SIZES) + 1)]

    def noise(l, *tags, pair=False):
        key = fold(keys[l], 0)
        for tag in tags:
            key = fold(key, tag)
        return np.asarray(normals(key, (params, params) if pair else params))

    first = np.asarray(normals(begin, params))
    expected = list(row.path(np.asarray(flat(params)), STEP_SIZES, noise, first))
    state = start(integrator, begin, params)
    for l, h in enumerate(STEP_SIZES):
        state = step(integrator, keys[l], state, h)
        found = {"x": state.position} | row.own(state.dynamics)
        assert found.keys() == expected[l].keys()
        for name, value in expected[l].items():
            np.testing.assert_allclose(
                flat(found[name]), np.ravel(value), rtol=1e-12, atol=1e-12, err_msg=f"{name}, {l=}"
            )
        assert jax.tree.structure(state.position) == jax.tree.structure(params)
    assert np.abs(expected[-1]["x"] - START).max() > 0.1, "the chain must have moved"
    assert state.step == len(STEP_SIZES)


@every_row
def test_path(row):
    compare_paths(row, TREE)


@pytest.mark.parametrize("name", TABLE)
def test_path_of_a_bare_array(name):
    compare_paths(next(iter(TABLE[name].values())), jnp.asarray(START))


@every_row
def test_parameters_keep_their_dtype(row):
    """Also where one leaf is float32 and another float64, and the step size is float64."""
    params = TREE | {"bias": TREE["bias"].astype(jnp.float32)}
    state = start(row.make(T), jax.random.key(0), params)
    after = step(row.make(T), jax.random.key(1), state, 0.1)
    kinds = [jax.tree.map(lambda leaf: leaf.dtype, s._replace(step=())) for s in (state, after)]
    assert kinds[0] == kinds[1]
    assert kinds[0].position == {"bias": jnp.float32, "weight": jnp.float64}


# ---------------------------------------------------------------- temperature


@every_row
def test_temperature(row):
    """Noise grows as the root of the temperature; at 0 the key does not matter, and p starts at 0."""
    state = start(row.make(T), jax.random.key(1), TREE)

    def after(temperature, seed=2):
        moved = step(row.make(temperature), jax.random.key(seed), state, 0.1)
        return np.asarray(flat((moved.position, row.own(moved.dynamics).get("p", ()))))

    still, once, twice = after(0.0), after(1.0), after(4.0)
    assert np.mean(once != still) >= 0.5
    np.testing.assert_allclose(twice - still, 2 * (once - still), rtol=1e-10, atol=1e-15)
    np.testing.assert_array_equal(still, after(0.0, seed=3))
    for seed in (1, 2):
        begin = start(row.make(0.0), jax.random.key(seed), TREE)
        assert np.all(flat(row.own(begin.dynamics).get("p", 0.0)) == 0)


@pytest.mark.parametrize("name", ["sghmc", "sgnht", "splitting-BAOAB"])
def test_law_of_the_first_momentum(name):
    """p_0 ~ N(0, T I): mean, variance, fourth moment and correlations, |z| < 4."""
    row, keys = ROWS[name], jax.random.split(jax.random.key(8), 20_000)
    states = jax.vmap(lambda key: start(row.make(T), key, TREE))(keys)
    p = np.asarray(jax.vmap(flat)(row.own(states.dynamics)["p"])) / np.sqrt(T)
    n = len(p)
    assert np.abs(p.mean(0)).max() < 4 / np.sqrt(n)
    assert np.abs((p**2).mean(0) - 1).max() < 4 * np.sqrt(2 / n)
    assert np.abs((p**4).mean(0) - 3).max() < 4 * np.sqrt(96 / n)
    between = (p.T @ p / n)[np.triu_indices(DIMENSION, 1)]
    assert np.abs(between).max() < 4 / np.sqrt(n)


# ---------------------------------------------------------------- the flow U


@pytest.mark.parametrize("kind", [jnp.float64, jnp.float32])
def test_flow_u(kind):
    """Mean and 2 x 2 covariance of the exact flow for f t from 1e-6 to 30, in both precisions.

    The first step of the word UB is U alone: its B waits for the next one.
    """
    tolerance = 1e-11 if kind == jnp.float64 else 1e-4
    key, zeros, ones = jax.random.key(4), jnp.zeros(DIMENSION, kind), jnp.ones(DIMENSION, kind)
    rest = vr.splitting("UB", F).init(key, zeros)

    def u(t, momentum, temperature):
        flow, dynamics = vr.splitting("UB", F, temperature), rest._replace(momentum=momentum)
        x, after = flow.step(key, zeros, dynamics, lambda x: x, jnp.asarray(t, kind), 1)
        assert x.dtype == after.momentum.dtype == kind
        return np.stack([x, after.momentum]).astype(float)

    flow = fold(key, 1)
    xi = np.stack([normals(fold(flow, tag), zeros) for tag in (0, 1)]).astype(float)
    for t in np.array([1e-6, 1e-4, 0.01, 0.2, 0.49, 0.51, 3, 30]) / F:
        mean, noise = u(t, ones, 0.0), u(t, zeros, T)
        expected = expm(t * np.array([[0, 1], [0, -F]]))[:, 1:]
        np.testing.assert_allclose(mean, expected * np.ones(DIMENSION), rtol=tolerance)
        covariance = T * u_covariance(t, F)
        root = np.linalg.lstsq(xi.T, noise.T, rcond=None)[0].T
        scale = np.sqrt(np.diag(covariance))[:, None]
        np.testing.assert_allclose((root @ xi - noise) / scale, 0, atol=tolerance)
        np.testing.assert_allclose(root @ root.T, covariance, rtol=tolerance)


# ---------------------------------------------------------------- ito is the others


@pytest.mark.parametrize("make", [number_ito, value_ito], ids=["call", "value"])
def test_ito_is_sgld(make):
    """The same key gives the same noise, hence the same path."""
    one, other = (start(i, jax.random.key(0), TREE) for i in (make(T), vr.sgld(T)))
    for l, h in enumerate((0.1, 0.03)):
        one = step(make(T), jax.random.key(l), one, h)
        other = step(vr.sgld(T), jax.random.key(l), other, h)
    np.testing.assert_allclose(flat(one.position), flat(other.position), rtol=1e-12)


def test_ito_checks_the_shape_of_its_drift():
    integrator = vr.ito(lambda x, gradient: gradient[:3], lambda x: 1.0)
    message = "ito: drift(x, gradient) must return a pytree like x, of shapes (8,); got (3,)."
    with refused(message):
        step(integrator, jax.random.key(0), start(integrator, jax.random.key(0), START), 0.1)


MATRIX = jnp.arange(64.0).reshape(8, 8)
DIFFUSIONS = {
    "a matrix": (lambda x: MATRIX, "(8, 8)"),
    "a longer diagonal": (lambda x: jnp.ones(9), "(9,)"),
    "a function of fewer": (lambda x: lambda z: z[:3], "(3,)"),
    "a function of another tree": (lambda x: lambda z: {"z": z}, "{'z': (8,)}"),
}


@pytest.mark.parametrize("name", DIFFUSIONS)
def test_ito_checks_the_shape_of_its_diffusion(name):
    diffusion, got = DIFFUSIONS[name]
    integrator = vr.ito(lambda x, gradient: gradient(x), diffusion)
    message = (
        f"ito: diffusion(x) must give noise like x, of shapes (8,); got {got}. Return a number, a "
        "pytree like x (a diagonal), or for a matrix G the function lambda z: G @ z."
    )
    with refused(message), jax.numpy_rank_promotion("allow"):
        step(integrator, jax.random.key(0), start(integrator, jax.random.key(0), START), 0.1)


def test_ito_takes_a_matrix_as_a_function():
    """With G diagonal, the same path as with its diagonal."""
    diagonal = 0.1 * jnp.arange(8.0)
    moved = []
    for diffusion in (lambda x: diagonal, lambda x: lambda z: jnp.diag(diagonal) @ z):
        integrator = vr.ito(lambda x, gradient: gradient(x), diffusion)
        state = start(integrator, jax.random.key(0), START)
        moved.append(step(integrator, jax.random.key(1), state, 0.1).position)
    np.testing.assert_allclose(*moved, rtol=1e-12)
