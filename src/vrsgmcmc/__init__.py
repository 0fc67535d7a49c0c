"""Bayesian sampling with stochastic gradients whose noise is under control.

Names are imported when they are first asked for, so that the command line can answer without JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vrsgmcmc import datasets, diagnostics, models, store, theory
    from vrsgmcmc.audits import Audit, audit
    from vrsgmcmc.driver import sample
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
    from vrsgmcmc.kernels import kernel
    from vrsgmcmc.plans import Plan, plan
    from vrsgmcmc.result import Result
    from vrsgmcmc.types import Batch, Info, Posterior, State

HOMES = {
    "audits": ("Audit", "audit"),
    "driver": ("sample",),
    "estimators": (
        "ESTIMATORS",
        "control_variate",
        "full",
        "minibatch",
        "practical",
        "saga",
        "svrg",
    ),
    "folds": ("observable",),
    "integrators": ("INTEGRATORS", "ito", "psgld", "sghmc", "sgld", "sgnht", "splitting"),
    "kernels": ("kernel",),
    "plans": ("Plan", "plan"),
    "result": ("Result",),
    "types": ("Batch", "Info", "Posterior", "State"),
}
ROOMS = ("datasets", "diagnostics", "models", "store", "theory")

__all__ = [
    "ESTIMATORS",
    "INTEGRATORS",
    "Audit",
    "Batch",
    "Info",
    "Plan",
    "Posterior",
    "Result",
    "State",
    "audit",
    "control_variate",
    "datasets",
    "diagnostics",
    "full",
    "ito",
    "kernel",
    "minibatch",
    "models",
    "observable",
    "plan",
    "practical",
    "psgld",
    "saga",
    "sample",
    "sghmc",
    "sgld",
    "sgnht",
    "splitting",
    "store",
    "svrg",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return import_module(f"vrsgmcmc.{name}")
    for home, names in HOMES.items():
        if name in names:
            value = getattr(import_module(f"vrsgmcmc.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'vrsgmcmc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
