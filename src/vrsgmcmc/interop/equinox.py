"""The door of Equinox: any callable module of arrays.

The floating arrays of the module are its parameters, and their values are the start. Other arrays are
fixed. `key` is passed on to modules whose `__call__` takes one, and comes from the key of the datum.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core

from .network_structure import Network, Opened, flags, flat, nested
from .networks import NetworkProblem, network_problem


def from_equinox(
    module: Any,
    data: tuple[Any, Any],
    likelihood: str | Callable[[Any, Any], Any],
    *,
    prior: float | Callable[[Any], Any] = 1.0,
    scale: float | None = None,
    dropout: bool | None = None,
    sample_only: Callable[[str], bool] | None = None,
    fresh: Callable[[Any], Any] | None = None,
) -> NetworkProblem:
    """The posterior of an Equinox module's floating arrays: `vr.sample(key, *problem)`.

    - `module`: applied to ONE row of x, `module(x)` or `module(x, key=key)`. Its weights are the start
      of all chains.
    - `data`: (x, y), with one row per datum; x may be a pytree.
    - `likelihood`: what the outputs say about y: "categorical" (logits), "bernoulli" (a logit),
      "poisson" (a log-rate), "normal" (a mean), or your own function (output, y) -> log p(y | output).
    - `prior`: v of N(0, v) for every parameter, or a function of the nested dict of parameters.
    - `scale`: the standard deviation of "normal". None: the parameter `log_scale` ~ N(0, 3^2).
    - `dropout`: True draws random masks while sampling, with a key for each datum. False samples the
      module as it is for predictions, without them.
    - `sample_only`: which parameters to sample, by path such as "layers/1/weight"; the rest keeps its
      values. A last linear layer alone is a `vr.glm`: fast, and exact curvature.
    - `fresh`: a function of a key that makes the module, so that each chain starts elsewhere.
    """
    if (
        not callable(module)
        or isinstance(module, type)
        or not any(map(is_weight, jax.tree.leaves(module)))
    ):
        hint = " Pass the model alone." if isinstance(module, tuple) else ""
        raise TypeError(
            f"from_equinox: module must be a callable module that holds arrays, got {module!r:.200}."
            + hint
        )
    stateful = jax.tree.leaves(module, is_leaf=lambda part: isinstance(part, eqx.nn.StateIndex))
    if any(isinstance(part, eqx.nn.StateIndex) for part in stateful):
        raise ValueError(
            "from_equinox: the module has a state (eqx.nn.State), as batch-norm and spectral norm do. "
            "With batch-norm log p of a datum depends on the other data of its batch, and is no term "
            "of a sum. Use eqx.nn.GroupNorm or eqx.nn.LayerNorm; or make a group of rows the datum, as "
            "vr.models.resnet does."
        )

    def open_module(batched: bool, x: Any) -> Opened:
        return open_equinox(module, batched, fresh)

    options: dict[str, Any] = {"prior": prior, "scale": scale, "dropout": dropout}
    return network_problem(
        "from_equinox", open_module, data, likelihood, sample_only=sample_only, **options
    )


class Slot(NamedTuple):
    """A place of an array in a module: of a parameter (its path), or of a fixed array (its number)."""

    path: tuple[str, ...] | None
    number: int = 0


class Parts(NamedTuple):
    """The structure of a module: its leaves, with a `Slot` for each array; quiet: without dropout."""

    leaves: tuple[Any, ...]
    treedef: Any
    quiet_leaves: tuple[Any, ...]
    quiet_treedef: Any


class Equinox(Network):
    """structure: `Parts`."""

    def combine(self, params: Any, buffers: Any, training: bool) -> Any:
        parts: Parts = self.structure
        arrays = flat(params)

        def fill(leaf: Any) -> Any:
            if not isinstance(leaf, Slot):
                return leaf
            return buffers[leaf.number] if leaf.path is None else arrays[leaf.path]

        if training:
            return jax.tree.unflatten(parts.treedef, map(fill, parts.leaves))
        return jax.tree.unflatten(parts.quiet_treedef, map(fill, parts.quiet_leaves))

    def run(self, params: Any, buffers: Any, x: Any, key: Any, training: bool) -> Any:
        module = self.combine(params, buffers, training)
        options: dict[str, Any] = flags(type(module).__call__, training)
        if "key" in inspect.signature(type(module).__call__).parameters:
            options["key"] = key
        return module(x, **options)

    def rebuild(self, params: Any, buffers: Any) -> Any:
        return self.combine(params, buffers, True)


def open_equinox(module: Any, batched: bool, fresh: Callable[[Any], Any] | None) -> Opened:
    leaves, treedef, params, buffers = take_apart(module)
    quiet, quiet_treedef, *_ = take_apart(eqx.nn.inference_mode(module))
    parts = Parts(tuple(leaves), treedef, tuple(quiet), quiet_treedef)

    def start(key: core.PRNGKey) -> dict[str, Any]:
        assert fresh is not None
        return nested(take_apart(fresh(key))[2])

    network = Equinox(parts, batched)
    return Opened(network, nested(params), buffers, None if fresh is None else start)


def take_apart(module: Any) -> tuple[list[Any], Any, dict[tuple[str, ...], Any], list[Any]]:
    """Leaves with a `Slot` for each array, their structure, the parameters and the fixed arrays."""
    named, treedef = jax.tree_util.tree_flatten_with_path(module)
    leaves, params, buffers = [], {}, []
    for path, leaf in named:
        if is_weight(leaf):
            names = tuple(jax.tree_util.keystr((each,), simple=True) for each in path)
            params[names] = jnp.asarray(leaf)
            leaves.append(Slot(names))
        elif isinstance(leaf, jax.Array | np.ndarray):
            leaves.append(Slot(None, len(buffers)))
            buffers.append(jnp.asarray(leaf))
        else:
            leaves.append(leaf)
    return leaves, treedef, params, buffers


def is_weight(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray) and jnp.issubdtype(leaf.dtype, jnp.inexact)
