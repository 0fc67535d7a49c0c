"""What the estimators share: parameters, the call of `vr.sample`, and what follows from draws."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from vrsgmcmc import advice, core, run

from .columns import as_weight

MOST_DRAWS = 2000  # of all chains, that predictions use
BLOCK = 2**22  # numbers of one block of predictions


class Sampler(BaseEstimator):
    """Base of all: it samples a posterior when it is fitted."""

    budget: Any
    num_chains: int
    random_state: Any
    verbose: bool

    def _check_parameters(self) -> None:
        name = type(self).__name__
        for parameter in ("prior_scale", "noise_scale", "ess"):
            value = getattr(self, parameter, None)
            if value is not None:
                core.positive(name, parameter, value)
        for parameter in ("num_chains", "hidden"):
            if hasattr(self, parameter):
                core.whole(name, parameter, getattr(self, parameter), least=1)

    def _rows(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> tuple[Any, Any, Any]:
        """Validated rows with their weights; those of weight 0 are left out."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2, **options)
        weight = as_weight(sample_weight, len(X))
        some = weight > 0
        return X[some], y[some], weight[some]

    def _sample(self, posterior: core.Posterior, data: Any, init: Any, **options: Any) -> Any:
        """Sample, keep the result, and return the draws [draw, ...] of the chains that are finite."""
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        options = {"budget": self.budget, "num_chains": self.num_chains} | options
        options["progress"] = None if self.verbose else False
        # far from the mode, where searches begin, a likelihood may overflow
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                result = advice.sample(int(seed), posterior, data, init, **options)
            except run.Saddle:  # the prior of a scale curves upwards where rows say little
                if not isinstance(posterior, core.GLM):
                    raise
                undeclared = core.Posterior(posterior.logprior, posterior.loglik)
                result = advice.sample(int(seed), undeclared, data, init, **options)
        alive = np.flatnonzero(~result.diverged)
        if not alive.size:
            raise RuntimeError(
                f"{type(self).__name__}: every chain became non-finite. {result.divergences[0]}"
            )
        self.result_ = result
        self.accuracy_ = result.accuracy()
        self.n_iter_ = int(result.num_steps)
        if self.verbose:
            print(result)
        if self.accuracy_ is not None and not self.accuracy_.good:
            warnings.warn(
                f"{type(self).__name__}: {self.accuracy_.verdict} "
                "A larger ess or budget, or fewer columns, may help.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return jax.tree.map(
            lambda leaf: np.asarray(leaf, np.float64)[alive].reshape(-1, *leaf.shape[2:]),
            result.draws,
        )


def check_classes(estimator: BaseEstimator, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes, sorted, and the index of each label."""
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs samples of at least 2 classes in the data, but the data "
            f"contain only one class: {classes[0]!r}."
        )
    return classes, labels


def draw_classes(probabilities: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """A class for each of the probabilities [row, draw, K]."""
    heights = np.cumsum(probabilities, axis=-1)
    index = np.sum(random.uniform(size=(*heights.shape[:2], 1)) > heights, axis=-1)
    return np.minimum(index, heights.shape[-1] - 1)


def some_rows(draws: int) -> np.ndarray:
    """Evenly spaced draws, not more than predictions need."""
    return np.unique(np.linspace(0, draws - 1, min(draws, MOST_DRAWS)).round().astype(int))


def blocks(rows: int, width: int) -> list[slice]:
    """Rows in blocks, so that a block times `width` fits into memory."""
    length = max(1, BLOCK // max(width, 1))
    return [slice(first, first + length) for first in range(0, rows, length)]
