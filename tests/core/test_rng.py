"""`rng.py`: the hash by known answers, the laws by proof on the words, then by draws."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.extend.random import threefry_2x32

from vrsgmcmc.core import rng
from vrsgmcmc.core.rng import fold, integers, normal_like, threefry, words

KEY = jax.random.key(20)
STEPS = 2**31  # magnitudes, of a radius or of an angle


def uint32(values) -> jax.Array:
    return jnp.asarray(np.asarray(values, np.int64).astype(np.uint32))


def pairs(*blocks) -> set[tuple[int, ...]]:
    """The rows of some words, scalars repeated, as a set."""
    return set(zip(*(np.ravel(b).tolist() for b in np.broadcast_arrays(*blocks)), strict=True))


# --- the hash and the keys -----------------------------------------------------------------------

ANSWERS = [  # Random123, kat_vectors, "threefry 2x32 20": counter, key, output
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("counter", "key", "answer"), ANSWERS)
@pytest.mark.parametrize("x64", [True, False])
def test_threefry_known_answers(counter, key, answer, x64):
    with jax.enable_x64(x64):
        assert tuple(map(int, threefry(*key, *counter))) == answer


def test_threefry_is_the_one_of_jax():
    c = jax.random.bits(jax.random.key(1), (2, 500), jnp.uint32)
    k0, k1 = words(KEY)
    theirs = threefry_2x32(jnp.stack([k0, k1]), c.reshape(-1))
    np.testing.assert_array_equal(jnp.concatenate(threefry(k0, k1, c[0], c[1])), theirs)


def test_words():
    assert tuple(map(int, words(jax.random.key(7 + (3 << 32))))) == (3, 7)
    batch = jax.random.split(jax.random.key(0, impl="rbg"), 30)
    np.testing.assert_array_equal(words(batch), jax.vmap(words)(batch))
    assert len(pairs(*words(batch))) == 30


def test_other_keys_serve_every_use():
    key = jax.random.key(5, impl="rbg")
    assert jax.random.key_impl(fold(key, 1)) == "threefry2x32"
    assert np.isfinite(normal_like(key, jnp.zeros(300, jnp.float32))).all()
    assert set(integers(key, 2, (50,)).tolist()) == {0, 1}


def test_fold():
    tags = jnp.array([0, 1, -1, 2**31 - 1], jnp.int32)
    one, two = np.stack(words(fold(KEY, tags))), np.stack(words(fold(KEY, 3, tags)))
    for i, tag in enumerate(tags.tolist()):
        np.testing.assert_array_equal(words(fold(KEY, tag)), one[:, i])
        np.testing.assert_array_equal(words(jax.jit(fold)(KEY, tags[i])), one[:, i])
        np.testing.assert_array_equal(words(fold(KEY, 3, tag)), two[:, i])
    assert len(pairs(*one) | pairs(*two) | pairs(*words(fold(KEY, tags, 3)))) == 12
    for wrong in ((), (1, 2, 3)):
        with pytest.raises(TypeError, match=f"one or two integer tags; got {len(wrong)} tags"):
            fold(KEY, *wrong)


def test_no_pair_of_key_and_counter_is_used_twice(monkeypatch):
    """Records what each use of one key asks of the hash: the requests are disjoint."""
    requests = []

    def record(*block):
        jax.debug.callback(lambda *block: requests[-1].append(block), *block)
        return threefry(*block)

    def leaf(number, size, dtype):  # the leaf of that number, alone
        return lambda: normal_like(KEY, [jnp.zeros(0)] * number + [jnp.zeros(size, dtype)])

    uses = [
        lambda: fold(KEY, jnp.arange(-500, 500)),
        lambda: [fold(KEY, jnp.arange(-20, 20), tag) for tag in range(-20, 20)],
        leaf(0, 300, jnp.float32),
        leaf(1, 9, jnp.float32),
        leaf(2, 200, jnp.float64),
        *(lambda s=s: integers(KEY, 3 * 2**29, (300,), stream=s) for s in (0, 1, -1)),
    ]
    monkeypatch.setattr(rng, "threefry", record)
    for name, static in {"_normals": (3, 4), "_integers": (4, 5)}.items():
        plain = getattr(rng, name).__wrapped__  # compiled anew, with `record`
        anew = jax.jit(lambda *args, plain=plain: plain(*args), static_argnums=static)
        monkeypatch.setattr(rng, name, anew)
    for use in uses:
        requests.append([])
        jax.block_until_ready(use())
        jax.effects_barrier()
    sets = [set().union(*(pairs(*block) for block in use)) for use in requests]
    assert [len(used) for used in sets[:5]] == [1000, 1600, 256, 5, 256]
    assert all(len(used) > 600 for used in sets[5:]), "integers are meant to be redrawn here"
    assert len(set().union(*sets)) == sum(map(len, sets))


# --- the normals, proved on their words ----------------------------------------------------------


def magnitudes() -> np.ndarray:
    """The 1000 smallest and largest of the 2^31, and a dense grid: even, and towards both ends."""
    low = np.r_[0:1000, np.geomspace(1, STEPS - 1, 200_001).astype(np.int64)]
    return np.unique(np.r_[low, STEPS - 1 - low, np.linspace(0, STEPS - 1, 200_001).astype(int)])


def exact(magnitude: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Radius and sine in float64, from the nearer end of the unit interval."""
    p, rest = (magnitude + 0.5) / STEPS, (STEPS - 1 - magnitude + 0.5) / STEPS
    return np.sqrt(-2 * np.where(p < 0.5, np.log(p), np.log1p(-rest))), np.sin(np.pi / 2 * p)


@pytest.mark.parametrize("compiled", [False, True])
def test_radius_and_sine_are_accurate_and_monotone(compiled):
    m = magnitudes()
    radius, sine = exact(m)
    for function, truth, sign in (rng.radius, radius, -1), (rng.quarter_sine, sine, 1):
        value = (jax.jit(function) if compiled else function)(uint32(m))
        assert value.dtype == jnp.float32
        value = np.asarray(value, float)
        np.testing.assert_allclose(value, truth, rtol=4e-7)
        assert np.all(value > 0)
        assert np.all(sign * np.diff(value) >= -4e-7 * value[1:])


def test_normal32_is_its_formula_and_symmetric():
    x0, x1 = jax.random.bits(jax.random.key(2), (2, 100_000), jnp.uint32)
    (m0, last0), (m1, last1) = (np.divmod(np.asarray(x, np.int64), 2) for x in (x0, x1))
    for i, angle, last in (0, m1, last0), (1, STEPS - 1 - m1, last1):
        z = rng.normal32(x0, x1, bool(i))
        np.testing.assert_allclose(z, (1 - 2 * last) * exact(m0)[0] * exact(angle)[1], rtol=1e-6)
        mirrored = rng.normal32(x0 ^ uint32(1 - i), x1 ^ uint32(i), bool(i))
        np.testing.assert_array_equal(mirrored, -z)


def test_tails_of_the_law():
    """P(|z| > c) over all words: the mean over angles of the share of radii above c / sin.

    The radius falls in the magnitude, so a search over the bits counts the magnitudes above.
    """
    sines = np.sin(np.pi / 2 * (np.arange(512) + 0.5) / 512)
    above = jax.jit(lambda m, limit: rng.radius(m).astype(jnp.float64) > limit)
    for c in (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0):
        count = np.zeros(512, np.int64)
        for step in 2 ** np.arange(31, -1, -1):
            more = np.minimum(count + step, STEPS)
            count = np.where(above(uint32(more - 1), jnp.asarray(c / sines)), more, count)
        share = np.mean(count) / STEPS
        assert share == pytest.approx(2 * scipy.stats.norm.sf(c), rel=3e-5, abs=1 / STEPS), c


def test_normal64_is_its_formula():
    m = magnitudes()
    for low in (0, 0xFFFFFFFF, 0x9E3779B9):
        tail = (m + (low + 0.5) / 2**32) / 2**32
        for sign in (0, 1):
            z = rng.normal64(uint32(2 * m + sign), uint32(np.full_like(m, low)))
            np.testing.assert_allclose(z, (2 * sign - 1) * scipy.special.ndtri(tail), rtol=1e-13)


# --- the normals, drawn --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize(("keys", "shape"), [(1, (2**18,)), (2**12, (64,)), (2**16, ())])
def test_draws_are_normal(keys, shape, dtype):
    draw = jax.vmap(lambda key: normal_like(key, jnp.zeros(shape, dtype)))
    z = np.asarray(draw(fold(KEY, jnp.arange(keys))), np.float64).reshape(-1)
    for power, (mean, variance) in enumerate(((0, 1), (1, 2), (0, 15), (3, 96)), start=1):
        assert abs(np.mean(z**power) - mean) < 4 * np.sqrt(variance / z.size), power
    assert scipy.stats.kstest(z, "norm").pvalue > 0.001


def test_draws_are_independent():
    """Neighbours, partners of a pair, leaves, keys: no correlation of values nor of squares."""
    like = jnp.zeros(2**16, jnp.float32)
    a, b = (np.asarray(z, np.float64) for z in normal_like(KEY, [like, like]))
    c = np.asarray(normal_like(fold(KEY, 1), like), np.float64)
    partners = [(z[0::2], z[1::2]) for z in (a, b, c)]
    lags = [(a[lag:], a[:-lag]) for lag in (1, 2, rng.ROW, 2 * rng.ROW)]
    for x, y in [(a, b), (a, c), (b, c), *partners, *lags]:
        for power in (1, 2):
            assert abs(np.corrcoef(x**power, y**power)[0, 1]) < 4 / np.sqrt(x.size)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64])
def test_shapes_and_dtypes(dtype):
    shapes = [(), (0,), (1,), (3, 0), (127,), (128,), (7, 11, 5)]
    tree = {str(i): jnp.ones(shape, dtype) for i, shape in enumerate(shapes)}
    z = jax.jit(normal_like)(KEY, tree)
    for name, leaf in tree.items():
        assert (z[name].shape, z[name].dtype) == (leaf.shape, leaf.dtype)
    flat = np.concatenate([np.asarray(leaf, np.float64).reshape(-1) for leaf in z.values()])
    assert np.isfinite(flat).all()
    if jnp.finfo(dtype).bits >= 32:
        assert len(set(flat.tolist())) == flat.size
    with pytest.raises(TypeError, match="leaf 1 has dtype int32; take it out of the parameters"):
        normal_like(KEY, [tree["0"], jnp.zeros(2, jnp.int32)])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_every_program_draws_the_same_values(dtype):
    """A leaf too small for the grid, a larger one, compiled or not: the same prefix."""
    small, large = jnp.zeros(rng.ROW - 1, dtype), jnp.zeros(1001, dtype)
    z = normal_like(KEY, large)
    np.testing.assert_allclose(normal_like(KEY, small), z[: rng.ROW - 1], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(normal_like)(KEY, large), z, rtol=1e-6)


def test_vmap_over_keys_draws_the_same_and_stores():
    keys, like = fold(KEY, jnp.arange(3)), jnp.zeros(301, jnp.float32)
    draw = jax.jit(jax.vmap(lambda key: normal_like(key, like)))
    for key, z in zip(keys, draw(keys), strict=True):
        np.testing.assert_allclose(z, normal_like(key, like), rtol=1e-6)
    # The branch that keeps XLA from repeating the draw in each consumer has not become a select.
    assert " conditional(" in str(draw.lower(keys).compile().as_text())


# --- the integers --------------------------------------------------------------------------------


def test_every_value_keeps_the_same_number_of_words():
    """All words of 8 bits under all bounds, and all of 16 under some: enumeration."""
    multiply, rejected = (jax.jit(f, static_argnums=2) for f in (rng.multiply, rng.rejected))
    for bits, bounds in ((8, range(1, 256)), (16, (3, 10, 255, 641, 40_000, 65_535))):
        x = jnp.arange(2**bits, dtype=jnp.uint32)
        for bound in map(jnp.uint32, bounds):
            kept = ~np.asarray(rejected(x, bound, bits))
            counts = np.bincount(np.asarray(multiply(x, bound, bits)[0])[kept])
            np.testing.assert_array_equal(counts, np.full(int(bound), 2**bits // int(bound)))


@pytest.mark.parametrize("bound", [3, 10, 768, 60_000, 2**16 + 1, 3 * 2**29, 2**31 - 1, 2**31])
def test_words_of_32_bits_at_every_border(bound):
    """With exact integers: value v keeps the words [first, last]; the code agrees at both borders."""
    excess, full = 2**32 % bound, 2**32
    for v in {0, 1, bound // 3, bound // 2, bound - 1}:
        first = -(-(v * full + excess) // bound)
        last = -(-(v + 1) * full // bound) - 1
        assert last - first + 1 == full // bound
        around = [first - 1, first, first + 1, last - 1, last, last + 1]
        around = [x for x in around if 0 <= x < full]
        x, n = uint32(around), uint32(bound)
        kept = np.asarray(~rng.rejected(x, n)) & (np.asarray(rng.multiply(x, n)[0]) == v)
        assert kept.tolist() == [first <= word <= last for word in around]


def test_multiply_is_exact():
    edges = [0, 1, 2, 0xFFFF, 0x10000, 0x10001, 2**31 - 1, 2**31, 2**32 - 1]
    a = edges + np.random.default_rng(0).integers(0, 2**32, 1000).tolist()
    b = edges[::-1] + np.random.default_rng(1).integers(0, 2**32, 1000).tolist()
    high, low = (np.asarray(word, object) for word in rng.multiply(uint32(a), uint32(b)))
    assert np.all(high * 2**32 + low == np.asarray(a, object) * np.asarray(b, object))


def by_hand(key, bounds: list[int], stream: int) -> list[int]:
    """`integers` in Python: one element, one attempt at a time."""
    k0, k1 = map(int, words(key))

    def value(element, bound, attempt=0):
        product = bound * int(threefry(k0 ^ rng.INTEGERS ^ attempt, k1, stream, element)[0])
        accepted = product % 2**32 >= 2**32 % bound
        return product >> 32 if accepted else value(element, bound, attempt + 1)

    return [value(element, bound) for element, bound in enumerate(bounds)]


def test_integers_against_rejection_by_hand():
    drawn = integers(KEY, 3 * 2**29, (10, 6), stream=-3)  # one word in four is rejected
    assert drawn.dtype == jnp.int32
    assert drawn.reshape(-1).tolist() == by_hand(KEY, [3 * 2**29] * 60, -3)
    bounds = [1, 2, 3, 7, 2**31 - 1, 3 * 2**29, 2**30 + 1, 100] * 4
    for dtype in (jnp.int32, jnp.uint32):
        many = integers(KEY, jnp.asarray(bounds, dtype), (32,), stream=2)
        assert many.tolist() == by_hand(KEY, bounds, 2)


def test_integers_are_the_same_compiled_and_in_parallel():
    keys = fold(KEY, jnp.arange(4))
    draw = partial(integers, bound=3 * 2**29, shape=(50,))
    one_by_one = jnp.stack([draw(key, stream=5) for key in keys])
    parallel = jax.jit(jax.vmap(lambda key: draw(key, stream=jnp.int32(5))))(keys)
    np.testing.assert_array_equal(parallel, one_by_one)
    assert not jnp.any(jnp.all(one_by_one == draw(KEY, stream=5)[None, :], axis=1))
    assert jnp.mean(draw(KEY, stream=5) == draw(KEY, stream=6)) < 0.1


@pytest.mark.parametrize("bound", [2, 6, 97, 768])
def test_integers_are_uniform(bound):
    drawn = np.asarray(integers(KEY, bound, (100_000,), stream=bound))
    assert (drawn.min(), drawn.max()) == (0, bound - 1)
    assert scipy.stats.chisquare(np.bincount(drawn)).pvalue > 0.001
    neighbours = np.bincount(drawn[0::2] % 2 * 2 + drawn[1::2] % 2)
    evens = np.bincount(np.arange(bound) % 2) / bound
    assert scipy.stats.chisquare(neighbours, np.outer(evens, evens).ravel() * 50_000).pvalue > 0.001


def test_shapes_of_integers():
    assert integers(KEY, 1, (0, 3)).shape == (0, 3)
    assert integers(KEY, 1, ()).tolist() == 0
    assert integers(KEY, jnp.int32(5), (4,)).tolist() == integers(KEY, 5, (4,)).tolist()
    assert int(integers(KEY, 2**31, (1000,)).min()) >= 0
    assert integers(KEY, jnp.array([0, -1], jnp.int32), (2,)).tolist() == [0, 0]
    for wrong in (0, -3, 2**31 + 1):
        with pytest.raises(ValueError, match=f"between 1 and 2..31; got {wrong}"):
            integers(KEY, wrong, (2,))
    with pytest.raises(ValueError, match=r"number or have shape \(2, 3\); got \(3,\)"):
        integers(KEY, jnp.ones(3, jnp.int32), (2, 3))


# --- everywhere ----------------------------------------------------------------------------------


def test_the_same_without_float64():
    bounds, like = np.array([3, 3 * 2**29, 2**31 - 1], np.int32), np.zeros(300, np.float32)

    def everything():
        whole = [*words(fold(KEY, 1, -1)), integers(KEY, jnp.asarray(bounds), (3,))]
        return jax.tree.map(np.asarray, (whole, normal_like(KEY, jnp.asarray(like))))

    whole, z = everything()
    with jax.enable_x64(False):
        whole_off, z_off = everything()
    jax.tree.map(np.testing.assert_array_equal, whole_off, whole)
    np.testing.assert_allclose(z_off, z, rtol=1e-6)


def test_one_key_may_serve_every_use():
    """The key-reuse checker, on in these tests, sees nothing consumed."""

    @jax.jit
    def total(key, step):
        z = normal_like(key, jnp.zeros(200)), normal_like(fold(key, step), jnp.zeros(2))
        return z[0].sum() + z[1].sum() + integers(key, 7, ())

    assert float(total(KEY, 3)) != float(total(KEY, 4))
