"""Descriptions are values, kernels are pure, and mistakes are named before anything is traced.

The model, the table of estimators and the references are those of `test_estimators.py`.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.estimator_table import (
    AUGMENTED,
    CENTER,
    HERE,
    LOCK,
    PLAIN,
    START,
    START_KEY,
    STEP,
    Euler,
    estimators,
    first_refresh,
    flat,
    loglik,
    logprior,
    make_data,
    make_kernel,
    rows,
    run_cycles,
    show,
    take,
)

import vrsgmcmc as vr

SIZE, COUNT, ANCHOR = 5, 2, 3
DATA = make_data(SIZE)

# ---------------------------------------------------------------- descriptions


def different_descriptions():
    """New objects at each call; no two of them are equal."""
    zeros = np.zeros(2)
    return [
        vr.full(),
        vr.minibatch(),
        vr.practical(),
        vr.practical(50),
        vr.practical(period=5),
        vr.practical(average=2),
        vr.svrg(),
        vr.svrg(3),
        vr.saga(),
        vr.control_variate(),
        vr.control_variate(jnp.asarray(zeros)),
        vr.control_variate(jnp.asarray(zeros + 1)),
        vr.control_variate(np.zeros(3)),
        vr.control_variate(zeros.astype(np.float32)),
        vr.control_variate({"x": zeros}),
        vr.control_variate({"y": zeros}),
        vr.control_variate(order=2),
        vr.control_variate(zeros, 2, hessian=np.eye(2)),
        vr.control_variate(zeros, 2, hessian=2 * np.eye(2)),
        vr.control_variate(zeros, 2, hessian=np.eye(2), linear=True),
        vr.control_variate(zeros, 2, vr.Batch(np.array([1]), np.ones(1)), np.eye(2)),
        vr.control_variate(zeros, 2, vr.Batch(np.array([2]), np.ones(1)), np.eye(2)),
        vr.block_saga(1),
        vr.block_saga(5),
    ]


def test_descriptions_are_equal_by_content():
    first, second = different_descriptions(), different_descriptions()
    assert {e.name for e in first} == set(vr.ESTIMATORS)
    for i, one in enumerate(first):
        for j, other in enumerate(second):
            assert (one == other) == (i == j)
            assert (one != other) == (i != j)
            assert hash(one) == hash(other) or i != j
    assert len(set(first + second)) == len(first)


def test_defaults_are_the_contract_s():
    assert vr.practical() == vr.practical(anchor_size=100, period=10, average=1)
    assert vr.svrg() == vr.svrg(period=None)
    assert vr.control_variate() == vr.control_variate(center=None)
    assert make_kernel(PLAIN, vr.svrg(), 10, 3).period == 4


@pytest.mark.parametrize("estimator", different_descriptions(), ids=show)
def test_descriptions_are_frozen_pytrees(estimator):
    for name in [field.name for field in dataclasses.fields(estimator)] + ["other"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(estimator, name, 1)
    leaves, structure = jax.tree.flatten(estimator)
    assert jax.tree.unflatten(structure, leaves) == estimator
    arrays = ("center", "hessian", "hot")
    assert len(leaves) == len(jax.tree.leaves([getattr(estimator, name, None) for name in arrays]))


def test_numbers_do_not_retrace_and_sizes_do():
    traces = []

    def counted(x, datum):
        traces.append(None)
        return loglik(x, datum)

    posterior = vr.Posterior(logprior, counted)

    @jax.jit
    def run(estimator, integrator):
        kernel = vr.kernel(posterior, estimator, integrator, size=SIZE)
        state = first_refresh(kernel, DATA)
        batch = take(DATA, jnp.arange(COUNT))
        return kernel.step(jax.random.key(STEP), state, batch, 0.1)[0].position

    def traced(call, *descriptions):
        before = len(traces)
        result = call(*descriptions)
        return result, len(traces) > before

    cold, new = traced(run, vr.control_variate(CENTER), vr.sgld(temperature=0.0))
    assert new
    warm, new = traced(run, vr.control_variate(CENTER), vr.sgld(temperature=1.0))
    assert not new
    assert abs(flat(warm) - flat(cold)).max() > 0.1
    moved, new = traced(run, vr.control_variate(HERE), vr.sgld(temperature=0.0))
    assert not new
    assert abs(flat(moved) - flat(cold)).max() > 1e-3
    assert traced(run.trace, vr.practical(3), vr.sgld())[1]
    assert traced(run.trace, vr.practical(4), vr.sgld())[1]
    assert not traced(run.trace, vr.practical(3), vr.sgld(0.5))[1]


# ---------------------------------------------------------------- pure functions


@pytest.mark.parametrize("estimator", estimators(ANCHOR, variants=False), ids=show)
def test_a_compiled_scan_is_the_plain_loop(estimator):
    kernel = make_kernel(PLAIN, estimator, SIZE, COUNT)
    index = np.arange(2 * SIZE).reshape(2, 1, SIZE) % SIZE
    anchors = index[:, 0, : kernel.anchor_size or 1]
    batches = index if estimator.name == "full" else index[..., -COUNT:]
    last, positions, estimates = jax.jit(lambda *i: run_cycles(kernel, DATA, *i))(anchors, batches)

    state = kernel.init(jax.random.key(START_KEY), START)
    for l in range(2):
        lock = jax.random.fold_in(jax.random.key(LOCK), l)
        step = jax.random.fold_in(jax.random.key(STEP), l)
        state = kernel.refresh(lock, state, take(DATA, anchors[l]))
        np.testing.assert_allclose(rows(positions)[l], flat(state.position), rtol=1e-12)
        state, info = kernel.step(step, state, take(DATA, batches[l, 0]), 0.05)
        np.testing.assert_allclose(rows(estimates)[l], flat(info.gradient), rtol=1e-12)
    np.testing.assert_allclose(flat(last.position), flat(state.position), rtol=1e-12)
    assert jax.tree.structure(last) == jax.tree.structure(state)
    assert int(last.step) == int(state.step) == 2


@pytest.mark.parametrize("estimator", estimators(ANCHOR, variants=False), ids=show)
def test_many_chains_are_each_their_own(estimator):
    kernel = make_kernel(PLAIN, estimator, SIZE, COUNT)
    everything = np.arange(3 * SIZE).reshape(3, SIZE) % SIZE
    batches = everything if estimator.name == "full" else np.array([[0, 1], [2, 2], [4, 3]])
    anchors = np.stack([np.roll(np.arange(SIZE), k)[: kernel.anchor_size or 1] for k in range(3)])
    starts = jax.tree.map(lambda x, y: jnp.stack([x, y, x + y]), START, HERE)

    def chain(seed, start, anchor, batch):
        state = kernel.init(jax.random.key(START_KEY), start)
        state = kernel.refresh(jax.random.key(LOCK), state, take(DATA, anchor))
        state = state._replace(position=CENTER)
        state, info = kernel.step(jax.random.key(seed), state, take(DATA, batch), 0.1)
        return state.position, info.gradient

    inputs = (jnp.arange(3), starts, jnp.asarray(anchors), jnp.asarray(batches))
    together = jax.jit(jax.vmap(chain))(*inputs)
    alone = jax.jit(chain)
    for k in range(3):
        expected = alone(*jax.tree.map(lambda leaf, k=k: leaf[k], inputs))
        found = jax.tree.map(lambda leaf, k=k: leaf[k], together)
        np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-12)


# ---------------------------------------------------------------- mistakes


def step_with(estimator, count):
    kernel = vr.kernel(PLAIN, estimator, Euler(), size=SIZE)
    state = kernel.init(jax.random.key(START_KEY), START)
    return kernel.step(jax.random.key(STEP), state, take(DATA, jnp.arange(count)), 0.1)


def refresh_with(estimator, count):
    kernel = vr.kernel(PLAIN, estimator, Euler(), size=SIZE)
    state = kernel.init(jax.random.key(START_KEY), START)
    return kernel.refresh(jax.random.key(LOCK), state, take(DATA, jnp.arange(count)))


@pytest.mark.parametrize("count", [ANCHOR, ANCHOR + 1])
def test_a_step_must_see_less_than_the_anchor(count):
    message = rf"batch smaller than its anchor: got batch_size={count} and anchor_size=3"
    with pytest.raises(ValueError, match=message):
        step_with(vr.practical(ANCHOR), count)


@pytest.mark.parametrize("count", [1, SIZE - 1])
def test_full_needs_all_data(count):
    with pytest.raises(ValueError, match=rf"full\(\) needs all 5 data .* got {count}.*minibatch"):
        step_with(vr.full(), count)


@pytest.mark.parametrize("estimator", [vr.svrg(), vr.control_variate()], ids=show)
def test_an_anchor_without_a_scale_needs_all_data(estimator):
    """Its sum over fewer data would be taken for the sum over all: a wrong gradient, silently."""
    with pytest.raises(ValueError, match="all 5 data"):
        refresh_with(estimator, SIZE - 1)


@pytest.mark.parametrize("estimator", [vr.minibatch(), vr.practical(ANCHOR), vr.svrg()], ids=show)
def test_an_empty_batch_is_refused(estimator):
    with pytest.raises(ValueError, match="batch"):
        step_with(estimator, 0)


KERNEL = {"posterior": PLAIN, "estimator": vr.minibatch(), "integrator": vr.sgld(), "size": SIZE}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"posterior": loglik}, TypeError, r"posterior must be a vr\.Posterior.*got function"),
        ({"estimator": vr.practical}, TypeError, r"estimator.*call it: practical\(\)"),
        ({"estimator": vr.full}, TypeError, r"estimator.*call it: full\(\)"),
        ({"estimator": "saga"}, TypeError, r"estimator.*vr\.practical\(\).*got 'saga'"),
        ({"estimator": vr.sgld()}, TypeError, r"estimator must be a description.*SGLD"),
        ({"integrator": vr.sgld}, TypeError, r"integrator.*call it: sgld\(\)"),
        ({"integrator": vr.sghmc}, TypeError, r"integrator.*call it: sghmc\("),
        ({"integrator": None}, TypeError, r"integrator.*vr\.sgld\(\).*got None"),
        ({"size": 0}, ValueError, r"kernel\(size=0\).*at least 1"),
        ({"size": 5.0}, ValueError, r"kernel\(size=5\.0\).*whole number"),
        ({"batch_size": 6}, ValueError, r"batch_size=6.*larger than the data.*5 rows"),
        ({"batch_size": 0}, ValueError, r"batch_size=0.*at least 1"),
        ({"estimator": vr.practical(6)}, ValueError, r"anchor_size=6.*larger.*5 rows.*svrg\(\)"),
        (
            {"estimator": vr.practical(3), "batch_size": 3},
            ValueError,
            r"anchor_size=3.*batch_size=3.*n1 > n2",
        ),
        (
            {"posterior": AUGMENTED, "estimator": vr.control_variate()},
            ValueError,
            r"control_variate\(\) cannot be used with augment.*practical\(\) or svrg\(\)",
        ),
    ],
)
def test_a_kernel_of_wrong_parts(change, error, message):
    with pytest.raises(error, match=message):
        vr.kernel(**(KERNEL | change))


def test_a_kernel_of_full_takes_any_batch_size():
    assert (
        vr.kernel(PLAIN, vr.full(), vr.sgld(), size=SIZE, batch_size=10).sampler.batch_size == SIZE
    )


KEYS = {
    "init": lambda kernel, key, state: kernel.init(key, START),
    "refresh": lambda kernel, key, state: kernel.refresh(key, state, take(DATA, jnp.arange(SIZE))),
    "accumulate": lambda kernel, key, state: kernel.accumulate(
        key, state, take(DATA, jnp.arange(COUNT))
    ),
    "renew": lambda kernel, key, state: kernel.renew(
        key, state, kernel.estimator.empty_sum(state.memory)
    ),
    "step": lambda kernel, key, state: kernel.step(key, state, take(DATA, jnp.arange(COUNT)), 0.1),
}


@pytest.mark.parametrize("name", KEYS)
def test_an_old_key_is_refused_with_the_repair(name):
    """Compiled, vmapped or neither; a seed is a key, and one key is not several."""
    kernel = vr.kernel(PLAIN, vr.svrg(), Euler(), size=SIZE)
    state = kernel.init(jax.random.key(START_KEY), START)
    old, call = jax.random.PRNGKey(LOCK), KEYS[name]
    message = r"old-style uint32 key.*jax\.random\.key\(seed\).*jax\.random\.wrap_key_data\(key\)"
    for function, key in (
        (call, old),
        (jax.jit(call, static_argnums=0), old),
        (jax.vmap(call, in_axes=(None, 0, None)), jnp.stack([old, old])),
    ):
        with pytest.raises(TypeError, match=message):
            function(kernel, key, state)
    with pytest.raises(ValueError, match=r"one key.*shape \(2,\).*vmapped over keys"):
        call(kernel, jax.random.split(jax.random.key(LOCK)), state)
    repaired, seeded = (call(kernel, key, state) for key in (jax.random.wrap_key_data(old), LOCK))
    jax.tree.map(np.testing.assert_array_equal, repaired, seeded)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vr.practical(anchor_size=0), r"practical\(anchor_size=0\).*at least 1"),
        (lambda: vr.practical(period=0), r"practical\(period=0\).*at least 1"),
        (lambda: vr.practical(average=0), r"practical\(average=0\).*at least 1"),
        (lambda: vr.practical(anchor_size=2.5), r"anchor_size=2\.5.*whole number"),
        (lambda: vr.svrg(period=0), r"svrg\(period=0\).*at least 1"),
        (lambda: vr.svrg(period=True), r"svrg\(period=True\).*whole number"),
        (lambda: vr.control_variate({"a": np.array([0, np.nan])}), r"centre is not finite.* a\."),
    ],
)
def test_a_description_of_wrong_numbers(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("calls", [0, 2])
def test_an_integrator_calls_the_gradient_once(calls):
    class Wrong(Euler):
        def step(self, key, position, dynamics, gradient, step_size, size):
            for _ in range(calls):
                gradient(position)
            return position, dynamics

    kernel = vr.kernel(PLAIN, vr.minibatch(), Wrong(), size=SIZE)
    state = kernel.init(jax.random.key(START_KEY), START)
    with pytest.raises(ValueError, match=rf"exactly once per step; this one called it {calls}"):
        kernel.step(jax.random.key(STEP), state, take(DATA, jnp.arange(COUNT)), 0.1)


def test_period_of_every_estimator():
    """How often each is refreshed: SVRG once in ceil(N / n) steps unless told otherwise."""
    posterior = vr.models.gaussian.posterior()

    def period(estimator):
        return vr.kernel(posterior, estimator, vr.sgld(), size=23, batch_size=4).period

    assert period(vr.svrg()) == 6
    assert period(vr.svrg(period=5)) == 5
    assert period(vr.practical(10, period=7)) == 7
    assert {period(e) for e in (vr.full(), vr.minibatch(), vr.saga(), vr.control_variate())} == {
        None
    }
