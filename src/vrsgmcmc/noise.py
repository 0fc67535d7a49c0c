"""Randomness that is a pure function of a key and a counter, written so that XLA fuses it.

Everything here is Threefry-2x32 (Salmon et al. 2011): a bijection of 64-bit counters, one for each
64-bit key. The three uses, `fold`, `normal_like` and `integers`, change the key by a constant of
their own, so the same key never serves one (key, counter) pair to two of them.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, UInt32

from vrsgmcmc.types import Params, PRNGKey

ROUNDS = 20
FOLD_ONE, FOLD_TWO, NORMAL, INTEGERS = 0x3C6E0000, 0x78DD0000, 0xA54F0000, 0xF1BB0000

Word = UInt32[Array, "..."]


def threefry(k0: Any, k1: Any, c0: Any, c1: Any) -> tuple[Word, Word]:
    """Threefry-2x32: the counter (c0, c1) encrypted with the key (k0, k1)."""
    k0, k1, x0, x1 = (jnp.asarray(word).astype(jnp.uint32) for word in (k0, k1, c0, c1))
    keys = (k0, k1, k0 ^ k1 ^ jnp.uint32(0x1BD11BDA))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for i in range(ROUNDS):
        turn = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x0 = x0 + x1
        x1 = x0 ^ ((x1 << jnp.uint32(turn)) | (x1 >> jnp.uint32(32 - turn)))
        if i % 4 == 3:
            s = i // 4 + 1
            x0, x1 = x0 + keys[s % 3], x1 + (keys[(s + 1) % 3] + jnp.uint32(s))
    return x0, x1


def words(key: PRNGKey) -> tuple[Word, Word]:
    """The two words of a threefry key; the longer keys of other generators are hashed to two."""
    data = jax.random.key_data(key).astype(jnp.uint32)
    k0, k1 = data[0], data[1]
    for i in range(2, data.shape[0], 2):
        k0, k1 = threefry(k0, k1, data[i], data[i + 1])
    return k0, k1


def fold(key: PRNGKey, *tags: Int[Array, ""] | int) -> PRNGKey:
    """An independent threefry key for each (key, tag) or (key, tag, tag)."""
    k0, k1 = words(key)
    if len(tags) == 1:
        x0, x1 = threefry(k0 ^ jnp.uint32(FOLD_ONE), k1, 0, tags[0])
    elif len(tags) == 2:
        x0, x1 = threefry(k0 ^ jnp.uint32(FOLD_TWO), k1, *tags)
    else:
        raise TypeError(f"fold takes a key and one or two tags; got {len(tags)} tags")
    return jax.random.wrap_key_data(jnp.stack([x0, x1]), impl="threefry2x32")


def normal_like(key: PRNGKey, tree: Params) -> Params:
    """Independent standard normals with the shapes and dtypes of the leaves of `tree`."""
    k0, k1 = words(key)
    k0 = k0 ^ jnp.uint32(NORMAL)
    leaves, structure = jax.tree.flatten(tree)

    def draw(number: int, leaf: Array) -> Array:
        element = lax.iota(jnp.uint32, math.prod(leaf.shape))
        x0, x1 = threefry(k0, k1, number, element)
        if leaf.dtype == jnp.float64:
            bits = (x0.astype(jnp.uint64) << 32) | x1.astype(jnp.uint64)
            tail = ((bits >> 1) >> 10).astype(jnp.float64) * 2.0**-54 + 2.0**-55
            z = jnp.where((bits & 1) == 1, 1.0, -1.0) * jax.scipy.special.ndtri(tail)
        else:
            tail = ((x0 >> 1).astype(jnp.float32) + 0.5) * 2.0**-32
            z = jnp.where((x0 & 1) == 1, 1.0, -1.0) * jax.scipy.special.ndtri(tail)
        return z.reshape(leaf.shape).astype(leaf.dtype)

    return jax.tree.unflatten(structure, [draw(i, leaf) for i, leaf in enumerate(leaves)])


def multiply(a: Word, b: Word) -> tuple[Word, Word]:
    """The high and the low word of the 64-bit product a b, by halves."""
    half, mask = jnp.uint32(16), jnp.uint32(0xFFFF)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    low = a0 * b0
    middle = a1 * b0 + (low >> half)
    other = a0 * b1 + (middle & mask)
    return a1 * b1 + (middle >> half) + (other >> half), a * b


def integers(
    key: PRNGKey, bound: int | Array, shape: tuple[int, ...], stream: int | Array = 0
) -> Int[Array, "..."]:
    """Exactly uniform integers on 0 .. bound-1; `bound` is one int or an array of shape `shape`."""
    if isinstance(bound, int) and not 1 <= bound <= 2**31:
        raise ValueError(f"bound must be between 1 and 2**31; got {bound}")
    k0, k1 = words(key)
    n = jnp.broadcast_to(jnp.asarray(bound).astype(jnp.uint32), shape)
    element = lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)

    def attempt(number):
        x, _ = threefry(k0 ^ (jnp.uint32(INTEGERS) | number), k1, stream, element)
        return multiply(x, n)

    def redraw(carry):
        number, value, low, doubtful = carry
        rejected = doubtful & (low < -n % n)
        high, new = attempt(number + 1)
        value, low = jnp.where(rejected, high, value), jnp.where(rejected, new, low)
        return number + 1, value, low, rejected & (low < n)

    value, low = attempt(jnp.uint32(0))
    start = (jnp.uint32(0), value, low, low < n)
    _, value, _, _ = lax.while_loop(lambda carry: jnp.any(carry[3]), redraw, start)
    return value.astype(jnp.int32)
