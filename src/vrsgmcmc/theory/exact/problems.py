"""Linear-Gaussian problems, on which the samplers have an exact law.

    y_i = x_i . theta + N(0, s2),    theta ~ N(0, t2 I)
    grad_i(theta) = x_i (y_i - x_i . theta) / s2

The Gaussian mean model is the case x_i = 1.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class LinearGaussian:
    """y_i = features_i . theta + N(0, noise_variance), theta ~ N(0, prior_variance I)."""

    features: Float[Array, "N d"]
    targets: Float[Array, " N"]
    noise_variance: float = 1.0
    prior_variance: float = 1.0

    def posterior(self) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        """Mean and covariance of the exact posterior."""
        X, y = self.features, self.targets
        precision = X.T @ X / self.noise_variance + np.eye(X.shape[1]) / self.prior_variance
        covariance = np.linalg.inv(precision)
        return covariance @ X.T @ y / self.noise_variance, covariance


def linear_regression(
    features: ArrayLike,
    targets: ArrayLike,
    *,
    noise_variance: float = 1.0,
    prior_variance: float = 1.0,
) -> LinearGaussian:
    """Bayesian linear regression with known noise: features [N, d], targets [N]."""
    X, y = np.asarray(features, dtype=float), np.asarray(targets, dtype=float)
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(
            f"features must be [N, d] and targets [N], got {X.shape} and {y.shape}; "
            "reshape a single feature to [N, 1]"
        )
    return LinearGaussian(X, y, float(noise_variance), float(prior_variance))


def gaussian_mean(
    data: ArrayLike, *, noise_variance: float = 1.0, prior_variance: float = 1.0
) -> LinearGaussian:
    """x_i ~ N(theta, noise_variance), theta ~ N(0, prior_variance): regression on 1."""
    x = np.ravel(np.asarray(data, dtype=float))
    return linear_regression(
        np.ones((len(x), 1)), x, noise_variance=noise_variance, prior_variance=prior_variance
    )


def has_equal_features(problem: LinearGaussian) -> bool:
    """Whether the gradients of two data differ by a constant, as in the Gaussian mean model."""
    return bool(np.all(problem.features == problem.features[0]))
