"""The paper's bounds on bias and mean square error, with their constants as arguments.

L steps of size h, an integrator of order K, N data, minibatches of n without replacement; for
Algorithm 1 an anchor on n1 data, renewed every m steps, and n = n2. With

    Gamma(v) = (1/N^2) sum_ij v_i.v_j - (1/(N(N-1))) sum_{i != j} v_i.v_j
    A        = (N - n) N^2 / n * Gamma(alpha)              the noise of a minibatch, E|dV|^2
    lambda   = N^3 (n1 - n2) / (n1 n2) * Gamma(beta)       the anchor's gain; < 0 if n1 < n2

every bound on the mean square error is c1 * noise / L + c2 / (L h) + c3 h^(2K); the noise is

    Theorem 1   A         Theorem 2   A - lambda + c4 m h         Remark 1   the same, at n1 = N

A bound holds up to its constants: compare bounds, do not read them as errors.
`size`, `batch_size`, `anchor_size`, `period` are N, n (n2), n1, m. Arguments may be arrays, which
broadcast; `gammas` is one number, or Gamma_l for the steps l on its last axis.
"""

from collections.abc import Sequence
from typing import Any, SupportsFloat

import numpy as np
from jaxtyping import Float

Array = np.ndarray
Numbers = float | Float[Array, "..."]
Input = SupportsFloat | Sequence[Any]  # a number, an array, a list

ONES = (1.0, 1.0, 1.0)  # c1, c2, c3


def bias_bound(
    drift: Input, num_steps: Input, step_size: Input, *, order: Input = 1, constants: Input = ONES
) -> Numbers:
    """Lemma 1: c1 * drift + c2 / (L h) + c3 h^K, where drift = mean_l |E dV_l|."""
    c1, c2, c3 = weights(constants, 3)
    mean = non_negative("drift", drift, "it is a mean of norms, 0 for unbiased gradients")
    L, h = positive("num_steps", num_steps), positive("step_size", step_size)
    return c1 * mean + c2 / (L * h) + c3 * h ** whole("order", order)


def mse_bound(
    noise: Input, num_steps: Input, step_size: Input, *, order: Input = 1, constants: Input = ONES
) -> Numbers:
    """Lemma 1: c1 * noise / L + c2 / (L h) + c3 h^(2K), where noise = mean_l E|dV_l|^2.

    The noise may be negative: A - lambda is, where the bound moves a term of order m h to c4.
    """
    c1, c2, c3 = weights(constants, 3)
    L, h = positive("num_steps", num_steps), positive("step_size", step_size)
    K = whole("order", order)
    return c1 * real("noise", noise) / L + c2 / (L * h) + c3 * h ** (2 * K)


def minibatch_noise(gamma: Input, *, size: Input, batch_size: Input) -> Numbers:
    """A = (N - n) N^2 / n * Gamma(alpha), which is E|dV|^2 exactly."""
    N = whole("size", size)
    n = whole("batch_size", batch_size, most=N)
    return (N - n) * N**2 / n * non_negative("gamma", gamma, "it is a variance over N")


def improvement(gamma: Input, *, size: Input, batch_size: Input, anchor_size: Input) -> Numbers:
    """lambda = N^3 (n1 - n2) / (n1 n2) * Gamma(beta), up to the O(m h) of alpha - beta."""
    N = whole("size", size)
    n1, n2 = whole("anchor_size", anchor_size, most=N), whole("batch_size", batch_size, most=N)
    return N**3 * (n1 - n2) / (n1 * n2) * non_negative("gamma", gamma, "it is a variance over N")


def improvement_as_printed(
    all_pairs: Input, distinct_pairs: Input, *, size: Input, batch_size: Input, anchor_size: Input
) -> Numbers:
    """Theorem 2's lambda: (N/n1 - N/n2) sum_ij b_i.b_j - (q2 - q1) sum_{i != j} b_i.b_j.

    q1 = N (N - n1) / (n1 (N - 1)), and q2 likewise; the sums are `all_pairs` and `distinct_pairs`.
    Erratum: N/n2 - N/n1 in the first term would give `improvement`. As printed the sign is not
    definite: below 0 for n1 > n2 wherever the second sum is positive.
    """
    N = whole("size", size)
    if np.any(N == 1):
        raise ValueError(f"size must be at least 2; got {size}; one datum makes no pairs")
    n1, n2 = whole("anchor_size", anchor_size, most=N), whole("batch_size", batch_size, most=N)
    q1, q2 = N * (N - n1) / (n1 * (N - 1)), N * (N - n2) / (n2 * (N - 1))
    sum_all, sum_distinct = real("all_pairs", all_pairs), real("distinct_pairs", distinct_pairs)
    return (N / n1 - N / n2) * sum_all - (q2 - q1) * sum_distinct


def minibatch_bound(
    gammas: Input,
    num_steps: Input,
    step_size: Input,
    *,
    size: Input,
    batch_size: Input,
    order: Input = 1,
    constants: Input = ONES,
    as_printed: bool = False,
) -> Numbers:
    """Theorem 1: c1 (N - n) N^2 Gamma_M / (n L) + c2 / (L h) + c3 h^(2K), Gamma_M = max_l Gamma_l.

    Erratum: the theorem prints 2 (N - n), its proof shows (N - n); `as_printed` has the 2.
    """
    A = minibatch_noise(over_steps(gammas).max(-1), size=size, batch_size=batch_size)
    noise = 2 * A if as_printed else A
    return mse_bound(noise, num_steps, step_size, order=order, constants=constants)


def practical_bound(
    gammas: Input,
    anchor_gammas: Input,
    num_steps: Input,
    step_size: Input,
    *,
    size: Input,
    batch_size: Input,
    anchor_size: Input,
    period: Input,
    order: Input = 1,
    constants: Input = (*ONES, 1.0),
) -> Numbers:
    """Theorem 2: c1 (A_M - lambda_M) / L + c2 / (L h) + c3 h^(2K) + c4 m h / L.

    A_M = max_l A_l with Gamma_l(alpha) from `gammas`, lambda_M = min_l lambda_l with Gamma_l(beta)
    from `anchor_gammas`. If these are equal A - lambda is the noise of a minibatch of n1. The proof
    hides a factor of order N^2 (N - n2) / n2 in c4. The theorem ignores that the anchor's error is
    the same for m steps: it promises a gain over minibatches that small steps do not have.
    """
    *mse_constants, c4 = weights(constants, 4)
    sizes = dict(size=size, batch_size=batch_size, anchor_size=anchor_size)
    A_max = minibatch_noise(over_steps(gammas).max(-1), size=size, batch_size=batch_size)
    # lambda_l is linear in Gamma_l, falling if n1 < n2: the least is at one of the two ends.
    ends = over_steps(anchor_gammas).min(-1), over_steps(anchor_gammas).max(-1)
    lambda_min = np.minimum(improvement(ends[0], **sizes), improvement(ends[1], **sizes))
    noise, m = A_max - lambda_min, whole("period", period)
    L, h = positive("num_steps", num_steps), positive("step_size", step_size)
    return mse_bound(noise, L, h, order=order, constants=mse_constants) + c4 * m * h / L


def svrg_bound(
    gammas: Input,
    anchor_gammas: Input,
    num_steps: Input,
    step_size: Input,
    *,
    size: Input,
    batch_size: Input,
    period: Input,
    order: Input = 1,
    constants: Input = (*ONES, 1.0),
    as_printed: bool = False,
) -> Numbers:
    """Remark 1: Theorem 2 at n1 = N, where lambda_l = (N - n2) N^2 / n2 * Gamma_l(beta).

    Erratum: the remark prints max_l lambda_l, a bound needs min_l; `as_printed` has the max.
    """
    if as_printed:
        anchor_gammas = over_steps(anchor_gammas).max(-1, keepdims=True)
    rest = dict(size=size, batch_size=batch_size, period=period, order=order, constants=constants)
    return practical_bound(gammas, anchor_gammas, num_steps, step_size, anchor_size=size, **rest)


def step_cost(
    *, batch_size: Input, anchor_size: Input, period: Input, as_printed: bool = False
) -> Numbers:
    """Per-datum gradients in one step of Algorithm 1: n1 / m + 2 n2.

    Erratum: Remark 2 prints n1 / m + n2 (`as_printed`), but each of the n2 data needs two gradients,
    the current one and the one at the anchor.
    """
    n1, n2 = whole("anchor_size", anchor_size), whole("batch_size", batch_size)
    return n1 / whole("period", period) + (n2 if as_printed else 2 * n2)


def over_steps(gammas: Input) -> Float[Array, "... l"]:
    """Gamma_l for the steps l, on the last axis."""
    return np.atleast_1d(non_negative("gammas", gammas, "each is a variance over N"))


def weights(constants: Input, count: int) -> list[float]:
    """The constants c1, c2, ..., as floats."""
    values = non_negative("constants", constants, f"give {count} numbers")
    if values.shape != (count,):
        raise ValueError(f"constants must be {count} numbers; got {constants}; one for each term")
    return values.tolist()


def real(name: str, value: Input) -> Float[Array, "..."]:
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        numbers = np.asarray(np.nan)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite; got {value}; give numbers")
    return numbers


def positive(name: str, value: Input) -> Float[Array, "..."]:
    numbers = real(name, value)
    if not (numbers > 0).all():
        raise ValueError(f"{name} must be positive; got {value}; give numbers above 0")
    return numbers


def non_negative(name: str, value: Input, why: str) -> Float[Array, "..."]:
    numbers = real(name, value)
    if not (numbers >= 0).all():
        raise ValueError(f"{name} must be 0 or more; got {value}; {why}")
    return numbers


def whole(name: str, value: Input, most: Input | None = None) -> Float[Array, "..."]:
    """Whole numbers from 1 up to `most`, the number of data; as floats, which cannot overflow."""
    numbers = real(name, value)
    if not ((numbers >= 1) & (numbers == np.floor(numbers))).all():
        raise ValueError(f"{name} must be a whole number, at least 1; got {value}; give 1, 2, ...")
    if most is not None and not (numbers <= most).all():
        raise ValueError(f"{name} must be at most size = {most}; got {value}; use all data at most")
    return numbers
