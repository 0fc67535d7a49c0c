"""A NumPyro model as a prior and the log-likelihood of one row.

The parameters are unconstrained: a dict of z_s for each latent site s, with x_s = t_s(z_s) in the
support of the site. With P the plate over the data,

    logprior(z)      = sum of log p over all sites outside of P, at t(z), + sum_s log |dt_s / dz_s|,
    loglik(z, row i) = sum of log p over the sites inside P, at t(z), when the model is called with
                       row i alone and P has the size 1.

Both run the user's model under NumPyro's own handlers, so that masks, scales, factors and transforms
are NumPyro's. NumPyro multiplies the sites of a plate that is cut from N rows to one by N; here that
factor is taken out again, because a row counts once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.handlers import block, substitute
from numpyro.infer.util import constrain_fn, log_density, potential_energy
from numpyro.primitives import Messenger

from vrsgmcmc.core import Params, Scalar


@dataclass(frozen=True)
class Row:
    """The place of an argument with rows, and the shape of one row."""

    name: str
    shape: tuple[int, ...]
    dtype: Any


def is_array(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray) and value.ndim > 0


def as_jax(value: Any) -> Any:
    """An array of numbers as one of JAX, which traced integers can index."""
    numbers = is_array(value) and (value.dtype == bool or jnp.issubdtype(value.dtype, jnp.number))
    return jnp.asarray(value) if numbers else value


class Fixed:
    """An argument that stays as it is: equal ones, arrays by content, share compiled programs."""

    def __init__(self, value: Any):
        array = is_array(value)
        self.value = as_jax(value)
        content = hashlib.sha256(np.asarray(value).tobytes()).digest() if array else value
        shape = (value.shape, str(value.dtype)) if array else None
        self.content = (type(value), shape, content)
        try:
            hash(self.content)
        except TypeError:
            self.content = (type(value), shape, id(value))

    def __hash__(self) -> int:
        return hash(self.content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixed) and self.content == other.content


@dataclass(frozen=True)
class Call:
    """A model and its arguments without the rows: all that the densities depend on, as a value."""

    model: Callable
    structure: Any  # of (args, kwargs)
    arguments: tuple[Row | Fixed, ...]
    plate: str

    @cached_property
    def number(self) -> int:
        return hash((self.model, self.structure, self.arguments, self.plate))

    def __hash__(self) -> int:
        return self.number

    @property
    def rows(self) -> list[Row]:
        return [each for each in self.arguments if isinstance(each, Row)]

    def fill(self, rows: Mapping[str, Any]) -> tuple[tuple, dict]:
        """(args, kwargs) with these rows, leaves [n, ...]."""
        leaves = [rows[a.name] if isinstance(a, Row) else a.value for a in self.arguments]
        return jax.tree.unflatten(self.structure, leaves)

    def no_row(self) -> dict[str, Any]:
        """A row of zeros, for what does not depend on rows but on their shapes."""
        return {
            each.name: jnp.zeros((1, *each.shape), jax.dtypes.canonicalize_dtype(each.dtype))
            for each in self.rows
        }

    def inside(self, site: Mapping[str, Any]) -> bool:
        return is_inside(site, self.plate)

    def outside(self, site: Mapping[str, Any]) -> bool:
        return not self.inside(site)


def is_inside(site: Mapping[str, Any], plate: str | None) -> bool:
    return any(frame.name == plate for frame in site.get("cond_indep_stack", ()))


class Plates(Messenger):
    """Visit all of every plate, whatever its subsample size; of the plate `single`, one row."""

    def __init__(self, fn: Callable, single: str | None = None):
        self.single, self.size = single, 1
        super().__init__(fn)

    def process_message(self, msg: Any) -> None:
        if msg["type"] == "plate":
            size = length = msg["args"][0]
            if msg["name"] == self.single:
                self.size, length = size, 1
            msg["value"], msg["args"] = jnp.arange(length), (size, None)
        elif msg["type"] == "sample" and self.size != 1 and is_inside(msg, self.single):
            msg["scale"] = msg["scale"] / self.size


def sites_log_density(model: Callable, arguments: tuple, params: Params, hide: Any):
    """The log density of the sites of `model` that are not hidden, at t(params); no Jacobian."""
    args, kwargs = arguments
    values = constrain_fn(model, args, kwargs, params)
    visible = block(substitute(model, data=values), hide_fn=hide)
    return log_density(visible, args, kwargs, {})


@dataclass(frozen=True)
class Prior:
    """The log density of all sites outside of the plate over the data, Jacobians included."""

    call: Call

    def __call__(self, params: Params) -> Scalar:
        model = Plates(self.call.model, self.call.plate)
        return outside_log_density(self.call, model, self.call.fill(self.call.no_row()), params)


@dataclass(frozen=True)
class Likelihood:
    """The log density of one row: of all sites inside the plate over the data."""

    call: Call

    def __call__(self, params: Params, row: Any) -> Scalar:
        return jnp.asarray(self.with_sites(params, row)[0])

    def with_sites(self, params: Params, row: Any) -> tuple[Any, dict]:
        model = Plates(self.call.model, self.call.plate)
        arguments = self.call.fill(jax.tree.map(lambda leaf: leaf[None], row))
        return sites_log_density(model, arguments, params, self.call.outside)


def outside_log_density(call: Call, model: Callable, arguments: tuple, params: Params) -> Scalar:
    """The log density of the sites outside of the plate, with the Jacobians of all transforms."""
    args, kwargs = arguments
    return jnp.asarray(-potential_energy(block(model, hide_fn=call.inside), args, kwargs, params))


def whole_log_density(call: Call, params: Params, data: Any) -> Scalar:
    """What NumPyro's NUTS samples: the log density of the model with all rows."""
    args, kwargs = call.fill(data)
    return jnp.asarray(-potential_energy(Plates(call.model), args, kwargs, params))
