"""Theory as code: exact stationary laws on problems that have one."""

from vrsgmcmc.theory.exact import Law, stationary
from vrsgmcmc.theory.problems import LinearGaussian, gaussian_mean, linear_regression

__all__ = ["Law", "LinearGaussian", "gaussian_mean", "linear_regression", "stationary"]
