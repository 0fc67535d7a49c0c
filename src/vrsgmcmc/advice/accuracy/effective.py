"""Effective draws of every parameter: of x for its mean, and of (x - mean)^2 for its sd."""

from typing import Any, NamedTuple

import jax
import numpy as np

from vrsgmcmc.core import Params

RANKS = 1000  # draws of a chain that R-hat ranks
SLOWEST = 16  # parameters whose ESS is computed at each look


class Effective(NamedTuple):
    """Moments of the draws, chains pooled, and what their finite number leaves open."""

    mean: np.ndarray  # [d]
    sd: np.ndarray
    ess: np.ndarray  # of x
    ess_square: np.ndarray  # of (x - mean)^2
    mean_error: np.ndarray  # standard error of the mean, in sds
    sd_error: np.ndarray  # relative standard error of the sd
    r_hat: np.ndarray

    @property
    def least(self) -> float:
        """The least ESS over the parameters, of both kinds."""
        return float(min(self.ess.min(initial=np.inf), self.ess_square.min(initial=np.inf)))


def flatten_draws(draws: Params) -> np.ndarray:
    """[chain, draw, d] in float64, without chains that became non-finite."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(draws)]
    flat = np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)
    return flat[np.isfinite(flat).all((1, 2))]


def array_statistics() -> Any:
    """ArviZ's statistics of arrays, imported when they are first used."""
    from arviz_stats import base

    return base.array_stats  # type: ignore[attr-defined]


def least_effective(draws: Params) -> float:
    """The least ESS, of x and (x - mean)^2: of the parameters that batch means find to be slowest."""
    stats = array_statistics()
    x = flatten_draws(draws)
    u = (x - x.mean((0, 1))) / np.maximum(x.std((0, 1)), np.finfo(float).tiny)
    least = np.inf
    for values in (u, u**2):
        slowest = np.argsort(-batch_inflation(values))[:SLOWEST]
        ess = stats.ess(values[..., slowest], chain_axis=0, draw_axis=1, method="mean")
        least = min(least, float(np.min(ess)))
    return least


def batch_inflation(values: np.ndarray) -> np.ndarray:
    """The variance of means over batches of sqrt(n) draws, times their length, over the variance."""
    length = max(1, int(np.sqrt(values.shape[1])))
    count = values.shape[1] // length
    batches = values[:, : count * length].reshape(len(values), count, length, -1).mean(2)
    return length * batches.var((0, 1)) / np.maximum(values.var((0, 1)), np.finfo(float).tiny)


def effective(draws: Params) -> Effective:
    stats = array_statistics()
    x = flatten_draws(draws)
    mean, sd = x.mean((0, 1)), x.std((0, 1), ddof=1)
    sd = np.where(sd > 0, sd, 1.0)
    u = (x - mean) / sd
    axes: dict[str, Any] = {"chain_axis": 0, "draw_axis": 1}
    ess = stats.ess(u, method="mean", **axes)
    ess_square = stats.ess(u**2, method="mean", **axes)
    some = u[:, :: max(1, u.shape[1] // RANKS)]
    r_hat = stats.rhat(some, **axes) if len(x) > 1 else np.full(len(mean), np.nan)
    kurtosis = (u**4).mean((0, 1)) - 1
    return Effective(
        mean,
        sd,
        np.atleast_1d(ess),
        np.atleast_1d(ess_square),
        1 / np.sqrt(ess),
        np.sqrt(kurtosis / ess_square) / 2,
        np.atleast_1d(r_hat),
    )
