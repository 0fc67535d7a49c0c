"""The promised path of `vrsgmcmc.run.store`: run directories, opened and verified."""

from vrsgmcmc.run.store import *  # noqa: F403
