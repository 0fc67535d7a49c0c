"""Predictions of a job for the rows of another table."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vrsgmcmc.datasets import tables
from vrsgmcmc.datasets.tables import Design, Frame
from vrsgmcmc.experiments import csv_text
from vrsgmcmc.run import Result

from .directory import Job
from .problem import Problem
from .scores import QUANTILES, class_probabilities, forward, some_draws
from .spreadsheet import class_rows, number_rows

MOST_LISTED = 20  # rows without a prediction


class NewPredictions(NamedTuple):
    content: bytes  # of a CSV file
    count: int
    notes: tuple[str, ...]
    scores: tuple[str, ...]  # lines


def predict(job: Job, problem: Problem, result: Result, path: Path) -> NewPredictions:
    """Predictions for the rows of a file, treated as the table of the job was."""
    if not isinstance(job.rows, Design):
        raise ValueError(
            f"{job.path} is a run of an earlier version, which does not say what was done to its "
            "table. Sample again."
        )
    if result.diverged.all():
        raise ValueError(f"every chain of {job.path} became non-finite: there are no predictions.")
    frame = read(job.rows, path)
    design = tables.new_rows(job.rows, frame)
    truth, tested = actual(job.rows, frame, design)
    notes = [*design.notes]
    unused = frame.rows[~np.isin(frame.rows, design.rows)]
    if unused.size:
        listed = ", ".join(map(str, unused[:MOST_LISTED])) + ", ..." * (unused.size > MOST_LISTED)
        notes.append(f"No predictions for {unused.size} rows ({frame.place}s {listed}).")
    scores: list[str] = []
    if problem.table is None:
        table, more = predict_own(problem, result, design, truth)
        notes += more
    else:
        predictions = problem.table.predict(result, design)
        notes += [note for note in predictions.notes if note not in notes]
        limits = predictions.low, predictions.high
        if design.target.kind == "classes":
            table = class_rows(
                design.rows, design.target.labels, predictions.mean, truth, limits
            )  # fmt: skip
        else:
            columns = {"actual": truth, "mean": predictions.mean, "sd": predictions.sd}
            columns |= {"low_90": limits[0], "high_90": limits[1]}
            table = number_rows(design.rows, columns)
        if tested is not None:
            scores = str(problem.table.scores(result, tested)).splitlines()
    return NewPredictions(csv_text(table).encode(), len(table), tuple(notes), tuple(scores))


def read(design: Design, path: Path) -> Frame:
    """The columns that the recipe needs, and the target if it is there."""
    recipe = design.recipe
    names = dict.fromkeys([*(s.name for s in recipe.sources), *(g.name for g in recipe.groups)])
    try:
        return tables.read_frame(path, (*names, recipe.target.name))
    except ValueError:  # the target may be missing; for all else the next line has the message
        return tables.read_frame(path, tuple(names))


def actual(design: Design, frame: Frame, new: Design) -> tuple[np.ndarray | None, Design | None]:
    """The targets of rows, where there are any (else NaN, or -1), and the rows that have one."""
    target = design.target
    if target.name not in frame.columns:
        return None, None
    try:
        tested = tables.new_rows(design, frame, target=True)
    except ValueError as error:
        if "no row has a target" in str(error):
            return None, None
        raise
    y = np.asarray(tested.y)
    values = target.center + target.scale * y if target.kind == "number" else y
    classes = target.kind == "classes"
    truth = np.full(len(new.rows), -1 if classes else np.nan, int if classes else float)
    truth[np.isin(new.rows, tested.rows)] = values
    return truth, tested


def predict_own(
    problem: Problem, result: Result, design: Design, truth: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    """With the `predict` of the user's own model."""
    outputs = forward(problem, some_draws(result, len(design.rows)), design.x)
    if outputs is None:
        raise ValueError("your model has no predict: return (posterior, init, predict).")
    labels = design.target.labels
    if len(design.rows) != outputs.shape[1]:
        raise ValueError(
            f"predict(params, x) gives {outputs.shape[1]} predictions for {len(design.rows)} rows."
        )
    if labels:
        return class_rows(design.rows, labels, class_probabilities(outputs, labels), truth), []
    center, scale = design.target.center, design.target.scale
    draws = center + scale * outputs
    low, high = np.quantile(draws, QUANTILES, axis=0)
    columns = {"actual": truth, "mean": draws.mean(0), "sd": draws.std(0)}
    table = number_rows(design.rows, columns | {"low_90": low, "high_90": high})
    return table, [
        "The intervals are those of the mean: what is around it, your model does not say."
    ]
