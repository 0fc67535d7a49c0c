"""Online averages: the paper's phi-hat, with memory independent of the number of steps.

    phi-hat = sum_l w_l phi(x_l) / sum_l w_l,   w_l = h_l ("step_size") or 1 ("equal")

The sums are compensated and carried through the whole run, so neither its length nor how it is cut
into chunks costs a digit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from .arguments import whole
from .tree import Sum, add, empty_sum
from .types import STATIC, Params, Scalar, description


@description
@dataclass(frozen=True, eq=False)
class Observable:
    """A function of the parameters, and of data where there are any, averaged every `every` steps."""

    function: Callable = field(metadata=STATIC)
    data: PyTree
    every: int = field(metadata=STATIC)

    def __call__(self, params: Params) -> PyTree:
        value = self.function(params, *(() if self.data is None else (self.data,)))
        return jax.tree.map(jnp.asarray, value)


def observable(function: Callable, *, data: PyTree = None, every: int = 1) -> Observable:
    """An observable for `vr.sample`: `function(params)`, or `function(params, data)`.

    - `data`: handed to the function; an argument of the compiled program, not a constant in it.
    - `every`: evaluate every `every` steps, counted from the end of burn-in.
    """
    if not callable(function):
        raise ValueError(
            f"observable({function!r}): an observable is a function of the parameters."
        )
    return Observable(function, data, whole("observable", "every", every))


class Average(NamedTuple):
    value: Sum
    weight: Sum


def start_average(observable: Observable, params: Params) -> Average:
    """An empty average, of the observable's shape."""
    shape = jax.eval_shape(observable, params)

    def zero(leaf):
        return jnp.zeros(leaf.shape, jnp.promote_types(leaf.dtype, jnp.float32))

    return Average(empty_sum(jax.tree.map(zero, shape)), empty_sum(jnp.zeros(())))


def update_average(
    observable: Observable, average: Average, params: Params, age: Int[Array, ""], weight: Scalar
) -> Average:
    """The average with the position `age` steps after burn-in; nothing changes before that."""

    def include(average: Average) -> Average:
        counts = age > 0
        used = jnp.where(counts, weight, 0.0)

        def term(value, like):
            return jnp.where(counts, used * value, 0.0).astype(like.dtype)

        terms = jax.tree.map(term, observable(params), average.value.total)
        used = used.astype(average.weight.total.dtype)
        return Average(add(average.value, terms), add(average.weight, used))

    if observable.every == 1:
        return include(average)
    # `age` is the same for all chains: under vmap this stays a branch
    return jax.lax.cond((age > 0) & (age % observable.every == 0), include, lambda a: a, average)


def average_value(average: Average) -> Any:
    """The mean; NaN where nothing was averaged."""
    return jax.tree.map(lambda value: value / average.weight.value, average.value.value)
