"""Runs that end behind a commit, in this process."""

from vrsgmcmc.run.store import writer
from vrsgmcmc.run.timeline import Pace


class Crash(BaseException):
    """The end of a process, as far as the run directory can tell."""


def commit_chunks(monkeypatch, units):
    """Chunks of so many units, each committed."""
    monkeypatch.setattr(Pace, "__init__", lambda pace, *_: setattr(pace, "length", units))
    monkeypatch.setattr(Pace, "took", lambda *_: None)
    monkeypatch.setattr(writer, "SECONDS_BETWEEN_COMMITS", -1.0)
    monkeypatch.setattr(writer, "LEAST_RATIO", 0)


def crash_after(monkeypatch, count):
    """The process ends behind commit number `count`."""
    commit, seen = writer.Writer.commit, []

    def counted(self, *arguments, **options):
        commit(self, *arguments, **options)
        seen.append(1)
        if len(seen) > count:
            raise Crash

    monkeypatch.setattr(writer.Writer, "commit", counted)
