"""Is variance reduction helping this run?"""

from .auditor import Audit, Block, audit

__all__ = ["Audit", "Block", "audit"]
