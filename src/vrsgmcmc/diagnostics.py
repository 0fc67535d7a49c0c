"""The promised path of `vrsgmcmc.advice.diagnostics`."""

from vrsgmcmc.advice.diagnostics import *  # noqa: F403
