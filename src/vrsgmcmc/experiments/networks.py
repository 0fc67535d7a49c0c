"""A network sampled by several methods: error and loss of the posterior average against cost.

Every method gets the same number of data passes and the same grid of step sizes, of which it keeps the
one whose average predictions have the lowest loss on validation data after a short run. What is shown
has keys of its own. Predictions are averaged inside the chain, every so many steps; after the first
fifth of a run what came before it is left out. The current sample alone is judged too, where a segment
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from vrsgmcmc.core import observable
from vrsgmcmc.experiments import network_page
from vrsgmcmc.experiments.checkpoints import Memory
from vrsgmcmc.experiments.claims import METHODS, PAPER, SGLD, answers
from vrsgmcmc.experiments.judged import Judged
from vrsgmcmc.experiments.methods import Method, check_passes
from vrsgmcmc.experiments.progress import Board, Line
from vrsgmcmc.experiments.segments import Task, Trace, cuts, follow
from vrsgmcmc.experiments.settings import Outcome, Settings
from vrsgmcmc.experiments.shown import Shown, told
from vrsgmcmc.reports import Claim

TUNING_POINTS, TUNING_PREDICTIONS = 5, 10
VALIDATION = "validation"


class Subject(NamedTuple):
    """What is sampled, and on which rows it is judged: validation, test, train; others by any name."""

    task: Task
    judged: Mapping[str, Judged]
    together: int = 1  # images in a datum

    @property
    def size(self) -> int:
        return self.task.size


class Size(NamedTuple):
    passes: float
    tuning: float  # passes of every step size of the grid
    seeds: int
    points: int
    every: float  # passes between two predictions


class Experiment(NamedTuple):
    title: str
    load: Callable[[Settings], Subject]
    sizes: Mapping[str, Size]
    step_sizes: Sequence[float]  # h N: on the mean log-likelihood; the paper's is one of them
    methods: Mapping[str, Method] = METHODS
    claims: Callable[[Mapping[str, Shown]], list[Claim]] = answers


def run(experiment: Experiment, settings: Settings, memory: Memory) -> Outcome:
    size = settings.of(experiment.sizes)
    if settings.size == "smoke":
        experiment = shortened(experiment, everything=bool(settings.methods))
    methods = settings.chosen(dict(experiment.methods))
    seeds = settings.seeds or size.seeds
    subject = on_device(experiment.load(settings))
    check_passes(methods, subject.size, size.passes)
    shown = {}
    with Board(list(methods)) as board:
        for name, method in methods.items():
            tuning = [size.tuning * len(group) for group in groups(experiment, subject)]
            parts = [*tuning, size.passes * seeds]
            with board.line(name, parts=parts) as line:
                work = Work(subject, method, board, memory)
                shown[name] = one(work, experiment, size, seeds, line)
    return network_page.outcome(experiment, subject, shown, size, seeds)


def shortened(experiment: Experiment, everything: bool) -> Experiment:
    """Two methods, unless some are named, and no choice of a step size."""
    methods = (
        experiment.methods if everything else {n: experiment.methods[n] for n in (SGLD, PAPER)}
    )
    return experiment._replace(methods=methods, step_sizes=experiment.step_sizes[:1])


def on_device(subject: Subject) -> Subject:
    """With arrays that a segment of a run need not copy."""
    judged = {
        n: rows._replace(data=jax.device_put(rows.data)) for n, rows in subject.judged.items()
    }
    task = subject.task._replace(data=jax.device_put(subject.task.data))
    return subject._replace(task=task, judged=judged)


def groups(experiment: Experiment, subject: Subject) -> list[list[float]]:
    """The step sizes that are tried together; nothing is tried where there is no choice."""
    grid = list(experiment.step_sizes)
    if len(grid) == 1:
        return []
    return [grid] if subject.task.schedule is None else [[h] for h in grid]


class Work(NamedTuple):
    """One method on one network."""

    subject: Subject
    method: Method
    board: Board
    memory: Memory

    def trace(
        self,
        stage: int,
        steps: Sequence[float],
        passes: float,
        points: int,
        predictions: int,
        watched: Mapping[str, Judged],
        looks: Mapping[str, Callable] = {},
    ) -> Trace:
        """A chain for each step size h N, for so many passes; stages have keys of their own."""
        subject, method = self.subject, self.method
        affordable = method.affordable(subject.size, passes)
        every = max(1, affordable // predictions)
        averaged = {
            name: observable(rows.predict, data=rows.data, every=every)
            for name, rows in watched.items()
        }
        return follow(
            jax.random.fold_in(jax.random.key(0), stage),
            subject.task._replace(observables=averaged, snapshots=looks),
            method,
            np.asarray(steps) / (subject.size * subject.together),
            cuts(affordable, points, multiple=every),
            board=self.board,
            memory=self.memory,
        )

    def scores(self, trace: Trace, rows: str) -> dict[str, Float[np.ndarray, "points chain"]]:
        """Of what the chains know at each point."""
        judged = self.subject.judged[rows]
        found = [judged.scores(trace.known(rows, p)) for p in range(len(trace.ends))]
        return {name: np.stack([each[name] for each in found]) for name in found[0]}


def tune(work: Work, experiment: Experiment, size: Size) -> dict[float, dict[str, list[float]]]:
    """Step size -> scores on validation data, point by point."""
    tuning, watched = {}, {VALIDATION: work.subject.judged[VALIDATION]}
    for group in groups(experiment, work.subject):
        tried = work.trace(0, group, size.tuning, TUNING_POINTS, TUNING_PREDICTIONS, watched)
        passes = work.method.cost(work.subject.size, tried.ends) / work.subject.size
        found = work.scores(tried, VALIDATION)
        for c, h in enumerate(group):
            tuning[h] = {"data_passes": passes.tolist()} | {
                f"validation_{name}": np.where(tried.diverged[c], np.nan, values[:, c]).tolist()
                for name, values in found.items()
            }
    return tuning


def best_of(tuning: Mapping[float, Mapping[str, Sequence[float]]]) -> float:
    """The step size with the lowest loss at the end; a chain that diverged has none at all."""
    return min(tuning, key=lambda h: np.nan_to_num(tuning[h]["validation_nll"][-1], nan=np.inf))


def one(work: Work, experiment: Experiment, size: Size, seeds: int, line: Line) -> Shown:
    """Tune the step size, then run with it."""
    tuning = tune(work, experiment, size)
    h = best_of(tuning) if tuning else experiment.step_sizes[0]
    watched = {n: rows for n, rows in work.subject.judged.items() if n != VALIDATION}
    looks = {name: looked_at(watched[name]) for name in ("test", "train")}
    predictions = max(1, round(size.passes / size.every))
    trace = work.trace(1, [h] * seeds, size.passes, size.points, predictions, watched, looks)
    curves = {name: work.scores(trace, name) for name in ("test", "train")}
    measures = watched["test"].measures
    for name, seen in trace.snapshots.items():
        curves[f"{name}_sample"] = {m: seen[..., i] for i, m in enumerate(measures)}
    ending = told(measures[1], curves["test"][measures[1]][-1].mean())
    line.text = f"test {measures[1]} {ending}, h N = {h:g}"
    last = {name: trace.known(name, -1) for name in watched}
    return Shown(work.method, work.subject.size, h, tuning, trace, curves, last)


def looked_at(rows: Judged) -> Callable[[Any], Any]:
    predict = jax.jit(rows.predict)

    def look(params: Any) -> np.ndarray:
        scores = rows.scores(np.asarray(predict(params, rows.data)))
        return np.stack([scores[name] for name in rows.measures])

    return look
