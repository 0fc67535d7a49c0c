"""A few pytree helpers, and sums that do not lose digits."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree


def size(tree: PyTree) -> int:
    """How many scalars the tree holds."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def nbytes(tree: PyTree) -> int:
    """How many bytes the tree's arrays take."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def full_like(tree: PyTree, value: float) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.full_like(leaf, value), tree)


def cast(tree: PyTree, like: PyTree) -> PyTree:
    """`tree` with the dtypes of `like`: arithmetic with a step size must not change a parameter's."""
    return jax.tree.map(lambda leaf, pattern: leaf.astype(pattern.dtype), tree, like)


def take(tree: PyTree, index: Int[Array, " b"]) -> PyTree:
    """The rows `index` of every leaf."""
    return jax.tree.map(lambda leaf: jnp.take(leaf, index, axis=0, mode="clip"), tree)


def square_norm(tree: PyTree) -> Float[Array, ""]:
    return sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)), jnp.zeros(()))


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether every number of every floating leaf is finite."""
    floating = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.all(
        jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in floating] or [jnp.array(True)])
    )


def select(condition: Bool[Array, ""], new: PyTree, old: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    """Leaves with their names: `layer.weight`; a bare array has the name `x`."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    keystr = jax.tree_util.keystr
    return [(keystr(path, simple=True, separator=".") or "x", leaf) for path, leaf in paths]


def distinct(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names, numbered where one is taken or comes again; capitals make no difference."""
    used, unique_names = {name.casefold() for name in taken}, []
    last: dict[str, int] = {}  # number that a name has got, so that many equal names stay quick
    for name in names:
        unique, number = name, last.get(name, 1)
        while unique.casefold() in used:
            number += 1
            unique = f"{name}_{number}"
        used.add(unique.casefold())
        last[name] = number
        unique_names.append(unique)
    return unique_names


class Sum(NamedTuple):
    """A compensated sum: the value is `total + residue`. Two of them add leaf by leaf."""

    total: PyTree
    residue: PyTree

    @property
    def value(self) -> PyTree:
        return jax.tree.map(jnp.add, self.total, self.residue)


def empty_sum(like: PyTree) -> Sum:
    return Sum(full_like(like, 0.0), full_like(like, 0.0))


def add(accumulated: Sum, term: PyTree) -> Sum:
    """One more term: Kahan's sum, with Knuth's two-sum for what `total` rounds away."""
    owed = jax.tree.map(jnp.add, accumulated.residue, term)
    total = jax.tree.map(jnp.add, accumulated.total, owed)

    def lost(before, term, after):
        grown = after - before
        return (before - (after - grown)) + (term - grown)

    return Sum(total, jax.tree.map(lost, accumulated.total, owed, total))
