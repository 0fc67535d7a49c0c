"""Which data, in which order: the indices of minibatch 0, 1, 2, ... as a pure function of a key.

No order keeps a state or an array of length N, so a run resumes exactly at any step, and a whole
cycle of minibatches is drawn at once with `vmap` over the steps. N is `size`, n is `count`.

- `with_replacement`: n independent uniform integers.
- `without_replacement`: a subset of n data, every subset equally likely, independent over the steps.
  Floyd's algorithm: for j = N-n, ..., N-1 draw t_j uniform on 0..j; add t_j to the set, or j when t_j
  is in it already. The set is uniform; the order of its elements is not, so use them as a set.
- `shuffled`: random reshuffling. Epoch e is N // n blocks of one random permutation,

      index(position) = (bijection_e(position) + shift_e) mod N,   shift_e uniform on 0..N-1.

- `symmetric`: the blocks of one permutation forward, then the same blocks backward.

Why sweeps are unbiased. Whatever the bijection is, the shift alone makes the index at every position
exactly uniform on 0..N-1. A block has n positions, so E[(N/n) sum over the block of f_i] = sum_i f_i,
for each block of an epoch. When n does not divide N, the last N mod n positions of the permutation
are dropped: this takes positions away, it does not change the law of the index at the others. Which
data are left out changes from epoch to epoch.

How good the bijection is matters only for how positions depend on each other. It is a Feistel
network on Z_a x Z_b, ab >= N, whose rounds alternate L += F(R) mod a and R += G(L) mod b. Each is
invertible, hence so is the network; a point outside 0..N-1 is sent through again until it is inside
(cycle walking), which keeps the map one-to-one. With random F and G, the law of a pair of positions
differs from uniform by at most a b^(1-p), relative, after p double rounds: p is the first from 4 on
that makes this at most 1e-4. So small N takes more rounds: 16 double ones at N = 6, 4 at N = 100,000.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, PyTree, UInt32

from .arguments import one_of
from .rng import fold, integers, words
from .tree import take
from .types import Batch, Data, PRNGKey

Step = Int[Array, ""] | int
Indices = Int[Array, " n"]

PAIRWISE = 64  # up to here comparing all pairs is faster than a hash table (CPU, measured)
ODD = 0x9E3779B1


def draw(order: str, key: PRNGKey, step: Step, size: int, count: int, block: int = 1) -> Indices:
    """The indices of the `count` data of minibatch number `step` out of `size`, in order `order`.

    The key belongs to the order and is the same for all steps. `block`: what is drawn are blocks of so
    many consecutive rows; a short last one is filled up with indices from `size` on.
    """
    if block > 1:
        first = block * draw(order, key, step, -(-size // block), count // block)
        return (first[:, None] + lax.iota(jnp.int32, block)[None, :]).reshape(-1)
    one_of("draw", "order", order, ORDERS)
    if not 1 <= size < 2**31:
        raise ValueError(f"the number of data must be between 1 and 2**31 - 1; got {size}")
    if count < 1 or (count > size and order != "with_replacement"):
        raise ValueError(
            f"order {order!r} draws between 1 and {size} of the {size} data at once; got {count}; "
            "use a smaller batch or order 'with_replacement'"
        )
    return ORDERS[order](key, step, size, count)


def rows(data: Data, index: Indices) -> Batch:
    """The rows `index` of the data: the one place where rows are taken."""
    return Batch(index, take(data, index))


def all_rows(data: Data) -> Batch:
    """All data, in their order."""
    return Batch(jnp.arange(data_size(data)), data)


def data_size(data: PyTree) -> int:
    """N, the length of the leading axis."""
    return jax.tree.leaves(data)[0].shape[0]


def blocks(size: int, count: int) -> int:
    """Minibatches in one epoch of `shuffled` (and in one direction of `symmetric`)."""
    return size // count


def with_replacement(key: PRNGKey, step: Step, size: int, count: int) -> Indices:
    return integers(key, size, (count,), stream=step)


def without_replacement(key: PRNGKey, step: Step, size: int, count: int) -> Indices:
    if count == size:
        return lax.iota(jnp.int32, size)
    bound = lax.iota(jnp.int32, count) + jnp.int32(size - count + 1)
    return floyd(integers(key, bound, (count,), stream=step), size)


def shuffled(key: PRNGKey, step: Step, size: int, count: int) -> Indices:
    epoch, block = divide(step, blocks(size, count))
    return sweep(key, epoch, block, size, count)


def symmetric(key: PRNGKey, step: Step, size: int, count: int) -> Indices:
    length = blocks(size, count)
    epoch, block = divide(step, 2 * length)
    block = jnp.minimum(block, jnp.uint32(2 * length - 1) - block)
    return sweep(key, epoch, block, size, count)


ORDERS: dict[str, Callable[[PRNGKey, Step, int, int], Indices]] = {
    "with_replacement": with_replacement,
    "without_replacement": without_replacement,
    "shuffled": shuffled,
    "symmetric": symmetric,
}


def floyd(t: Indices, size: int) -> Indices:
    """Floyd's set from all its draws t_j, j = size-n, ..., size-1, at once.

    One after the other: s_j = j if t_j is among s_i, i < j, else t_j. An earlier s_i equals t_j when
    t_i = t_j for some i < j (then t_i was in the set after step i, added or found there); or else
    when i = t_j was itself added in place of its t_i, so i is a `taken` step before j. The second
    is a chain of pointers to earlier steps, followed until nothing changes. With n much smaller
    than the square root of `size` there is seldom a pointer at all.
    """
    count = t.shape[0]
    place = lax.iota(jnp.int32, count)
    target = t - jnp.int32(size - count)
    pointer = jnp.where((target >= 0) & (target < place), target, place)

    def follow(carry):
        taken, _ = carry
        new = taken | pick(taken, pointer)
        return new, jnp.any(new != taken)

    start = (repeats(t), jnp.any(pointer != place))
    taken, _ = lax.while_loop(lambda carry: carry[1], follow, start)
    return jnp.where(taken, place + jnp.int32(size - count), t)


def repeats(t: Indices) -> Bool[Array, " n"]:
    """For each j: is t_j = t_i for some i < j? By all pairs, or with a hash table above `PAIRWISE`.

    The table keeps the first place of each bucket; who finds another value there tries again with
    another hash. All places of one value share their buckets, so they are settled together.
    """
    count = t.shape[0]
    place = lax.iota(jnp.int32, count)
    if count <= PAIRWISE:
        return jnp.any((t[:, None] == t[None, :]) & (place[:, None] > place[None, :]), axis=1)
    bits = (4 * count - 1).bit_length()
    unknown = jnp.full(count, count, jnp.int32)

    def settle(carry):
        first, odd = carry
        bucket = ((t.astype(jnp.uint32) * odd) >> jnp.uint32(32 - bits)).astype(jnp.int32)
        waiting = jnp.where(first == count, place, count)
        table = jnp.full(1 << bits, count, jnp.int32).at[bucket].min(waiting)
        found = pick(table, bucket)
        agree = (first == count) & (pick(t, jnp.minimum(found, count - 1)) == t)
        return jnp.where(agree, found, first), odd * jnp.uint32(ODD)

    start = (unknown, jnp.uint32(ODD))
    first, _ = lax.while_loop(lambda carry: jnp.any(carry[0] == count), settle, start)
    return first < place


def sweep(
    key: PRNGKey, epoch: Int[Array, ""], block: UInt32[Array, ""], size: int, count: int
) -> Indices:
    """One block of the epoch's permutation: bijection, then shift."""
    position = block * jnp.uint32(count) + lax.iota(jnp.uint32, count)
    shift = integers(key, size, (), stream=epoch).astype(jnp.uint32)
    index = (bijection(key, epoch, position, size) + shift) % jnp.uint32(size)
    return index.astype(jnp.int32)


def bijection(
    key: PRNGKey, epoch: Int[Array, ""], position: UInt32[Array, " n"], size: int
) -> UInt32[Array, " n"]:
    """A one-to-one map of 0..size-1 to itself, another one for each (key, epoch)."""
    a, b, pairs = halves(size)
    keys = words(fold(key, epoch, lax.iota(jnp.int32, pairs)))
    unroll = pairs if pairs <= 6 else 1  # below 100 data: many rounds, so a loop, quick to compile

    def double_round(x, pair):
        (left, right), (f, g) = x, pair
        left = (left + mix(right ^ f)) % jnp.uint32(a)
        right = (right + mix(left ^ g)) % jnp.uint32(b)
        return (left, right), None

    def network(x):
        start = x // jnp.uint32(b), x % jnp.uint32(b)
        (left, right), _ = lax.scan(double_round, start, keys, unroll=unroll)
        return left * jnp.uint32(b) + right

    def walk(x):
        return jnp.where(x < jnp.uint32(size), x, network(x))

    x = network(position)
    if a * b == size:
        return x
    return lax.while_loop(lambda x: jnp.any(x >= jnp.uint32(size)), walk, x)


def halves(size: int) -> tuple[int, int, int]:
    """The Feistel network's a, b and number of double rounds.

    Any a from sqrt(size) to 1.5 sqrt(size) will do; the best leaves the fewest points outside, often
    none. With a and b both odd every round is an even permutation, so such a pair is left out.
    """
    root = max(2, math.isqrt(size - 1) + 1)
    candidates = [(a, max(2, -(-size // a))) for a in range(root, 3 * root // 2 + 1)]
    a, b = min((ab for ab in candidates if math.prod(ab) % 2 == 0), key=math.prod)
    pairs = 4
    while b ** (pairs - 1) < 10_000 * a:
        pairs += 1
    return a, b, pairs


def mix(x: UInt32[Array, " n"]) -> UInt32[Array, " n"]:
    """31 well mixed bits of a word (the multiplicative hash `lowbias32`), room left for one sum."""
    x = (x ^ (x >> jnp.uint32(16))) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> jnp.uint32(15))) * jnp.uint32(0x846CA68B)
    return (x ^ (x >> jnp.uint32(16))) >> jnp.uint32(1)


def divide(step: Step, length: int) -> tuple[Int[Array, ""], UInt32[Array, ""]]:
    """Epoch and block in it; unsigned, because twice the number of blocks may pass 2**31."""
    step = jnp.asarray(step).astype(jnp.uint32)
    return (step // jnp.uint32(length)).astype(jnp.int32), step % jnp.uint32(length)


def pick(values: Array, places: Array) -> Array:
    return values.at[places].get(mode="promise_in_bounds")
