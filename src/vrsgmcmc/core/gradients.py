"""From functions of one datum to gradients of many.

    log p(x | D) = logprior(x) + sum_i loglik(x, d_i)

The prior's gradient enters every estimate once, exactly. The likelihood's gradient is a sum over a
batch; a large batch is summed in parts, so that memory stays bounded, and with compensation, so that
a million terms lose no digits.
"""

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .programs import MOST_PROGRAMS
from .tree import add, empty_sum, nbytes
from .types import Batch, Data, Params, Posterior, PRNGKey

PART_BYTES = 3 * 2**23  # intermediate values of one part: beyond the caches XLA:CPU gets slower
PART_PARAMS = 7  # but they are at least so many times the parameters, all of which a part adds to,
PART_OPERATION = 2**17  # and so many bytes for each operation, so that it is worth starting
LARGEST_PART = 128  # XLA adds rows one after another: more of them in float32 cost digits


def augment_batch(posterior: Posterior, batch: Batch, augment_key: PRNGKey) -> PyTree:
    """The data as the model sees them; their keys belong to the datum, not to the moment."""
    if posterior.augment is None:
        return batch.items
    keys = jax.vmap(lambda index: jax.random.fold_in(augment_key, index))(batch.index)
    return jax.vmap(posterior.augment)(keys, batch.items)


def prior_gradient(posterior: Posterior, params: Params) -> Params:
    return jax.grad(posterior.logprior)(params)


def row_likelihoods(
    posterior: Posterior, params: Params, batch: Batch, augment_key: PRNGKey
) -> Float[Array, " b"]:
    """loglik(x, d_i) for each datum of the batch."""
    return jax.vmap(posterior.loglik, (None, 0))(
        params, augment_batch(posterior, batch, augment_key)
    )


def row_gradients(
    posterior: Posterior, params: Params, batch: Batch, augment_key: PRNGKey
) -> Params:
    """grad loglik(x, d_i) for each datum of the batch: leaves [b, ...]."""
    return jax.vmap(jax.grad(posterior.loglik), (None, 0))(
        params, augment_batch(posterior, batch, augment_key)
    )


def likelihood(
    posterior: Posterior, params: Params, batch: Batch, augment_key: PRNGKey, present: Any
) -> Float[Array, ""]:
    """sum_i loglik(x, d_i) over the batch (those `present`, where given)."""
    rows = row_likelihoods(posterior, params, batch, augment_key)
    return jnp.sum(rows if present is None else rows * present.astype(rows.dtype))


def likelihood_gradient(
    posterior: Posterior,
    params: Params,
    batch: Batch,
    augment_key: PRNGKey,
    present: Float[Array, " b"] | None = None,
) -> Params:
    """sum_i grad loglik(x, d_i) over the batch (those `present`, where given)."""
    gradient = jax.grad(likelihood, 1)
    parts, part = cut_batch(posterior, params, batch)
    if parts <= 1:
        return gradient(posterior, params, batch, augment_key, present)

    def one_part(number, accumulated):
        rows, fresh = split_part(number, part, batch)
        if present is not None:
            fresh = fresh * split_part(number, part, Batch(batch.index, present))[0].items
        return add(accumulated, gradient(posterior, params, rows, augment_key, fresh))

    return jax.lax.fori_loop(0, parts, one_part, empty_sum(params)).value


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def log_posterior(posterior: Posterior, params: Params, batch: Batch) -> Float[Array, ""]:
    """log p(x | D), over the rows of the batch; value and gradient come from one pass over them."""
    return _value_and_gradient(posterior, params, batch)[0]


def log_posterior_gradient(posterior: Posterior, params: Params, batch: Batch) -> Params:
    """The gradient alone, which can be differentiated again."""
    likelihood = likelihood_gradient(posterior, params, batch, jax.random.key(0))
    return jax.tree.map(jnp.add, prior_gradient(posterior, params), likelihood)


def _value_and_gradient(
    posterior: Posterior, params: Params, batch: Batch
) -> tuple[Float[Array, ""], Params]:
    augment_key, both = jax.random.key(0), jax.value_and_grad(likelihood, 1)
    parts, part = cut_batch(posterior, params, batch)

    def one_part(number, accumulated):
        rows, fresh = split_part(number, part, batch)
        return add(accumulated, both(posterior, params, rows, augment_key, fresh))

    prior = jax.value_and_grad(posterior.logprior)(params)
    total = jax.lax.fori_loop(0, parts, one_part, empty_sum(prior))
    return jax.tree.map(jnp.add, prior, total.value)


log_posterior.defvjp(
    _value_and_gradient,
    lambda posterior, gradient, cotangent: (
        jax.tree.map(lambda leaf: cotangent.astype(leaf.dtype) * leaf, gradient),
        None,
    ),
)


def cut(count: int, most: int) -> tuple[int, int]:
    """How many parts of at most `most` rows, and the rows of each: the last part overlaps least."""
    if count == 0:
        return 0, 0
    fewest = -(-count // most)
    even = {parts: -(-count // parts) for parts in (fewest, fewest + 1)}
    parts = min(even, key=lambda parts: parts * even[parts])
    return parts, even[parts]


def cut_batch(posterior: Posterior, params: Params, batch: Batch) -> tuple[int, int]:
    """How many parts to differentiate a batch in, and the rows of each."""
    return cut(batch.index.shape[0], part_size(posterior, params, batch.items))


def split_part(number: Any, part: int, batch: Batch) -> tuple[Batch, Float[Array, " part"]]:
    """Rows [number * part, ...) of a batch, all parts of one length: the last one starts early, and
    the second value marks the rows that no earlier part had."""
    count = batch.index.shape[0]
    start = jnp.minimum(number * part, count - part)
    rows = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, part), batch)
    return rows, (start + jnp.arange(part) >= number * part).astype(jnp.float32)


def part_size(posterior: Posterior, params: Params, items: Data, largest: int | None = None) -> int:
    """How many data to differentiate at once: as many as keep the intermediates in the caches.

    `largest`: of values that are not summed, so that no digits are at stake.
    """
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)
    item = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), items)
    leaves, structure = jax.tree.flatten((shapes, item))
    return _part_size(posterior, structure, tuple(leaves), largest or LARGEST_PART)


@lru_cache(maxsize=MOST_PROGRAMS)
def _part_size(posterior: Posterior, structure: Any, leaves: tuple, largest: int) -> int:
    params, item = jax.tree.unflatten(structure, leaves)

    def one(params, item, key):
        datum = item if posterior.augment is None else posterior.augment(key, item)
        return posterior.loglik(params, datum)

    key = jax.eval_shape(lambda: jax.random.key(0))
    traced = jax.make_jaxpr(one)(params, item, key)
    equations = list(_equations(traced.jaxpr))
    values = [variable.aval for equation in equations for variable in equation.outvars]
    each = sum(v.size * v.dtype.itemsize for v in values if hasattr(v, "size"))
    most = max(PART_BYTES, PART_PARAMS * nbytes(params), PART_OPERATION * len(equations))
    return max(1, min(largest, most // max(1, each)))


def _equations(jaxpr: Any) -> Iterator[Any]:
    """What a program computes, inner programs included."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _equations(inner)
