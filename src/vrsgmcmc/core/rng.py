"""Randomness as a pure function of (key, counter), written for what XLA does well.

Every word comes from Threefry-2x32 (Salmon et al. 2011, "Parallel random numbers: as easy as
1, 2, 3"), a bijection of 64-bit counters for each 64-bit key, unrolled so that XLA fuses it with what
uses it. `fold`, `normal_like` and `integers` first change the key by a constant of their own, so one
key may serve all three: no (key, counter) pair is used twice.

Normals come in pairs from one counter, by Box and Muller on a quarter of the circle. Words x0, x1:

    p = (floor(x0 / 2) + 1/2) / 2^31        radius  r = sqrt(-2 log p)
    t = (floor(x1 / 2) + 1/2) / 2^31        angle   a = pi t / 2
    z0 = +- r sin a,  z1 = +- r cos a       signs: the last bits of x0 and x1

The law is symmetric exactly, |z| < 6.67, and neither z = 0 nor z = inf can occur. cos a = sin(pi/2 - a)
and log p near p = 1 are computed from 2^31 - 1 - floor(x / 2), an integer, so nothing cancels: every
float32 value is within 1e-6, relative, of the exact function of its words.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int32, Key, UInt32

from .types import Params, PRNGKey

Word: TypeAlias = UInt32[Array, "..."]

# The authors' default, and JAX's. 13 would save about a sixth of the time of a large `normal_like`.
ROUNDS = 20
# What each use xors to the key. The low 16 bits stay free for the attempts of `integers`.
FOLD_ONE, FOLD_TWO, NORMAL, INTEGERS = 0x3C6E0000, 0x78DD0000, 0xA54F0000, 0xF1BB0000

MAGNITUDE = 0x7FFFFFFF
ROW = 128  # Pairs in a row of the grid on which a large leaf is drawn.

# Minimax polynomials: sin(pi t / 2) / t in t^2 on 0 < t < 1, and log(1 + f) / f around f = 0.
SINE = (1.5707963184, -0.6459637106, 0.07968967899, -0.004673766665, 0.0001514851534)
LOG1P = (0.9999999453, -0.5000036512, 0.3333505894, -0.2496990905, 0.1990016548)
LOG1P += (-0.1725082986, 0.1622258047, -0.1010689501)


def word(value: ArrayLike) -> Word | np.uint32:
    """An integer modulo 2^32; a Python number stays a literal of the program."""
    return np.uint32(value % 2**32) if isinstance(value, int) else jnp.asarray(value, jnp.uint32)


def threefry(k0: ArrayLike, k1: ArrayLike, c0: ArrayLike, c1: ArrayLike) -> tuple[Word, Word]:
    """Threefry-2x32: the counter (c0, c1) under the key (k0, k1); scalars meet arrays."""
    return _threefry(word(k0), word(k1), word(c0), word(c1))


@jax.jit
def _threefry(k0: Word, k1: Word, c0: Word, c1: Word) -> tuple[Word, Word]:
    keys = (k0, k1, k0 ^ k1 ^ word(0x1BD11BDA))
    x0, x1 = c0 + k0, c1 + k1
    for i in range(ROUNDS):
        left = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x0 = x0 + x1
        x1 = x0 ^ ((x1 << word(left)) | (x1 >> word(32 - left)))
        if i % 4 == 3:
            s = i // 4 + 1
            x0, x1 = x0 + keys[s % 3], x1 + (keys[(s + 1) % 3] + word(s))
    return x0, x1


def words(key: Key[Array, "..."]) -> tuple[Word, Word]:
    """The two words of a threefry key; the longer keys of other generators are hashed to two."""
    data = jax.random.key_data(key)
    k0, k1 = data[..., 0], data[..., 1]
    for i in range(2, data.shape[-1], 2):
        k0, k1 = threefry(k0, k1, data[..., i], data[..., i + 1])
    return k0, k1


def key_seed(key: PRNGKey) -> int:
    """A number below 2^31 that belongs to a key, for NumPy's generators."""
    return int(np.ravel(jax.random.key_data(key))[-1]) % 2**31


def as_key(key: Any) -> PRNGKey:
    """A typed key from a typed key or a seed."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        try:
            return jax.random.key(int(key))
        except OverflowError:
            raise ValueError(
                f"key={key}: a seed must fit in 64 bits. Take a smaller one."
            ) from None
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        if key.shape:
            raise ValueError(
                f"key must be one key, got an array of keys of shape {key.shape}. Pass one of them; "
                "chains get keys of their own, and a kernel is vmapped over keys."
            )
        return key
    if getattr(key, "dtype", None) == np.uint32:
        raise TypeError(
            "key is an old-style uint32 key. Make it with jax.random.key(seed), or wrap it: "
            "jax.random.wrap_key_data(key)."
        )
    raise TypeError(f"key must be jax.random.key(seed) or a whole number, got {key!r}.")


def common(key: PRNGKey) -> PRNGKey:
    """The key itself if it is a threefry key, else one made of its `words`."""
    return jax.random.wrap_key_data(jnp.stack(words(key), -1), impl="threefry2x32")


def fold(key: Key[Array, "..."], *tags: ArrayLike) -> Key[Array, "..."]:
    """An independent threefry key for each key and one or two integer tags."""
    k0, k1 = words(key)
    if len(tags) == 1:
        x0, x1 = threefry(k0 ^ word(FOLD_ONE), k1, 0, tags[0])
    elif len(tags) == 2:
        x0, x1 = threefry(k0 ^ word(FOLD_TWO), k1, *tags)
    else:
        raise TypeError(f"fold takes a key and one or two integer tags; got {len(tags)} tags.")
    return jax.random.wrap_key_data(jnp.stack([x0, x1], -1), impl="threefry2x32")


@custom_vmap
def _always(anything: Word) -> Bool[Array, ""]:
    """True, which XLA does not know; under vmap it stays one scalar."""
    return (anything | word(1)) != 0


@_always.def_vmap
def _always_for_all(size: int, batched: Any, anything: Word) -> tuple[Bool[Array, ""], bool]:
    return _always(anything[0]), False


def once(anything: Word, make: Callable[[], Array]) -> Array:
    """`make()`, computed once and stored before any use of it.

    Left alone, XLA on CPU fuses `make` into every consumer, repeats it there, and makes a loop of
    scalars of it where the consumer's length is no multiple of its threads (ten times slower).
    """

    def stored() -> Array:
        empty = jax.eval_shape(make)
        return lax.cond(_always(anything), make, lambda: jnp.zeros(empty.shape, empty.dtype))

    return lax.platform_dependent(cpu=stored, default=make)


def _unit(magnitude: Word) -> Float[Array, "..."]:
    """(magnitude + 1/2) / 2^31; the magnitude has 31 bits, so the signed conversion is exact to it."""
    return (magnitude.astype(jnp.int32).astype(jnp.float32) + 0.5) * 2.0**-31


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


def radius(magnitude: Word) -> Float[Array, "..."]:
    """sqrt(-2 log p), p = (magnitude + 1/2) / 2^31, by p = 2^e (1 + f) with f in (-0.3, 0.42)."""
    bits = lax.bitcast_convert_type(_unit(magnitude), jnp.int32)
    e = (bits - 0x3F3504F3) >> 23
    mantissa = lax.bitcast_convert_type(bits - (e << 23), jnp.float32)
    f = jnp.where(e == 0, -_unit(magnitude ^ word(MAGNITUDE)), mantissa - 1)
    log = e.astype(jnp.float32) * math.log(2) + f * _polynomial(LOG1P, f)
    return jnp.sqrt(-2 * log)


def quarter_sine(magnitude: Word) -> Float[Array, "..."]:
    """sin(pi t / 2), t = (magnitude + 1/2) / 2^31."""
    t = _unit(magnitude)
    return t * _polynomial(SINE, t * t)


def normal32(x0: Word, x1: Word, second: bool | Bool[Array, "..."]) -> Float[Array, "..."]:
    """The first or the second float32 normal of the words x0, x1."""
    angle = (x1 >> word(1)) ^ jnp.where(second, word(MAGNITUDE), word(0))
    sign = jnp.where(second, x1, x0) << word(31)
    size = lax.bitcast_convert_type(radius(x0 >> word(1)) * quarter_sine(angle), jnp.uint32)
    return lax.bitcast_convert_type(size | sign, jnp.float32)


def normal64(x0: Word, x1: Word) -> Float[Array, "..."]:
    """One float64 normal: a sign, and the quantile of (63 bits + 1/2) / 2^64 < 1/2."""
    tail = (x0 >> word(1)).astype(jnp.float64) + (x1.astype(jnp.float64) + 0.5) * 2.0**-32
    size = -jax.scipy.special.ndtri(tail * 2.0**-32)
    return jnp.where(x0 & word(1) == 1, -size, size)


def normal_like(key: PRNGKey, tree: Params, scale: ArrayLike | None = None) -> Params:
    """Independent normals, standard or times `scale`, with the shapes and dtypes of `tree`'s leaves.

    The leaf's number is one word of the counter; the number of the element, or of the pair of
    elements, is the other.
    """
    k0, k1 = words(key)

    def draw(number: int, leaf: Array) -> Array:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise TypeError(
                f"normal_like draws real floating-point noise, but leaf {number} has dtype "
                f"{leaf.dtype}; take it out of the parameters or convert it to a float."
            )
        z = _normals(k0 ^ word(NORMAL), k1, word(number), leaf.size, leaf.dtype == jnp.float64)
        z = z.reshape(leaf.shape).astype(leaf.dtype)
        return z if scale is None else (scale * z).astype(leaf.dtype)

    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, [draw(i, leaf) for i, leaf in enumerate(leaves)])


@partial(jax.jit, static_argnames=("size", "double"))
def _normals(k0: Word, k1: Word, leaf: Word, size: int, double: bool) -> Float[Array, " size"]:
    """The same values by two programs: element by element, or pair by pair on a grid."""

    def elements() -> Array:
        element = lax.iota(jnp.uint32, size)
        if double:
            return normal64(*threefry(k0, k1, leaf, element))
        x0, x1 = threefry(k0, k1, leaf, element >> word(1))
        return normal32(x0, x1, element & word(1) == 1)

    def rows() -> Array:
        shape = (-(-size // (ROW if double else 2 * ROW)), ROW)
        row, column = (lax.broadcasted_iota(jnp.uint32, shape, axis) for axis in (0, 1))

        def make() -> Array:
            x0, x1 = threefry(k0, k1, leaf, row * word(ROW) + column)
            if double:
                return normal64(x0, x1)
            return lax.complex(normal32(x0, x1, False), normal32(x0, x1, True))

        z = once(k0, make)
        z = z if double else jnp.stack([lax.real(z), lax.imag(z)], -1)
        return z.reshape(-1)[:size]

    return elements() if size < ROW else lax.platform_dependent(cpu=rows, default=elements)


def multiply(a: Word, b: Word, bits: int = 32) -> tuple[Word, Word]:
    """The high and the low word of the product of two words of `bits` bits, by halves."""
    half, mask, full = word(bits // 2), word((1 << bits // 2) - 1), word((1 << bits) - 1)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & mask)
    return a1 * b1 + (middle >> half) + (other >> half), a * b & full


def rejected(x: Word, bound: Word, bits: int = 32) -> Bool[Array, "..."]:
    """Lemire (2019): the words to draw again, so that each value keeps floor(2^bits / bound) words.

    The value of the word x is floor(x bound / 2^bits); it is refused when the remainder is below
    2^bits mod bound.
    """
    excess = (word((1 << bits) - 1) - bound + word(1)) % bound
    return multiply(x, bound, bits)[1] < excess


def integers(
    key: PRNGKey, bound: ArrayLike, shape: tuple[int, ...], stream: ArrayLike = 0
) -> Int32[Array, "..."]:
    """Exactly uniform integers on 0 .. bound-1, independent over keys, streams and elements.

    `bound` is a number, or an array of shape `shape` (bounds below 1 count as 1).
    """
    if isinstance(bound, int) and not 1 <= bound <= 2**31:
        raise ValueError(f"bound must be between 1 and 2**31; got {bound}.")
    if jnp.shape(bound) not in ((), tuple(shape)):
        raise ValueError(f"bound must be a number or have shape {shape}; got {jnp.shape(bound)}.")
    k0, k1 = words(key)
    n = bound if isinstance(bound, int) else jnp.maximum(bound, 1)
    even = isinstance(bound, int) and 2**32 % bound == 0
    return _integers(k0 ^ word(INTEGERS), k1, word(n), word(stream), tuple(shape), even)


@partial(jax.jit, static_argnames=("shape", "even"))
def _integers(
    k0: Word, k1: Word, bound: Word, stream: Word, shape: tuple[int, ...], even: bool
) -> Int32[Array, "..."]:
    """`even`: `bound` divides 2^32, so that no word is ever rejected."""
    element = lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)

    def attempt(number: ArrayLike) -> Word:
        return threefry(k0 ^ word(number), k1, stream, element)[0]

    def again(carry: tuple[Word, Word, Array]) -> tuple[Word, Word, Array]:
        number, x, _ = carry
        bad = rejected(x, bound)
        return number + word(1), jnp.where(bad, attempt(number), x), jnp.any(bad)

    x = once(k0, lambda: attempt(0))
    if not even:
        # A remainder of `bound` or more needs no division to be accepted, and is the rule.
        doubt = jnp.any(multiply(x, bound)[1] < bound)
        _, x, _ = lax.while_loop(lambda carry: carry[2], again, (jnp.uint32(1), x, doubt))
    return multiply(x, bound)[0].astype(jnp.int32)
