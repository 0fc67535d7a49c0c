"""Bayesian sampling with stochastic gradients whose noise is under control."""

from vrsgmcmc import models, theory
from vrsgmcmc.estimators import (
    ESTIMATORS,
    control_variate,
    full,
    minibatch,
    practical,
    saga,
    svrg,
)
from vrsgmcmc.folds import observable
from vrsgmcmc.integrators import INTEGRATORS, ito, psgld, sghmc, sgld, sgnht, splitting
from vrsgmcmc.kernel import kernel
from vrsgmcmc.result import Result
from vrsgmcmc.sample import sample
from vrsgmcmc.types import Batch, Info, Posterior, State

__all__ = [
    "ESTIMATORS",
    "INTEGRATORS",
    "Batch",
    "Info",
    "Posterior",
    "Result",
    "State",
    "control_variate",
    "full",
    "ito",
    "kernel",
    "minibatch",
    "models",
    "observable",
    "practical",
    "psgld",
    "saga",
    "sample",
    "sghmc",
    "sgld",
    "sgnht",
    "splitting",
    "svrg",
    "theory",
]
