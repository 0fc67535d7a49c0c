"""What a run will give, before it is made: variances, and the error of its averages.

Under the local Gaussian model (`local.py`) the chain is, direction by direction, an integrator's linear
filter (`response.py`) driven by its injected noise and by the error of the gradient (`spectrum.py`):

    minibatch n        V = N (N-n)/n (S + C Sigma), in the order of the minibatches
    practical          V = N (N-n1)/n1 (S + C Sigma~), held for m steps, Sigma~ that of the anchor,
                           and N (N-n2)/n2 C D, D the mean square distance to the anchor
    svrg               the second alone
    saga               V = N (N-n)/n (C + c h^2) D, D that to where a row was last seen; two rows were
                           seen at different times, 2 c D apart, c about 1/2, h the mean of H_i
    control_variate    V = N (N-n)/n C (Sigma + D), D the square of the centre's distance to the mode

Sigma and D depend on V again, so they are iterated. The score of a run of L steps from the mode is

    C = mean over parameters of (MSE of the mean / sd^2 + MSE of the variance / (2 sd^4)) / 2,

which is 1/ESS for independent draws.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from vrsgmcmc.theory.forecast.local import Local
from vrsgmcmc.theory.forecast.response import Response, products, response
from vrsgmcmc.theory.forecast.spectrum import geometric, held, independent, ordered

Array = np.ndarray

ITERATIONS = 12
ESTIMATORS = ("full", "minibatch", "practical", "svrg", "saga", "control_variate")


class Forecast(NamedTuple):
    """The law of a run under the local model; leading axis: the step sizes."""

    variances: Float[Array, "h d"]  # of each parameter, stationary; inf where unstable
    inflation: Float[Array, "h d"]  # variances / posterior variances - 1
    noise: Float[Array, "h d d"]  # E e e^T of one step's gradient error, in parameter space
    quiet: Float[Array, "h d d"]  # the same at zero frequency
    score: Float[Array, " h"] | None  # C of `num_steps` steps
    bias: Float[Array, " h"] | None  # its part due to bias, that of a short run included
    drift: Float[Array, " h"]  # S2(alpha - beta) / S2(alpha): 0 at the anchor


class Error(NamedTuple):
    """One part of the gradient's error: its covariance and how it goes on."""

    covariance: Float[Array, "h d d"]
    correlation: Any  # mu -> f(mu)


def forecast(
    local: Local,
    estimator: Any,
    integrator: Any,
    step_sizes: Any,
    *,
    batch_size: int,
    order: str = "without_replacement",
    anchor_order: str = "without_replacement",
    num_steps: int | None = None,
    num_chains: int = 1,
    filter: Response | None = None,
) -> Forecast:
    """Predict a run for each step size; averages are over all chains together.

    `filter` is `response(integrator, step_sizes, local.curvature)` where that is at hand already.
    """
    if estimator.name not in ESTIMATORS:
        raise ValueError(
            f"nothing is known of the noise of {estimator.name!r}; known: {', '.join(ESTIMATORS)}."
        )
    with np.errstate(all="ignore"):
        steps = np.atleast_1d(np.asarray(step_sizes, float))
        if filter is None:
            filter = response(integrator, steps, local.curvature)
        amplitude, distance, parts = filter.noise, np.zeros(filter.decay.shape[:-1]), []
        totals = []
        for _ in range(ITERATIONS):
            parts, distance = errors(
                local, estimator, filter, amplitude, batch_size, order, anchor_order
            )
            amplitude = filter.noise + sum(
                _variance(part.covariance)[..., None] * _filtered(filter, part) for part in parts
            )
            totals.append(np.real(amplitude.sum((-1, -2))))
        covariance = _stationary(filter, parts)
        good = (
            filter.stable
            & np.all(_variance(covariance) > 0, -1)
            & np.isfinite(covariance).all((-1, -2))
        )
        good &= _variance(covariance).max(-1) < 1e6 / local.curvature.min()
        before, last = np.diff(totals[-3:], axis=0)
        good &= (last < before) | (last < 1e-6 * totals[-1])  # noise that feeds itself has no law
        U = local.directions
        variances = np.einsum("jk,hkl,jl->hj", U, covariance, U, optimize=True)
        variances = np.where(good[:, None], variances, np.inf)
        zero = np.zeros((len(steps), *U.shape))
        one = np.ones(())
        noise = sum((part.covariance for part in parts), zero)
        quiet = sum(
            (part.covariance * (1 + 2 * np.real(part.correlation(one))) for part in parts), zero
        )
        score = bias = None
        if num_steps is not None:
            score, bias = _score(local, filter, amplitude, variances, quiet, num_steps, num_chains)
        return Forecast(
            variances,
            variances / (_temperature(integrator) * local.variances) - 1,
            U @ noise @ U.T,
            U @ quiet @ U.T,
            score,
            bias,
            np.sum(distance @ local.spread.T, -1) / np.trace(local.covariance),
        )


def errors(
    local: Local,
    estimator: Any,
    filter: Response,
    amplitude: Any,
    count: int,
    order: str,
    anchor_order: str,
) -> tuple[list[Error], Float[Array, "h d"]]:
    """The errors of an estimator whose chain has these autocovariances, and the anchor's distance."""
    name, size, decay, C = estimator.name, local.size, filter.decay, local.spread.T
    factor = scale(size, count, order)
    here = np.real(amplitude.sum(-1))  # Sigma
    if name == "full":
        return [], np.zeros_like(here)
    if name == "minibatch":
        noise = factor * (local.covariance + _diagonal(here @ C))
        return [Error(noise, lambda mu: ordered(order, size, count, mu))], np.zeros_like(here)
    if name == "control_variate":
        distance = here + _offset(local, estimator.center) ** 2
        noise = factor * _diagonal(distance @ C)
        return [Error(noise, lambda mu: ordered(order, size, count, mu))], distance
    if name == "saga":
        one, either = _chances(size, count, order)
        distance = _away(amplitude, one * decay / (1 - (1 - one) * decay))
        apart = (1 - one / either) * distance  # c D
        noise = factor * _diagonal(distance @ C + local.likelihood_curvature**2 * apart)
        return [Error(noise, independent)], distance
    period = estimator.refresh_period(size, count)
    first = decay if filter.ahead else np.ones_like(decay)  # x has moved when the gradient is taken
    passed = np.sqrt(first) * geometric(period, decay) / period  # E mu^j, j steps since a refresh
    back, meeting = _means(getattr(estimator, "average", 1), decay)
    anchored = np.real(np.sum(amplitude * meeting, -1))  # Sigma~
    distance = np.real(np.sum(amplitude * (1 - 2 * passed * back + meeting), -1))
    difference = Error(
        factor * _diagonal(distance @ C), lambda mu: ordered(order, size, count, mu, period)
    )
    if (
        estimator.refresh_size(size) == size
    ):  # svrg, or an anchor that visits all data, in any order
        return [difference], distance
    old = scale(size, estimator.anchor_size, anchor_order)
    anchor = Error(
        old * (local.covariance + _diagonal(anchored @ C)),
        lambda mu: held(anchor_order, size, estimator.anchor_size, period, mu),
    )
    return [anchor, difference], distance


def scale(size: int, count: int, order: str) -> float:
    """N (N-n)/n, or N (N-1)/n where a datum may come twice."""
    return size * (size - (1 if order == "with_replacement" else count)) / count


def _offset(local: Local, center: Any) -> Any:
    """Where a centre is, seen from the mode; None is the mode."""
    if center is None:
        return np.zeros_like(local.center)
    return (np.asarray(ravel_pytree(center)[0], float) - local.center) @ local.directions


def _chances(size: int, count: int, order: str) -> tuple[float, float]:
    """That a row is drawn in a step, and that at least one of two rows is."""
    if order == "with_replacement":
        return 1 - (1 - 1 / size) ** count, 1 - (1 - 2 / size) ** count
    both = count * (count - 1) / (size * (size - 1))
    return count / size, 2 * count / size - both


def _temperature(integrator: Any) -> float:
    return float(getattr(integrator, "temperature", 1.0)) or 1.0


def _away(amplitude: Any, powers: Any) -> Any:
    """The mean square of x_{l+k} - x_l, 2 (c(0) - c(k)), with E mu^k given."""
    return 2 * np.real(np.sum(amplitude * (1 - powers), -1))


def _means(count: int, mu: Any) -> tuple[Any, Any]:
    """The means of mu^i and of mu^|i - j| over i, j < count: a mean of positions against the last of
    them, and against itself."""
    pairs = 1 + 2 * sum((1 - i / count) * mu**i for i in range(1, count))
    return geometric(count, mu) / count, pairs / count


def _diagonal(values: Any) -> Any:
    return values[..., None] * np.eye(values.shape[-1])


def _variance(matrix: Any) -> Any:
    return np.real(np.diagonal(matrix, axis1=-2, axis2=-1))


def _filtered(filter: Response, part: Error) -> Any:
    """Cov(x_{l+k}, x_l) = sum_a (this)_a mu_a^k for an error of variance 1."""
    onward = filter.decay * part.correlation(filter.decay)
    both = 1 + onward[..., :, None] + onward[..., None, :]
    return filter.kick * np.sum(
        filter.kick[..., None, :] * both / (1 - products(filter.decay)), axis=-1
    )


def _stationary(filter: Response, parts: list[Error]) -> Any:
    """The covariance in all directions; errors in two directions meet in all pairs of modes."""
    injected = np.real(filter.noise.sum(-1))
    total = injected[..., None] * np.eye(injected.shape[-1])
    for part in parts:
        onward = filter.decay * part.correlation(filter.decay)
        meeting = np.zeros(total.shape, complex)
        for a in range(filter.decay.shape[-1]):
            for b in range(filter.decay.shape[-1]):
                both = 1 + onward[..., :, None, a] + onward[..., None, :, b]
                both /= 1 - filter.decay[..., :, None, a] * filter.decay[..., None, :, b]
                meeting += filter.kick[..., :, None, a] * filter.kick[..., None, :, b] * both
        total = total + part.covariance * np.real(meeting)
    return total


def _score(
    local: Local,
    filter: Response,
    amplitude: Any,
    variances: Any,
    quiet: Any,
    num_steps: int,
    num_chains: int,
) -> tuple[Any, Any]:
    """C of the averages over `num_steps` steps from the mode, and its part due to bias."""
    L, decay = num_steps, filter.decay
    weight = local.directions**2
    wanted = local.variances

    pairs = products(decay)
    once, twice = (mu * geometric(L, mu) for mu in (decay, pairs))  # mu + ... + mu^L
    shape = L - once[..., :, None] - once[..., None, :] + twice
    shape = shape / ((1 - decay)[..., :, None] * (1 - decay)[..., None, :])
    kicks = filter.kick[..., :, None] * filter.kick[..., None, :]
    source = filter.source + _variance(quiet)[..., None, None] * kicks
    mean = np.real(np.sum(source * shape, (-1, -2))) / L**2 @ weight.T

    settled = filter.source / (1 - pairs)
    part = np.real(np.sum(settled * (1 - twice / L), (-1, -2)) / settled.sum((-1, -2)))
    expected = variances * ((amplitude.real.sum(-1) * part) @ weight.T)
    expected = expected / (amplitude.real.sum(-1) @ weight.T) - mean / num_chains

    flat = decay.reshape(len(decay), -1)
    z = flat[:, :, None] * flat[:, None, :]
    near = np.abs(1 - z) * L < 1e-4
    rest = np.where(near, 1, 1 - z)
    lasting = np.where(near, 1.0, ((1 + z) / rest - 2 * z * (1 - z**L) / (L * rest**2)) / L)
    reached = part[..., None] * amplitude
    modes = (weight[:, :, None] * reached[:, None]).reshape(len(decay), len(weight), -1)
    squares = 2 * np.real(np.einsum("hja,hab,hjb->hj", modes, lasting, modes, optimize=True))
    # the mean is subtracted, and Cov(x_l, mean) is nearly the same at all steps
    fluctuation = np.maximum(squares - 2 * mean**2 / num_chains, 0)

    bias = np.mean((expected - wanted) ** 2 / (4 * wanted**2), -1)
    spread = np.mean(mean / (2 * wanted) + fluctuation / (4 * wanted**2), -1)
    score = bias + spread / num_chains
    bad = ~np.isfinite(score) | ~np.isfinite(variances).all(-1)
    return np.where(bad, np.inf, score), np.where(bad, np.inf, bias)
