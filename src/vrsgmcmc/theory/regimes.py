"""What the bounds advise: which step size, which minibatch, which method.

    best_step_size            the h that minimises a bound
    minibatch_regime          Corollary 1: all data for a small budget, one datum for a long run
    practical_budget_bound    Remark 2: Theorem 2 for a budget of per-datum gradients
    svrg_beats_sgld           where the one bound of Dubey et al. (2016) is below the other

Names, arguments and constants are those of `bounds.py`.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool
from scipy.optimize import brentq

from . import bounds
from .bounds import ONES, Array, Input, Numbers, non_negative, positive, real, weights, whole

STEP_FACTOR = 3 / 2 ** (2 / 3)  # min over h of a / h + h^2 is STEP_FACTOR * a^(2/3)


class StepSize(NamedTuple):
    """The step size that minimises a bound, and the bound there."""

    step_size: Numbers
    bound: Numbers


def best_step_size(
    num_steps: Input,
    *,
    noise: Input = 0.0,
    period: Input = 0,
    order: Input = 1,
    constants: Input = (*ONES, 1.0),
) -> StepSize:
    """Minimise c1 noise / L + c2 / (L h) + c3 h^(2K) + c4 m h / L over h; m = 0: no anchor.

    At m = 0, h = (c2 / (2K c3 L))^(1/(2K+1)) and the bound is c1 noise / L + (2K+1) c3 h^(2K).
    """
    c1, c2, c3, c4 = weights(constants, 4)
    positive("constants c2 and c3", (c2, c3))
    L, K = positive("num_steps", num_steps), whole("order", order)
    m = non_negative("period", period, "0 leaves the term m h / L out")
    h, least = minimum(c2 / L, c3, 2 * K, c4 * m / L)
    return StepSize(h, c1 * real("noise", noise) / L + least)


def best_bias_step_size(
    num_steps: Input, *, order: Input = 1, constants: Input = (1.0, 1.0)
) -> StepSize:
    """Minimise c2 / (L h) + c3 h^K over h: the bias bound where gradients are unbiased."""
    c2, c3 = weights(constants, 2)
    positive("constants c2 and c3", (c2, c3))
    return minimum(c2 / positive("num_steps", num_steps), c3, whole("order", order), 0.0)


def minimum(a: Input, b: Input, p: Input, s: Input) -> StepSize:
    """Minimise a / h + b h^p + s h over h > 0, for a, b > 0, p >= 1, s >= 0.

    The derivative is 0 where p b h^(p+1) + s h^2 = a. Let h_b and h_s each solve this without the
    other term; then h = u min(h_b, h_s) with (h / h_b)^(p+1) + (h / h_s)^2 = 1 and 1/sqrt(2) <= u <= 1.
    """
    a, b, p, s = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (a, b, p, s)))
    with np.errstate(divide="ignore", over="ignore"):  # h_s is infinite at s = 0, and then u = 1
        h_b, h_s = (a / (p * b)) ** (1 / (p + 1)), np.sqrt(a / s)
    smaller = np.minimum(h_b, h_s)
    u = np.vectorize(
        lambda b, s, p: brentq(lambda u: b * u ** (p + 1) + s * u**2 - 1, 0.7, 1.0, xtol=1e-15),
        otypes=[float],
    )((smaller / h_b) ** (p + 1), (smaller / h_s) ** 2, p)
    h = u * smaller
    return StepSize(h, a / h + b * h**p + s * h)


class Regime(NamedTuple):
    """The minibatch that Corollary 1 advises: its size, the case, and the bound there.

    The cases are "limited budget" for T < `limited_below`, where the bound falls with n, "long run"
    for T > `long_run_above`, where it rises with n, and "between", where it rises, then falls.
    """

    batch_size: int
    regime: str
    bound: float
    limited_below: float
    long_run_above: float


def minibatch_budget_bound(
    batch_size: Input,
    T: Input,
    N: Input,
    gamma: Input,
    *,
    constants: Input = (1.0, 1.0),
    as_printed: bool = False,
) -> Numbers:
    """Theorem 1 for a budget T = n L at its best h: c1 (N - n) N^2 Gamma / T + c (n / T)^(2/3).

    c = 3 / 2^(2/3) c2, where c2 stands for (c2^2 c3)^(1/3) of Theorem 1.
    Erratum: Eq. (msebound_t) drops the factor, c = c2 (`as_printed`).
    """
    c1, c2 = weights(constants, 2)
    c = c2 if as_printed else STEP_FACTOR * c2
    budget, size = positive("T", T), whole("N", N)
    n = whole("batch_size", batch_size, most=size)
    spread = non_negative("gamma", gamma, "it is a variance over N")
    with np.errstate(over="ignore"):
        return c1 * (size - n) * size**2 * spread / budget + c * (n / budget) ** (2 / 3)


def minibatch_regime(T: Input, N: Input, gamma: Input, *, constants: Input = (1.0, 1.0)) -> Regime:
    """Corollary 1: the n = 1..N that minimises c1 (N - n) N^2 Gamma / T + c2 (n / T)^(2/3).

    This is Eq. (msebound_t) as printed; c2 = `STEP_FACTOR` corrects it. It is concave in n, so the
    minimum is at an end, n = 1 or n = N (n = 1 if equal). Its derivative in n has the sign of
    T - (27/8) (c1/c2)^3 Gamma^3 N^6 n, which gives the cases at n = 1 and at n = N.
    """
    for name, value in (("T", T), ("N", N), ("gamma", gamma)):
        if real(name, value).ndim:
            raise ValueError(f"{name} must be one number; got {value}; call once for each")
    budget, ends = float(positive("T", T)), np.array([1.0, float(whole("N", N))])
    low = float(limited_budget(N, gamma, constants))
    high = low * float(ends[1])
    at_ends = minibatch_budget_bound(ends, T, N, gamma, constants=constants, as_printed=True)
    best = np.argmin(at_ends)
    regime = "limited budget" if budget < low else "long run" if budget > high else "between"
    return Regime(int(ends[best]), regime, float(np.min(at_ends)), low, high)


def batch_size_as_printed(
    T: Input, N: Input, gamma: Input, *, constants: Input = (1.0, 1.0)
) -> Numbers:
    """n = 8 T / (27 N^6 Gamma^3) (c2/c1)^3, the paper's "optimal minibatch size".

    Erratum: here the bound of Eq. (msebound_t) has its maximum in n; the minimum is at an end.
    """
    with np.errstate(divide="ignore"):
        return positive("T", T) / limited_budget(N, gamma, constants)


def limited_budget(N: Input, gamma: Input, constants: Input) -> Numbers:
    """(27/8) (c1/c2)^3 Gamma^3 N^6, the T at which Eq. (msebound_t) is level in n at n = 1."""
    c1, c2 = weights(constants, 2)
    positive("constants c2", c2)
    spread = non_negative("gamma", gamma, "it is a variance over N")
    with np.errstate(over="ignore"):
        return (1.5 * c1 / c2 * spread * whole("N", N) ** 2) ** 3


def practical_budget_bound(
    gammas: Input,
    anchor_gammas: Input,
    budget: Input,
    step_size: Input,
    *,
    size: Input,
    batch_size: Input,
    anchor_size: Input,
    period: Input,
    order: Input = 1,
    constants: Input = (*ONES, 1.0),
    as_printed: bool = False,
) -> Numbers:
    """Remark 2: (c1 (A_M - lambda_M) + c4 m h) cost / T + c2 cost / (T h) + c3 h^(2K).

    This is Theorem 2 at L = T / cost, with T = `budget` and `step_cost` in per-datum gradients.
    """
    sizes = dict(batch_size=batch_size, anchor_size=anchor_size, period=period)
    L = positive("budget", budget) / bounds.step_cost(**sizes, as_printed=as_printed)
    rest = dict(size=size, order=order, constants=constants)
    return bounds.practical_bound(gammas, anchor_gammas, L, step_size, **sizes, **rest)


def dubey_sgld_bound(
    num_steps: Input,
    step_size: Input,
    *,
    size: Input,
    batch_size: Input,
    sigma: Input,
    constants: Input = ONES,
) -> Numbers:
    """Eq. (sgld): c1 N^2 sigma^2 / (n L) + c2 / (L h) + c3 h^2."""
    N, s = whole("size", size), non_negative("sigma", sigma, "it is a deviation") ** 2
    noise = N**2 * s / whole("batch_size", batch_size, most=N)
    return bounds.mse_bound(noise, num_steps, step_size, constants=constants)


def dubey_svrg_bound(
    num_steps: Input,
    step_size: Input,
    *,
    size: Input,
    batch_size: Input,
    period: Input,
    sigma: Input,
    D: Input,
    d: Input,
    constants: Input = ONES,
    rewritten: bool = False,
) -> Numbers:
    """Eq. (svrgld): c1 N^2 min{2 sigma^2, m^2 (D^2 h^2 sigma^2 + h d)} / (n L) + c2 / (L h) + c3 h^2.

    `rewritten` is Eq. (svrgld1), without the min, which the paper compares with SGLD's.
    """
    N, m, h = whole("size", size), whole("period", period), positive("step_size", step_size)
    s = non_negative("sigma", sigma, "it is a deviation") ** 2
    drift = m**2 * ((non_negative("D", D, "it is a norm") * h) ** 2 * s + h * positive("d", d))
    spread = drift if rewritten else np.minimum(2 * s, drift)
    noise = N**2 * spread / whole("batch_size", batch_size, most=N)
    return bounds.mse_bound(noise, num_steps, h, constants=constants)


def svrg_step_limit(*, period: Input, sigma: Input, D: Input, d: Input) -> Numbers:
    """h = 2 s / (m (m d + sqrt(m^2 d^2 + 4 D^2 s^2))), where m^2 (D^2 h^2 s + h d) = s = sigma^2.

    At smaller h both forms of the SVRG-LD bound are below the SGLD bound, at larger h neither is.
    """
    s = non_negative("sigma", sigma, "it is a deviation") ** 2
    m, spread = whole("period", period), 2 * non_negative("D", D, "it is a norm") * s
    md = m * positive("d", d)
    return 2 * s / (m * (md + np.hypot(md, spread)))


def svrg_beats_sgld(
    step_size: Input, *, period: Input, sigma: Input, D: Input, d: Input
) -> np.bool_ | Bool[Array, "..."]:
    """Whether the SVRG-LD bound is below the SGLD bound: h < `svrg_step_limit`."""
    limit = svrg_step_limit(period=period, sigma=sigma, D=D, d=d)
    return positive("step_size", step_size) < limit
