"""Some parameters are sampled, the rest keeps its trained values: what each datum needs of the rest.

What depends on frozen arrays and x alone is computed once for each row, and becomes the data:

- A last dense layer: output = features(x) @ W + b is a generalised linear model of the features. It
  is recognised by trying it: the derivative at W = 0 gives the features, random (W, b) verify them.
- Otherwise the program of one datum is cut: operations that no sampled parameter reaches come first,
  and the values that the others use are the data. Frozen arrays behind a sampled layer remain, as
  constants of the compiled program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jaxtyping import Array, PyTree

from vrsgmcmc import core, run

from .network_structure import (
    Network,
    Path,
    arrays_like,
    flat,
    item_shapes,
    key_shape,
    merge,
    nested,
)

ROWS = 128  # computed at once
MOST_CONSTANTS = 2**26  # bytes in a compiled program
POINTS, TOLERANCE = 2, 1e-3  # that verify a last layer


class Frozen(NamedTuple):
    """A module with its fixed arrays: f(sampled, x, key) of `network(...)` for one datum."""

    network: Network
    params: dict[str, Any]
    buffers: PyTree
    training: bool


@dataclass(frozen=True)
class LastLayer:
    """The coefficients [p, K] (or [p]) of a dense layer: its kernel, and its bias as the last row."""

    kernel: Path
    bias: Path | None
    transposed: bool  # the kernel is [K, p]
    scalar: bool  # one output, which is a number

    def __call__(self, params: Any) -> Array:
        leaves = flat(params)
        kernel = leaves[self.kernel].T if self.transposed else leaves[self.kernel]
        if self.bias is not None:
            kernel = jnp.concatenate([kernel, leaves[self.bias][None]])
        return kernel[:, 0] if self.scalar else kernel


@dataclass(frozen=True)
class LinearOutput:
    """The outputs of the last layer, from the features of one datum."""

    layer: LastLayer

    def __call__(self, params: Any, features: Array, key: Any = None) -> Array:
        return features @ self.layer(params)


def last_layer(
    frozen: Frozen, sampled: Any, x: PyTree, scalar: bool
) -> tuple[Array, LastLayer] | None:
    """The features [N, p] and the layer, if the sampled parameters are a dense layer at the end."""
    leaves = flat(sampled)
    kernel = next((path for path, leaf in leaves.items() if leaf.ndim == 2), None)
    biases = [path for path, leaf in leaves.items() if leaf.ndim == 1]
    if kernel is None or len(leaves) != 1 + len(biases) or len(biases) > 1:
        return None
    bias = biases[0] if biases else None
    if bias is not None and bias[:-1] != kernel[:-1]:
        return None
    some = jax.tree.map(lambda leaf: leaf[:: max(1, len(leaf) // ROWS)][:ROWS], x)
    for transposed in (False, True):
        layer = LastLayer(kernel, bias, transposed, scalar)
        width = leaves[kernel].shape[0 if transposed else 1]
        if bias is not None and leaves[bias].shape != (width,):
            continue

        def features(rows: PyTree, layer: LastLayer = layer) -> Array:
            arrays = sampled, frozen.params, frozen.buffers
            return _features(frozen.network, frozen.training, layer, *arrays, rows)

        first = features(some)
        if is_linear(frozen, layer, sampled, some, first):
            check_rows(first.nbytes // len(first), core.data_size(x), "the features of the layer")
            return by_parts(features, x), layer
    return None


def is_linear(frozen: Frozen, layer: LastLayer, sampled: Any, x: PyTree, features: Array) -> bool:
    """Whether the outputs of these rows are features @ coefficients, at random coefficients."""
    for number in range(POINTS):
        point = core.normal_like(jax.random.key(number), sampled)
        outputs = part_outputs(frozen, point, x)
        coefficients = layer(point)
        linear = features @ coefficients
        if linear.size != outputs.size:
            return False
        error = np.abs(np.asarray(linear).ravel() - np.asarray(outputs).ravel())
        if not error.max() <= TOLERANCE * np.abs(np.asarray(linear)).max():
            return False
    return True


@dataclass(frozen=True, eq=False)
class Rest:
    """The outputs after the cut, from the values of one datum."""

    function: Callable[..., list[Any]]
    constants: list[Array]
    outputs: Any  # their structure

    def __call__(self, sampled: Any, values: tuple[Array, ...], key: Any) -> Any:
        leaves = jax.tree.leaves(sampled)
        return jax.tree.unflatten(
            self.outputs, self.function(*leaves, key, *values, *self.constants)
        )


def cut(frozen: Frozen, sampled: Any, x: PyTree) -> tuple[tuple[Array, ...], Rest]:
    """What the rows are to the sampled parameters [N, ...], and the program from there on."""

    def outputs(fixed: Any, x: Any, sampled: Any, key: Any) -> Any:
        params, buffers = fixed
        return frozen.network(merge(sampled, params), buffers, x, key, frozen.training)

    fixed = (frozen.params, frozen.buffers)
    shapes = fixed, item_shapes(x), sampled, key_shape()
    closed, result = jax.make_jaxpr(outputs, return_shape=True)(*shapes)
    program = closed.jaxpr
    counts = [len(jax.tree.leaves(part)) for part in shapes[:2]]
    early_in, late_in = program.invars[: sum(counts)], program.invars[sum(counts) :]
    late, rows = set(late_in), set(early_in[counts[0] :])
    before, after = [], []
    for equation in program.eqns:
        inputs = variables(equation.invars)
        if late & inputs:
            after.append(equation)
            late |= set(equation.outvars)
        else:
            before.append(equation)
            rows |= set(equation.outvars) if rows & inputs else set()
    needs = [variables(equation.invars) for equation in after] + [variables(program.outvars)]
    border = sorted(set().union(*needs) - late, key=order_in(program))
    by_row = [variable for variable in border if variable in rows]
    constant = [variable for variable in border if variable not in rows]

    def part(invars: list, outvars: list, equations: list, consts: list) -> Any:
        constvars = program.constvars if consts else []
        piece = program.replace(constvars=constvars, invars=invars, outvars=outvars, eqns=equations)
        return jaxpr_as_fun(ClosedJaxpr(piece, consts))

    by_rows = part(early_in, by_row, before, closed.consts)
    once = part(early_in, constant, before, closed.consts)
    leaves = jax.tree.leaves(fixed)
    constants = [
        jnp.asarray(value) for value in once(*leaves, *jax.tree.leaves(arrays_like(shapes[1])))
    ]
    check_constants(constants)
    check_rows(core.nbytes([each.aval for each in by_row]), core.data_size(x), "what is frozen")
    one = jax.jit(
        lambda leaves, x: jax.vmap(lambda *row: by_rows(*leaves, *row))(*jax.tree.leaves(x))
    )
    values = tuple(by_parts(lambda rows: one(leaves, rows), x))
    rest = part([*late_in, *by_row, *constant], program.outvars, after, [])
    return values, Rest(rest, constants, jax.tree.structure(result))


def variables(atoms: Any) -> set[Any]:
    return {atom for atom in atoms if not isinstance(atom, Literal)}


def order_in(program: Any) -> Callable[[Any], int]:
    """When a program defines a variable, so that equal programs are cut alike."""
    defined = [*program.constvars, *program.invars, *(v for e in program.eqns for v in e.outvars)]
    places = {variable: number for number, variable in enumerate(defined)}
    return places.__getitem__


def check_constants(constants: list[Array]) -> None:
    size = core.nbytes(constants)
    if size > MOST_CONSTANTS:
        raise ValueError(
            f"sample_only: {size / 2**20:,.0f} MB of frozen arrays come after a sampled layer, and "
            f"each compiled program would hold them; {MOST_CONSTANTS / 2**20:,.0f} MB is the most. "
            "Sample layers nearer to the output."
        )


def check_rows(bytes_each: int, count: int, what: str) -> None:
    run.check_memory(
        bytes_each * count, what, "Sample layers nearer to the output, or use fewer rows."
    )


def by_parts(function: Callable[[PyTree], PyTree], x: PyTree) -> PyTree:
    """A function of some rows for all rows, a part at a time."""
    size = core.data_size(x)
    parts = [
        function(jax.tree.map(lambda leaf, first=first: leaf[first : first + ROWS], x))
        for first in range(0, size, ROWS)
    ]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def part_outputs(frozen: Frozen, sampled: Any, x: PyTree) -> Any:
    return _outputs(frozen.network, frozen.training, sampled, frozen.params, frozen.buffers, x)


@partial(core.bounded_jit, static=2)
def _outputs(
    network: Network, training: bool, sampled: Any, params: Any, buffers: Any, x: PyTree
) -> Any:
    """The outputs of some rows."""
    merged, key = merge(sampled, params), jax.random.key(0)
    return jax.vmap(lambda row: network(merged, buffers, row, key, training))(x)


@partial(core.bounded_jit, static=3)
def _features(
    network: Network,
    training: bool,
    layer: LastLayer,
    sampled: Any,
    params: Any,
    buffers: Any,
    x: PyTree,
) -> Array:
    """The derivative of the first output in its column of the kernel, at 0, for some rows."""
    zero, key = flat(jax.tree.map(jnp.zeros_like, sampled)), jax.random.key(0)

    def output(kernel: Array, row: Any) -> Array:
        merged = merge(nested({**zero, layer.kernel: kernel}), params)
        return network(merged, buffers, row, key, training).reshape(-1)[0]

    slopes = jax.vmap(jax.grad(output), (None, 0))(zero[layer.kernel], x)
    features = slopes[:, 0] if layer.transposed else slopes[..., 0]
    if layer.bias is None:
        return features
    return jnp.concatenate([features, jnp.ones((len(features), 1), features.dtype)], axis=1)
