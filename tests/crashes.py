"""Runs that end behind a commit, in this process."""

from vrsgmcmc import driver
from vrsgmcmc.pace import Pace
from vrsgmcmc.store import writing


class Crash(BaseException):
    """The end of a process, as far as the run directory can tell."""


def commit_chunks(monkeypatch, units):
    """Chunks of so many units, each committed."""
    monkeypatch.setattr(driver, "FIRST_CHUNK", units)
    monkeypatch.setattr(Pace, "took", lambda *_: None)
    monkeypatch.setattr(writing, "SECONDS_BETWEEN_COMMITS", -1.0)
    monkeypatch.setattr(writing, "LEAST_RATIO", 0)


def crash_after(monkeypatch, count):
    """The process ends behind commit number `count`."""
    commit, seen = writing.Writer.commit, []

    def counted(self, *arguments, **options):
        commit(self, *arguments, **options)
        seen.append(1)
        if len(seen) > count:
            raise Crash

    monkeypatch.setattr(writing.Writer, "commit", counted)
