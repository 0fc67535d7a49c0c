"""Poisson regression: y_i ~ Poisson(exp(x_i . w + b)), x in standard columns, priors as in `priors`.

As in scikit-learn, y may be a rate: counts divided by an exposure, with the exposure as weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state

from vrsgmcmc.models import likelihoods

from .predictor import LinearPredictor
from .priors import INTERCEPT

LARGEST_RATE = 1e15  # what NumPy draws a Poisson number of


class BayesianPoissonRegression(RegressorMixin, LinearPredictor):
    """Regression of counts with a logarithmic link, sampled.

    Parameters are those of `LinearPredictor`. `coef_` [d] and `intercept_` are posterior means, in the
    units of the columns, with `coef_std_`; `coef_draws_`, `intercept_draws_` the draws.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesianPoissonRegression:
        """Sample the posterior of the coefficients."""
        self._check_parameters()
        X, y, weight = self._rows(X, y, sample_weight, y_numeric=True)
        y = np.asarray(y, np.float64)
        if y.min() < 0:
            raise ValueError(
                f"{type(self).__name__}: y must hold counts or rates, which are 0 or positive, got "
                f"{y.min():.6g}."
            )
        design = self._design(X, weight)
        start, mean = np.zeros(design.shape[1]), max(weight @ y / weight.sum(), 1e-3)
        if self.fit_intercept:
            start[-1] = np.log(mean) / INTERCEPT
        else:
            mean = 1.0
        family = likelihoods.poisson()
        w = self._sample_linear(family, design, y, weight, start, np.clip(y / mean - 1, -1, 1))
        slopes, intercepts = self._in_units(w)
        self._set_coefficients(slopes, intercepts[:, 0])
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The posterior mean of exp(x . w + b); with `return_std` the sd of a new count, too."""
        rates = self._mean_over_draws(X, moments)
        if not return_std:
            return rates[:, 0]
        return rates[:, 0], np.sqrt(rates.sum(axis=1))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of y from the posterior predictive distribution, [n, n_samples]."""
        X, random = self._validated(X), check_random_state(random_state)
        pick = random.randint(len(self.coef_draws_), size=n_samples)
        return random.poisson(rate_of(self._predictors(X, pick)))


def rate_of(eta: np.ndarray) -> np.ndarray:
    """exp(eta) of predictors [row, draw, 1]."""
    return np.exp(np.minimum(eta[..., 0], np.log(LARGEST_RATE)))


def moments(eta: np.ndarray) -> np.ndarray:
    """The rate, and its squared deviation from the mean over the draws."""
    rate = rate_of(eta)
    return np.stack([rate, (rate - rate.mean(axis=1, keepdims=True)) ** 2], axis=-1)
