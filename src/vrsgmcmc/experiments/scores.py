"""How good an answer is: predictions against labels, moments against a reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int


def binary_nll(
    probability: Float[np.ndarray, "chain rows"], y: Int[np.ndarray, " rows"]
) -> Float[np.ndarray, " chain"]:
    """Negative log-likelihood of labels 0 and 1 under P(y = 1), the mean over rows."""
    tiny = np.finfo(np.float32).tiny
    return -np.log(np.maximum(np.where(y == 1, probability, 1 - probability), tiny)).mean(-1)


def knowledge_error(
    mean: Float[np.ndarray, "*points d"], variance: Float[np.ndarray, "*points d"], m: Any, v: Any
) -> Float[np.ndarray, "*points"]:
    """How far means and variances are from those of a reference, m and v.

        C = 1/2 mean_j (mean_j - m_j)^2 / v_j + 1/2 mean_j (variance_j - v_j)^2 / (2 v_j^2)

    k independent draws of a Gaussian have C = 1/k on average, so 1/C says what a chain is worth.
    """
    m, v = np.asarray(m), np.asarray(v)
    return (((mean - m) ** 2 / v).mean(-1) + ((variance / v - 1) ** 2 / 2).mean(-1)) / 2
