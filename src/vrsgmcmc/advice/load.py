"""`vr.load`: the result of a run directory, without the code that made it."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from vrsgmcmc import core, run
from vrsgmcmc.run import store

from .accuracy import assess
from .auto.decision import StoredDecision
from .auto.files import load_accuracy, read_record

logger = logging.getLogger("vrsgmcmc")
CHAINS, JOB = "chains", "job.json"  # where the command line keeps the run of a job
MOST_NAMED = 5  # runs in a message


def load(path: Any, *, like: PyTree | None = None) -> run.Result:
    """The result of a run directory: draws, averages, summary, accuracy, decision, settings.

    It has no model: what needs one (`log_likelihood`, `loo`, `vr.audit`) says what to do, and `predict`
    takes any function. Draws are nested dicts by the names of the parameters, read from disk on first
    use; with `like`, parameters of the model, they have its structure (of an Equinox module, say).
    `vrsgmcmc.store.open` is the level below: draws that stay on disk, metrics, single arrays.
    """
    opened = store.open(locate(path))
    for note in opened.notes:
        logger.warning("%s: %s", opened.path.name, note)
    rebuild = run.nested(opened) if like is None else structured(opened, like)
    result = run.read_result(opened, rebuild)
    record = None if result.interrupted else load_accuracy(opened.path)
    return replace(result, record=record, decision=load_decision(opened.path), assess=assess)


def locate(path: Any) -> Path:
    """The run directory that a path means; `RunError` says which there are, if it is none."""
    place = Path(os.path.abspath(os.fspath(path)))
    if not place.exists():
        raise store.RunError(f"load({str(path)!r}): there is no such directory.")
    if not place.is_dir():
        raise store.RunError(f"load({str(path)!r}): this is a file. Name the directory of the run.")
    if is_run(place):
        return place
    if (place / JOB).exists():
        if is_run(place / CHAINS):
            return place / CHAINS
        raise store.RunError(
            f"load({str(path)!r}): nothing of this job is sampled yet. Start it: vrsgmcmc resume {path}"
        )
    below = sorted(p for p in place.iterdir() if is_run(p) or is_run(p / CHAINS))
    here = ", ".join(repr(str(Path(path) / p.name)) for p in below[:MOST_NAMED])
    more = ", ..." if len(below) > MOST_NAMED else ""
    hint = f" Runs in it: {here}{more}." if below else " A run directory has a commit.json."
    raise store.RunError(f"load({str(path)!r}): this is not a run directory.{hint}")


def is_run(place: Path) -> bool:
    return place.is_dir() and store.is_run(store.Folder(place))


def structured(opened: store.Run, like: PyTree) -> Any:
    """Makes draws with the structure of `like`, whose names and shapes must be those of the run."""
    ours = {name: np.shape(leaf) for name, leaf in core.named_leaves(like)}
    theirs = {name: tuple(leaf.shape[2:]) for name, leaf in opened.leaves.items()}
    if theirs and ours != theirs:
        raise store.RunError(
            f"load(like=...): the parameters of {opened.path.name} are {theirs}, and those of `like` "
            f"{ours}."
        )
    return lambda leaves: jax.tree.unflatten(
        jax.tree.structure(like), [dict(zip(theirs, leaves, strict=True))[name] for name in ours]
    )


def load_decision(path: Path) -> StoredDecision | None:
    """What the library chose, where it chose; a damaged file is left out with a warning."""
    folder = store.Folder(path)
    if not folder.exists(store.DECISION[0]):
        return None
    try:
        record = read_record(folder)
        decision = StoredDecision(record["sampler"], record["decision"])
        str(decision)  # all that it says is there
    except (store.RunError, KeyError, TypeError, ValueError) as error:
        logger.warning("%s: the decision cannot be read (%s)", path.name, error)
        return None
    return decision
