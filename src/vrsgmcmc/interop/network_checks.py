"""What the doors of networks refuse, each with what to do; shapes suffice, and nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from vrsgmcmc import run

from .network_structure import Network, Opened, Refusal, draws_numbers, flat, key_shape, nested


def check_data(door: str, data: Any) -> tuple[Any, Any]:
    """The rows of x and y as JAX arrays."""
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise ValueError(f"{door}: data must be (x, y), with one row per datum; got {data!r:.100}.")
    x, y = data
    if np.asarray(y).dtype.kind in "OUS":
        raise ValueError(
            f"{door}: y must hold numbers, got dtype {np.asarray(y).dtype}. classes, y = "
            "numpy.unique(y, return_inverse=True) numbers the classes."
        )
    return run.as_data((jax.tree.map(np.asarray, x), np.asarray(y)))[0]


def fit(
    door: str, open_module: Any, kind: Any, items: tuple[Any, Any], training: bool
) -> tuple[Opened, Any, Any]:
    """The module, with or without a batch axis: as its library has it, or else the other way."""
    x, y = items
    troubles = []
    for batched in (door != "from_equinox", door == "from_equinox"):
        name = "with a batch axis of length 1" if batched else "without a batch axis"
        try:
            opened = open_module(batched, x)
            params = opened.params
            if opened.fresh is not None:
                params = jax.eval_shape(opened.fresh, key_shape())

            def outputs(params: Any, buffers: Any, x: Any, key: Any, opened: Any = opened) -> Any:
                return opened.network(params, buffers, x, key, training)

            output = jax.eval_shape(outputs, params, opened.buffers, x, key_shape())
            trouble = kind.misfit(output, y)
            if not trouble:
                return opened, params, output
        except Refusal:
            raise
        except Exception as error:
            trouble = f"{type(error).__name__}: {str(error)[:1000]}"
        troubles.append(f"{name}: {trouble}")
    shapes = jax.tree.map(lambda leaf: list(leaf.shape), x)
    raise ValueError(
        f"{door}: the module and the likelihood do not fit one datum, with x {shapes} and y "
        f"{list(y.shape)}. " + "; ".join(troubles)
    )


def check_dropout(
    door: str, network: Network, params: Any, buffers: Any, x: Any, dropout: bool | None
) -> bool:
    """Whether random masks are drawn while sampling; refused where that was not asked for."""
    if draws_numbers(network, params, buffers, x, False):
        raise ValueError(
            f"{door}: the module draws random numbers that cannot be switched off, so it has no "
            "predictions. Let its call take an argument `deterministic` or `train` for the dropout "
            "layers, or use the library's own."
        )
    if dropout is False:
        return False
    random = draws_numbers(network, params, buffers, x, True)
    if random and dropout is None:
        raise ValueError(
            f"{door}: the module draws random numbers (dropout). Pass dropout=True to sample with "
            "random masks, each of which belongs to a datum, or dropout=False to sample without them."
        )
    if dropout and not random:
        raise ValueError(
            f"{door}(dropout=True): the module draws no random numbers as it is. Leave dropout out, or "
            "switch its dropout layers on: module.train() of nnx, inference=False of Equinox."
        )
    return random


def select(
    door: str, params: Any, sample_only: Callable[[str], bool] | None, fresh: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters to sample, and the others."""
    if sample_only is None:
        return params, {}
    if fresh:
        raise ValueError(
            f"{door}(sample_only=...): the other parameters keep trained values, and there are none. "
            "Pass trained parameters (params=... of linen and Haiku; a trained module, without fresh, "
            "of nnx and Equinox)."
        )
    leaves = flat(params)
    sampled = {path: leaf for path, leaf in leaves.items() if sample_only("/".join(path))}
    if not sampled:
        listed = ", ".join("/".join(path) for path in list(leaves)[:20])
        raise ValueError(f"{door}(sample_only=...): it selects none of the parameters {listed}.")
    return nested(sampled), nested({p: leaf for p, leaf in leaves.items() if p not in sampled})
