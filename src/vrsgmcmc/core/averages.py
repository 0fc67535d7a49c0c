"""Online averages: the paper's phi-hat, with memory independent of the number of steps.

    phi-hat = sum_l w_l phi(x_l) / sum_l w_l,   w_l = h_l ("step_size") or 1 ("equal")

The sums are compensated and carried through the whole run, so neither its length nor how it is cut
into chunks costs a digit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from vrsgmcmc.core.arguments import whole
from vrsgmcmc.core.tree import Sum, add, empty_sum
from vrsgmcmc.core.types import Params, Scalar


@dataclass(frozen=True, eq=False)
class Observable:
    """A function of the parameters, and of data where given, averaged every `every` steps."""

    function: Callable
    data: PyTree
    every: int


def observable(function: Callable, *, data: PyTree = None, every: int = 1) -> Observable:
    """An observable for `vr.sample`: `function(params)`, or `function(params, data)`.

    - `data`: handed to the function; an argument of the compiled program, not a constant in it.
    - `every`: evaluate after every so many steps (counted from the end of burn-in).
    """
    if not callable(function):
        raise ValueError(
            f"observable({function!r}): an observable is a function of the parameters."
        )
    return Observable(function, data, whole("observable", "every", every))


@dataclass(frozen=True)
class Watch:
    """The static part of an observable: what the compiled program depends on."""

    function: Callable
    every: int
    with_data: bool

    def __call__(self, params: Params, data: PyTree) -> PyTree:
        value = self.function(params, data) if self.with_data else self.function(params)
        return jax.tree.map(jnp.asarray, value)


class Average(NamedTuple):
    value: Sum
    weight: Sum


def start_average(watch: Watch, params: Params, data: PyTree) -> Average:
    """An empty average, of the observable's shape."""
    shape = jax.eval_shape(watch, params, data)

    def zero(leaf):
        kind = jnp.promote_types(leaf.dtype, jnp.float32)
        return jnp.zeros(leaf.shape, kind)

    return Average(empty_sum(jax.tree.map(zero, shape)), empty_sum(jnp.zeros(())))


def update_average(
    watch: Watch,
    average: Average,
    params: Params,
    data: PyTree,
    age: Int[Array, ""],
    weight: Scalar,
) -> Average:
    """The average with the position `age` steps after burn-in; nothing changes before that."""

    def include(average: Average) -> Average:
        counts = age > 0
        used = jnp.where(counts, weight, 0.0)

        def term(value, like):
            return jnp.where(counts, used * value, 0.0).astype(like.dtype)

        terms = jax.tree.map(term, watch(params, data), average.value.total)
        used = used.astype(average.weight.total.dtype)
        return Average(add(average.value, terms), add(average.weight, used))

    if watch.every == 1:
        return include(average)
    # `age` is the same for all chains: under vmap this stays a branch
    return jax.lax.cond((age > 0) & (age % watch.every == 0), include, lambda a: a, average)


def average_value(average: Average) -> Any:
    """The mean; NaN where nothing was averaged."""
    return jax.tree.map(lambda value: value / average.weight.value, average.value.value)
