"""Anchors: exact where they are, the same however they are summed, averaged as asked, never forgotten.

The model, the table of estimators and the references are those of `test_estimators.py`.
"""

import itertools
import operator
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from support.estimator_table import (
    AUGMENTED,
    CENTER,
    HERE,
    LOCK,
    LOCKED,
    OTHER_LOCK,
    OTHER_STEP,
    PLAIN,
    SIZES,
    START,
    START_KEY,
    STEP,
    estimators,
    first_refresh,
    flat,
    gradients,
    make_data,
    make_kernel,
    prior_gradient,
    rows,
    run_cycles,
    show,
    take,
    tuples,
)

import vrsgmcmc as vr

SIZE, COUNT, ANCHOR = SIZES[0]
DATA = make_data(SIZE)

# ---------------------------------------------------------------- at the anchor, under a lock


@lru_cache
def refresh_and_step(posterior, estimator):
    """A refresh and all steps on pairs of data from there, as a function of the two keys."""
    kernel = make_kernel(posterior, estimator, SIZE, COUNT)
    anchor = jnp.arange(SIZE)[-kernel.anchor_size :]
    batches = np.arange(SIZE)[None] if estimator.name == "full" else tuples(SIZE, COUNT)

    @jax.jit
    def run(lock, step):
        state = kernel.init(jax.random.key(START_KEY), CENTER)
        state = kernel.refresh(lock, state, take(DATA, anchor))

        def one(batch):
            return ravel_pytree(kernel.step(step, state, take(DATA, batch), 0.1)[1].gradient)[0]

        return jax.vmap(one)(jnp.asarray(batches))

    def anchor_gradient(lock):
        old = SIZE * gradients(posterior, flat(CENTER), DATA, lock)[anchor].mean(0)
        return old + prior_gradient(flat(CENTER))

    return run, anchor_gradient


def difference_at_the_anchor(posterior, estimator):
    """Between the estimates and the anchor's own gradient, at most."""
    run, anchor_gradient = refresh_and_step(posterior, estimator)
    estimates = run(jax.random.key(LOCK), jax.random.key(STEP))
    return abs(np.asarray(estimates) - anchor_gradient(jax.random.key(LOCK))).max()


@pytest.mark.parametrize("estimator", estimators(3, anchored=True), ids=show)
def test_at_the_anchor_every_minibatch_gives_the_anchor_s_gradient(estimator):
    assert difference_at_the_anchor(PLAIN, estimator) < 1e-12


@pytest.mark.parametrize("estimator", estimators(3, names=LOCKED), ids=show)
def test_at_the_anchor_with_dropout_and_augmentation(estimator):
    """Not SAGA: its steps draw fresh augmentations, its table keeps the ones it has seen."""
    assert difference_at_the_anchor(AUGMENTED, estimator) < 1e-12


def test_saga_sees_fresh_augmentations():
    assert difference_at_the_anchor(AUGMENTED, vr.saga()) > 0.1


@pytest.mark.parametrize(
    "estimator", [e for e in estimators(3) if e.name != "control_variate"], ids=show
)
def test_the_lock_is_the_refresh_s_or_the_step_s(estimator):
    """Another lock gives other data. Who keeps a lock does not look at the step's."""
    run, _ = refresh_and_step(AUGMENTED, estimator)
    first, other_step, other_lock = (
        np.asarray(run(jax.random.key(lock), jax.random.key(step)))
        for lock, step in [(LOCK, STEP), (LOCK, OTHER_STEP), (OTHER_LOCK, STEP)]
    )
    locked, anchored = estimator.name in LOCKED, estimator.refresh_size(5) > 0
    assert np.array_equal(first, other_step) == locked
    assert np.array_equal(first, other_lock) == (not anchored)


# ---------------------------------------------------------------- reductions


def random_indices(*shape):
    return np.random.default_rng(11).integers(0, SIZE, shape)


def all_data(*shape):
    return np.broadcast_to(np.arange(SIZE), (*shape, SIZE))


def run(estimator, anchors, batches):
    """Positions and estimates of some cycles."""
    kernel = make_kernel(PLAIN, estimator, SIZE, batches.shape[-1])
    walk = jax.jit(lambda anchors, batches: run_cycles(kernel, DATA, anchors, batches)[1:])
    return tuple(map(rows, walk(anchors, batches)))


def test_practical_whose_anchor_sees_all_data_is_svrg():
    anchors, batches = all_data(3), random_indices(3, 2, COUNT)
    practical = run(vr.practical(SIZE, 2), anchors, batches)
    svrg = run(vr.svrg(2), anchors, batches)
    np.testing.assert_allclose(practical, svrg, rtol=1e-12)


def test_a_minibatch_of_all_data_is_the_full_gradient():
    anchors, batches = all_data(1), all_data(1, 4)
    minibatch = run(vr.minibatch(), anchors, batches)
    full = run(vr.full(), anchors, batches)
    np.testing.assert_allclose(minibatch, full, rtol=1e-12)


def test_an_anchor_of_all_data_renewed_at_every_step_is_exact():
    anchors, batches = all_data(6), random_indices(6, 1, COUNT)
    positions, estimates = run(vr.practical(SIZE, 1), anchors, batches)
    exact = [gradients(PLAIN, x, DATA, None).sum(0) + prior_gradient(x) for x in positions]
    np.testing.assert_allclose(estimates, exact, rtol=1e-12)
    assert len(np.unique(positions, axis=0)) == 6


def splits(count):
    """All ways to cut 0..count-1 into consecutive parts."""
    for cuts in itertools.product((False, True), repeat=count - 1):
        ends = [k + 1 for k, cut in enumerate(cuts) if cut]
        yield list(itertools.pairwise([0, *ends, count]))


@pytest.mark.parametrize("estimator", estimators(ANCHOR, anchored=True, variants=False), ids=show)
def test_however_the_anchor_is_cut_the_refresh_is_the_same(estimator):
    posterior = AUGMENTED if estimator.name == "practical" else PLAIN
    kernel = make_kernel(posterior, estimator, SIZE, COUNT)
    state, lock = kernel.init(jax.random.key(START_KEY), START), jax.random.key(LOCK)
    index = np.random.default_rng(0).permutation(SIZE)[: kernel.anchor_size]
    accumulate, add = jax.jit(kernel.accumulate), lambda *parts: jax.tree.map(operator.add, *parts)
    partial = {
        cut: accumulate(lock, state, take(DATA, index[slice(*cut)]))
        for cut in itertools.combinations(range(len(index) + 1), 2)
    }
    renew, step = jax.jit(kernel.renew), jax.jit(kernel.step)
    batch, key = take(DATA, jnp.arange(COUNT)), jax.random.key(STEP)

    def after(state):
        return flat(step(key, state._replace(position=HERE), batch, 0.1)[1].gradient)

    whole = after(jax.jit(kernel.refresh)(lock, state, take(DATA, index)))
    for cuts in splits(len(index)):
        total = partial[cuts[0]]
        for cut in cuts[1:]:
            total = add(total, partial[cut])
        np.testing.assert_allclose(after(renew(lock, state, total)), whole, rtol=1e-12)


# ---------------------------------------------------------------- averaged anchors


@pytest.mark.parametrize("average", [1, 2, 3])
def test_the_anchor_is_the_mean_of_the_last_positions(average):
    kernel = make_kernel(PLAIN, vr.practical(ANCHOR, 1, average), SIZE)
    refresh, step = jax.jit(kernel.refresh), jax.jit(kernel.step)
    state, positions = kernel.init(jax.random.key(START_KEY), START), [flat(START)]
    rng = np.random.default_rng(12)
    for l in range(3 * average + 1):
        index = rng.permutation(SIZE)[:ANCHOR]
        state = refresh(jax.random.key(LOCK), state, take(DATA, index))
        anchor = np.mean(positions[max(0, l + 1 - average) : l + 1], axis=0)
        gradient = SIZE * gradients(PLAIN, anchor, DATA, None)[index].mean(0)
        np.testing.assert_allclose(flat(state.memory.anchor), anchor, rtol=0, atol=1e-12)
        np.testing.assert_allclose(flat(state.memory.gradient), gradient, rtol=0, atol=1e-12)
        batch = take(DATA, rng.permutation(SIZE)[:COUNT])
        state, _ = step(jax.random.key(STEP), state, batch, 0.1)
        positions.append(flat(state.position))


@pytest.mark.parametrize("average", [2, 3])
def test_an_average_keeps_as_many_positions(average):
    def numbers(average):
        kernel = make_kernel(PLAIN, vr.practical(ANCHOR, 1, average), SIZE)
        state = kernel.init(jax.random.key(START_KEY), START)
        return sum(leaf.size for leaf in jax.tree.leaves(state))

    assert numbers(average) - numbers(1) == average * len(flat(START))


# ---------------------------------------------------------------- before the first refresh


@pytest.mark.parametrize("estimator", estimators(ANCHOR), ids=show)
def test_a_forgotten_refresh_gives_nan(estimator):
    kernel = make_kernel(PLAIN, estimator, SIZE)
    batch = take(DATA, jnp.arange(SIZE if estimator.name == "full" else COUNT))
    step = jax.jit(kernel.step)
    state = kernel.init(jax.random.key(START_KEY), START)
    _, forgotten = step(jax.random.key(STEP), state, batch, 0.1)
    _, right = step(jax.random.key(STEP), first_refresh(kernel, DATA), batch, 0.1)
    assert np.isnan(flat(forgotten.gradient)).all() == (kernel.anchor_size > 0)
    assert np.isfinite(flat(right.gradient)).all()


def test_an_anchor_is_counted_exactly():
    """Float32 stops counting at 2**24, and the old gradient would be scaled by a wrong N / n1."""
    estimator, posterior = vr.practical(2**25), vr.models.gaussian.posterior()
    params = jnp.zeros((), jnp.float32)
    memory = estimator.init(params, 2**26)
    partial_sum = estimator.empty_sum(memory)
    partial_sum = partial_sum._replace(count=partial_sum.count + 2**24)
    part = vr.Batch(jnp.arange(7), jnp.ones(7, jnp.float32))
    present = jnp.asarray([1, 1, 1, 0, 0, 1, 1], jnp.float32)
    for mask, count in ((None, 7), (present, 5)):
        key = jax.random.key(0)
        total = estimator.collect(posterior, partial_sum, memory, params, part, key, mask)
        assert int(total.count) == 2**24 + count
