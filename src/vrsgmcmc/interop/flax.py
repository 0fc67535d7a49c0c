"""The door of Flax: linen and nnx modules, told apart by their type.

A linen module is a description: its parameters come from `module.init`, or are yours (`params`). An nnx
module holds its parameters, and they are the start. In both, random streams come from the key of the
datum, and what is no parameter (statistics, constants) is a fixed array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vrsgmcmc import core

from .network_structure import (
    Network,
    Opened,
    Refusal,
    arrays_like,
    check_shapes,
    flags,
    flat,
    library,
    nested,
    plain,
)
from .networks import NetworkProblem, network_problem

STATE = (
    "from_flax: the module changes {what} when it is applied, as batch-norm does: then log p of a "
    "datum depends on the other data of its batch, and is no term of a sum. Use GroupNorm or "
    "LayerNorm; or train first, and fix the statistics ({repair}); or make a group of rows the "
    "datum, as vr.models.resnet does."
)
LINEN = (
    'params with the "batch_stats", and dropout=False for a module that is told whether it trains'
)
NNX = "module.eval(), or dropout=False, which leaves dropout out, too"


def from_flax(
    module: Any,
    data: tuple[Any, Any],
    likelihood: str | Callable[[Any, Any], Any],
    *,
    params: Mapping[str, Any] | None = None,
    prior: float | Callable[[Any], Any] = 1.0,
    scale: float | None = None,
    dropout: bool | None = None,
    sample_only: Callable[[str], bool] | None = None,
    fresh: Callable[[Any], Any] | None = None,
) -> NetworkProblem:
    """The posterior of a Flax module's parameters: `vr.sample(key, *problem)`.

    - `module`: a linen module, or an nnx module, whose own weights are the start of all chains. It is
      applied to ONE row of x; if it expects a batch axis, it gets one of length 1.
    - `data`: (x, y), with one row per datum; x may be a pytree.
    - `likelihood`: what the outputs say about y: "categorical" (logits), "bernoulli" (a logit),
      "poisson" (a log-rate), "normal" (a mean), or your own function (output, y) -> log p(y | output).
    - `params`: for linen, trained parameters, or variables with "params" and fixed collections such as
      "batch_stats". Without them every chain starts from an initialisation of its own.
    - `prior`: v of N(0, v) for every parameter, or a function of the nested dict of parameters.
    - `scale`: the standard deviation of "normal". None: the parameter `log_scale` ~ N(0, 3^2).
    - `dropout`: True draws random masks while sampling, with a key for each datum. False samples the
      module as it is for predictions, without them.
    - `sample_only`: which parameters to sample, by path such as "Dense_1/kernel"; the rest keeps its
      trained values. A last dense layer alone is a `vr.glm`: fast, and exact curvature.
    - `fresh`: for nnx, a function of a key that makes the module, so that each chain starts elsewhere.
    """
    linen, nnx = (
        library("flax.linen", "from_flax", "flax"),
        library("flax.nnx", "from_flax", "flax"),
    )
    if isinstance(module, linen.Module):
        if fresh is not None:
            raise ValueError("from_flax(fresh=...): a linen module makes fresh parameters itself.")

        def open_module(batched: bool, x: Any) -> Opened:
            return open_linen(module, batched, x, params)

    elif isinstance(module, nnx.Module):
        if params is not None:
            raise ValueError(
                "from_flax(params=...): an nnx module holds its own parameters, which are the start. "
                "Leave params out, or put them into the module: nnx.update(module, params)."
            )

        def open_module(batched: bool, x: Any) -> Opened:
            return open_nnx(module, batched, fresh)

    else:
        hint = "the class itself; make a module of it" if isinstance(module, type) else "no module"
        raise TypeError(
            f"from_flax: module must be a flax.linen or flax.nnx Module, got {module!r:.200}: {hint}."
        )
    options: dict[str, Any] = {"prior": prior, "scale": scale, "dropout": dropout}
    return network_problem(
        "from_flax", open_module, data, likelihood, sample_only=sample_only, **options
    )


class Linen(Network):
    """structure: the module, a dataclass that is compared by its fields."""

    def run(self, params: Any, buffers: Any, x: Any, key: Any, training: bool) -> Any:
        module, variables = self.structure, {"params": params, **dict(buffers)}
        options = flags(type(module).__call__, training)
        try:
            return module.apply(variables, x, rngs=key, **options)
        except Exception as error:
            if type(error).__name__ == "ModifyScopeVariableError":
                raise Refusal(STATE.format(what="its variables", repair=LINEN)) from error
            raise

    def rebuild(self, params: Any, buffers: Any) -> Any:
        return params


@dataclass(frozen=True)
class FreshLinen:
    """A function of a key, equal for equal modules and shapes, so that it compiles once."""

    network: Linen
    structure: Any  # of x
    shapes: tuple[Any, ...]

    def variables(self, key: Any) -> Any:
        x = arrays_like(jax.tree.unflatten(self.structure, self.shapes))
        if self.network.batched:
            x = jax.tree.map(lambda leaf: leaf[None], x)
        module = self.network.structure
        return module.init(key, x, **flags(type(module).__call__, False))

    def __call__(self, key: core.PRNGKey) -> dict[str, Any]:
        return plain(self.variables(key).get("params", {}))


def open_linen(module: Any, batched: bool, x: Any, params: Any) -> Opened:
    leaves, structure = jax.tree.flatten(x)
    network = Linen(module, batched)
    fresh = FreshLinen(network, structure, tuple(leaves))
    shapes = jax.eval_shape(fresh.variables, jax.eval_shape(lambda: jax.random.key(0)))
    trained = params if params is None or "params" in params else {"params": params}
    buffers = {name: part for name, part in (trained or {}).items() if name != "params"}
    missing = sorted(set(shapes) - {"params"} - set(buffers))
    if missing:
        raise Refusal(STATE.format(what=f"its {', '.join(missing)}", repair=LINEN))
    buffers = {name: plain(part) for name, part in buffers.items()}
    if trained is None:
        return Opened(network, None, buffers, fresh)
    start = plain(trained["params"])
    check_shapes(start, shapes["params"])
    return Opened(network, start, buffers, None)


class Split(NamedTuple):
    """The structure of an nnx module: graphs as it is and without dropout, and of three states."""

    graph: Any
    quiet_graph: Any
    paths: tuple[tuple[str, ...], ...]  # of the parameters
    params: Any
    streams: Any
    rest: Any


class Nnx(Network):
    """structure: a `Split`."""

    def merge(self, params: Any, buffers: Any, key: Any, training: bool) -> Any:
        nnx = library("flax.nnx", "from_flax", "flax")
        split: Split = self.structure
        leaves = flat(params)
        streams = jax.tree.unflatten(*random_streams(split.streams, key))
        return nnx.merge(
            split.graph if training else split.quiet_graph,
            jax.tree.unflatten(split.params, [leaves[path] for path in split.paths]),
            streams,
            jax.tree.unflatten(split.rest, buffers),
        )

    def run(self, params: Any, buffers: Any, x: Any, key: Any, training: bool) -> Any:
        nnx = library("flax.nnx", "from_flax", "flax")
        module = self.merge(params, buffers, key, training)
        output = module(x, **flags(type(module).__call__, training))
        *_, rest = nnx.split(module, nnx.Param, nnx.RngState, ...)
        after = jax.tree.leaves(rest)
        if any(all(new is not old for new in after) for old in buffers):
            raise Refusal(STATE.format(what="its variables", repair=NNX))
        return output

    def rebuild(self, params: Any, buffers: Any) -> Any:
        return self.merge(params, buffers, jax.random.key(0), True)


def random_streams(structure: Any, key: Any) -> tuple[Any, list[Any]]:
    """The states of random streams that start from a key, each from another one."""
    kinds, treedef = structure
    leaves = []
    for number, (shape, is_key) in enumerate(kinds):
        if is_key:
            own = jax.random.fold_in(key, number)
            leaves.append(jax.random.split(own, shape) if shape else own)
        else:
            leaves.append(jnp.zeros(shape, jnp.uint32))
    return treedef, leaves


def open_nnx(module: Any, batched: bool, fresh: Callable[[Any], Any] | None) -> Opened:
    nnx = library("flax.nnx", "from_flax", "flax")
    quiet = nnx.clone(module)
    quiet.eval()
    quiet_graph, *_ = nnx.split(quiet, nnx.Param, nnx.RngState, ...)
    graph, params, streams, rest = nnx.split(module, nnx.Param, nnx.RngState, ...)
    named, structure = jax.tree_util.tree_flatten_with_path(params)
    paths = tuple(nnx_path(path) for path, _ in named)
    kinds, treedef = jax.tree.flatten(streams)
    kinds = tuple((x.shape, jnp.issubdtype(x.dtype, jax.dtypes.prng_key)) for x in kinds)
    buffers, rest_structure = jax.tree.flatten(rest)
    split = Split(graph, quiet_graph, paths, structure, (kinds, treedef), rest_structure)

    def start(key: core.PRNGKey) -> dict[str, Any]:
        assert fresh is not None
        leaves = jax.tree_util.tree_flatten_with_path(nnx.state(fresh(key), nnx.Param))[0]
        return nested({nnx_path(path): leaf for path, leaf in leaves})

    trained = nested(dict(zip(paths, (leaf for _, leaf in named), strict=True)))
    return Opened(Nnx(split, batched), trained, buffers, None if fresh is None else start)


def nnx_path(path: Any) -> tuple[str, ...]:
    """The names on the way to a variable; the last step, to its value, has none."""
    return tuple(str(each.key) for each in path if hasattr(each, "key"))
