"""Predictions and the scores that they get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float


class Judged(NamedTuple):
    """Rows whose predictions are judged.

    `predict(params, data)` gives the probabilities [rows, K] of the labels' classes or, where there
    are no labels, the probability [rows] of what did come.
    """

    predict: Callable[[Any, Any], Any]
    data: Any
    labels: np.ndarray | None = None

    @property
    def measures(self) -> tuple[str, str]:
        return ("nll", "perplexity") if self.labels is None else ("nll", "error")

    def scores(self, predicted: Float[np.ndarray, "..."]) -> dict[str, Float[np.ndarray, "..."]]:
        """The mean loss over rows, and its perplexity or the fraction of wrong labels."""
        tiny = np.finfo(np.float32).tiny
        if self.labels is None:
            nll = -np.log(np.maximum(predicted, tiny)).mean(-1)
            return {"nll": nll, "perplexity": np.exp(nll)}
        truth = np.take_along_axis(
            predicted, np.broadcast_to(self.labels[:, None], (*predicted.shape[:-1], 1)), -1
        )[..., 0]
        nll = -np.log(np.maximum(truth, tiny)).mean(-1)
        error = np.mean(predicted.argmax(-1) != self.labels, -1)
        return {"nll": nll, "error": np.where(np.isnan(nll), np.nan, error)}
