"""The noise of a gradient estimate at a point: E|dV|^2, the sum over lags, and the paper's names.

With alpha_i = grad loglik(params, d_i), beta_i the same at the anchor, and sample covariances

    S2(u, v) = 1/(N-1) sum_i (u_i - mean u) . (v_i - mean v),    S2(v) = S2(v, v),

n data with the weights N/n estimate sum_i v_i. The error e(v) has mean 0 and, at one step,

    E[e(u) . e(v)] = f S2(u, v),    f = N (N-n)/n,    with replacement f = N (N-1)/n.

(A block of a permutation is a draw without replacement.) With f1, f2 for the n1 data of the anchor
and, independent of them, the n2 data of a step,

    minibatch    f2 S2(alpha)
    practical    f2 S2(alpha - beta) + f1 S2(beta)
    svrg         f2 S2(alpha - beta)              (control_variate too: its anchor is the centre)

Zero frequency. Steps that are small against the relaxation time add the errors up. Their effect is
sum_k E[e_l . e_(l+k)] over all lags k, at constant alpha and beta, and as a mean over l where the
draws have a period. It is z S2(v). For independent draws only k = 0 contributes: z = f.

- `shuffled`: a sweep has K = N // n blocks, and two of them have E[e_b . e_b'] = -N S2. The sum of
  the sweep's errors has the variance K f S2 - K (K-1) N S2 = K N (N - nK)/n S2. Per step:
  z = N (N mod n)/n. It vanishes when n divides N; else the sweep drops N mod n data.
- `symmetric`: 2K steps with twice that sum, so four times the variance: z = 2 N (N mod n)/n.
- An anchor stays for m steps. m equal errors have m^2 times the variance of one, so per step
  its part counts m times: practical has z2 S2(alpha - beta) + m z1 S2(beta).

The paper's names (Chen et al. 2018). dV = sum_i alpha_i (1 - w_i) + sum_i beta_i (w_i - b_i), with
the weights w of the step and b of the anchor, has E|dV|^2 = A + B + C (Proposition 1):

    A = f2 S2(alpha)     B = (f2 + f1) S2(beta)     C = -2 f2 S2(alpha, beta)

C needs 2 sum_{i != j} alpha_i . beta_j where the paper has 4 sum_{i < j}. Gamma = S2(alpha)/N. The
gain of Theorem 2 is lambda = (f2 - f1) S2(beta), which without replacement is
N^3 (n1-n2)/(n1 n2) Gamma(beta), negative for n1 < n2. Exactly,

    B + C = -lambda + rest,    rest = -2 f2 S2(alpha - beta, beta).

Theorem 2 prints another lambda. Its two sums add up to
N^2 (n1-n2)/(n1 n2) (S2(beta) - 2 N |mean beta|^2): the second has the wrong sign, so this lambda has
no definite sign and is no gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from vrsgmcmc import core
from vrsgmcmc.core import ORDERS, Batch, Params, Posterior, PRNGKey, likelihood_gradient

from .exact.draws import SWEEPS


class Spread(NamedTuple):
    """S2, the trace of the sample covariance (divisor N-1), of the per-datum gradients."""

    alpha: float  # at the point
    beta: float | None  # at the anchor
    difference: float | None  # alpha - beta


class ZeroFrequency(NamedTuple):
    """The sum over all lags of the error's autocovariance, per step."""

    minibatch: float
    practical: float | None  # needs period, too
    svrg: float | None


class Noise(NamedTuple):
    """Every figure of the module's docstring; None where it lacks an argument."""

    minibatch: float  # E|dV|^2 at one step
    practical: float | None  # needs anchor and anchor_size
    svrg: float | None  # needs anchor
    zero_frequency: ZeroFrequency
    S2: Spread
    A: float
    B: float | None
    C: float | None
    gamma: float
    lambda_: float | None  # as corrected
    rest: float | None  # B + C + lambda_: 0 where alpha = beta
    printed_lambda: float | None  # Theorem 2 as printed: no definite sign
    standard_error: Noise | None = None  # of every figure; 0 without a subsample
    blocks: dict[str, Noise] | None = None  # the same for each leaf of params; they add up


def noise(
    posterior: Any,
    data: PyTree,
    params: PyTree,
    anchor: PyTree = None,
    *,
    batch_size: Any,
    anchor_size: Any = None,
    period: Any = None,
    order: str = "without_replacement",
    anchor_order: str = "without_replacement",
    subsample: Any = None,
    key: Any = None,
) -> Noise:
    """The noise of `minibatch`, `practical` and `svrg` at `params`, with the anchor at `anchor`.

    Two passes over the data, for the means and for the spread around them.

    - `batch_size`, `anchor_size`, `period`: the paper's n2, n1, m. n1 <= n2 is fine here.
    - `order`, `anchor_order`: as in `vr.sample`. An anchor on all data has no error.
    - `subsample`: draw this many data without replacement. All figures are then unbiased, with a
      jackknife standard error (for `printed_lambda` too large: up to sqrt 2 times at a mode).
    - `key`: a key or a seed, for a subsample and for `augment`. It augments each datum in one way
      for alpha_i and beta_i; the figures are those under this key.
    """
    size = _size(data)
    n2 = _up_to("batch_size", batch_size, size)
    n1 = None if anchor_size is None else _up_to("anchor_size", anchor_size, size)
    m = None if period is None else core.whole("noise", "period", period)
    k = size if subsample is None else _up_to("subsample", subsample, size, min(3, size))
    _check(posterior, data, params, anchor, n1, m, order=order, anchor_order=anchor_order)
    if key is None and (subsample is not None or posterior.augment is not None):
        raise ValueError("noise: subsample and augment need a key. Pass key=jax.random.key(0).")
    key = core.as_key(0 if key is None else key)
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x, float)), params)
    if anchor is not None:
        anchor = jax.tree.map(lambda x, a: jnp.asarray(a, x.dtype), params, anchor)
    if subsample is None:
        batch = Batch(jnp.arange(size), jax.tree.map(jnp.asarray, data))
    else:  # the keys of the data fold in 0..N-1, so N is unused
        words = np.asarray(jax.random.key_data(jax.random.fold_in(key, size)))
        index = np.random.default_rng(words).choice(size, k, replace=False)
        items = jax.tree.map(lambda leaf: jnp.asarray(leaf[index]), data)
        batch = Batch(jnp.asarray(index), items)

    mask, rows, square = map(np.asarray, _rows(posterior, params, anchor, batch, key))
    rows, square = rows[mask].astype(float), square.astype(float)
    if not np.isfinite(rows).all():
        raise ValueError("noise: gradients of loglik are not finite here. Take another point.")
    figures = partial(_figures, (size, n2, n1, m), (order, anchor_order), anchor is not None)
    blocks = {
        name: _estimates(figures, rows[:, j], square[j], size)
        for j, (name, _) in enumerate(core.named_leaves(params))
    }
    return _estimates(figures, rows.sum(1), square.sum(), size)._replace(blocks=blocks)


def one_step(order: str, size: int, count: int) -> float:
    """f: the error of `count` out of `size` data has E|e|^2 = f S2."""
    return size * (size - (1 if order == "with_replacement" else count)) / count


def all_lags(order: str, size: int, count: int) -> float:
    """z: the sum over lags of its autocovariance is z S2."""
    if order in SWEEPS:
        return (2 if order == "symmetric" else 1) * size * (size % count) / count
    return one_step(order, size, count)


def _figures(sizes: tuple, orders: tuple, has_anchor: bool, statistics: Any) -> Noise:
    """All figures, linear in the statistics S2(alpha), S2(beta), S2(alpha - beta), |mean beta|^2.

    `sizes` are N, n2, n1 and m, the last two None where the caller has none.
    """
    alpha, beta, difference, square = statistics
    (size, n2, n1, m), (order, anchor_order) = sizes, orders
    f2, z2 = one_step(order, size, n2), all_lags(order, size, n2)
    f1 = z1 = 0.0
    if n1 and n1 < size:  # else the samplers visit all data once, in any order
        f1, z1 = one_step(anchor_order, size, n1), all_lags(anchor_order, size, n1)
    cross = (alpha + beta - difference) / 2  # S2(alpha, beta)
    gain = size**2 * (n1 - n2) / (n1 * n2) if n1 else 0.0
    return Noise(
        minibatch=f2 * alpha,
        practical=f2 * difference + f1 * beta if n1 else None,
        svrg=f2 * difference if has_anchor else None,
        zero_frequency=ZeroFrequency(
            minibatch=z2 * alpha,
            practical=z2 * difference + m * z1 * beta if m else None,
            svrg=z2 * difference if has_anchor else None,
        ),
        S2=Spread(alpha, beta if has_anchor else None, difference if has_anchor else None),
        A=f2 * alpha,
        B=(f2 + f1) * beta if n1 else None,
        C=-2 * f2 * cross if has_anchor else None,
        gamma=alpha / size,
        lambda_=(f2 - f1) * beta if n1 else None,
        rest=-2 * f2 * (cross - beta) if has_anchor else None,
        printed_lambda=gain * (beta - 2 * size * square) if n1 else None,
    )


def _estimates(figures: Callable, rows: Float[np.ndarray, "k 4"], square: Any, size: int) -> Noise:
    """Figures and their standard errors from the k rows of a leaf, and |mean beta|^2 of these rows.

    S2 of k rows is unbiased; |mean beta|^2 is too large by (1/k - 1/N) S2. Leaving row i out moves
    S2 by a multiple of q_i = |v_i - mean|^2, so the jackknife's covariance of the S2's is
    k/((k-1) (k-2)^2) sum_i (q_i - mean q)(q_i - mean q)^T. Here times (k-2)/(k-1), which makes it
    unbiased for Gaussian rows, and times 1 - k/N, the part of the data outside the subsample.
    """
    k = len(rows)
    statistics = rows.sum(0) / (k - 1)
    statistics[3] = square - (1 / k - 1 / size) * statistics[1]
    offsets = rows - rows.mean(0)
    covariance = (1 - k / size) * k / ((k - 1) ** 2 * max(k - 2, 1)) * offsets.T @ offsets
    slopes = figures(np.eye(4))  # d figure / d statistics
    errors = jax.tree.map(lambda slope: math.sqrt(max(slope @ covariance @ slope, 0.0)), slopes)
    return jax.tree.map(float, figures(statistics))._replace(standard_error=errors)


@core.bounded_jit
def _rows(
    posterior: Posterior, params: Params, anchor: Params | None, batch: Batch, key: PRNGKey
) -> tuple[Bool[Array, "parts b"], Float[Array, "parts b L 4"], Float[Array, " L"]]:
    """For each datum and leaf, with a, b its centred gradients: |a|^2, |b|^2, |a-b|^2, 2 mean(b).b.

    Parts overlap; the first value is False for rows of an earlier part. The last value is
    |mean beta|^2 of each leaf.
    """
    count, wide = batch.index.shape[0], jnp.result_type(jnp.float32, *jax.tree.leaves(params))
    most = max(1, core.PART_BYTES // core.nbytes(params))
    parts, part = core.cut(count, min(core.part_size(posterior, params, batch.items), most))

    def flat(tree: Params, *shape: int) -> list[Array]:
        return [leaf.astype(wide).reshape(*shape, -1) for leaf in jax.tree.leaves(tree)]

    def mean(point: Params) -> list[Float[Array, " _"]]:
        return [leaf / count for leaf in flat(likelihood_gradient(posterior, point, batch, key))]

    def centre(point: Params, mean: list, rows: Batch) -> list[Float[Array, "b _"]]:
        gradients = flat(core.row_gradients(posterior, point, rows, key), part)
        return [row - center[None] for row, center in zip(gradients, mean, strict=True)]

    mean_alpha = mean(params)
    mean_beta = mean_alpha if anchor is None else mean(anchor)

    def one_part(number: Any) -> tuple[Bool[Array, " b"], Float[Array, "b L 4"]]:
        rows, fresh = core.split_part(number, part, batch)
        alpha = centre(params, mean_alpha, rows)
        beta = alpha if anchor is None else centre(anchor, mean_beta, rows)
        products = [
            [jnp.sum(v, 1) for v in (a * a, b * b, (a - b) ** 2, 2 * b * center[None])]
            for a, b, center in zip(alpha, beta, mean_beta, strict=True)
        ]
        return fresh > 0, jnp.stack([jnp.stack(leaf, 1) for leaf in products], 1)

    mask, rows = jax.lax.map(one_part, jnp.arange(parts))
    return mask, rows, jnp.stack([jnp.sum(center * center) for center in mean_beta])


def _size(data: Any) -> int:
    lengths = {name: len(leaf) if np.ndim(leaf) else 0 for name, leaf in core.named_leaves(data)}
    if len({*lengths.values()}) != 1 or min(lengths.values()) < 2:
        raise ValueError(f"noise: data needs leaves of equal length, at least 2; got {lengths}.")
    return min(lengths.values())


def _up_to(name: str, value: Any, size: int, least: int = 1) -> int:
    """A number of data."""
    if core.whole("noise", name, value, least) > size:
        raise ValueError(
            f"noise({name}={value!r}): {name} must be at most {size}, the number of data."
        )
    return int(value)


def _check(posterior: Any, data: Any, params: Any, anchor: Any, n1: Any, m: Any, **orders: Any):
    if not isinstance(posterior, Posterior):
        raise TypeError(f"noise: posterior must be a vr.Posterior, got {posterior!r}.")
    if posterior.check is not None:
        posterior.check(data)
    for name, value in orders.items():
        if value not in ORDERS:
            raise ValueError(f"noise({name}={value!r}): {name} must be one of {', '.join(ORDERS)}.")
    shapes = [jax.tree.map(jnp.shape, point) for point in (params, anchor)]
    if anchor is not None and shapes[0] != shapes[1]:
        raise ValueError(f"noise: anchor must be like params, {shapes[0]}, got {shapes[1]}.")
    if n1 is not None and anchor is None:
        raise ValueError(f"noise(anchor_size={n1}) needs an anchor: pass it, or leave this out.")
    if m is not None and n1 is None:
        raise ValueError(f"noise(period={m}) needs anchor and anchor_size: pass them.")
