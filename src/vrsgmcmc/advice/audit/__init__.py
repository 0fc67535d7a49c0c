"""Is variance reduction helping this run?"""

from vrsgmcmc.advice.audit.auditor import Audit, Block, audit

__all__ = ["Audit", "Block", "audit"]
