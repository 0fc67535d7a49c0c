"""The linear predictors of many draws and rows at once, on the host in float64."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from vrsgmcmc.core import bounded_jit

from .model import Family


def predictors(
    family: Family,
    draws: Mapping[str, Any],
    x: Float[np.ndarray, "n p"],
    groups: Mapping[str, Int[np.ndarray, " n"]] | None = None,
    rng: np.random.Generator | None = None,
) -> Float[np.ndarray, "draw n k"]:
    """eta of every draw and row, from draws with leaves [draw, ...].

    A row whose level is new (code -1) has an effect of its own, drawn from N(0, sd_g^2) by `rng`.
    """
    intercept = np.asarray(draws["intercept"], np.float64)
    count, width = len(intercept), family.width
    location = np.broadcast_to(intercept.reshape(count, 1, width), (count, len(x), width))
    if "weights" in draws:
        weights = np.asarray(draws["weights"], np.float64).reshape(count, -1, width)
        location = location + np.asarray(x, np.float64) @ weights
    for name, codes in (groups or {}).items():
        sd = np.exp(np.asarray(draws["groups"][name]["log_sd"], np.float64))
        levels = np.asarray(draws["groups"][name]["levels"], np.float64)
        levels = levels.reshape(count, -1, width)[:, codes]
        if (new := codes < 0).any():
            rng = np.random.default_rng(0) if rng is None else rng
            levels[:, new] = rng.normal(size=(count, int(new.sum()), width))
        location = location + sd.reshape(count, 1, width) * levels
    shared = [np.asarray(draws[name], np.float64).reshape(count, 1, -1) for name in family.shared]
    return np.concatenate(
        [location, *(np.broadcast_to(s, (count, len(x), s.shape[-1])) for s in shared)], -1
    )


def log_likelihoods(
    family: Any, eta: Float[np.ndarray, "draw n k"], y: np.ndarray
) -> Float[np.ndarray, "draw n"]:
    """log p(y_i | eta_i) of every draw and row."""
    return np.asarray(_log_likelihoods(family, jnp.asarray(eta), jnp.asarray(y)), np.float64)


@partial(bounded_jit, static=1)
def _log_likelihoods(family: Any, eta: Any, y: Any) -> Any:
    return jax.vmap(jax.vmap(family), (0, None))(eta, y)
