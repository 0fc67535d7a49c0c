"""Theory as code: the noise of estimators, bounds and regimes, exact laws, predictions of a run."""

from vrsgmcmc.theory.averages import AverageError, mse
from vrsgmcmc.theory.bounds import (
    bias_bound,
    improvement,
    improvement_as_printed,
    minibatch_bound,
    minibatch_noise,
    mse_bound,
    practical_bound,
    step_cost,
    svrg_bound,
)
from vrsgmcmc.theory.exact import Law, autocovariance, stationary
from vrsgmcmc.theory.local import Local, local
from vrsgmcmc.theory.noise import Noise, noise
from vrsgmcmc.theory.predict import Forecast, forecast
from vrsgmcmc.theory.problems import LinearGaussian, gaussian_mean, linear_regression
from vrsgmcmc.theory.regimes import (
    batch_size_as_printed,
    best_bias_step_size,
    best_step_size,
    dubey_sgld_bound,
    dubey_svrg_bound,
    minibatch_budget_bound,
    minibatch_regime,
    practical_budget_bound,
    svrg_beats_sgld,
    svrg_step_limit,
)

__all__ = [
    "AverageError",
    "Forecast",
    "Law",
    "LinearGaussian",
    "Local",
    "Noise",
    "autocovariance",
    "batch_size_as_printed",
    "best_bias_step_size",
    "best_step_size",
    "bias_bound",
    "dubey_sgld_bound",
    "dubey_svrg_bound",
    "forecast",
    "gaussian_mean",
    "improvement",
    "improvement_as_printed",
    "linear_regression",
    "local",
    "minibatch_bound",
    "minibatch_budget_bound",
    "minibatch_noise",
    "minibatch_regime",
    "mse",
    "mse_bound",
    "noise",
    "practical_bound",
    "practical_budget_bound",
    "stationary",
    "step_cost",
    "svrg_beats_sgld",
    "svrg_bound",
    "svrg_step_limit",
]
