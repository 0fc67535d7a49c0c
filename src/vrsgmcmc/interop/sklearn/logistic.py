"""Logistic regression for two and for several classes.

    P(y_i = k) = softmax(x_i . w + b)_k  (two classes: P(y_i = 1) = sigmoid(x_i . w + b)),

with x in standard columns, w ~ N(0, s^2) and s sampled (`priors`), b ~ N(0, 10^2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state

from vrsgmcmc.models import likelihoods

from .base import check_classes, draw_classes
from .families import Contrasts, contrasts
from .predictor import LinearPredictor


class BayesianLogisticRegression(ClassifierMixin, LinearPredictor):
    """Logistic regression, sampled.

    Parameters are those of `LinearPredictor`. `predict_proba` is the mean over the posterior.

    - `coef_`, `coef_std_`: posterior means and sds, [1, d] for two classes, else [K, d], in units of
      the columns. With several classes they sum to zero over the classes.
    - `intercept_`: [1] or [K]; `coef_draws_`, `intercept_draws_`: the same with an axis of draws.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesianLogisticRegression:
        """Sample the posterior of the coefficients."""
        self._check_parameters()
        X, y, weight = self._rows(X, y, sample_weight)
        self.classes_, labels = check_classes(self, y)
        count = len(self.classes_)
        design = self._design(X, weight)
        residual = np.eye(count)[labels] - np.bincount(labels, weight) / weight.sum()
        residual = residual[:, 1] if count == 2 else residual @ contrasts(count)
        start = np.zeros((design.shape[1], *residual.shape[1:]))
        family = likelihoods.bernoulli() if count == 2 else Contrasts(count)
        w = self._sample_linear(family, design, labels, weight, start, residual)
        w = w[..., None] if count == 2 else w @ contrasts(count).T
        slopes, intercepts = self._in_units(w)
        self._set_coefficients(slopes.swapaxes(1, 2), intercepts[:, 0])
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The mean over the posterior of the probabilities of each class, [n, K]."""
        return self._mean_over_draws(X, self._probabilities)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of y from the posterior predictive distribution, [n, n_samples]."""
        X, random = self._validated(X), check_random_state(random_state)
        pick = random.randint(len(self.coef_draws_), size=n_samples)
        probabilities = self._probabilities(self._predictors(X, pick))
        return self.classes_[draw_classes(probabilities, random)]

    @staticmethod
    def _probabilities(eta: np.ndarray) -> np.ndarray:
        """[row, draw, K] from predictors [row, draw, 1 or K]."""
        if eta.shape[-1] > 1:
            return softmax(eta, axis=-1)
        return np.concatenate([expit(-eta), expit(eta)], axis=-1)
