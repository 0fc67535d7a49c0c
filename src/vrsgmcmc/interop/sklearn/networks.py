"""Networks with one hidden layer, sampled: `network` has the posterior.

A network has many equal modes and no metric, so `vr.sample` searches a step size and runs SGLD on
shuffled minibatches. It judges predictions, and not single weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from vrsgmcmc.core import Posterior

from .base import Sampler, blocks, check_classes, draw_classes, some_rows
from .columns import measure_columns, share_rows
from .network import ClassLoglik, DrawStart, NetworkPrior, NetworkStart, NumberLoglik, all_outputs

PASSES, EVALUATIONS = 2000, 3e6  # the longer of the two, where there is no budget: seconds


class Network(Sampler):
    """Base of the networks.

    - `hidden`: units of the hidden layer.
    - `prior_scale`: of the weights of both layers; None: one scale for each layer, which are sampled.
    - `budget`, `num_chains`: those of `vr.sample`; without a budget 2000 passes over the data,
      or 3 million evaluations, if these are more.
    - `random_state`: the seed. `warm_start`: begin where the last fit ended.
    - `verbose`: show progress, and print the result.
    """

    def __init__(
        self,
        *,
        hidden: int = 50,
        prior_scale: float | None = None,
        budget: Any = None,
        num_chains: int = 4,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.hidden = hidden
        self.prior_scale = prior_scale
        self.budget = budget
        self.num_chains = num_chains
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def _sample_network(
        self, X: np.ndarray, y: np.ndarray, weight: np.ndarray, outputs: int, loglik: Any
    ) -> None:
        self._columns = measure_columns(X, weight, True)
        self._fitted_scale = self.prior_scale
        noise = isinstance(loglik, NumberLoglik)
        start = NetworkStart(X.shape[1], self.hidden, outputs, self.prior_scale is None, noise)
        posterior = Posterior(NetworkPrior(), loglik, network=True)
        data = share_rows(weight, self._columns.apply(X), y)
        budget = self.budget
        if budget is None and PASSES * len(data[0]) < EVALUATIONS:
            budget = EVALUATIONS
        self.draws_ = self._sample(posterior, data, self._warm(start), budget=budget)

    def _mean_over_draws(self, X: Any, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The mean over draws of a function of the outputs [row, draw, K]."""
        X = self._validated(X)
        draws = some_rows(len(self.draws_["b2"]))
        width = len(draws) * self.draws_["b2"].shape[1]
        parts = [function(self._outputs(X[b], draws)).mean(axis=1) for b in blocks(len(X), width)]
        return np.concatenate(parts)

    def _validated(self, X: Any) -> np.ndarray:
        """Rows to predict, in standard columns."""
        check_is_fitted(self)
        rows: Any = validate_data(self, X, dtype=np.float64, reset=False)
        return self._columns.apply(rows)

    def _outputs(self, x: np.ndarray, draws: np.ndarray) -> np.ndarray:
        some = {name: leaf[draws] for name, leaf in self.draws_.items()}
        return all_outputs(some, x, self._fitted_scale)

    def _warm(self, start: NetworkStart) -> Any:
        """With `warm_start` draws of the last fit, if they have the same shapes; else `start`."""
        last = getattr(self, "_start", None)
        self._start = start
        return DrawStart(self.draws_) if self.warm_start and last == start else start


class BayesianMLPClassifier(ClassifierMixin, Network):
    """A classifier with one hidden layer, sampled.

    Parameters are those of `Network`. `predict_proba` is the mean over the posterior; `draws_` are the
    parameters, [draw, ...].
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesianMLPClassifier:
        """Sample the posterior of the weights."""
        self._check_parameters()
        X, y, weight = self._rows(X, y, sample_weight)
        self.classes_, labels = check_classes(self, y)
        self._sample_network(X, labels, weight, len(self.classes_), ClassLoglik(self.prior_scale))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The mean over the posterior of the probabilities of each class, [n, K]."""
        return self._mean_over_draws(X, lambda outputs: softmax(outputs, axis=-1))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of y from the posterior predictive distribution, [n, n_samples]."""
        X, random = self._validated(X), check_random_state(random_state)
        pick = random.randint(len(self.draws_["b2"]), size=n_samples)
        return self.classes_[draw_classes(softmax(self._outputs(X, pick), axis=-1), random)]


class BayesianMLPRegressor(RegressorMixin, Network):
    """A regression with one hidden layer and normal noise, sampled.

    Parameters are those of `Network`. `draws_` are the parameters, [draw, ...], for standard columns
    and y in units of its sd; `noise_draws_` and their mean `noise_scale_` are in the units of y.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesianMLPRegressor:
        """Sample the posterior of the weights and of the noise."""
        self._check_parameters()
        X, y, weight = self._rows(X, y, sample_weight, y_numeric=True)
        y = np.asarray(y, np.float64)[:, None]
        self._units = measure_columns(y, weight, True)
        self._sample_network(
            X, self._units.apply(y)[:, 0], weight, 1, NumberLoglik(self.prior_scale)
        )
        self.noise_draws_ = self._units.scale[0] * np.exp(self.draws_["log_sigma"])
        self.noise_scale_ = float(self.noise_draws_.mean())
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The posterior mean of f(x); with `return_std` the sd of a new y, too."""

        def moments(outputs: np.ndarray) -> np.ndarray:
            return np.concatenate([outputs, (outputs - outputs.mean(1, keepdims=True)) ** 2], -1)

        mean, spread = self._mean_over_draws(X, moments).T
        (scale,), (middle,) = self._units.scale, self._units.mean
        if not return_std:
            return middle + scale * mean
        return middle + scale * mean, np.sqrt(scale**2 * spread + np.mean(self.noise_draws_**2))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of y from the posterior predictive distribution, [n, n_samples]."""
        X, random = self._validated(X), check_random_state(random_state)
        pick = random.randint(len(self.draws_["b2"]), size=n_samples)
        (scale,), (middle,) = self._units.scale, self._units.mean
        mean = middle + scale * self._outputs(X, pick)[..., 0]
        return mean + self.noise_draws_[pick] * random.normal(size=mean.shape)
