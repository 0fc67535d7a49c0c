"""Checks at the door: data, parameters and log-densities, in plain words, before anything is traced.

JAX lets much bad input through in silence (an index past the end reads the last row, 2**40 becomes
another int32, a vector-valued loss differentiates its sum somewhere else), so it is looked at here.
"""

from __future__ import annotations

import weakref
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.core import (
    Batch,
    Data,
    Params,
    Posterior,
    PRNGKey,
    named_leaves,
    prior_gradient,
    row_gradients,
    row_likelihoods,
)

ROWS_TRIED = 64  # data on which the start is tried; all of them would be a pass that no step needs
ROWS_AT_ONCE = 2**24  # numbers looked at together in the one pass over the data

_looked_at: dict[int, weakref.ref] = {}


def as_data(data: Any) -> tuple[Data, int]:
    """The data as JAX arrays, and N."""
    named = named_leaves(data)
    if not named:
        raise ValueError("data holds no arrays. Pass an array, or a pytree of arrays, with N rows.")
    lengths = {}
    for name, leaf in named:
        array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
        if array.dtype != bool and not jnp.issubdtype(array.dtype, jnp.number):
            raise TypeError(
                f"data leaf {name} has dtype {array.dtype}, which JAX cannot hold. "
                "Encode it as numbers first."
            )
        if array.ndim == 0:
            raise ValueError(f"data leaf {name} is a scalar; every leaf needs the leading axis N.")
        lengths[name] = array.shape[0]
        _check_values(name, leaf, array)
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(f"data leaves must have the same number of rows; got {told}.")
    size = next(iter(lengths.values()))
    if size == 0:
        raise ValueError("data is empty: every leaf has 0 rows.")
    return jax.tree.map(jnp.asarray, data), size


def _check_values(name: str, leaf: Any, array: Any) -> None:
    """One pass over one array: finite floats, integers that fit. A JAX array, which nobody can
    change, is looked at once in its life."""
    known = _looked_at.get(id(leaf))
    if known is not None and known() is leaf:
        return
    values = np.asarray(array)
    if values.dtype.kind in "iu" and values.size:
        kind = jax.dtypes.canonicalize_dtype(values.dtype)
        limits = np.iinfo(kind)
        if values.max() > limits.max or values.min() < limits.min:
            raise ValueError(
                f"data leaf {name} holds integers that do not fit {kind} "
                f"(from {values.min()} to {values.max()}). Enable jax_enable_x64, or make them smaller."
            )
    if jnp.issubdtype(values.dtype, jnp.inexact) and values.size:
        kind = jax.dtypes.canonicalize_dtype(values.dtype)
        largest = float(jnp.finfo(kind).max)
        step = max(1, ROWS_AT_ONCE * values.shape[0] // values.size)
        count, first = 0, None
        for row in range(0, values.shape[0], step):
            bad = ~(
                np.abs(values[row : row + step].astype(np.result_type(kind, np.float64))) <= largest
            )
            if bad.any():
                count += int(bad.sum())
                first = row + int(np.argwhere(bad)[0][0]) if first is None else first
        if count:
            raise ValueError(
                f"data leaf {name} holds {count} values that are NaN or infinite (in {kind}), the "
                f"first in row {first}. Remove or impute those rows."
            )
    if isinstance(leaf, jax.Array):
        key = id(leaf)
        _looked_at[key] = weakref.ref(leaf, lambda _: _looked_at.pop(key, None))


def as_params(params: Any, what: str = "init") -> Params:
    """The parameters as floating JAX arrays."""
    named = named_leaves(params)
    if not named:
        raise ValueError(f"{what} holds no parameters. Pass an array or a pytree of arrays.")
    for name, leaf in named:
        try:
            array = jnp.asarray(leaf)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{what}: leaf {name} is {type(leaf).__name__}, not an array of numbers."
            ) from error
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise TypeError(
                f"{what}: leaf {name} has dtype {array.dtype}; parameters must be floating. "
                "Convert it: jnp.asarray(x, float)."
            )
        if not np.all(np.isfinite(np.asarray(array, np.float64))):
            raise ValueError(f"{what}: leaf {name} holds NaN or infinite values.")
    # a Python number would be weakly typed, and compile another program
    return jax.tree.map(
        lambda leaf: jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype), params
    )


def check_model(posterior: Posterior, params: Params, data: Data) -> None:
    """The log-densities are scalars of one datum, and the data are meant for them."""
    if posterior.check is not None:
        posterior.check(data)
    shape = lambda drop: lambda leaf: jax.ShapeDtypeStruct(leaf.shape[drop:], leaf.dtype)  # noqa: E731
    leaves, structure = jax.tree.flatten(
        (jax.tree.map(shape(0), params), jax.tree.map(shape(1), data))
    )
    _check_shapes(posterior, structure, tuple(leaves))


@lru_cache(maxsize=512)
def _check_shapes(posterior: Posterior, structure: Any, leaves: tuple) -> None:
    params, item = jax.tree.unflatten(structure, leaves)
    seen = item
    if posterior.augment is not None:
        key = jax.eval_shape(lambda: jax.random.key(0))
        try:
            seen = jax.eval_shape(posterior.augment, key, item)
        except Exception as error:
            raise ValueError(
                f"augment(key, item) failed for an item of shapes {_shapes(item)}: "
                f"{type(error).__name__}: {error}"
            ) from error
    told = f"a datum of shapes {_shapes(seen)} and parameters of shapes {_shapes(params)}"
    for name, function, arguments in (
        ("logprior(params)", posterior.logprior, (params,)),
        ("loglik(params, datum)", posterior.loglik, (params, seen)),
    ):
        try:
            value = jax.eval_shape(function, *arguments)
        except Exception as error:
            raise ValueError(
                f"{name} failed for {told}: {type(error).__name__}: {error}. loglik gets ONE datum, "
                "without the leading axis N."
            ) from error
        values = jax.tree.leaves(value)
        if len(values) != 1 or values[0].shape != ():
            raise ValueError(
                f"{name} must return one number, got shapes {_shapes(value)} for {told}. "
                "It is a log-density: sum over the components (jnp.sum)."
            )
        if not jnp.issubdtype(values[0].dtype, jnp.floating):
            raise TypeError(f"{name} must return a floating number, got dtype {values[0].dtype}.")


def _shapes(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: tuple(leaf.shape), tree)


def check_starts(posterior: Posterior, starts: Params, data: Data, told: bool) -> None:
    """The log-densities and their gradients are finite where the chains start, on the first rows.

    `told`: the chains start at different places, so a message tells which one it is about.
    """
    rows = min(ROWS_TRIED, jax.tree.leaves(data)[0].shape[0])
    items = jax.tree.map(lambda leaf: leaf[:rows], data)
    if not told:
        starts = jax.tree.map(lambda leaf: leaf[:1], starts)
    found = jax.tree.map(np.asarray, _try(posterior, starts, items, jax.random.key(0)))
    fine = np.isfinite(found[0]) & np.isfinite(found[1]).all(1)
    fine &= ~np.any([flags for flags in found[2] + found[3]], axis=0)
    if fine.all():
        return
    chain = int(np.argmin(fine))
    params = jax.tree.map(lambda leaf: leaf[chain], starts)
    prior, likelihoods, prior_bad, rows_bad = jax.tree.map(lambda leaf: leaf[chain], found)
    where = f"at the start of chain {chain}" if told else "at init"
    if not np.isfinite(prior):
        raise ValueError(
            f"logprior is {prior} {where}. Start inside the prior's support"
            f"{_suspect(prior_bad, params)}."
        )
    if not np.all(np.isfinite(likelihoods)):
        row = int(np.argmin(np.isfinite(likelihoods)))
        raise ValueError(
            f"loglik is {likelihoods[row]} for data row {row} {where}"
            f"{_suspect(rows_bad, params)}. Start elsewhere, or make loglik safe there."
        )
    for name, bad in (("logprior", prior_bad), ("loglik", rows_bad)):
        if any(bad):
            raise ValueError(
                f"the gradient of {name} is not finite {where}{_suspect(bad, params)}, though its "
                "value is. Look for jnp.where around an unsafe function, or a root or norm at 0."
            )


@partial(jax.jit, static_argnames="posterior")
def _try(posterior: Posterior, starts: Params, items: Data, lock: PRNGKey):
    """Log prior, log-likelihoods, and which leaves of their gradients are bad, for each chain."""
    batch = Batch(jnp.arange(jax.tree.leaves(items)[0].shape[0]), items)

    def bad(gradient):
        return [~jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(gradient)]

    def one(params):
        return (
            posterior.logprior(params),
            row_likelihoods(posterior, params, batch, lock),
            bad(prior_gradient(posterior, params)),
            bad(row_gradients(posterior, params, batch, lock)),
        )

    return jax.lax.map(one, starts)


def _suspect(bad: list, params: Params) -> str:
    names = [name for (name, _), flag in zip(named_leaves(params), bad, strict=True) if flag]
    return f" (its gradient is not finite in leaf {', '.join(names)})" if names else ""
