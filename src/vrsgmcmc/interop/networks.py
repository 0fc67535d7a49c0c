"""What the doors of networks share: from a module, data and a likelihood to a posterior.

    log p(w | D) = logprior(w) + sum_i log p(y_i | f(x_i; w))

Parameters are nested dicts of arrays under the names of the library, so that draws on disk need no
code. Everything is checked here on shapes, before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core, run
from vrsgmcmc.models import gaussian

from .network_frozen import Frozen, LinearOutput, cut, last_layer, part_outputs
from .network_likelihoods import LOG_SCALE, as_likelihood
from .network_predictions import Model, NetworkProblem
from .network_structure import (
    Network,
    Opened,
    Refusal,
    check_params,
    draws_numbers,
    flat,
    item_shapes,
    key_shape,
    nested,
)

SCALE_PRIOR = 9.0  # the variance of log_scale
ROWS = 1000  # that tell the scale at the start


@dataclass(frozen=True)
class Prior:
    """A prior of the weights, and that of log_scale beside them."""

    weights: Callable[[Any], core.Scalar]

    def __call__(self, params: Any) -> core.Scalar:
        weights = {name: part for name, part in params.items() if name != LOG_SCALE}
        return self.weights(weights) + gaussian.log_normal(params[LOG_SCALE], SCALE_PRIOR)


@dataclass(frozen=True)
class Output:
    """The output of a module, all of whose arrays are sampled."""

    network: Network
    training: bool

    def __call__(self, params: Any, x: Any, key: Any) -> Any:
        return self.network(params, [], x, key, self.training)


@dataclass(frozen=True)
class Loglik:
    """log p(y | output) of one datum (x, y), or (x, y, key)."""

    output: Callable[[Any, Any, Any], Any]
    likelihood: Any

    def __call__(self, params: Any, datum: Any) -> core.Scalar:
        x, y, *keys = datum
        noise = (params[LOG_SCALE],) if self.likelihood.log_scale else ()
        if noise:
            params = {name: part for name, part in params.items() if name != LOG_SCALE}
        key = keys[0] if keys else jax.random.key(0)  # nothing draws from it
        return self.likelihood(self.output(params, x, key), y, *noise)


@dataclass(frozen=True)
class DataCheck:
    """Refuse a y that the likelihood is not for."""

    likelihood: Any
    output: tuple[int, ...]  # shape

    def __call__(self, data: Any) -> None:
        self.likelihood.check(data[1], self.output)


@dataclass(frozen=True)
class Start:
    """A start from fresh weights, and log_scale."""

    fresh: Callable[[core.PRNGKey], dict[str, Any]]
    log_scale: float | None

    def __call__(self, key: core.PRNGKey) -> dict[str, Any]:
        return with_scale(self.fresh(key), self.log_scale)


def with_scale(params: dict[str, Any], log_scale: float | None) -> dict[str, Any]:
    if log_scale is None:
        return params
    dtype = jnp.result_type(*jax.tree.leaves(params))
    return {**params, LOG_SCALE: jnp.asarray(log_scale, dtype)}


def with_key(key: core.PRNGKey, item: tuple[Any, Any]) -> tuple[Any, Any, core.PRNGKey]:
    """The key of a dropout mask becomes a part of the datum."""
    return (*item, key)


def network_problem(
    door: str,
    open_module: Callable[[bool, Any], Opened],
    data: Any,
    likelihood: Any,
    *,
    prior: Any,
    scale: Any,
    dropout: bool | None,
    sample_only: Callable[[str], bool] | None,
) -> NetworkProblem:
    """The problem of a module, which `open_module(batched, x)` takes apart; x: one datum's shapes."""
    kind = as_likelihood(door, likelihood, scale)
    x, y = check_data(door, data)
    items = item_shapes((x, y))
    training = dropout is not False
    opened, params, output = fit(door, open_module, kind, items, training)
    network, buffers = opened.network, opened.buffers
    check_params(door, params)
    if LOG_SCALE in params:
        raise ValueError(f"{door}: {LOG_SCALE!r} is the name of the noise. Rename the layer.")
    kind.check(y, jax.tree.leaves(output)[0].shape)
    random = check_dropout(door, network, params, buffers, items[0], dropout)
    sampled, fixed = select(door, params, sample_only, opened.fresh is not None)

    own_prior: Any = prior if callable(prior) else gaussian.normal_prior(prior)
    options: dict[str, Any] = {
        "logprior": Prior(own_prior) if kind.log_scale else own_prior,
        "check": DataCheck(kind, jax.tree.leaves(output)[0].shape),
    }
    frozen = Frozen(network, fixed, buffers, training)
    layer = None
    if fixed and not random:
        layer = last_layer(frozen, sampled, x, kind.is_number(output, items[1]))
    if layer is not None:
        rows, coefficients = layer
        options["loglik"] = Loglik(LinearOutput(coefficients), kind)
        if kind.log_scale:
            posterior = core.Posterior(**options)
        else:
            posterior = core.GLM(**options, likelihood=kind, coefficients=coefficients)
    else:
        part: Any = Output(network, training)
        rows = x
        if fixed or jax.tree.leaves(buffers):
            rows, part = cut(frozen, sampled, x)
        augment = with_key if random else None
        posterior = core.Posterior(
            **options, loglik=Loglik(part, kind), augment=augment, network=True
        )
    noise = start_scale(frozen, sampled, opened.fresh, x, y) if kind.log_scale else None
    init = with_scale(sampled, noise) if opened.fresh is None else Start(opened.fresh, noise)
    model = Model(network, kind, items)
    paths = tuple("/".join(path) for path in flat(params))
    return NetworkProblem(posterior, (rows, y), init, model, fixed, buffers, paths)


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


def start_scale(frozen: Frozen, sampled: Any, fresh: Any, x: Any, y: Any) -> float:
    """The logarithm of the noise at the start: of the residuals of trained weights, or of y."""
    some_x, some_y = jax.tree.map(lambda leaf: leaf[:ROWS], (x, y))
    values = np.asarray(some_y, np.float64)
    if fresh is None:
        outputs = part_outputs(frozen._replace(training=False), sampled, some_x)
        sd = np.sqrt(np.mean(np.square(values - np.asarray(outputs).reshape(values.shape))))
    else:
        sd = values.std()
    return float(np.log(max(sd, 1e-3 * np.abs(values).max(), 1e-6)))
