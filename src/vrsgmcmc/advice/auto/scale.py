"""The batch size and the step size of a control variate with BAOAB, in variables of unit variance.

In z the posterior is nearly N(0, I). Friction 1 is best there: the autocorrelation of z and that of z^2
then both take 2/h steps to decay, so a step is worth h/2 effective draws. Noise of variance v in the
gradient widens the chain's variance by the inflation h v / 2. So there are two regimes: small noise,
where h is limited by the integrator, and large noise, where h = 2 inflation / v. A batch of

    n = N energy h / (2 inflation)

is between the two: with fewer rows a step is as good for its cost, with more it is not better.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vrsgmcmc import core

from .residuals import Residuals
from .site import Site

FRICTION = 1.0
LARGEST_STEP = 0.8  # BAOAB is exact on a Gaussian up to its limit of stability, 2; others are not
LARGEST_INFLATION, LEAST_INFLATION = 0.03, 1e-4  # of the variances
FEWEST_ROWS, MOST_ROWS = 10, 1024  # of a batch
OVERHEAD = 50.0  # what a step costs besides its rows, in evaluations
WORST = 3.0  # times the mean inflation: what one direction may have
RELAXATION = 20.0  # time units of burn-in
MOST_BURN_IN = 0.2  # of a run


class Scale(NamedTuple):
    """Sizes of a step, and what they lead to."""

    order: int
    hot: int
    batch_size: int
    step_size: float
    inflation: float  # of the variances, by gradient noise
    cost: int  # evaluations of a step
    effective: float  # draws a step is worth

    @property
    def price(self) -> float:
        """The cost of an effective draw."""
        return (self.cost + OVERHEAD) / self.effective


def row_cost(order: int, posterior: core.Posterior) -> int:
    """Evaluations of a row in a step."""
    return 2 if order == 1 else 3 if isinstance(posterior, core.GLM) else 4


def fit(
    residuals: Residuals, size: int, inflation: float, per_row: int, batch_size: int | None = None
) -> Scale:
    """The cheapest scale with at most this inflation; `per_row` is the cost of a row."""
    options = []
    for hot in {0, *(k for k in (1, 2, 5, 10, 20, 40) if k <= len(residuals.top))}:
        energy = residuals.without(hot)
        worst = max(float(energy.mean()), float(energy.max(initial=0.0)) / WORST)
        best = size * worst * LARGEST_STEP / (2 * inflation)
        rows = batch_size or int(np.clip(best, FEWEST_ROWS, MOST_ROWS))
        rows = min(rows, size)
        noise = size / rows * worst
        step = min(LARGEST_STEP, 2 * inflation / max(noise, 1e-12))
        options.append(
            Scale(
                residuals.order,
                hot,
                rows,
                float(step),
                float(step * noise / 2),
                per_row * (rows + hot),
                step / 2,
            )
        )
    return min(options, key=lambda scale: (scale.price, scale.hot))


def choose(
    residuals: Residuals,
    site: Site,
    ess: float,
    evaluations: float,
    batch_size: int | None = None,
    num_chains: int = 1,
) -> Scale:
    """The scale of the lowest error: 1/ESS + inflation^2/4, for a target and an allowance."""

    def error(scale: Scale) -> float:
        steps = evaluations / scale.cost
        burn_in = min(num_chains * RELAXATION / scale.step_size, MOST_BURN_IN * steps)
        draws = min(ess, (steps - burn_in) * scale.effective)
        return 1 / max(draws, 1e-9) + scale.inflation**2 / 4

    per_row = row_cost(residuals.order, site.posterior)
    scales = [
        fit(residuals, site.size, float(level), per_row, batch_size)
        for level in np.geomspace(LARGEST_INFLATION, LEAST_INFLATION, 16)
    ]
    least = min(map(error, scales))
    good = [scale for scale in scales if error(scale) <= 1.1 * least]
    return min(good, key=lambda scale: scale.price)
