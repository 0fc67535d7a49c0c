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

from vrsgmcmc import core
from vrsgmcmc.models import gaussian

from .network_checks import check_data, check_dropout, fit, select
from .network_cut import cut
from .network_frozen import Frozen, LinearOutput, last_layer, part_outputs
from .network_likelihoods import LOG_SCALE, as_likelihood
from .network_predictions import Model, NetworkProblem
from .network_structure import Network, Opened, check_params, flat, item_shapes

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
