"""Exact laws of a chain on a linear-Gaussian problem: stationary, autocovariances, averages."""

from vrsgmcmc.theory.exact.averages import AverageError, mse
from vrsgmcmc.theory.exact.laws import Law, autocovariance, stationary
from vrsgmcmc.theory.exact.problems import LinearGaussian, gaussian_mean, linear_regression

__all__ = [
    "AverageError",
    "Law",
    "LinearGaussian",
    "autocovariance",
    "gaussian_mean",
    "linear_regression",
    "mse",
    "stationary",
]
