"""Linear regression: y_i ~ N(x_i . w + b, sigma^2), with sigma sampled, too.

x and y are in standard columns, w and b have the priors of `priors`, and

    p(sigma) ~ exp(-sigma^2 / 2 - QUIET^2 / (2 sigma^2)),

half-normal but for a floor, without which an exact fit would have no posterior. For N rows with
weights m_i, the likelihood is a function of the triangle R in the QR decomposition of the rows
sqrt(m_i) (x_i, y_i):

    sum_i m_i (y_i - x_i . w)^2 = |R (-w, 1)|^2.

So the rows of R, d + 2 of them, are the data that are sampled, however many rows the table has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state

from vrsgmcmc.core import Posterior, Scalar
from vrsgmcmc.models import likelihoods

from .columns import add_zeros, measure_columns, round_up
from .families import weighted_glm
from .predictor import LinearPredictor

QUIET = 1e-3  # of the sd of y: a residual sd below it is unlikely


@dataclass(frozen=True)
class NoisePrior:
    """The prior of {"w", "log_sigma"}."""

    slopes: Any

    def __call__(self, params: dict[str, Float[Array, "..."]]) -> Scalar:
        return self.slopes(params["w"]) + log_noise(params["log_sigma"])


def log_noise(log_sigma: Float[Array, ""]) -> Scalar:
    """log p(log sigma), up to a constant."""
    return log_sigma - 0.5 * (jnp.exp(2 * log_sigma) + QUIET**2 * jnp.exp(-2 * log_sigma))


@dataclass(frozen=True)
class TriangleLoglik:
    """log p of a row (r, z) of the triangle, which stands for `count` data."""

    def __call__(self, params: dict[str, Float[Array, "..."]], datum: Any) -> Scalar:
        row, z, count = datum
        residual = (z - row @ params["w"]) * jnp.exp(-params["log_sigma"])
        return -0.5 * residual**2 - count * params["log_sigma"]


class BayesianLinearRegression(RegressorMixin, LinearPredictor):
    """Linear regression, sampled.

    Parameters are those of `LinearPredictor`, and

    - `noise_scale`: the sd of the noise, in units of y; None: it is sampled.

    `prior_scale` is for standard columns and y in units of its sd. `coef_` [d] and `intercept_` are
    posterior means in the units of columns and y, with `coef_std_`; `coef_draws_`, `intercept_draws_`,
    `noise_draws_` the draws, and `noise_scale_` the mean of the last.
    """

    def __init__(
        self,
        *,
        prior_scale: float | None = None,
        noise_scale: float | None = None,
        fit_intercept: bool = True,
        ess: float = 600,
        budget: Any = None,
        num_chains: int = 4,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            prior_scale=prior_scale,
            fit_intercept=fit_intercept,
            ess=ess,
            budget=budget,
            num_chains=num_chains,
            random_state=random_state,
            warm_start=warm_start,
            verbose=verbose,
        )
        self.noise_scale = noise_scale

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesianLinearRegression:
        """Sample the posterior of the coefficients and of the noise."""
        self._check_parameters()
        X, y, weight = self._rows(X, y, sample_weight, y_numeric=True)
        units = measure_columns(np.asarray(y, np.float64)[:, None], weight, self.fit_intercept)
        y = units.apply(y[:, None])
        (scale,), (middle,) = units.scale, units.mean
        design = self._design(X, weight)
        triangle = triangulate(design, y, weight)
        w, sigma = self._sample_triangle(triangle, weight.sum(), scale)
        slopes, intercepts = self._in_units(w)
        self.noise_draws_ = sigma
        self.noise_scale_ = float(self.noise_draws_.mean())
        self._set_coefficients(scale * slopes, scale * intercepts[:, 0] + middle)
        return self

    def _sample_triangle(
        self, triangle: np.ndarray, total: float, scale: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws of w [draw, p], and of sigma [draw] in units of y."""
        x, z = triangle[:, :-1], triangle[:, -1]
        rows, start = round_up(max(x.shape) + 1), solve_ridge(x, z)
        if self.noise_scale is not None:
            noise = self.noise_scale / scale
            x, z, one = add_zeros(rows, x / noise, z / noise, np.ones(len(x)))
            posterior = weighted_glm(likelihoods.gaussian(), self._prior())
            w = self._sample(
                posterior, (x, (z, one)), jnp.asarray(self._warm(start), float), ess=self.ess
            )
            self._last = w.mean(axis=0)
            return w, np.full(len(w), float(self.noise_scale))
        sigma = np.sqrt(np.sum((z - x @ start) ** 2) / total + QUIET**2)
        start = self._warm(np.append(start, np.log(sigma)))
        count = np.full(len(x), total / len(x))
        init = {"w": jnp.asarray(start[:-1], float), "log_sigma": jnp.asarray(start[-1], float)}
        posterior = Posterior(NoisePrior(self._prior()), TriangleLoglik())
        draws = self._sample(posterior, add_zeros(rows, x, z, count), init, ess=self.ess)
        self._last = np.append(draws["w"].mean(axis=0), draws["log_sigma"].mean())
        return draws["w"], scale * np.exp(draws["log_sigma"])

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The posterior mean of x . w + b; with `return_std` the sd of a new y, too."""
        X = self._validated(X)
        mean = X @ self.coef_ + self.intercept_
        if not return_std:
            return mean
        spread = self._mean_over_draws(X, lambda eta: (eta - eta.mean(axis=1, keepdims=True)) ** 2)
        return mean, np.sqrt(spread[:, 0] + np.mean(self.noise_draws_**2))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of y from the posterior predictive distribution, [n, n_samples]."""
        X, random = self._validated(X), check_random_state(random_state)
        pick = random.randint(len(self.coef_draws_), size=n_samples)
        mean = self._predictors(X, pick)[..., 0]
        return mean + self.noise_draws_[pick] * random.normal(size=mean.shape)


def triangulate(design: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """R [at most p + 1, p + 1] with |R (-w, 1)|^2 = sum_i weight_i (y_i - x_i . w)^2."""
    rows: Any = np.linalg.qr(np.sqrt(weight)[:, None] * np.hstack([design, y]), mode="r")
    return rows


def solve_ridge(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Least squares with a unit prior: where chains begin."""
    return np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ z)
