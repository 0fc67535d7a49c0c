"""Integrators, one file each, and the table of them."""

from vrsgmcmc.integrators.ito import ito
from vrsgmcmc.integrators.psgld import psgld
from vrsgmcmc.integrators.sghmc import sghmc
from vrsgmcmc.integrators.sgld import sgld
from vrsgmcmc.integrators.sgnht import sgnht
from vrsgmcmc.integrators.splitting import splitting

INTEGRATORS = {
    "sgld": sgld,
    "psgld": psgld,
    "sghmc": sghmc,
    "sgnht": sgnht,
    "splitting": splitting,
    "ito": ito,
}

__all__ = ["INTEGRATORS", "ito", "psgld", "sghmc", "sgld", "sgnht", "splitting"]
