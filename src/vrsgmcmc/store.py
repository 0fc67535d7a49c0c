"""The promised path of `vrsgmcmc.run.store`: run directories, opened and verified."""

from vrsgmcmc.run.store import Run, RunError, Writer, finished, open, verify, write

__all__ = ["Run", "RunError", "Writer", "finished", "open", "verify", "write"]
