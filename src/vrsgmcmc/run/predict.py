"""A function of the parameters at many draws: its values, or their mean, part by part.

    values[s] = f(x_s, inputs),      mean = 1/S sum_s f(x_s, inputs)

The function is compiled once, for one draw; draws come in parts (`parts.py`), so memory holds one part
and the outputs. The mean is a compensated sum on the device within a part, and float64 across parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from vrsgmcmc.core import add, as_key, empty_sum, nbytes

from .arrays import as_array
from .memory import check_memory
from .parts import Part, one_draw, part_length, parts, select

if TYPE_CHECKING:
    from .result import Result

TOGETHER_BYTES = 2**22  # of outputs and inputs that are in work at once
MOST_TOGETHER = 64  # draws


def predict(
    result: Result, function: Callable, x: Any, *, most: int | None, key: Any = None
) -> PyTree:
    """`function` at evenly spaced draws: leaves [draw, ...], chain after chain."""
    part = select(result, "predict", most)
    x, key = as_inputs(x), None if key is None else as_key(key)
    like = outputs("predict", result, function, x, key)
    check_memory(
        nbytes(like) * part.count,
        f"predict: outputs of {nbytes(like):,} bytes at {part.count:,} draws",
        f"Take fewer draws (most={max(1, part.count // 10):,}), a part of x, or predict_mean.",
    )
    shape = part.chains.size, part.draws.size
    values = jax.tree.map(lambda leaf: np.empty((*shape, *leaf.shape), leaf.dtype), like)
    for where, value in walk(result, part, function, x, key, like, mean=False):
        jax.tree.map(
            lambda whole, new, w=where: whole.__setitem__((slice(None), w), new), values, value
        )
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), values)


def predict_mean(
    result: Result, function: Callable, x: Any, *, most: int | None, key: Any = None
) -> PyTree:
    """The mean of `function` over draws, in float64."""
    part = select(result, "predict_mean", most)
    x, key = as_inputs(x), None if key is None else as_key(key)
    like = outputs("predict_mean", result, function, x, key)
    total = jax.tree.map(lambda leaf: np.zeros(leaf.shape, wide(leaf.dtype)), like)
    for _, value in walk(result, part, function, x, key, like, mean=True):
        total = jax.tree.map(lambda before, new: before + new.astype(before.dtype), total, value)
    return jax.tree.map(lambda leaf: leaf / part.count, total)


def wide(kind: Any) -> type:
    return np.complex128 if jnp.issubdtype(kind, jnp.complexfloating) else np.float64


def as_inputs(x: Any) -> Any:
    """`x` as arrays that JAX can hold; None is no input."""
    return jax.tree.map(lambda leaf: jnp.asarray(as_array("x", leaf)), x)


def outputs(where: str, result: Result, function: Callable, x: Any, key: Any) -> Any:
    """Shapes and dtypes of the outputs for one draw; `ValueError` for what is no such function."""
    params = jax.tree.map(jnp.asarray, one_draw(result))
    name = getattr(function, "__name__", type(function).__name__)
    call, more = (f"{name}(params, x)", ()) if key is None else (f"{name}(params, x, key)", (key,))
    try:
        like = jax.eval_shape(function, params, x, *more)
    except Exception as error:
        shapes = jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", (params, x))
        raise ValueError(
            f"{where}: {call} raised {type(error).__name__}: {error}\n"
            f"It is called for one draw, compiled by JAX (write it with jax.numpy): params = "
            f"{shapes[0]}, x = {shapes[1]}."
        ) from error
    leaves = jax.tree.leaves(like, is_leaf=lambda leaf: leaf is None)
    wrong = [leaf for leaf in leaves if not isinstance(leaf, jax.ShapeDtypeStruct)]
    if not leaves or wrong:
        raise ValueError(
            f"{where}: {call} returned {like!r}. Return an array, or a pytree of arrays."
        )
    return like


def walk(
    result: Result, part: Part, function: Callable, x: Any, key: Any, like: Any, mean: bool
) -> Any:
    """The outputs [chain, draw, ...] of part after part, or their sums."""
    length = part_length(result, part)
    together = int(np.clip(TOGETHER_BYTES // max(1, nbytes((like, x))), 1, MOST_TOGETHER))
    # A program of this call alone: what the function closes over may change until the next one.
    compiled = jax.jit(partial(sums, function) if mean else partial(values, function, together))
    for where, tree in parts(result, part):
        count = where.stop - where.start
        fill = np.minimum(np.arange(length), count - 1)  # the last part has the same shape
        padded = jax.tree.map(lambda leaf, f=fill: jnp.asarray(leaf[:, f]), tree)
        place = np.arange(part.chains.size)[:, None] * part.draws.size + where.start + fill
        present = np.broadcast_to(np.arange(length) < count, place.shape)
        value = compiled(padded, x, key, jnp.asarray(place, jnp.int32), jnp.asarray(present))
        value = jax.tree.map(np.asarray, value)
        yield where, value if mean else jax.tree.map(lambda leaf, c=count: leaf[:, :c], value)


def at_one(function: Callable, x: Any, key: Any, params: Any, place: Any) -> Any:
    return (
        function(params, x) if key is None else function(params, x, jax.random.fold_in(key, place))
    )


def flat(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)


def values(
    function: Callable, together: int, draws: Any, x: Any, key: Any, place: Any, present: Any
) -> Any:
    """Outputs [chain, draw, ...] at draws [chain, draw, ...]."""
    value = jax.lax.map(
        lambda one: at_one(function, x, key, *one), flat((draws, place)), batch_size=together
    )
    return jax.tree.map(lambda leaf: leaf.reshape(*place.shape, *leaf.shape[1:]), value)


def sums(function: Callable, draws: Any, x: Any, key: Any, place: Any, present: Any) -> Any:
    """The sum of the outputs at the draws that are present."""

    def numbers(params: Any, place: Any) -> Any:
        value = at_one(function, x, key, params, place)
        return jax.tree.map(
            lambda leaf: leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)), value
        )

    def one(total: Any, item: Any) -> Any:
        params, place, present = item
        value = jax.lax.cond(
            present,
            lambda: numbers(params, place),
            lambda: jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like),
        )
        return add(total, value), None

    first = jax.tree.map(lambda leaf: leaf[0, 0], (draws, place))
    like = jax.eval_shape(numbers, *first)
    zeros = empty_sum(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like))
    total, _ = jax.lax.scan(one, zeros, flat((draws, place, present)))
    return total.value
