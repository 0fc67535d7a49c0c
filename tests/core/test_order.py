"""The laws of the orders: enumerated (Floyd's draws, shifts, epochs), or chi-square at a fixed key."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scipy import stats

from vrsgmcmc.core import order
from vrsgmcmc.core.order import ORDERS, blocks, draw

SWEEPS = ("shuffled", "symmetric")
FEWER = ("with_replacement", "symmetric")  # fewer sizes: they use what the others test
SIZES = (1, 2, 3, 5, 6, 7, 10, 97, 1000, 100_000, 2**31 - 1)
STEPS = (0, 1, 2, 1000, 2**31 - 1)
KEY = jax.random.key(20)


@partial(jax.jit, static_argnames=("name", "size", "count"))
def drawn(name, key, steps, size, count):
    return jax.vmap(lambda step: draw(name, key, step, size, count))(steps)


def batches(name, key, steps, size, count):
    """Minibatches number `steps`, drawn at once: [step, count]."""
    return np.asarray(drawn(name, key, jnp.asarray(steps, jnp.int32), size, count))


@partial(jax.jit, static_argnames=("number", "size"))
def bijections(number, size):
    position = lax.iota(jnp.uint32, size)
    one = jax.vmap(lambda epoch: order.bijection(KEY, epoch, position, size))
    return one(lax.iota(jnp.int32, number))


def epochs(number, size):
    """The first bijections of 0..size-1, without shift: [epoch, position]."""
    return np.asarray(bijections(number, size)).astype(np.int64)


@partial(jax.jit, static_argnames=("size", "pairwise"))
def floyds(t, size, pairwise=order.PAIRWISE):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "PAIRWISE", pairwise)
        return jax.vmap(lambda t: order.floyd(t, size))(t)


def assert_uniform(cells, number):
    """The cells are counts of equally likely outcomes: chi-square, probability 1e-5 to fail."""
    counts = np.zeros(number)
    found = np.unique_counts(np.asarray(cells)).counts
    counts[: len(found)] = found
    assert stats.chisquare(counts).pvalue > 1e-5


def sweeps_with_shift(monkeypatch, name, steps, size, count, shifts):
    """Minibatches of a sweep with chosen shifts: [shift, step, count]."""

    def one(shift, step):
        monkeypatch.setattr(order, "integers", lambda *_, **__: shift)
        return ORDERS[name](KEY, step, size, count)

    every_step = jax.vmap(one, in_axes=(None, 0))
    draws = jax.jit(jax.vmap(every_step, in_axes=(0, None)))
    return np.asarray(draws(jnp.asarray(shifts, jnp.int32), jnp.asarray(steps, jnp.int32)))


# Floyd's algorithm


def sequential_floyd(t, size):
    chosen = []
    for j, value in zip(range(size - len(t), size), t, strict=True):
        chosen.append(j if value in chosen else value)
    return chosen


def all_draws(size, count):
    return np.array(list(itertools.product(*(range(j + 1) for j in range(size - count, size)))))


@pytest.mark.parametrize("pairwise", [order.PAIRWISE, 0], ids=["pairs", "table"])
@pytest.mark.parametrize(
    ("size", "count"), [(1, 1), (5, 1), (2, 2), (4, 3), (5, 5), (6, 2), (6, 4), (7, 5)]
)
def test_all_of_floyds_draws(size, count, pairwise):
    t = all_draws(size, count)
    result = np.asarray(floyds(jnp.asarray(t, jnp.int32), size, pairwise))
    np.testing.assert_array_equal(result, [sequential_floyd(row, size) for row in t])
    frequency = Counter(tuple(sorted(row)) for row in result.tolist())
    subsets = list(itertools.combinations(range(size), count))
    assert frequency == dict.fromkeys(subsets, len(t) // len(subsets))


@pytest.mark.parametrize(("size", "count"), [(64, 63), (65, 64), (66, 65), (300, 299), (9999, 400)])
def test_floyd_with_many_data_and_long_chains(size, count):
    bound = np.arange(size - count, size) + 1
    t = np.random.default_rng(size).integers(0, bound, (20, count))
    result = np.asarray(floyds(jnp.asarray(t, jnp.int32), size))
    np.testing.assert_array_equal(result, [sequential_floyd(row.tolist(), size) for row in t])


def test_one_chain_through_all_places():
    size, count = 200, 100  # t_j = j - 1 after a repeated value: every step is pushed to its j
    t = np.concatenate([[5, 5], np.arange(size - count + 1, size - 1)])
    result = order.floyd(jnp.asarray(t, jnp.int32), size)
    np.testing.assert_array_equal(result, sequential_floyd(t.tolist(), size))
    np.testing.assert_array_equal(result[1:], np.arange(size - count + 1, size))


def test_repeats_when_all_values_share_a_bucket():
    values = np.arange(2**22, dtype=np.uint32)
    shared = values[(values * np.uint32(order.ODD)) >> np.uint32(32 - 9) == 3][:50]
    t = np.random.default_rng(0).permutation(np.concatenate([shared, shared[:30], shared[:20]]))
    assert len(t) > order.PAIRWISE
    expected = [value in t[:j] for j, value in enumerate(t)]
    np.testing.assert_array_equal(order.repeats(jnp.asarray(t, jnp.int32)), expected)


@pytest.mark.parametrize(("size", "count"), [(7, 2), (6, 3), (5, 4)])
def test_subsets_are_uniform_and_independent_over_steps(size, count):
    index = np.sort(batches("without_replacement", KEY, np.arange(20_000), size, count), axis=1)
    subset = index @ size ** np.arange(count)
    subsets = math.comb(size, count)
    assert_uniform(subset, subsets)
    assert_uniform(subset[::2] * size**count + subset[1::2], subsets**2)


def test_pairs_of_a_large_subset():
    index = batches("without_replacement", KEY, np.arange(400), 100, 70)
    assert all(len(set(row)) == 70 for row in index.tolist())
    inside = np.zeros((400, 100))
    np.put_along_axis(inside, index, 1, axis=1)
    together = (inside.T @ inside / 400)[np.triu_indices(100, 1)]
    expected = 70 * 69 / (100 * 99)
    assert abs(together - expected).max() < 5 * math.sqrt(expected * (1 - expected) / 400)


@pytest.mark.parametrize("size", [1, 4, 200])
def test_all_data_without_replacement(size):
    assert sorted(draw("without_replacement", KEY, 3, size, size).tolist()) == list(range(size))


def test_with_replacement_is_uniform_and_independent():
    index = batches("with_replacement", KEY, np.arange(20_000), 6, 2)
    assert_uniform(index[:, 0] * 6 + index[:, 1], 36)
    assert_uniform(index[::2, 0] * 6 + index[1::2, 0], 36)


def test_with_replacement_may_draw_more_than_all():
    assert set(draw("with_replacement", KEY, 0, 3, 100).tolist()) == {0, 1, 2}


# Sweeps


@pytest.mark.parametrize("size", [*range(1, 11), 97, 257, 1000, 9973, 100_000])
def test_bijection_by_enumeration(size):
    for image in epochs(3, size):
        np.testing.assert_array_equal(np.sort(image), np.arange(size))


@pytest.mark.parametrize("name", SWEEPS)
@pytest.mark.parametrize(("size", "count"), [(6, 2), (10, 10), (97, 9)])
def test_every_epoch_visits_each_index_at_most_once(name, size, count):
    length = blocks(size, count)
    assert length == size // count
    period = length if name == "shuffled" else 2 * length
    index = batches(name, KEY, np.arange(4 * period), size, count).reshape(4, period, count)
    for sweep in index[:, :length]:
        assert len(set(sweep.ravel().tolist())) == length * count
    if name == "symmetric":
        np.testing.assert_array_equal(index[:, length:], index[:, :length][:, ::-1])


@pytest.mark.parametrize("name", SWEEPS)
@pytest.mark.parametrize(("size", "count"), [(5, 2), (8, 4), (10, 4)])
def test_over_all_shifts_every_position_is_uniform_and_every_block_unbiased(
    monkeypatch, name, size, count
):
    period = 2 * blocks(size, count)
    index = sweeps_with_shift(monkeypatch, name, np.arange(period), size, count, np.arange(size))
    uniform = np.broadcast_to(np.arange(size)[:, None, None], index.shape)
    np.testing.assert_array_equal(np.sort(index, axis=0), uniform)
    values = [3**i for i in range(size)]
    for step in range(period):
        block_sums = sum(values[i] for i in index[:, step].ravel())
        assert Fraction(size, count) * Fraction(block_sums, size) == sum(values)


def test_the_rest_that_is_dropped_changes():
    index = batches("shuffled", KEY, np.arange(60), 7, 3).reshape(30, 6)
    assert {(set(range(7)) - set(row)).pop() for row in index.tolist()} == set(range(7))


def test_the_shift_is_uniform():
    index = batches("shuffled", KEY, 2 * np.arange(7000), 7, 3)
    for position in range(3):
        assert_uniform(index[:, position], 7)


@pytest.mark.parametrize("size", [3, 4, 5, 6])
def test_all_permutations_are_equally_likely(size):
    images = epochs(100 * math.factorial(size), size)
    assert_uniform(images @ size ** np.arange(size), math.factorial(size))


@pytest.mark.parametrize("size", [7, 9, 25])
def test_odd_permutations_are_as_frequent_as_even_ones(size):
    images = epochs(2000, size)
    i, j = np.triu_indices(size, 1)
    parity = (images[:, i] > images[:, j]).sum(axis=1) % 2
    assert_uniform(parity, 2)


@pytest.mark.parametrize("size", [6, 10])
def test_pairs_of_positions(size):
    images = epochs(20_000, size)
    for i, j in itertools.combinations(range(size), 2):
        assert_uniform(images[:, i] * size + images[:, j], size * (size - 1))


@pytest.mark.parametrize("size", [100, 1000])
def test_distances_of_positions(size):
    """Neighbours, positions that share a half of the network, and others; seen by their images."""
    images = epochs(4000, size)
    a, b, _ = order.halves(size)
    for i, j in [(0, 1), (0, b), (0, size - 1), (1, b), (a, 2 * a)]:
        distance = (images[:, i] - images[:, j]) % size
        for cells in (9, (size - 1) // 3):
            assert_uniform((distance - 1) // ((size - 1) // cells), cells)


@pytest.mark.parametrize(("size", "count"), [(6, 2), (10, 3), (100, 10), (1000, 30)])
def test_variance_of_block_sums(size, count):
    number, last = 4000, blocks(size, count) - 1
    values = np.stack([np.arange(size) / size, np.arange(size) % 2, np.arange(size) < size / 3])
    for block in {0, last // 2, last}:
        index = batches("shuffled", KEY, (last + 1) * np.arange(number) + block, size, count)
        for f in values:
            square = (f[index].sum(axis=1) - count * f.mean()) ** 2
            expected = count * f.var() * (size - count) / (size - 1)
            assert abs(square.mean() - expected) < 4.5 * square.std() / math.sqrt(number)


@pytest.mark.parametrize("size", [3, 6, 7, 10, 97, 768, 1000, 9973, 60_000, 10**6, 2**31 - 1])
def test_enough_rounds(size):
    """The difference of a pair of positions under random round functions, as a Markov chain.

    A round on L draws dL anew unless dR = 0, a round on R draws dR anew unless dL = 0. By symmetry
    there are three states: dR = 0, dL = 0, neither.
    """
    a, b, pairs = order.halves(size)
    assert min(a, b) >= 2
    assert size <= a * b < size + max(a, 4)
    assert pairs >= 4
    on_left = np.array([[1, 0, 0], [0, 1 / a, 1 - 1 / a], [0, 1 / a, 1 - 1 / a]])
    on_right = np.array([[1 / b, 0, 1 - 1 / b], [0, 1, 0], [1 / b, 0, 1 - 1 / b]])
    uniform = np.array([a - 1, b - 1, (a - 1) * (b - 1)]) / (a * b - 1)
    law = np.linalg.matrix_power(on_left @ on_right, pairs)
    assert abs(law / uniform - 1).max() < 1e-4


def test_one_block_of_the_largest_size():
    """Twice the number of blocks passes 2**31; the last step is still in the first sweep."""
    steps = [0, 2**31 - 3, 2**31 - 2, 2**31 - 1]
    forward, backward = (batches(name, KEY, steps, SIZES[-1], 1)[:, 0] for name in SWEEPS)
    np.testing.assert_array_equal(forward[:3], backward[:3])
    assert backward[3] == backward[2]


def test_no_overflow_with_the_largest_size(monkeypatch):
    size = 2**31 - 1
    image = jax.jit(lambda position: order.bijection(KEY, jnp.int32(0), position, size))
    high = np.asarray(image(jnp.uint32(size) - 1 - lax.iota(jnp.uint32, 100_000)))
    assert len(set(high.tolist())) == 100_000
    assert high.max() < size
    low = np.asarray(image(lax.iota(jnp.uint32, 100_000))).astype(np.int64)
    assert low.max() > 0.99 * size
    index = sweeps_with_shift(monkeypatch, "shuffled", [0], size, 100_000, [size - 1])
    np.testing.assert_array_equal(index[0, 0], (low - 1) % size)


# Every order


@pytest.mark.parametrize(
    ("name", "size"),
    [(name, size) for name in ORDERS for size in (SIZES[::5] if name in FEWER else SIZES)],
)
def test_indices_are_in_range(name, size):
    count = min(size, 7)
    index = batches(name, KEY, STEPS, size, count)
    assert index.dtype == np.int32
    assert index.shape == (len(STEPS), count)
    assert index.min() >= 0
    assert index.max() < size
    if name != "with_replacement":
        assert all(len(set(row)) == count for row in index.tolist())


@pytest.mark.parametrize("name", ORDERS)
def test_a_pure_function_of_key_and_step(name):
    size, count = 97, 70 if name == "without_replacement" else 5
    index = batches(name, KEY, np.arange(30), size, count)
    alone = jax.jit(draw, static_argnums=(0, 3, 4))
    for step in (0, 17, 29):
        np.testing.assert_array_equal(alone(name, KEY, jnp.int32(step), size, count), index[step])
    np.testing.assert_array_equal(draw(name, KEY, 17, size, count), index[17])


@pytest.mark.parametrize("name", ORDERS)
def test_steps_and_keys_draw_different_data(name):
    steps = jnp.arange(blocks(1000, 10), dtype=jnp.int32)
    keys = jax.random.split(jax.random.key(1), 5)
    index = np.asarray(jax.vmap(lambda key: drawn(name, key, steps, 1000, 10))(keys))
    np.testing.assert_array_equal(index[3], drawn(name, keys[3], steps, 1000, 10))
    assert len({frozenset(row) for row in index.reshape(-1, 10).tolist()}) == 5 * len(steps)


@pytest.mark.parametrize(
    ("name", "size", "count"),
    [("without_replacement", 1000, 90), *((name, SIZES[-1], 7) for name in ORDERS)],
)
def test_the_same_bits_without_x64(name, size, count):
    wide = batches(name, KEY, STEPS, size, count)
    with jax.enable_x64(False):
        narrow = batches(name, KEY, STEPS, size, count)
    np.testing.assert_array_equal(wide, narrow)


# Mistakes


def test_an_unknown_order():
    with pytest.raises(ValueError, match=r"order='shufled'.*Did you mean 'shuffled'\?") as e:
        draw("shufled", KEY, 0, 5, 2)
    assert all(repr(name) in str(e.value) for name in ORDERS)


@pytest.mark.parametrize("name", ORDERS)
def test_impossible_sizes(name):
    with pytest.raises(ValueError, match=r"number of data must be between 1 and 2.*got 2147483648"):
        draw(name, KEY, 0, 2**31, 1)
    with pytest.raises(ValueError, match="got 0"):
        draw(name, KEY, 0, 5, 0)
    if name != "with_replacement":
        with pytest.raises(ValueError, match="draws between 1 and 5 of the 5 data at once; got 6"):
            draw(name, KEY, 0, 5, 6)
