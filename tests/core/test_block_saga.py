"""SAGA over blocks: unbiased by enumeration, with a short last block; its table; what it refuses."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from support.estimator_table import (
    AUGMENTED,
    HERE,
    LOCK,
    PLAIN,
    START,
    STEP,
    flat,
    gradients,
    make_data,
    make_kernel,
    prior_gradient,
)

import vrsgmcmc as vr
from vrsgmcmc.core import draw, fold, rows

S = 2


def started(size, posterior=PLAIN):
    data, kernel = make_data(size), make_kernel(posterior, vr.block_saga(S), size, 2 * S)
    state = kernel.init(jax.random.key(0), START)
    return data, kernel, kernel.refresh(jax.random.key(LOCK), state, rows(data, jnp.arange(size)))


def expand(blocks):
    return jnp.asarray((S * np.array(blocks)[:, None] + np.arange(S)).reshape(-1))


def block_sums(values):
    return np.stack([values[k : k + S].sum(0) for k in range(0, len(values), S)])


@pytest.mark.parametrize("size", [6, 5])
@pytest.mark.parametrize("posterior", [PLAIN, AUGMENTED], ids=["plain", "augmented"])
def test_every_estimate_is_the_formula_and_their_mean_the_gradient(size, posterior):
    """All pairs of blocks, two steps after a start; of five rows the last block is short."""
    data, kernel, state = started(size, posterior)
    for l, blocks in enumerate([(0, 1), (2, 2)]):
        state, _ = kernel.step(jax.random.key(7 + l), state, rows(data, expand(blocks)), 0.1)
    state = state._replace(position=HERE)
    table = np.column_stack([state.memory.table["bias"], state.memory.table["weight"]])
    step, lock = jax.jit(kernel.step), fold(jax.random.key(STEP), 1)
    each = gradients(posterior, flat(HERE), data, lock)
    here, prior, count = block_sums(each), prior_gradient(flat(HERE)), len(table)
    assert count == 3
    found = {}
    for blocks in itertools.product(range(count), repeat=2):
        after, info = step(jax.random.key(STEP), state, rows(data, expand(blocks)), 0.1)
        change = (here - table)[list(blocks)].mean(0)
        found[blocks] = ravel_pytree(info.gradient)[0]
        expected = prior + table.sum(0) + count * change
        np.testing.assert_allclose(found[blocks], expected, rtol=0, atol=1e-12)
        new = np.column_stack([after.memory.table["bias"], after.memory.table["weight"]])
        seen = np.isin(np.arange(count), blocks)[:, None]
        np.testing.assert_allclose(new, np.where(seen, here, table), rtol=0, atol=1e-12)
        total = ravel_pytree(after.memory.total.value)[0]
        np.testing.assert_allclose(total, new.sum(0), rtol=0, atol=1e-12)
    distinct = [found[pair] for pair in itertools.combinations(range(count), 2)]
    for mean in (np.mean(list(found.values()), 0), np.mean(distinct, 0)):
        np.testing.assert_allclose(mean, prior + each.sum(0), rtol=0, atol=1e-12)


def test_blocks_of_one_row_are_saga():
    def run(estimator):
        settings = {"step_size": 0.01, "batch_size": 3, "num_steps": 30, "num_chains": 2}
        return vr.sample(
            0, PLAIN, make_data(9), START, estimator=estimator, progress=False, **settings
        )

    one, other = run(vr.saga()), run(vr.block_saga(1))
    np.testing.assert_allclose(one.draws["weight"], other.draws["weight"], rtol=1e-12)
    assert one.evaluations == other.evaluations == 2 * (30 * 3 + 9)


@pytest.mark.parametrize("order", ["with_replacement", "without_replacement"])
def test_blocks_are_drawn_like_rows(order):
    """Expanded, the rows of the blocks that the order draws; a short block ends beyond the data."""
    key = jax.random.key(3)
    seen = set()
    for step in range(40):
        index = np.asarray(draw(order, key, step, 7, 4, block=2))
        blocks = np.asarray(draw(order, key, step, 4, 2))
        np.testing.assert_array_equal(index, expand(blocks))
        seen |= set(index.tolist())
    assert seen == set(range(8))


def test_the_table_is_shorter():
    params = jnp.zeros(3)
    assert vr.block_saga(5).table_bytes(params, 11) == 3 * 3 * 8
    assert vr.block_saga(5).cost(11, 10) == 10


def test_what_does_not_fit_is_refused():
    def run(**options):
        settings = {"step_size": 1e-3, "batch_size": 4, "num_steps": 1} | options
        vr.sample(0, PLAIN, make_data(7), START, estimator=vr.block_saga(2), **settings)

    with pytest.raises(ValueError, match="batch_size=3 and 7 rows: a step visits whole blocks"):
        run(batch_size=3)
    for order in ("shuffled", "symmetric"):
        with pytest.raises(ValueError, match=rf"order='{order}': its blocks are drawn independen"):
            run(order=order)
    with pytest.raises(ValueError, match=r"block_saga\(block_size=0\).*at least 1"):
        vr.block_saga(0)
    data, kernel, state = started(6)
    with pytest.raises(ValueError, match="needs whole blocks, got a batch of 3 rows"):
        kernel.step(jax.random.key(0), state, rows(data, jnp.arange(3)), 0.1)
