"""The promised path of `vrsgmcmc.interop.sklearn`: estimators of scikit-learn that sample."""

from vrsgmcmc.interop.sklearn import (
    EXPECTED_FAILURES,
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    BayesianPoissonRegression,
)

__all__ = [
    "EXPECTED_FAILURES",
    "BayesianLinearRegression",
    "BayesianLogisticRegression",
    "BayesianMLPClassifier",
    "BayesianMLPRegressor",
    "BayesianPoissonRegression",
]
