"""Some parameters are sampled, the rest keeps its trained values: a last dense layer.

    output = features(x) @ W + b

is a generalised linear model of the features, which are computed once for each row and become the data.
A last layer is recognised by trying it: the derivative at W = 0 gives the features, and random (W, b)
verify them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from vrsgmcmc import core, run

from .network_structure import Network, Path, flat, merge, nested

ROWS = 128  # computed at once
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
