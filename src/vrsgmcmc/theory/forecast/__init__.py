"""Forecasts of a run on any model, by a Gaussian model of the posterior around one point."""

from vrsgmcmc.theory.forecast.forecast import Forecast, forecast
from vrsgmcmc.theory.forecast.local import LARGEST, Local, local
from vrsgmcmc.theory.forecast.response import response

__all__ = ["LARGEST", "Forecast", "Local", "forecast", "local", "response"]
