"""An integrator as an optax optimizer: the steps of `vr.kernel`, by the real `optax.apply_updates`."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vrsgmcmc as vr
from vrsgmcmc.core import fold

N, H, STEPS = 10, 0.02, 6
RNG = np.random.default_rng(0)
DATA = {"x": RNG.normal(size=(N, 2)), "y": RNG.normal(size=N)}
START = {"bias": jnp.array(0.3), "weight": jnp.array([-0.2, 0.5])}


def logprior(params):
    return -0.5 * (params["bias"] ** 2 + jnp.sum(params["weight"] ** 2))


def loglik(params, datum):
    return -0.5 * (datum["y"] - params["bias"] - datum["x"] @ params["weight"]) ** 2


POSTERIOR = vr.Posterior(logprior, loglik)


def loss(params):
    return -logprior(params) - jnp.sum(jax.vmap(loglik, (None, 0))(params, DATA))


def by_optax(optimizer, start=START, steps=STEPS):
    def one(carry, _):
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), params

    return jax.jit(lambda: jax.lax.scan(one, (start, optimizer.init(start)), length=steps))()[1]


def by_kernel(integrator, seed=3, clip=None, step_size=lambda l: H, start=START):
    kernel = vr.kernel(POSTERIOR, vr.full(), integrator, size=N, clip=clip)
    everything = vr.Batch(jnp.arange(N), jax.tree.map(jnp.asarray, DATA))
    state, positions = kernel.init(fold(jax.random.key(seed), 0), start), []
    keys, step = fold(jax.random.key(seed), 1), jax.jit(kernel.step)
    for l in range(STEPS):
        state, _ = step(fold(keys, l), state, everything, step_size(l))
        positions.append(state.position)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *positions)


def assert_same(one, other, tolerance=1e-12):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, tolerance, tolerance), one, other)


INTEGRATORS = [
    vr.sgld(),
    vr.psgld(),
    vr.sghmc(1.0),
    vr.sgnht(1.0),
    vr.leimkuhler_matthews(),
    vr.splitting("BAOAB", 1.0),
    vr.splitting("OBABO", 1.0),
    vr.ito(lambda x, gradient: gradient(x), lambda x: np.sqrt(2.0)),
]


QUICK = ("psgld", "BAOAB")


def name_of(integrator):
    return getattr(integrator, "word", integrator.name)


@pytest.mark.parametrize(
    "integrator",
    [
        pytest.param(
            each, id=name_of(each), marks=[pytest.mark.slow] * (name_of(each) not in QUICK)
        )
        for each in INTEGRATORS
    ],
)
def test_the_steps_are_those_of_the_kernel(integrator):
    positions = by_optax(vr.to_optax(integrator, H, N, key=3))
    assert np.ptp(positions["bias"]) > 0
    assert_same(positions, by_kernel(integrator))


def test_after_a_clip_the_steps_are_those_of_a_clipped_kernel():
    """optax clips the gradient's norm, `vr.kernel` that of the mean over data."""
    clip, integrator = 3.0, vr.sghmc(1.0)
    chain = optax.chain(optax.clip_by_global_norm(clip), vr.to_optax(integrator, H, N, key=3))
    positions = by_optax(chain)
    assert_same(positions, by_kernel(integrator, clip=clip / N))
    assert not np.allclose(positions["bias"], by_kernel(integrator)["bias"])


def test_schedules_are_those_of_optax():
    schedule = optax.exponential_decay(H, 1, 0.5)
    positions = by_optax(vr.to_optax(vr.sgld(), schedule, N, key=3))
    assert_same(positions, by_kernel(vr.sgld(), step_size=lambda l: H * 0.5**l), 1e-7)


def test_chains_have_keys_of_their_own():
    keys = jax.random.split(jax.random.key(0), 3)

    def chain(key):
        return by_optax(vr.to_optax(vr.sghmc(1.0), H, N, key=key))["bias"]

    together = jax.vmap(chain)(keys)
    assert np.unique(together[:, -1]).size == 3
    np.testing.assert_allclose(together[1], chain(keys[1]), 1e-12)


def test_float32_stays():
    start = jax.tree.map(lambda x: x.astype(jnp.float32), START)
    positions = by_optax(vr.to_optax(vr.sgnht(1.0), H, N, key=3), start)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(positions))
    assert_same(positions, by_kernel(vr.sgnht(1.0), start=start), 1e-5)


@pytest.mark.parametrize("word", ["ABOBA", "UBU"])
def test_a_gradient_on_the_way_is_refused(word):
    with pytest.raises(
        ValueError, match=rf"splitting\('{word}', ...\) takes its gradient at a place"
    ):
        vr.to_optax(vr.splitting(word, 1.0), H, N, key=0).init(START)


def test_a_drift_with_a_gradient_elsewhere_is_refused():
    def drift(x, gradient):
        return gradient(jax.tree.map(lambda leaf: 2 * leaf, x))

    with pytest.raises(ValueError, match=r"ito\(\) takes its gradient at a place"):
        vr.to_optax(vr.ito(drift, lambda x: 1.0), H, N, key=0).init(START)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((vr.nuts(), H, N, 0), ValueError, "as many exact gradients as it likes"),
        ((vr.sgld, H, N, 0), TypeError, "a description such as"),
        ((vr.sgld(), 0.0, N, 0), ValueError, "step_size must be positive"),
        ((vr.sgld(), H, 2.5, 0), ValueError, "size must be a whole number"),
        ((vr.sgld(), H, N, None), TypeError, "key must be"),
    ],
)
def test_mistakes_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        vr.to_optax(*arguments)


def test_an_update_without_parameters_is_refused():
    optimizer = vr.to_optax(vr.sgld(), H, N, key=0)
    with pytest.raises(ValueError, match=r"update\(gradients, state, params\)"):
        optimizer.update(START, optimizer.init(START))
