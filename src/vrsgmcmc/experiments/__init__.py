"""Experiments, one file each, and the table of them.

A file `NAME.py` beside this one has `run(settings, say) -> report`, `write(report, folder, command)`
and `table(report)`. It is imported when it runs: the table alone costs nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

RECORD = "run.json"  # what every folder of results has


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
        "Logistic regression on the Pima diabetes data: SGLD, vrSG-MCMC and SVRG-LD (half a minute)",
        Settings(Path("pima-report")),
    )
}


def claim(folder: Path, name: str) -> None:
    """Make the folder, or take one that is empty or holds an earlier run of this experiment."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError("this is a file. Name a folder that is empty or does not exist.")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) and experiment_in(folder) != name:
        raise FileExistsError(
            f"this folder is not empty, and what it holds does not come from `reproduce {name}`. "
            "Name a folder that is empty or does not exist."
        )


def experiment_in(folder: Path) -> str | None:
    """The name of the experiment whose results a folder holds."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(record, dict) and record.get("program") == "vrsgmcmc"
    return record.get("experiment") if ours else None
