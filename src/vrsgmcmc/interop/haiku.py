"""The door of Haiku: functions that `hk.transform` made.

Parameters come from `transformed.init`, or are yours (`params`). The random stream comes from the key
of the datum. A function with a state (`hk.transform_with_state`) is taken when the state is empty.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from vrsgmcmc import core

from .network_structure import (
    Network,
    Opened,
    Refusal,
    arrays_like,
    check_shapes,
    flags,
    library,
    plain,
)
from .networks import NetworkProblem, network_problem


def from_haiku(
    transformed: Any,
    data: tuple[Any, Any],
    likelihood: str | Callable[[Any, Any], Any],
    *,
    params: Mapping[str, Any] | None = None,
    prior: float | Callable[[Any], Any] = 1.0,
    scale: float | None = None,
    dropout: bool | None = None,
    sample_only: Callable[[str], bool] | None = None,
) -> NetworkProblem:
    """The posterior of the parameters of a Haiku function: `vr.sample(key, *problem)`.

    - `transformed`: `hk.transform(function)`. It is applied to ONE row of x; if it expects a batch
      axis, it gets one of length 1. An argument `is_training` is set by the door.
    - `data`: (x, y), with one row per datum; x may be a pytree.
    - `likelihood`: what the outputs say about y: "categorical" (logits), "bernoulli" (a logit),
      "poisson" (a log-rate), "normal" (a mean), or your own function (output, y) -> log p(y | output).
    - `params`: trained parameters. Without them every chain starts from an initialisation of its own.
    - `prior`: v of N(0, v) for every parameter, or a function of the nested dict of parameters.
    - `scale`: the standard deviation of "normal". None: the parameter `log_scale` ~ N(0, 3^2).
    - `dropout`: True draws random masks while sampling, with a key for each datum. False samples the
      module as it is for predictions, without them.
    - `sample_only`: which parameters to sample, by path such as "mlp/~/linear_1/w"; the rest keeps its
      trained values. A last linear layer alone is a `vr.glm`: fast, and exact curvature.
    """
    hk = library("haiku", "from_haiku", "haiku")
    if not isinstance(transformed, hk.Transformed | hk.TransformedWithState):
        raise TypeError(
            f"from_haiku: expected what hk.transform(function) returns, got {transformed!r:.200}. Call "
            "hk.transform on the function that makes the modules and applies them."
        )
    stateful = isinstance(transformed, hk.TransformedWithState)

    def open_module(batched: bool, x: Any) -> Opened:
        leaves, structure = jax.tree.flatten(x)
        network = Haiku((transformed, stateful), batched)
        fresh = FreshHaiku(network, structure, tuple(leaves))
        shapes, state = jax.eval_shape(fresh.variables, jax.eval_shape(lambda: jax.random.key(0)))
        if state:
            raise Refusal(
                f"from_haiku: the function has a state ({', '.join(sorted(state))}), as batch-norm "
                "does: then log p of a datum depends on the other data of its batch, and is no term of "
                "a sum. Use hk.GroupNorm or hk.LayerNorm; or make a group of rows the datum, as "
                "vr.models.resnet does."
            )
        if params is None:
            return Opened(network, None, [], fresh)
        start = plain(params)
        check_shapes(start, shapes)
        return Opened(network, start, [], None)

    options: dict[str, Any] = {"prior": prior, "scale": scale, "dropout": dropout}
    return network_problem(
        "from_haiku", open_module, data, likelihood, sample_only=sample_only, **options
    )


class Haiku(Network):
    """structure: the pair of functions, and whether they have a state."""

    def run(self, params: Any, buffers: Any, x: Any, key: Any, training: bool) -> Any:
        transformed, stateful = self.structure
        options = flags(transformed.apply, training)
        keys = (key,) if "rng" in inspect.signature(transformed.apply).parameters else ()
        if not stateful:
            return transformed.apply(params, *keys, x, **options)
        return transformed.apply(params, {}, *keys, x, **options)[0]

    def rebuild(self, params: Any, buffers: Any) -> Any:
        return params


@dataclass(frozen=True)
class FreshHaiku:
    """A function of a key, equal for the same function and shapes, so that it compiles once."""

    network: Haiku
    structure: Any  # of x
    shapes: tuple[Any, ...]

    def variables(self, key: Any) -> tuple[Any, Any]:
        transformed, stateful = self.network.structure
        x = arrays_like(jax.tree.unflatten(self.structure, self.shapes))
        if self.network.batched:
            x = jax.tree.map(lambda leaf: leaf[None], x)
        made = transformed.init(key, x, **flags(transformed.init, True))
        return made if stateful else (made, {})

    def __call__(self, key: core.PRNGKey) -> dict[str, Any]:
        return plain(self.variables(key)[0])
