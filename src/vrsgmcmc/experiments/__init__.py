"""Experiments, one file each, and the table of them.

A file `NAME.py` beside this one has `run(settings, say) -> report`, `write(report, folder, command)`
and `table(report)`. It is imported when it runs: the table alone costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True)
class Settings:
    """The options of an experiment; the command line is made from them."""

    out: Path
    """Folder for figures and numbers; made if it does not exist."""
    seed: int = 0
    """Seed of every random number, from 0 on."""
    chains: int = 32
    """Chains for each method."""
    passes: int = 200
    """Data passes for each chain: gradient evaluations divided by the number of data."""

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("chains", 1), ("passes", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"--{name} must be at least {least}, got {getattr(self, name)}.")


class Experiment(NamedTuple):
    summary: str
    settings: Settings


EXPERIMENTS = {
    "pima": Experiment(
        "Logistic regression on the Pima diabetes data: SGLD, vrSG-MCMC, SVRG-LD (a minute)",
        Settings(Path("pima-report")),
    )
}
