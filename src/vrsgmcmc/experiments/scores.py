"""How good an answer is: predictions against labels, moments against a reference."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int


class EvaluationSet(NamedTuple):
    """Rows whose predictions get scores.

    `predict(params, data)` returns the probabilities [rows, K] of the classes or, without labels, the
    probability [rows] of the outcome that was observed.
    """

    predict: Callable[[Any, Any], Any]
    data: Any
    labels: np.ndarray | None = None

    @property
    def measures(self) -> tuple[str, str]:
        return ("nll", "perplexity") if self.labels is None else ("nll", "error")

    def scores(self, predicted: Float[np.ndarray, "..."]) -> dict[str, Float[np.ndarray, "..."]]:
        """The mean loss over rows, and its perplexity or the fraction of wrong labels."""
        if self.labels is None:
            nll = mean_nll(predicted)
            return {"nll": nll, "perplexity": np.exp(nll)}
        truth = np.take_along_axis(
            predicted, np.broadcast_to(self.labels[:, None], (*predicted.shape[:-1], 1)), -1
        )[..., 0]
        nll = mean_nll(truth)
        error = np.mean(predicted.argmax(-1) != self.labels, -1)
        return {"nll": nll, "error": np.where(np.isnan(nll), np.nan, error)}


def mean_nll(probability: Float[np.ndarray, "*chains rows"]) -> Float[np.ndarray, "*chains"]:
    """Negative log-likelihood of the outcomes, the mean over rows; 0 counts as the least float32."""
    return -np.log(np.maximum(probability, np.finfo(np.float32).tiny)).mean(-1)


def binary_nll(
    probability: Float[np.ndarray, "*chains rows"], y: Int[np.ndarray, " rows"]
) -> Float[np.ndarray, "*chains"]:
    """Negative log-likelihood of labels 0 and 1 under P(y = 1), the mean over rows."""
    return mean_nll(np.where(y == 1, probability, 1 - probability))


def knowledge_error(
    mean: Float[np.ndarray, "*points d"], variance: Float[np.ndarray, "*points d"], m: Any, v: Any
) -> Float[np.ndarray, "*points"]:
    """The distance of means and variances from those of a reference, m and v.

        C = 1/2 mean_j (mean_j - m_j)^2 / v_j + 1/2 mean_j (variance_j - v_j)^2 / (2 v_j^2)

    k independent draws of a Gaussian have C = 1/k on average: a chain is worth 1/C draws.
    """
    m, v = np.asarray(m), np.asarray(v)
    return (((mean - m) ** 2 / v).mean(-1) + ((variance / v - 1) ** 2 / 2).mean(-1)) / 2
