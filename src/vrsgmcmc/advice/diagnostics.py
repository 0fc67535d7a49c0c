"""How far draws are from the posterior, and how large the noise of a gradient is.

Kernel Stein discrepancy. For a target p with score s = grad log p and a base kernel k, the Stein
kernel has mean zero under p in either argument, and p's normalising constant is not needed:

    k0(x, y) = div_x div_y k + s(x) . grad_y k + s(y) . grad_x k + s(x) . s(y) k
    KSD^2    = sum_ij w_i w_j k0(x_i, x_j)                                    (V-statistic)
             = sum_{i != j} w_i w_j k0(x_i, x_j) / sum_{i != j} w_i w_j       (U-statistic, unbiased)

Here k(x, y) = phi(r), r = |x - y|^2, with phi one of

    imq   (c^2 + r)^beta      -1 < beta < 0: detects draws that escape (Gorham and Mackey 2017)
    rbf   exp(-r / (2 c^2))

Noise ratio. An SGLD step x' = x + h g + sqrt(2 h T) xi in d dimensions adds h^2 E|dV|^2 of the
gradient's noise to 2 h T d of its own: the ratio is h E|dV|^2 / (2 T d).
"""

from __future__ import annotations

from functools import partial
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import ArrayLike, Float, PyTree
from scipy.spatial.distance import pdist

from vrsgmcmc.core import Data, Params, Posterior, bounded_jit, named_leaves
from vrsgmcmc.theory import Noise, ZeroFrequency, noise

from .gradients import full_gradient

__all__ = ["Discrepancy", "NoiseRatio", "gradient_noise_ratio", "kernel_stein_discrepancy", "ksd"]

Array = np.ndarray
BLOCK = 512  # draws on either side of a block: it stays in the caches
MEDIAN_OF = 1000  # draws whose distances the median bandwidth is taken from


class Discrepancy(NamedTuple):
    """A KSD, and its cost."""

    value: float  # the root of `squared`; 0 where an unbiased `squared` is negative
    squared: float
    evaluations: int  # per-datum gradients


class NoiseRatio(NamedTuple):
    """Gradient noise in units of the injected noise; None where an argument is missing."""

    minibatch: float
    practical: float | None  # needs anchor and anchor_size
    svrg: float | None  # needs anchor
    zero_frequency: ZeroFrequency  # the sum over many small steps; practical needs period, too
    blocks: dict[str, NoiseRatio] | None = None  # the same for each leaf of params


def imq(r: jax.Array, c: float, beta: float) -> tuple[jax.Array, ...]:
    """phi, phi', phi'' of the inverse multiquadric."""
    base = c**2 + r
    phi = base**beta
    return phi, beta * phi / base, beta * (beta - 1) * phi / base**2


def rbf(r: jax.Array, c: float, beta: float) -> tuple[jax.Array, ...]:
    """phi, phi', phi'' of the Gaussian kernel, which has no beta."""
    phi = jnp.exp(-r / (2 * c**2))
    return phi, -phi / (2 * c**2), phi / (4 * c**4)


KERNELS = {"imq": imq, "rbf": rbf}


@partial(jax.jit, static_argnames="kernel")
def stein_sums(a: Array, b: Array, kernel: str, c: float, beta: float) -> tuple[jax.Array, ...]:
    """sum_ij w_i v_j k0(x_i, y_j), and its part with i = j, over tables a = (x, s, w), b = (y, t, v).

    k0 = -2 d phi' - 4 r phi'' + 2 phi' (t - s) . (x - y) + phi s . t,   s and t the scores of x and y
    """
    d = a.shape[1] // 2
    (x, s, w), (y, t, v) = ((rows[:, :d], rows[:, d:-1], rows[:, -1]) for rows in (a, b))
    dot = partial(jnp.einsum, "id,id->i")
    r = jnp.maximum(dot(x, x)[:, None] + dot(y, y)[None] - 2 * x @ y.T, 0.0)
    across = x @ t.T + s @ y.T - dot(s, x)[:, None] - dot(t, y)[None]
    phi, slope, bend = KERNELS[kernel](r, c, beta)
    k0 = 2 * slope * (across - d) - 4 * r * bend + phi * (s @ t.T)
    return w @ k0 @ v, (w * v) @ jnp.diagonal(k0)


def ksd(
    draws: Float[ArrayLike, "n d"],
    scores: Float[ArrayLike, "n d"],
    *,
    kernel: str = "imq",
    bandwidth: float | str = 1.0,
    beta: float = -0.5,
    weights: Float[ArrayLike, " n"] | None = None,
    unbiased: bool = False,
    precondition: bool | Float[ArrayLike, "d d"] = False,
) -> Discrepancy:
    """Kernel Stein discrepancy between draws and the law with these scores (grad log p).

    - `bandwidth`: the kernel's c, or "median", the median distance between draws. `beta`: see above.
    - `weights`: of the draws, normalised to sum 1; None: equal.
    - `unbiased`: the U-statistic. Independent draws from p itself have a V-statistic of E k0(x, x) / n
      in the mean, and a U-statistic of 0, which may be negative.
    - `precondition`: a covariance C = L L', or True for that of the draws. Distances are then those
      of L^-1 x, whose scores are L' s. To compare runs give all of them one covariance.

    In float64 and block by block: time grows as n^2 (seconds for ten thousand draws of few
    parameters, minutes for a hundred thousand) and memory as n d.
    """
    x, s = np.asarray(draws, np.float64), np.asarray(scores, np.float64)
    if x.ndim != 2 or x.shape != s.shape or len(x) < 2 or x.shape[1] < 1:
        raise ValueError(
            f"ksd: draws and scores must both be [n, d] with n >= 2, got {x.shape} and {s.shape}. "
            "One parameter is [n, 1]; draws of vr.sample go to kernel_stein_discrepancy."
        )
    bad = [int(np.sum(~np.isfinite(rows).all(1))) for rows in (x, s)]
    if any(bad):
        raise ValueError(
            f"ksd: {bad[0]} of {len(x)} draws, {bad[1]} scores are not finite. Drop diverged chains."
        )
    w = _weights(weights, len(x), least=2 if unbiased else 1)
    if precondition is not False:
        L = _root(np.cov(x.T, aweights=w, ddof=0) if precondition is True else precondition, x)
        x, s = np.linalg.solve(L, x.T).T, s @ L
    x = x - x.mean(0)  # only differences matter, and small numbers lose fewer digits
    c = _bandwidth(kernel, bandwidth, beta, x)
    table = np.pad(np.column_stack([x, s, w]), ((0, -len(x) % BLOCK), (0, 0)))  # weight 0
    blocks = table.reshape(-1, BLOCK, table.shape[1])
    total = own = 0.0
    with jax.enable_x64(True):
        for i, j in combinations_with_replacement(range(len(blocks)), 2):
            pairs, same = stein_sums(blocks[i], blocks[j], kernel, c, beta)
            total += (1 if i == j else 2) * float(pairs)
            own += float(same) if i == j else 0.0
    squared = float((total - own) / (1 - w @ w)) if unbiased else total
    return Discrepancy(float(np.sqrt(max(squared, 0.0))), squared, evaluations=0)


def kernel_stein_discrepancy(
    posterior: Posterior, data: Data, draws: PyTree, *, precondition: Any = True, **options: Any
) -> Discrepancy:
    """`ksd` between draws of `vr.sample`, leaves [chain, draw, ...], and the exact posterior.

    The scores are gradients over all data: N evaluations for each draw, counted in `.evaluations`.
    A posterior is narrow, of the order 1/sqrt(N), and a kernel of width 1 cannot resolve it: hence
    `precondition`. It and the other `options` are those of `ksd`.
    """
    if posterior.augment is not None:
        raise ValueError(
            "kernel_stein_discrepancy: with augment the score is random. Pass Posterior(logprior, "
            "loglik) and data that are augmented already."
        )
    shapes, rows = ([np.shape(leaf) for leaf in jax.tree.leaves(tree)] for tree in (draws, data))
    leading = {shape[:2] for shape in shapes}, {shape[:1] for shape in rows}
    if [[len(axes) for axes in each] for each in leading] != [[2], [1]]:
        raise ValueError(
            "kernel_stein_discrepancy: draws must have leaves [chain, draw, ...] (one chain: x[None]), "
            f"data leaves of the same length; got draws of shapes {shapes}, data of shapes {rows}."
        )
    if posterior.check is not None:
        posterior.check(data)
    draws = jax.tree.map(lambda leaf: jnp.reshape(leaf, (-1, *np.shape(leaf)[2:])), draws)
    x, s = _scores(posterior, jax.tree.map(jnp.asarray, data), draws)
    discrepancy = ksd(x, s, precondition=precondition, **options)
    return discrepancy._replace(evaluations=rows[0][0] * len(x))


@bounded_jit
def _scores(posterior: Posterior, data: Data, draws: Params) -> tuple[jax.Array, jax.Array]:
    """Draws and grad log p(x | D) there as matrices [n, d], one draw after another."""

    def score(params: Params) -> tuple[jax.Array, jax.Array]:
        gradient = full_gradient(posterior, data, params)
        return ravel_pytree(params)[0], ravel_pytree(gradient)[0]

    return jax.lax.map(score, draws)


def gradient_noise_ratio(
    posterior: Posterior,
    data: Data,
    params: Params,
    anchor: Params | None = None,
    *,
    step_size: float,
    temperature: float = 1.0,
    **options: Any,
) -> NoiseRatio:
    """Gradient noise against injected noise in an SGLD step from `params`.

    With small steps the zero-frequency ratio heats the chain, to twice its temperature where it is
    1. `options` are those of `theory.noise`, which needs at least `batch_size`.
    """
    for name, value in (("step_size", step_size), ("temperature", temperature)):
        if not 0 < value < np.inf:
            raise ValueError(f"gradient_noise_ratio({name}={value}): {name} must be positive.")

    def ratio(figures: Noise, dimension: int) -> NoiseRatio:
        each = (figures.minibatch, figures.practical, figures.svrg, figures.zero_frequency)
        scale = step_size / (2 * temperature * dimension)
        return NoiseRatio(*jax.tree.map(lambda figure: scale * figure, each))

    total = noise(posterior, data, params, anchor, **options)
    sizes = {name: np.size(leaf) for name, leaf in named_leaves(params)}
    blocks = {name: ratio(figures, sizes[name]) for name, figures in (total.blocks or {}).items()}
    return ratio(total, sum(sizes.values()))._replace(blocks=blocks)


def _weights(weights: Any, count: int, least: int) -> Float[Array, " n"]:
    w = np.ones(count) if weights is None else np.ravel(np.asarray(weights, np.float64))
    if len(w) != count or not np.all((w >= 0) & (w < np.inf)) or np.sum(w > 0) < least:
        raise ValueError(
            f"ksd: weights must be {count} finite numbers >= 0, {least} or more positive; got {w}."
        )
    return w / w.sum()


def _root(covariance: Any, x: Float[Array, "n d"]) -> Float[Array, "d d"]:
    """L with C = L L'."""
    d, C = x.shape[1], np.atleast_2d(np.asarray(covariance, np.float64))
    if C.shape != (d, d) or not np.allclose(C, C.T, atol=1e-6 * abs(C).max()):
        raise ValueError(f"ksd: precondition must be True, False or a covariance [{d}, {d}].")
    try:
        L = np.linalg.cholesky(C)
    except np.linalg.LinAlgError:
        L = np.zeros_like(C)
    if not np.all(L.diagonal() ** 2 > 1e-12 * abs(C.diagonal())):  # 0 up to rounding
        raise ValueError(
            "ksd: the covariance to precondition with is singular: parameters that never moved, or "
            f"fewer draws than parameters ({d}). Give a covariance, or precondition=False."
        )
    return L


def _bandwidth(kernel: str, bandwidth: Any, beta: float, x: Float[Array, "n d"]) -> float:
    c = np.median(pdist(x[:: -(-len(x) // MEDIAN_OF)])) if bandwidth == "median" else bandwidth
    if kernel not in KERNELS or not -1 < beta < 0 or isinstance(c, str) or not 0 < c < np.inf:
        raise ValueError(
            f"ksd(kernel={kernel!r}, bandwidth={bandwidth!r}, beta={beta}): kernel must be imq or rbf, "
            'beta between -1 and 0, bandwidth positive, or "median" where most draws differ.'
        )
    return float(c)
