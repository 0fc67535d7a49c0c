"""Forecast of a run: the variances it converges to, and the error of its averages.

Under the local Gaussian model (`local.py`) the chain is, direction by direction, an integrator's linear
filter (`response.py`) driven by its injected noise and by the error of the gradient (`spectrum.py`):

    minibatch n        V = N (N-n)/n (S + C Sigma), in the order of the minibatches
    practical          V = N (N-n1)/n1 (S + C Sigma~), constant for m steps, Sigma~ that of the anchor,
                           and N (N-n2)/n2 C D, D the mean square distance to the anchor
    svrg               the second alone
    saga               V = N (N-n)/n (C + c h^2) D, D that to the position of a row's last draw; these
                           are at different times for two rows, 2 c D apart, c about 1/2, h the mean
                           of H_i
    control_variate    V = N (N-n)/n C (Sigma + D), D the square of the centre's distance to the mode;
                       of order 2: V = 0, its noise is of third order and not in the local model

Sigma and D depend on V, so this is a fixed point, found by iteration. The score of a run of L steps
from the mode is

    C = mean over parameters of (MSE of the mean / sd^2 + MSE of the variance / (2 sd^4)) / 2,

which is 1/ESS for independent draws.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from vrsgmcmc.core import Estimator, Integrator, Sampler

from ..exact.draws import ESTIMATORS
from ..exact.schemes import temperature_of
from ..noise import one_step
from .local import Array, Local
from .response import Response, products, response
from .spectrum import anchor_correlation, draw_correlation, geometric_sum

ITERATIONS = 12


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
    """One part of the gradient's error: its covariance and its correlation over the steps."""

    covariance: Float[Array, "h d d"]
    correlation: Any  # mu -> f(mu)


def forecast(
    local: Local,
    estimator: Estimator,
    integrator: Integrator,
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

    `filter` is `response(integrator, step_sizes, local.curvature)`, if the caller has it already.
    """
    sampler = Sampler(estimator, integrator, step_sizes, batch_size, order, anchor_order)
    return predict(local, sampler, num_steps, num_chains, filter)


def predict(
    local: Local,
    sampler: Sampler,
    num_steps: int | None = None,
    num_chains: int = 1,
    filter: Response | None = None,
) -> Forecast:
    """`forecast` of a sampler, whose `step_size` may be many."""
    name, integrator = sampler.estimator.name, sampler.integrator
    if name not in ESTIMATORS:
        raise ValueError(
            f"nothing is known of the noise of {name!r}; known: {', '.join(ESTIMATORS)}."
        )
    with np.errstate(all="ignore"):
        if filter is None:
            steps = np.atleast_1d(np.asarray(sampler.step_size, float))
            filter = response(integrator, steps, local.curvature)
        amplitude, distance, parts = filter.noise, np.zeros(filter.decay.shape[:-1]), []
        totals = []
        for _ in range(ITERATIONS):
            parts, distance = errors(local, sampler, filter, amplitude)
            amplitude = filter.noise + sum(
                _variance(part.covariance)[..., None] * _filter_error(filter, part)
                for part in parts
            )
            totals.append(np.real(amplitude.sum((-1, -2))))
        covariance = _stationary(filter, parts)
        good = filter.stable & np.isfinite(covariance).all((-1, -2))
        good &= np.all(_variance(covariance) > 0, -1)
        good &= _variance(covariance).max(-1) < 1e6 / local.curvature.min()
        before, last = np.diff(totals[-3:], axis=0)
        good &= (last < before) | (last < 1e-6 * totals[-1])  # else the noise grows without bound
        U = local.directions
        variances = np.einsum("jk,hkl,jl->hj", U, covariance, U, optimize=True)
        variances = np.where(good[:, None], variances, np.inf)
        noise, quiet = np.zeros((2, len(variances), *U.shape))
        for part in parts:
            noise = noise + part.covariance
            quiet = quiet + part.covariance * (1 + 2 * np.real(part.correlation(np.ones(()))))
        score = bias = None
        if num_steps is not None:
            score, bias = _score(local, filter, amplitude, variances, quiet, num_steps, num_chains)
        return Forecast(
            variances,
            variances / ((temperature_of(integrator) or 1.0) * local.variances) - 1,
            U @ noise @ U.T,
            U @ quiet @ U.T,
            score,
            bias,
            np.sum(distance @ local.spread.T, -1) / np.trace(local.covariance),
        )


def errors(
    local: Local, sampler: Sampler, filter: Response, amplitude: Any
) -> tuple[list[Error], Float[Array, "h d"]]:
    """The errors of an estimator whose chain has these autocovariances, and the anchor's distance."""
    estimator, count, order = sampler.estimator, sampler.batch_size, sampler.order
    name, size, decay, C = estimator.name, local.size, filter.decay, local.spread.T
    factor = one_step(order, size, count)
    correlation = partial(draw_correlation, order, size, count)
    here = np.real(amplitude.sum(-1))  # Sigma
    if name == "full" or getattr(estimator, "order", 1) == 2:  # control_variate of order 2
        return [], np.zeros_like(here)
    if name == "minibatch":
        noise = factor * (local.covariance + _diagonal(here @ C))
        return [Error(noise, correlation)], np.zeros_like(here)
    if name == "control_variate":
        center = getattr(estimator, "center", None)  # None is the mode
        center = local.center if center is None else np.asarray(ravel_pytree(center)[0], float)
        distance = here + ((center - local.center) @ local.directions) ** 2
        return [Error(factor * _diagonal(distance @ C), correlation)], distance
    if name == "saga":
        one, either = _chances(size, count, order)
        powers = one * decay / (1 - (1 - one) * decay)  # E mu^k, k steps since a row's last draw
        distance = 2 * np.real(np.sum(amplitude * (1 - powers), -1))  # 2 (c(0) - c(k))
        gap = (1 - one / either) * distance  # c D
        noise = factor * _diagonal(distance @ C + local.likelihood_curvature**2 * gap)
        return [Error(noise, np.zeros_like)], distance
    # practical and svrg
    anchor_size, average = estimator.refresh_size(size), getattr(estimator, "average", 1)
    period = estimator.refresh_period(size, count)
    assert period is not None  # both refresh again and again
    # E mu^j, j steps since a refresh, and half a step more if x moves before the gradient
    first = decay if filter.ahead else np.ones_like(decay)
    lag = np.sqrt(first) * geometric_sum(period, decay) / period
    # the anchor is a mean of positions: its covariance with the last of them, and its variance
    cross = geometric_sum(average, decay) / average
    own = (1 + 2 * sum((1 - i / average) * decay**i for i in range(1, average))) / average
    distance = np.real(np.sum(amplitude * (1 - 2 * lag * cross + own), -1))
    difference = Error(factor * _diagonal(distance @ C), partial(correlation, memory=period))
    if anchor_size == size:  # each datum once, in any order
        return [difference], distance
    anchor_variance = np.real(np.sum(amplitude * own, -1))  # Sigma~
    anchor = Error(
        one_step(sampler.anchor_order, size, anchor_size)
        * (local.covariance + _diagonal(anchor_variance @ C)),
        partial(anchor_correlation, sampler.anchor_order, size, anchor_size, period),
    )
    return [anchor, difference], distance


def _chances(size: int, count: int, order: str) -> tuple[float, float]:
    """Probability that a step draws a certain row, and that it draws at least one of two."""
    if order == "with_replacement":
        return 1 - (1 - 1 / size) ** count, 1 - (1 - 2 / size) ** count
    both = count * (count - 1) / (size * (size - 1))
    return count / size, 2 * count / size - both


def _diagonal(values: Any) -> Any:
    return values[..., None] * np.eye(values.shape[-1])


def _variance(matrix: Any) -> Any:
    return np.real(np.diagonal(matrix, axis1=-2, axis2=-1))


def _filter_error(filter: Response, part: Error) -> Any:
    """Cov(x_{l+k}, x_l) = sum_a (this)_a mu_a^k for an error of variance 1."""
    onward = filter.decay * part.correlation(filter.decay)
    both = 1 + onward[..., :, None] + onward[..., None, :]
    return filter.kick * np.sum(
        filter.kick[..., None, :] * both / (1 - products(filter.decay)), axis=-1
    )


def _stationary(filter: Response, parts: list[Error]) -> Any:
    """The covariance in all directions: errors in two directions combine in all pairs of modes."""
    total = _diagonal(np.real(filter.noise.sum(-1)))
    for part in parts:
        onward = filter.decay * part.correlation(filter.decay)
        pairs = np.zeros(total.shape, complex)
        for a in range(filter.decay.shape[-1]):
            for b in range(filter.decay.shape[-1]):
                both = 1 + onward[..., :, None, a] + onward[..., None, :, b]
                both /= 1 - filter.decay[..., :, None, a] * filter.decay[..., None, :, b]
                pairs += filter.kick[..., :, None, a] * filter.kick[..., None, :, b] * both
        total = total + part.covariance * np.real(pairs)
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
    target = local.variances

    pairs = products(decay)
    once, twice = (mu * geometric_sum(L, mu) for mu in (decay, pairs))  # mu + ... + mu^L
    shape = L - once[..., :, None] - once[..., None, :] + twice
    shape = shape / products(1 - decay)
    source = filter.source + _variance(quiet)[..., None, None] * products(filter.kick)
    mean = np.real(np.sum(source * shape, (-1, -2))) / L**2 @ weight.T

    limit = filter.source / (1 - pairs)
    part = np.real(np.sum(limit * (1 - twice / L), (-1, -2)) / limit.sum((-1, -2)))
    expected = variances * ((amplitude.real.sum(-1) * part) @ weight.T)
    expected = expected / (amplitude.real.sum(-1) @ weight.T) - mean / num_chains

    z = products(decay.reshape(len(decay), -1))
    near = np.abs(1 - z) * L < 1e-4
    rest = np.where(near, 1, 1 - z)
    overlap = np.where(near, 1.0, ((1 + z) / rest - 2 * z * (1 - z**L) / (L * rest**2)) / L)
    modes = weight[:, :, None] * (part[..., None] * amplitude)[:, None]
    modes = modes.reshape(len(decay), len(weight), -1)
    squares = 2 * np.real(np.einsum("hja,hab,hjb->hj", modes, overlap, modes, optimize=True))
    # the variance is around the mean, and Cov(x_l, mean) is nearly the same at all steps
    fluctuation = np.maximum(squares - 2 * mean**2 / num_chains, 0)

    bias = np.mean((expected - target) ** 2 / (4 * target**2), -1)
    spread = np.mean(mean / (2 * target) + fluctuation / (4 * target**2), -1)
    score = bias + spread / num_chains
    bad = ~np.isfinite(score) | ~np.isfinite(variances).all(-1)
    return np.where(bad, np.inf, score), np.where(bad, np.inf, bias)
