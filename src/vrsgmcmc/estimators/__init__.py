"""Gradient estimators, one file each, and the table of them."""

from vrsgmcmc.estimators.control_variate import control_variate
from vrsgmcmc.estimators.full import full
from vrsgmcmc.estimators.minibatch import minibatch
from vrsgmcmc.estimators.practical import practical
from vrsgmcmc.estimators.saga import saga
from vrsgmcmc.estimators.svrg import svrg

ESTIMATORS = {
    "full": full,
    "minibatch": minibatch,
    "practical": practical,
    "svrg": svrg,
    "saga": saga,
    "control_variate": control_variate,
}

__all__ = [
    "ESTIMATORS",
    "control_variate",
    "full",
    "minibatch",
    "practical",
    "saga",
    "svrg",
]
