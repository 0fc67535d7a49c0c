"""Regressions on the columns of a table, each with its noise, dispersion and groups sampled.

likelihood = family("logistic")
model = posterior(likelihood, prior="weak", groups=("hospital",))
start = initial(likelihood, num_columns, {"hospital": 12})
"""

from .model import FAMILIES, Family, describe_prior, family, initial, posterior
from .network import network, outputs
from .predictors import log_likelihoods, predictors
from .priors import Flat, parse_prior

__all__ = [
    "FAMILIES",
    "Family",
    "Flat",
    "describe_prior",
    "family",
    "initial",
    "log_likelihoods",
    "network",
    "outputs",
    "parse_prior",
    "posterior",
    "predictors",
]
