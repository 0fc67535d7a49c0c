"""A network sampled by several methods: error and loss of the posterior average against cost.

Every method gets the same number of data passes and the same grid of step sizes, of which it keeps the
one whose average predictions have the lowest loss on validation data after a short run. What is shown
has keys of its own. Predictions are averaged inside the chain, every so many steps; after the first
fifth of a run what came before it is left out. The current sample alone is judged too, where a segment
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from vrsgmcmc.experiments import Outcome, Settings, network_page
from vrsgmcmc.experiments.board import Board, Line
from vrsgmcmc.experiments.follow import Task, Trace, cuts, follow
from vrsgmcmc.experiments.judged import Judged
from vrsgmcmc.experiments.memory import Memory
from vrsgmcmc.experiments.methods import Method
from vrsgmcmc.experiments.shown import Shown, told
from vrsgmcmc.experiments.statements import METHODS, PAPER, SGLD, answers
from vrsgmcmc.folds import observable
from vrsgmcmc.reports import Claim
from vrsgmcmc.types import Posterior

TUNING_POINTS, TUNING_PREDICTIONS = 5, 10
VALIDATION = "validation"


class Subject(NamedTuple):
    """What is sampled, and on which rows it is judged: validation, test, train; others by any name."""

    posterior: Posterior
    data: Any
    init: Any
    judged: Mapping[str, Judged]
    chain_method: str = "vmap"
    clip: float | None = None
    schedule: Callable | None = None
    together: int = 1  # images in a datum

    @property
    def size(self) -> int:
        return jax.tree.leaves(self.data)[0].shape[0]


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
    shown = {}
    with Board(list(methods)) as board:
        for name, method in methods.items():
            tuning = [size.tuning * len(group) for group in groups(experiment, subject)]
            parts = [*tuning, size.passes * seeds]
            with board.line(name, parts=parts) as line:
                shown[name] = one(experiment, subject, method, size, seeds, board, memory, line)
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
    return subject._replace(data=jax.device_put(subject.data), judged=judged)


def groups(experiment: Experiment, subject: Subject) -> list[list[float]]:
    """The step sizes that are tried together; nothing is tried where there is no choice."""
    grid = list(experiment.step_sizes)
    if len(grid) == 1:
        return []
    return [grid] if subject.schedule is None else [[h] for h in grid]


def one(
    experiment: Experiment,
    subject: Subject,
    method: Method,
    size: Size,
    seeds: int,
    board: Board,
    memory: Memory,
    line: Line,
) -> Shown:
    """Tune the step size, then run with it."""
    N, judged = subject.size, subject.judged

    def trace(
        stage: int,
        steps: Sequence[float],
        passes: float,
        points: int,
        predictions: int,
        watched: Iterable[str],
        looks: Mapping[str, Callable],
    ) -> Trace:
        every = max(1, -(-method.affordable(N, passes) // predictions))
        rows = {name: judged[name] for name in watched}
        task = Task(
            subject.posterior,
            subject.data,
            subject.init,
            {n: observable(each.predict, data=each.data, every=every) for n, each in rows.items()},
            looks,
            subject.chain_method,
            subject.clip,
            subject.schedule,
        )
        key = jax.random.fold_in(jax.random.key(0), stage)
        per_datum = np.asarray(steps) / (N * subject.together)
        ends = every * cuts(predictions, points)
        return follow(key, task, method, per_datum, ends, board=board, memory=memory)

    def scores(trace: Trace, rows: str) -> dict[str, np.ndarray]:
        points = range(len(trace.ends))
        found = [judged[rows].scores(trace.known(rows, p)) for p in points]
        return {name: np.stack([each[name] for each in found]) for name in found[0]}

    tuning = {}
    for group in groups(experiment, subject):
        tried = trace(0, group, size.tuning, TUNING_POINTS, TUNING_PREDICTIONS, [VALIDATION], {})
        passes, found = method.cost(N, tried.ends) / N, scores(tried, VALIDATION)
        for c, h in enumerate(group):
            tuning[h] = {"data_passes": passes.tolist()} | {
                f"validation_{name}": values[:, c].tolist() for name, values in found.items()
            }

    def loss(h: float) -> float:
        return np.nan_to_num(tuning[h]["validation_nll"][-1], nan=np.inf)

    best = min(tuning, key=loss) if tuning else experiment.step_sizes[0]
    predictions = max(1, round(size.passes / size.every))
    others = [name for name in judged if name != VALIDATION]
    looks = {name: looked_at(judged[name]) for name in ("test", "train")}
    shown = trace(1, [best] * seeds, size.passes, size.points, predictions, others, looks)
    curves = {name: scores(shown, name) for name in ("test", "train")}
    measures = judged["test"].measures
    for name, looks in shown.snapshots.items():
        curves[f"{name}_sample"] = {m: looks[..., i] for i, m in enumerate(measures)}
    measure = measures[1]
    ending = told(measure, curves["test"][measure][-1].mean())
    line.text = f"test {measure} {ending}, h N = {best:g}"
    last = {name: shown.known(name, -1) for name in others}
    return Shown(method, N, best, tuning, shown, curves, last)


def looked_at(rows: Judged) -> Callable[[Any], Any]:
    predict = jax.jit(rows.predict)

    def look(params: Any) -> np.ndarray:
        scores = rows.scores(np.asarray(predict(params, rows.data)))
        return np.stack([scores[name] for name in rows.measures])

    return look
