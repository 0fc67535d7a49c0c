"""What the linear models share: columns, the start, coefficients in the columns' own units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from .base import Sampler, blocks, some_rows
from .columns import measure_columns, share_rows
from .families import weighted_glm
from .priors import INTERCEPT, Normal, SampledScale, draw_scales


class LinearPredictor(Sampler):
    """Base of the linear models.

    - `prior_scale`: the prior sd of the coefficients of standard columns; None: it is a parameter
      itself, with a half-normal prior (`prior_scale_` is its posterior mean).
    - `fit_intercept`: False: the columns are scaled, but not centred.
    - `ess`, `budget`, `num_chains`: those of `vr.sample`.
    - `random_state`: the seed. `warm_start`: begin where the last fit ended.
    - `verbose`: show progress, and print the result.
    """

    def __init__(
        self,
        *,
        prior_scale: float | None = None,
        fit_intercept: bool = True,
        ess: float = 600,
        budget: Any = None,
        num_chains: int = 4,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.prior_scale = prior_scale
        self.fit_intercept = fit_intercept
        self.ess = ess
        self.budget = budget
        self.num_chains = num_chains
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def _design(self, X: np.ndarray, weight: np.ndarray) -> np.ndarray:
        self._columns = measure_columns(X, weight, self.fit_intercept)
        return self._columns.design(X, self.prior_scale, self.fit_intercept)

    def _prior(self) -> Normal | SampledScale:
        return Normal() if self.prior_scale else SampledScale(bool(self.fit_intercept))

    def _sample_linear(
        self,
        family: Any,
        design: np.ndarray,
        y: np.ndarray,
        weight: np.ndarray,
        start: np.ndarray,
        residual: np.ndarray,
    ) -> np.ndarray:
        """Draws [draw, p] or [draw, p, K] of the coefficients of a design.

        `residual` [N] or [N, K] is the slope of the log-likelihood in the linear predictor at `start`:
        the chains begin a step of Newton's method away from it, off the prior's narrow peak at zero.
        """
        start = self._warm(start + newton_step(design, residual, weight))
        x, *rest = share_rows(weight, design, y)
        posterior = weighted_glm(family, self._prior())
        w = self._sample(posterior, (x, tuple(rest)), jnp.asarray(start, float), ess=self.ess)
        self._last = w.mean(axis=0)
        return w

    def _warm(self, start: np.ndarray) -> np.ndarray:
        """With `warm_start` the mean of the last fit, if it has the same shape; else `start`."""
        last = getattr(self, "_last", start)
        return last if self.warm_start and last.shape == start.shape else start

    def _in_units(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes [draw, d, ...] and intercepts [draw, 1, ...] in units of the columns."""
        slopes = w[:, :-1] if self.fit_intercept else w
        random = np.random.RandomState(len(slopes))
        self.prior_scale_ = self.prior_scale or float(draw_scales(slopes, random).mean())
        slopes = slopes * (self.prior_scale or 1.0)
        shape = (-1, *(1,) * (w.ndim - 2))
        slopes = slopes / self._columns.scale.reshape(shape)
        if not self.fit_intercept:
            return slopes, np.zeros_like(w[:, :1])
        shift = np.sum(slopes * self._columns.mean.reshape(shape), axis=1, keepdims=True)
        return slopes, INTERCEPT * w[:, -1:] - shift

    def _set_coefficients(self, slopes: np.ndarray, intercepts: np.ndarray) -> None:
        """From draws [draw, K, d] and [draw, K]; without K for one predictor."""
        self.coef_draws_, self.intercept_draws_ = slopes, intercepts
        self.coef_, self.coef_std_ = slopes.mean(axis=0), slopes.std(axis=0)
        self.intercept_, self.intercept_std_ = intercepts.mean(axis=0), intercepts.std(axis=0)

    def _predictors(self, X: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Linear predictors [row, draw, K] in these draws."""
        slopes, intercepts = self.coef_draws_[draws], self.intercept_draws_[draws]
        slopes = slopes.reshape(len(draws), -1, X.shape[1])
        return np.einsum("nd,skd->nsk", X, slopes, optimize=True) + intercepts.reshape(
            1, len(draws), -1
        )

    def _validated(self, X: Any) -> np.ndarray:
        """Rows to predict."""
        check_is_fitted(self)
        rows: Any = validate_data(self, X, dtype=np.float64, reset=False)
        return rows

    def _mean_over_draws(self, X: Any, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The mean over draws of a function of the predictors [row, draw, K]."""
        X = self._validated(X)
        draws = some_rows(len(self.coef_draws_))
        width = len(draws) * max(1, self.coef_draws_[0].size // X.shape[1])
        parts = [
            function(self._predictors(X[b], draws)).mean(axis=1) for b in blocks(len(X), width)
        ]
        return np.concatenate(parts)


def newton_step(design: np.ndarray, residual: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """From zero, with a unit prior and curvature 1 of each row."""
    gram = (design.T * weight) @ design + np.eye(design.shape[1])
    return np.linalg.solve(gram, (design.T * weight) @ residual)
