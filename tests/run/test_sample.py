"""The driver: `vr.sample` against Algorithm 1 written out in NumPy, its invariances, its ends.

Compiling takes longer than sampling here, so tests share models, shapes and settings: `method` is
a fixture of the module, which puts the tests of one method (one compiled program) side by side.
"""

import io
import logging
import math
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import psutil
import pytest
from rich.console import Console

import vrsgmcmc as vr
from vrsgmcmc.core import compiled, gradients, order
from vrsgmcmc.core.rng import fold, normal_like
from vrsgmcmc.run import checks, loop, progress, setup, timeline
from vrsgmcmc.run.timeline import Pace

N, D, BATCH, CHAINS, STEPS, H = 24, 3, 4, 3, 23, 2e-2
KEY = 7
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, D))
Y = (_rng.random(N) < 0.5).astype(np.int32)
START = np.array([0.3, -0.2, 0.1])
CENTER = np.array([0.1, 0.1, -0.3])

TRACED = []  # one entry for each time that JAX traces the log-likelihood
COMPILED = []  # one entry for each program that XLA compiles
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: COMPILED.append(name) if "backend_compile" in name else None
)


def logprior(w):
    return -0.5 * jnp.sum(w**2)


def loglik(w, datum):
    TRACED.append(1)
    x, y = datum
    return jax.nn.log_sigmoid(jnp.where(y == 1, 1.0, -1.0) * (x @ w))


def dropout(key, datum):
    x, y = datum
    return x * jax.random.bernoulli(key, 0.6, x.shape), y


PLAIN = vr.Posterior(logprior, loglik)
DROPOUT = vr.Posterior(logprior, loglik, dropout)


def in_parts(rows, augment):
    """The same posterior, whose refreshes are made in parts of so many rows."""
    divided = vr.Posterior(logprior, lambda w, datum: loglik(w, datum), augment)
    most, gradients.LARGEST_PART = gradients.LARGEST_PART, rows
    try:
        whole = vr.Batch(jnp.arange(N), jax.tree.map(jnp.asarray, (X, Y)))
        assert gradients.part_size(divided, jnp.asarray(START), whole) == rows  # now remembered
    finally:
        gradients.LARGEST_PART = most
    return divided


@dataclass(frozen=True)
class Method:
    estimator: object
    posterior: vr.Posterior = PLAIN
    options: dict = field(default_factory=dict)

    @property
    def period(self):
        return self.estimator.refresh_period(N, BATCH)

    def run(self, key=KEY, data=(X, Y), temperature=1.0, **options):
        given = {
            "init": START,
            "estimator": self.estimator,
            "integrator": vr.sgld(temperature),
            "step_size": H,
            "batch_size": BATCH,
            "num_steps": STEPS,
            "num_chains": CHAINS,
            "progress": False,
        }
        given |= self.options | options
        return vr.sample(key, self.posterior, data, **given)


METHODS = {
    "practical": Method(vr.practical(8, 5)),
    "practical, averaged, dropout": Method(
        vr.practical(9, 4, average=3),
        DROPOUT,
        {"order": "with_replacement", "anchor_order": "shuffled"},
    ),
    "minibatch, dropout": Method(vr.minibatch(), DROPOUT),
    "svrg, in parts, dropout": Method(vr.svrg(), in_parts(7, dropout)),
    "saga, in parts, dropout": Method(
        vr.saga(), in_parts(7, dropout), {"order": "with_replacement"}
    ),
    "control_variate": Method(vr.control_variate(CENTER)),
    "full, dropout": Method(vr.full(), DROPOUT),
    "minibatch": Method(vr.minibatch(), options={"order": "symmetric"}),
    "svrg, in parts": Method(vr.svrg(7), in_parts(7, None), {"order": "shuffled"}),
    "saga": Method(vr.saga()),
    "full": Method(vr.full()),
}
SLOW = ("minibatch", "svrg, in parts", "saga", "full")  # the same, without dropout
PRACTICAL = METHODS["practical"]
RUNS = {}


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in METHODS],
)
def method(request):
    return METHODS[request.param]


def name_of(method):
    return next(name for name, known in METHODS.items() if known is method)


def whole_run(method):
    """The run of `STEPS` steps that a method's tests compare with, made once."""
    if name_of(method) not in RUNS:
        RUNS[name_of(method)] = method.run()
    return RUNS[name_of(method)]


def leaves(tree):
    def plain(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return [plain(leaf) for leaf in jax.tree.leaves(tree)]


def assert_same_bits(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(leaves(one), leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def assert_same_run(one, other):
    assert_same_bits(
        (one.draws, one.averages, one.state), (other.draws, other.averages, other.state)
    )


# --- Algorithm 1, line by line -------------------------------------------------------------------


def of_each_chain(draw):
    """`draw(roots, l)` for every chain and every l: leaves [chain, l, ...]."""

    @jax.jit
    def all_of_them(key):
        roots = jax.vmap(lambda c: compiled.roots(fold(key, c)))(jnp.arange(CHAINS))
        inner = jax.vmap(draw, (None, 0))
        return jax.vmap(inner, (0, None))(roots, jnp.arange(STEPS))

    return np.asarray(all_of_them(jax.random.key(KEY)))


@cache
def noise():
    return of_each_chain(lambda roots, l: normal_like(fold(fold(roots.noise, l), 0), jnp.zeros(D)))


@cache
def rows_of(root, name, count):
    """The minibatches, or the anchors, in an order; all data have one order only."""
    if count == N:
        return np.broadcast_to(np.arange(N), (CHAINS, STEPS, N))
    return of_each_chain(lambda roots, l: order.draw(name, getattr(roots, root), l, N, count))


@cache
def masks(root):
    """What dropout leaves of each datum, at each step (`noise`) or in each cycle (`lock`)."""

    def one(roots, l):
        key = fold(roots.lock, l) if root == "lock" else fold(fold(roots.noise, l), 1)
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(N))
        return jax.vmap(dropout)(keys, (jnp.ones((N, D)), jnp.asarray(Y)))[0]

    return of_each_chain(one)


def written_out(method, c, h=H):
    """The positions x_1, x_2, ... of chain c. The old gradient is refreshed when l mod m = 0."""
    name, m, options = method.estimator.name, method.period, method.options
    batches = rows_of("batch", options.get("order", "without_replacement"), BATCH)[c]
    anchor_order = options.get("anchor_order", "without_replacement")
    anchors = rows_of("anchor", anchor_order, method.estimator.refresh_size(N) or N)[c]
    step_masks = cycle_masks = np.ones((STEPS, N, D))
    if method.posterior.augment is not None:
        step_masks, cycle_masks = masks("noise")[c], masks("lock")[c]
    h = np.broadcast_to(h, STEPS)
    everything = np.arange(N)

    def gradients(w, rows, mask):
        x = X[rows] * mask[rows]
        return (Y[rows] - 1 / (1 + np.exp(-x @ w)))[:, None] * x

    path = [START]
    for l in range(STEPS):
        w, rows, fresh = path[-1], batches[l], step_masks[l]
        if name == "full":
            likelihood = gradients(w, everything, fresh).sum(0)
        elif name == "minibatch":
            likelihood = N / BATCH * gradients(w, rows, fresh).sum(0)
        elif name == "saga":
            if l == 0:
                table = gradients(w, everything, cycle_masks[0])
            new = gradients(w, rows, fresh)
            likelihood = table.sum(0) + N / BATCH * (new - table[rows]).sum(0)
            table[rows] = new
        else:
            if l % (m or STEPS) == 0:  # the control variate's centre stays for ever
                number = l // (m or STEPS)
                seen, locked = anchors[number], cycle_masks[number]
                anchor = np.mean(path[-getattr(method.estimator, "average", 1) :], axis=0)
                anchor = CENTER if name == "control_variate" else anchor
                old = N / len(seen) * gradients(anchor, seen, locked).sum(0)
            change = gradients(w, rows, locked) - gradients(anchor, rows, locked)
            likelihood = old + N / BATCH * change.sum(0)
        g = -w + likelihood
        path.append(w + h[l] * g + math.sqrt(2 * h[l]) * noise()[c, l])
    return np.array(path[1:])


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
def test_chunks_change_no_bit(method, monkeypatch, first, seconds):
    monkeypatch.setattr(loop, "FIRST_CHUNK", first)
    monkeypatch.setattr(timeline, "SECONDS_PER_CHUNK", seconds)
    assert_same_run(whole_run(method), method.run())


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
def test_draws_are_every_thin_th_position_after_burn_in(name, monkeypatch):
    method = METHODS[name]
    whole = whole_run(method).draws
    for burn_in, thin in [(0, 2), (3, 4), (7, 5), (10, 13), (5, 6), (22, 1), (0, 23)]:
        monkeypatch.setattr(loop, "FIRST_CHUNK", 2 + burn_in % 3)
        monkeypatch.setattr(timeline, "SECONDS_PER_CHUNK", 0)
        result = method.run(burn_in=burn_in, thin=thin)
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
    for module in (compiled, setup):
        monkeypatch.setattr(module, "LONGEST_CHUNK", 4)
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
    starts = [scattered(compiled.roots(fold(jax.random.key(KEY), c)).start) for c in range(5)]
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


def identity(w):
    return w


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


# --- chains that leave the numbers ---------------------------------------------------------------


WATCHED = Method(vr.practical(8, 5), options={"observables": {"mean": identity}, "num_steps": 200})


def test_a_diverging_chain_is_frozen_and_the_others_go_on(caplog):
    calm = WATCHED.run()
    with caplog.at_level(logging.WARNING, logger="vrsgmcmc"):
        result = WATCHED.run(step_size=[H, 100.0, H])
    np.testing.assert_array_equal(result.diverged, [False, True, False])
    (found,) = result.divergences
    assert (found.chain, found.step_size) == (1, 100.0)
    assert 100 < found.step < 180
    (record,) = caplog.records
    assert f"chain 1 became non-finite at step {found.step}" in record.getMessage()
    assert f"Try a step size of {found.try_step_size:.2g}" in record.getMessage()

    finite = np.isfinite(result.draws).all(-1)
    np.testing.assert_array_equal(finite[1], result.draw_steps <= found.step)
    assert np.all(np.isnan(result.draws[1, found.step :]))
    np.testing.assert_allclose(result.state.position[1], result.draws[1, found.step - 1], rtol=1e-9)
    assert result.state.step[1] == found.step
    largest = np.abs(result.state.position[1]).max()
    assert largest <= found.norm <= largest * math.sqrt(D)  # finite, though its square is not
    assert np.all(np.isnan(result.averages["mean"][1]))

    assert_same_bits(result.draws[[0, 2]], calm.draws[[0, 2]])
    assert_same_bits(result.averages["mean"][[0, 2]], calm.averages["mean"][[0, 2]])
    others = [jax.tree.map(lambda leaf: leaf[jnp.array([0, 2])], r.state) for r in (result, calm)]
    assert_same_bits(*others)

    table = result.summary()
    assert "[1]" in table.attrs["note"]
    kept = result.draws[[0, 2]].reshape(-1, D)
    np.testing.assert_allclose(table["mean"], kept.mean(0), rtol=1e-6)
    np.testing.assert_array_equal(result.to_arviz().posterior.chain, [0, 2])

    assert not WATCHED.run(step_size=found.try_step_size).diverged.any()


def test_others_continue_after_the_first_chain_has_diverged():
    result = WATCHED.run(step_size=[100.0, H, H])
    np.testing.assert_array_equal(result.diverged, [True, False, False])
    rest = WATCHED.run(num_steps=10, init=result.state)
    assert_same_bits(rest.draws[1:], WATCHED.run(num_steps=210).draws[1:, 200:])


def test_a_run_ends_when_every_chain_has_diverged():
    result = WATCHED.run(num_steps=200_000, step_size=100.0)
    assert result.diverged.all()
    assert [found.chain for found in result.divergences] == [0, 1, 2]
    assert result.num_steps < 2_000
    assert np.all(np.isfinite(result.state.position))
    assert result.draws.shape[1] == result.num_steps
    with pytest.raises(ValueError, match=r"every chain became non-finite.*[Tt]ry a step size"):
        result.summary()


def test_the_step_of_the_first_nan_is_found(monkeypatch):
    """x grows by 0.1 a step; above 1.05 its gradient is NaN: x_11 = 1.1 is the last finite one."""
    monkeypatch.setattr(loop, "FIRST_CHUNK", 3)
    monkeypatch.setattr(timeline, "SECONDS_PER_CHUNK", 0)
    cliff = vr.Posterior(
        lambda x: 0.0 * x, lambda x, datum: jnp.where(x > 1.05, jnp.nan, 1.0) * x + 0.0 * datum
    )
    first = jax.random.key_data(compiled.roots(fold(jax.random.key(KEY), 0)).start)[0]
    own = {"init": lambda key: -10.0 * (jax.random.key_data(key)[0] != first), "num_chains": 2}
    result = Method(vr.full(), cliff, own).run(
        data=np.ones(5), step_size=0.02, temperature=0.0, batch_size=1
    )
    np.testing.assert_array_equal(result.diverged, [True, False])
    assert result.divergences[0].step == 11
    np.testing.assert_allclose(result.state.position[0], 1.1, rtol=1e-12)
    np.testing.assert_allclose(result.draws[0, :11], 0.1 * np.arange(1, 12), rtol=1e-12)
    assert np.all(np.isnan(result.draws[0, 11:]))
    np.testing.assert_allclose(result.draws[1], -10 + 0.1 * np.arange(1, STEPS + 1), rtol=1e-12)


@pytest.mark.slow
def test_divergence_tells_the_step_size_of_its_step():
    result = PRACTICAL.run(step_size=lambda l: jnp.where(l < 10, H, 1e150 * (l + 1.0)))
    for found in result.divergences:
        assert 10 <= found.step <= 13
        assert found.step_size == 1e150 * (found.step + 1)


# --- Ctrl-C --------------------------------------------------------------------------------------


def press_ctrl_c(times=1):
    """As from a keyboard: the signal comes from outside the main thread."""
    for _ in range(times):
        sender = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
        sender.start()
        sender.join()


def press_during(monkeypatch, chunk, times=1):
    chunks, took = [], Pace.took

    def press(*arguments):
        chunks.append(took(*arguments))
        if len(chunks) == chunk:
            press_ctrl_c(times)

    monkeypatch.setattr(Pace, "took", press)


def test_chunks_take_as_long_as_wanted_and_are_worth_the_call():
    def settled(price, each):
        paced = Pace(64)
        paced.took(64, 5.0)  # compiles
        for _ in range(60):
            paced.took(paced.length, price + each * paced.length)
        return paced.length * each, price + paced.length * each

    for each in (1e-5, 1e-3, 0.1):
        work, whole = settled(0.0, each)
        assert 0.4 <= whole <= 0.6, each
    for price, each in ((0.3, 1e-3), (0.6, 1e-4), (1.0, 0.05)):
        work, whole = settled(price, each)
        assert work > 0.8 * price  # not one unit a call
        assert whole < 2.2


def test_ctrl_c_returns_what_is_finished(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    press_during(monkeypatch, chunk=3)
    result = PRACTICAL.run(num_steps=2**29, burn_in=10, thin=2000)
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is before
    assert result.interrupted
    assert 64 < result.num_steps < 2**20
    assert np.all(result.state.step == result.num_steps)
    assert result.draws.shape == (CHAINS, (result.num_steps - 10) // 2000, D)
    rest = PRACTICAL.run(num_steps=2017, thin=2000, init=result.state)
    whole = PRACTICAL.run(num_steps=result.num_steps + 2017, burn_in=10, thin=2000)
    assert not rest.interrupted
    assert_same_bits(rest.state, whole.state)
    assert_same_bits(result.draws, whole.draws[:, : result.draws.shape[1]])


def test_a_second_ctrl_c_acts_at_once(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    press_during(monkeypatch, chunk=1, times=2)
    with pytest.raises(KeyboardInterrupt):
        PRACTICAL.run(num_steps=100_000)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_ordinary_run_leaves_ctrl_c_as_it_was():
    before = signal.getsignal(signal.SIGINT)
    PRACTICAL.run()
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_can_sample():
    results = []
    worker = threading.Thread(target=lambda: results.append(PRACTICAL.run()))
    worker.start()
    worker.join()
    assert_same_run(results[0], whole_run(PRACTICAL))


# --- progress ------------------------------------------------------------------------------------

COLUMNS = ("step", "data passes", "steps/s", "mean loglik", "left")


def test_plain_lines_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    monkeypatch.setattr(loop, "FIRST_CHUNK", 9)
    monkeypatch.setattr(timeline, "SECONDS_PER_CHUNK", 0)
    result = PRACTICAL.run(progress=None)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) > 5
    assert all(column in line for line in lines for column in COLUMNS)
    w = result.state.position[0]
    mean = np.mean([loglik(w, datum) for datum in zip(X, Y, strict=True)])
    for text in (f"{STEPS} / {STEPS}", f"{result.data_passes:.2f}", f"{mean:.4f}", "0:00"):
        assert text in lines[-1]
    assert_same_run(result, whole_run(PRACTICAL))


def test_no_progress_is_silent(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    PRACTICAL.run(progress=False)
    assert capsys.readouterr() == ("", "")


def test_short_runs_are_silent(capsys):
    PRACTICAL.run(progress=None)
    assert capsys.readouterr() == ("", "")


def test_a_table_on_a_terminal(monkeypatch, capsys):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=160)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    result = PRACTICAL.run(progress=True)
    shown = screen.getvalue()
    assert all(column in shown for column in COLUMNS)
    assert f"{STEPS} / {STEPS}" in shown
    assert capsys.readouterr().err == ""
    assert_same_run(result, whole_run(PRACTICAL))


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
