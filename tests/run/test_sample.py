"""`vr.sample`: `vr.sample` against Algorithm 1 written out in NumPy, its invariances, its ends.

Compiling takes longer than sampling here, so tests share models, shapes and settings: `method` is
a fixture of the module, which puts the tests of one method (one compiled program) side by side.
"""

import math
import subprocess
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import psutil
import pytest
from support.sample_methods import (
    BATCH,
    CENTER,
    CHAINS,
    COMPILED,
    KEY,
    METHODS,
    PLAIN,
    PRACTICAL,
    SLOW,
    START,
    STEPS,
    TRACED,
    D,
    H,
    Method,
    N,
    X,
    Y,
    assert_same_bits,
    assert_same_run,
    identity,
    leaves,
    loglik,
    logprior,
    noise,
    rows_of,
    whole_run,
    written_out,
)

import vrsgmcmc as vr
from vrsgmcmc.core import compiled
from vrsgmcmc.core.rng import fold
from vrsgmcmc.run import checks


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in METHODS],
)
def method(request):
    return METHODS[request.param]


def test_draws_are_those_of_the_algorithm_written_out(method):
    draws = whole_run(method).draws
    assert draws.shape == (CHAINS, STEPS, D)
    for c in range(CHAINS):
        np.testing.assert_allclose(draws[c], written_out(method, c), rtol=0, atol=1e-10)


def test_cost_is_counted(method):
    estimator, m = method.estimator, method.period

    def expected(steps):
        each, anchor = {
            "minibatch": (BATCH, 0),
            "practical": (2 * BATCH, getattr(estimator, "anchor_size", 0)),
            "svrg": (2 * BATCH, N),
            "saga": (BATCH, N),
            "full": (N, 0),
            "control_variate": (2 * BATCH, N),
        }[estimator.name]
        refreshes = math.ceil(steps / m) if m else 1
        return CHAINS * (each * steps + anchor * refreshes)

    for steps in {STEPS, 4 * (m or 5), 4 * (m or 5) + 1, 1}:
        result = whole_run(method) if steps == STEPS else method.run(num_steps=steps)
        assert isinstance(result.evaluations, int)
        assert result.evaluations == expected(steps)
        assert result.data_passes == expected(steps) / (N * CHAINS)
        assert result.num_steps == steps
        assert np.all(result.state.step == steps)


@pytest.mark.parametrize("cut", [1, 6, 14])
def test_a_continued_run_is_the_unbroken_one(method, cut):
    whole, first = whole_run(method), method.run(num_steps=cut)
    rest = method.run(num_steps=STEPS - cut, init=first.state)
    assert_same_bits(whole.draws, np.concatenate([first.draws, rest.draws], axis=1))
    assert_same_bits(whole.state, rest.state)
    assert first.evaluations + rest.evaluations == whole.evaluations


@pytest.mark.parametrize(("first", "seconds"), [(1, 0.0), (3, 0.0), (5, 1e9)])
def test_chunks_change_no_bit(method, first, seconds):
    again = method.run(first_chunk=first, seconds_per_chunk=seconds)
    assert_same_run(whole_run(method), again)


def test_equal_descriptions_neither_trace_nor_compile(method):
    whole = whole_run(method)
    TRACED.clear(), COMPILED.clear()
    estimator = type(method.estimator)(**vars(method.estimator))  # equal, not identical
    assert_same_run(whole, replace(method, estimator=estimator).run())
    assert not TRACED
    assert not COMPILED
    other = method
    if method.estimator.name == "control_variate":
        other = replace(method, estimator=vr.control_variate(CENTER + 1))
    changed = other.run(
        key=8, temperature=0.5, step_size=[H, H / 2, H / 3], num_steps=31, burn_in=3
    )
    assert not TRACED
    assert not np.array_equal(changed.draws[:, 0], whole.draws[:, 0])


# --- which positions are kept --------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["practical", pytest.param("svrg, in parts", marks=pytest.mark.slow)]
)
def test_draws_are_every_thin_th_position_after_burn_in(name):
    method = METHODS[name]
    whole = whole_run(method).draws
    for burn_in, thin in [(0, 2), (3, 4), (7, 5), (10, 13), (5, 6), (22, 1), (0, 23)]:
        result = method.run(burn_in=burn_in, thin=thin, first_chunk=2 + burn_in % 3)
        places = np.arange(burn_in + thin, STEPS + 1, thin)
        assert len(places) == (STEPS - burn_in) // thin
        np.testing.assert_array_equal(result.draw_steps, places)
        np.testing.assert_allclose(result.draws, whole[:, places - 1], rtol=0, atol=1e-13)


def test_burn_in_only_leaves_draws_out(method):
    for burn_in in (1, 9, STEPS - 1):
        result = method.run(burn_in=burn_in)
        assert_same_bits(result.draws, whole_run(method).draws[:, burn_in:])
        assert_same_bits(result.state, whole_run(method).state)


@pytest.mark.parametrize(
    "estimator", [vr.practical(8, 5), pytest.param(vr.minibatch(), marks=pytest.mark.slow)]
)
def test_how_much_is_drawn_and_held_at_once_changes_no_bit(monkeypatch, estimator):
    """Two steps' keys and indices at a time, and four slots for draws."""
    whole = replace(PRACTICAL, estimator=estimator).run()
    # a program is cached on its posterior: another object is another program
    again = vr.Posterior(logprior, lambda w, datum: loglik(w, datum))
    monkeypatch.setattr(compiled, "LONGEST_BLOCK", 2)
    monkeypatch.setattr(compiled, "LONGEST_CHUNK", 4)
    assert_same_run(whole, replace(PRACTICAL, estimator=estimator, posterior=again).run())


# --- chains --------------------------------------------------------------------------------------


def scattered(key):
    return jax.random.normal(key, (D,))


SGHMC = Method(vr.practical(8, 5), options={"integrator": vr.sghmc(2.0), "init": scattered})


def test_sequential_chains_do_not_depend_on_their_number():
    runs = [SGHMC.run(num_chains=count, chain_method="sequential") for count in (1, 2, 5)]
    for result in runs[:2]:
        count = result.draws.shape[0]
        assert_same_bits(result.draws, runs[2].draws[:count])
        assert_same_bits(result.state, jax.tree.map(lambda leaf, n=count: leaf[:n], runs[2].state))
    starts = [scattered(compiled.make_roots(fold(jax.random.key(KEY), c)).start) for c in range(5)]
    moved = np.abs(runs[2].draws[:, 0] - np.stack(starts)).max()
    assert 0 < moved < 0.3  # one step away from the start that belongs to the chain
    assert runs[2].evaluations == 5 * runs[0].evaluations


def test_vmapped_chains_agree_to_rounding_whatever_their_number():
    alone = SGHMC.run(chain_method="sequential", num_chains=3)
    together = SGHMC.run(num_chains=2)
    np.testing.assert_allclose(together.draws, alone.draws[:2], rtol=0, atol=1e-9)


def test_sequential_chains_continue():
    options = {"num_chains": 2, "chain_method": "sequential"}
    whole, first = (SGHMC.run(num_steps=steps, **options) for steps in (STEPS, 8))
    rest = SGHMC.run(num_steps=STEPS - 8, init=first.state, **options)
    assert_same_bits(whole.state, rest.state)
    assert_same_bits(whole.draws[:, 8:], rest.draws)


def test_chains_have_their_own_noise_minibatches_and_anchors():
    subsets = "without_replacement"
    for drawn in (noise(), rows_of("batch", subsets, BATCH), rows_of("anchor", subsets, 8)):
        assert len({rows.tobytes() for rows in drawn}) == CHAINS
    cold = PRACTICAL.run(temperature=0.0).draws  # no noise: what is left are the minibatches
    assert len({row.tobytes() for row in cold[:, 0]}) == CHAINS


WITHOUT_JIT = """
import jax, numpy as np, vrsgmcmc as vr
jax.config.update("jax_enable_x64", True)
x = np.random.default_rng(0).normal(size=(24, 2))

def run():
    return vr.sample(
        7, vr.models.gaussian.posterior(), x, np.zeros(2), estimator=vr.practical(8, 5),
        batch_size=4, num_steps=7, num_chains=2, step_size=0.01, chain_method={!r}, progress=False,
    ).draws

compiled = run()
with jax.disable_jit():
    plain = run()
assert compiled.shape == (2, 7, 2) and compiled.std() > 0
print(np.abs(plain - compiled).max())
"""


@pytest.mark.slow
@pytest.mark.parametrize("chain_method", ["vmap", "sequential"])
def test_without_jit(chain_method):
    """In a program of its own: annotations, which are checked here, do not hold without jit."""
    command = [sys.executable, "-c", WITHOUT_JIT.format(chain_method)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1e-9


# --- step sizes ----------------------------------------------------------------------------------


SCHEDULED = Method(
    vr.practical(8, 5), options={"observables": {"mean": identity}, "weights": "equal"}
)


def decaying(l):
    return H / (1 + 0.1 * l)


def only_python(l):
    return H if l < 9 else H / math.sqrt(l)


@pytest.mark.parametrize(
    "schedule",
    [decaying, optax.polynomial_schedule(H, H / 10, 2, 20), only_python],
    ids=["traced", "optax", "only Python"],
)
def test_schedules(schedule):
    sizes = np.array([float(schedule(l)) for l in range(STEPS)])
    result = SCHEDULED.run(step_size=schedule)
    for c in range(CHAINS):
        expected = written_out(PRACTICAL, c, h=sizes)
        np.testing.assert_allclose(result.draws[c], expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(result.averages["mean"], result.draws.mean(1), rtol=0, atol=1e-13)
    first = SCHEDULED.run(step_size=schedule, num_steps=13)
    rest = SCHEDULED.run(step_size=schedule, num_steps=STEPS - 13, init=first.state)
    assert_same_bits(result.draws, np.concatenate([first.draws, rest.draws], axis=1))


def test_a_schedule_of_zero_steps_holds_still():
    draws = SCHEDULED.run(step_size=lambda l: H * (l < 10)).draws
    assert np.all(draws[:, 10:] == draws[:, 9:10])
    assert np.all(draws[:, 1:10] != draws[:, :9])


def test_one_step_size_for_each_chain():
    sizes = np.array([H, H / 2, H / 4])
    draws = PRACTICAL.run(step_size=sizes).draws
    for c, h in enumerate(sizes):
        assert_same_bits(draws[c], PRACTICAL.run(step_size=float(h)).draws[c])


def test_clipping_bounds_the_mean_gradient():
    clip = 0.02
    path = Method(vr.full()).run(clip=clip, temperature=0.0, step_size=0.1).draws
    path = np.concatenate([np.broadcast_to(START, (CHAINS, 1, D)), path], axis=1)
    lengths = np.linalg.norm(np.diff(path, axis=1), axis=-1) / (0.1 * N)
    assert np.all(lengths <= clip * (1 + 1e-9))
    assert np.any(lengths > clip * (1 - 1e-9))  # some were shortened,
    assert np.any(lengths < clip * (1 - 1e-3))  # some were not
    kernel = vr.kernel(PLAIN, vr.minibatch(), vr.sgld(), size=N, clip=clip)
    batch = vr.Batch(jnp.arange(BATCH), (jnp.asarray(X[:BATCH]), jnp.asarray(Y[:BATCH])))
    state = kernel.init(jax.random.key(0), jnp.full(D, 9.0))
    _, info = kernel.step(jax.random.key(1), state, batch, H)
    np.testing.assert_allclose(np.linalg.norm(info.gradient) / N, clip, rtol=1e-12)


# --- data, parameters, keys ----------------------------------------------------------------------


def test_seeds_and_keys():
    assert_same_run(PRACTICAL.run(key=jax.random.key(KEY)), whole_run(PRACTICAL))
    assert_same_run(PRACTICAL.run(key=np.int64(KEY)), whole_run(PRACTICAL))
    rbg = PRACTICAL.run(key=jax.random.key(KEY, impl="rbg"))
    assert np.all(np.isfinite(rbg.draws))
    assert not np.array_equal(rbg.draws, whole_run(PRACTICAL).draws)


def test_numpy_and_jax_arrays_give_the_same_bits():
    on_device = jax.tree.map(jnp.asarray, (X, Y))
    assert_same_run(PRACTICAL.run(data=on_device, init=jnp.asarray(START)), whole_run(PRACTICAL))


@pytest.mark.filterwarnings("ignore:parameters in 16 bits")
def test_parameters_keep_their_dtypes():
    """Three dtypes in one pytree, with data in another, while float64 is enabled."""

    def scale(params, item):
        return (params["net"]["w"] @ item["x"][0]) * params["shape"].sum().astype(jnp.float32)

    mixed = vr.Posterior(
        lambda params: -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params)),
        lambda params, item: -0.5 * (item["y"] - scale(params, item) - params["b"]) ** 2,
    )
    start = {
        "b": jnp.zeros((), jnp.float64),
        "net": {"w": jnp.ones(D, jnp.float32)},
        "shape": jnp.ones(2, jnp.bfloat16),
    }
    options = {"integrator": vr.sgnht(2.0)}
    result = Method(vr.minibatch(), mixed, options).run(
        init=start, data={"x": (X.astype(np.float32),), "y": Y}, step_size=1e-2
    )
    kinds = jax.tree.map(lambda leaf: leaf.dtype, start)
    for tree in (result.draws, result.state.position, result.state.dynamics.momentum):
        assert jax.tree.map(lambda leaf: leaf.dtype, tree) == kinds
    for leaf, first in zip(jax.tree.leaves(result.draws), jax.tree.leaves(start), strict=True):
        assert leaf.shape == (CHAINS, STEPS, *first.shape)
        assert np.all(np.isfinite(leaf.astype(float)))
        assert np.all(leaf[:, 0] != leaf[:, -1])


def test_without_float64():
    with jax.enable_x64(False):
        result = PRACTICAL.run(init=START.astype(np.float32))
    assert result.draws.dtype == np.float32
    assert {leaf.dtype.name for leaf in leaves(result.state)} <= {"float32", "int32", "uint32"}
    assert np.all(np.abs(result.draws - START) < 5)


def test_a_python_number_is_a_start_of_a_definite_dtype():
    """Otherwise the second chunk, which is given arrays, would be another program than the first."""
    start = checks.as_params({"x": 0.3})["x"]
    assert start.dtype == jnp.float64
    assert not start.weak_type


def test_a_pytree_that_can_be_called_is_a_start():
    """As the models of Equinox are: parameters with a `__call__`, which is not a function of a key."""

    @jax.tree_util.register_dataclass
    @dataclass
    class Model:
        w: jax.Array

        def __call__(self, x):
            raise AssertionError("the model was called, as if it were init(key)")

    strange = vr.Posterior(
        lambda model: jnp.nan * logprior(model.w), lambda model, datum: loglik(model.w, datum)
    )
    with pytest.raises(ValueError, match="logprior is nan"):  # it came as far as being looked at
        Method(vr.practical(8, 5), strange).run(init=Model(jnp.asarray(START)))


# --- estimators with a need of their own ---------------------------------------------------------


def test_saga_is_refused_with_the_bytes_when_memory_is_short(monkeypatch):
    table = N * START.nbytes
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: SimpleNamespace(available=2 * table * CHAINS)
    )
    message = rf"{N} data.*{CHAINS} chains.* needs {3 * table * CHAINS:,} bytes.*svrg\(\)"
    with pytest.raises(MemoryError, match=message):
        Method(vr.saga()).run()


def test_too_many_draws_are_refused_with_the_bytes(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10_000))
    needed = 20_000 * CHAINS * START.nbytes
    with pytest.raises(MemoryError, match=rf"{needed:,} bytes.*keep=\"averages\""):
        PRACTICAL.run(num_steps=20_000)


def test_full_takes_all_data_whatever_the_batch_size():
    few = (X[:5], Y[:5])
    one, other = (Method(vr.full()).run(data=few, batch_size=size) for size in (5, 10))
    assert_same_run(one, other)
    assert other.evaluations == CHAINS * STEPS * 5


def test_control_variate_finds_the_mode():
    w, precision = np.zeros(D), np.eye(D)
    for _ in range(50):
        p = 1 / (1 + np.exp(-X @ w))
        precision = np.eye(D) + (X * (p * (1 - p))[:, None]).T @ X
        w = w + np.linalg.solve(precision, X.T @ (Y - p) - w)
    deviations = np.sqrt(np.diag(np.linalg.inv(precision)))

    for start in (START, START + 5):
        result = Method(vr.control_variate()).run(init=start)
        for center in result.state.memory.center:
            assert np.all(np.abs(center - w) < 1e-3 * deviations)
        search = result.evaluations - CHAINS * (2 * BATCH * STEPS + N)
        assert search > 0
        assert search % N == 0
    again = Method(vr.control_variate()).run(init=result.state)
    assert again.evaluations == CHAINS * 2 * BATCH * STEPS
    assert_same_bits(again.state.memory, result.state.memory)
