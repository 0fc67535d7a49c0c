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

from vrsgmcmc import figures
from vrsgmcmc.experiments import Outcome, Settings
from vrsgmcmc.experiments.board import Board, Line
from vrsgmcmc.experiments.follow import Task, Trace, cuts, follow
from vrsgmcmc.experiments.memory import Memory
from vrsgmcmc.experiments.methods import Method
from vrsgmcmc.experiments.shown import Shown, told
from vrsgmcmc.experiments.statements import METHODS, PAPER, answers
from vrsgmcmc.folds import observable
from vrsgmcmc.reports import Claim, Report, Section, Table
from vrsgmcmc.reports.calibration import Probabilities, reliability
from vrsgmcmc.reports.pictures import reliability_figure
from vrsgmcmc.types import Posterior

TUNING_POINTS = 5


class Judged(NamedTuple):
    """Rows whose predictions are judged.

    `predict(params, data)` gives the probabilities [rows, K] of the labels' classes or, where there
    are no labels, the probability [rows] of what did come.
    """

    predict: Callable[[Any, Any], Any]
    data: Any
    labels: np.ndarray | None = None

    @property
    def measures(self) -> tuple[str, str]:
        return ("nll", "perplexity") if self.labels is None else ("nll", "error")

    def scores(self, predicted: Float[np.ndarray, "..."]) -> dict[str, Float[np.ndarray, "..."]]:
        """The mean loss over rows, and its perplexity or the fraction of wrong labels."""
        tiny = np.finfo(np.float32).tiny
        if self.labels is None:
            nll = -np.log(np.maximum(predicted, tiny)).mean(-1)
            return {"nll": nll, "perplexity": np.exp(nll)}
        truth = np.take_along_axis(
            predicted, np.broadcast_to(self.labels[:, None], (*predicted.shape[:-1], 1)), -1
        )[..., 0]
        return {
            "nll": -np.log(np.maximum(truth, tiny)).mean(-1),
            "error": np.mean(predicted.argmax(-1) != self.labels, -1),
        }


class Subject(NamedTuple):
    """What is sampled, and on which rows it is judged: validation, test, train; others by any name."""

    posterior: Posterior
    data: Any
    init: Any
    judged: Mapping[str, Judged]
    chain_method: str = "vmap"
    clip: float | None = None
    schedule: Callable | None = None

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
    size = experiment.sizes[settings.size]
    methods = settings.chosen(dict(experiment.methods))
    seeds = settings.seeds or size.seeds
    subject = experiment.load(settings)
    shown = {}
    with Board(list(methods)) as board:
        for name, method in methods.items():
            parts = 1 + (len(experiment.step_sizes) if subject.schedule else 1)
            with board.line(name, parts=parts) as line:
                shown[name] = one(experiment, subject, method, size, seeds, board, memory, line)
    return outcome(experiment, subject, shown, size, seeds)


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
    per_step = method.cost(N, 10_000) / 10_000
    every = max(1, round(size.every * N / per_step))
    task = Task(
        subject.posterior,
        subject.data,
        subject.init,
        {n: observable(rows.predict, data=rows.data, every=every) for n, rows in judged.items()},
        {"test": looked_at(judged["test"])},
        subject.chain_method,
        subject.clip,
        subject.schedule,
    )

    def trace(stage: int, steps: Sequence[float], passes: float, points: int) -> Trace:
        total = max(every, method.affordable(N, passes))
        ends = cuts(total, points, least=every, multiple=every)
        key = jax.random.fold_in(jax.random.key(0), stage)
        return follow(key, task, method, np.asarray(steps) / N, ends, board=board, memory=memory)

    def scores(trace: Trace, rows: str) -> dict[str, np.ndarray]:
        points = range(len(trace.ends))
        found = [judged[rows].scores(trace.known(rows, p)) for p in points]
        return {name: np.stack([each[name] for each in found]) for name in found[0]}

    tuning = {}
    grid = list(experiment.step_sizes)
    for group in [[h] for h in grid] if subject.schedule else [grid]:
        tried = trace(0, group, size.tuning, TUNING_POINTS)
        found = {rows: scores(tried, rows) for rows in ("validation", "test")}
        for c, h in enumerate(group):
            tuning[h] = {"data_passes": (method.cost(N, tried.ends) / N).tolist()} | {
                f"{rows}_{name}": values[:, c].tolist()
                for rows, measures in found.items()
                for name, values in measures.items()
            }
    best = min(grid, key=lambda h: np.nan_to_num(tuning[h]["validation_nll"][-1], nan=np.inf))
    shown = trace(1, [best] * seeds, size.passes, size.points)
    curves = {name: scores(shown, name) for name in ("test", "train")}
    measures = judged["test"].measures
    curves["sample"] = {m: shown.snapshots["test"][..., i] for i, m in enumerate(measures)}
    measure = measures[1]
    ending = told(measure, curves["test"][measure][-1].mean())
    line.text = f"test {measure} {ending}, h N = {best:g}"
    last = {name: shown.known(name, -1) for name in judged}
    return Shown(method, N, best, tuning, shown, curves, last)


def looked_at(rows: Judged) -> Callable[[Any], Any]:
    predict = jax.jit(rows.predict)

    def look(params: Any) -> np.ndarray:
        scores = rows.scores(np.asarray(predict(params, rows.data)))
        return np.stack([scores[name] for name in rows.measures])

    return look


def outcome(
    experiment: Experiment,
    subject: Subject,
    shown: dict[str, Shown],
    size: Size,
    seeds: int,
) -> Outcome:
    measures = subject.judged["test"].measures
    measure, N = measures[1], subject.size
    rows = [
        {
            "method": name,
            "step": each.step,
            "seed": c,
            "steps": int(end),
            "data_passes": float(passes),
            "paper_passes": float(paper),
            "seconds": float(seconds),
            **{
                f"{where}_{what}": float(values[p, c])
                for where, scores in each.scores.items()
                for what, values in scores.items()
            },
        }
        for name, each in shown.items()
        for p, (end, passes, paper, seconds) in enumerate(
            zip(each.trace.ends, each.passes(), each.paper_passes(), each.seconds(), strict=True)
        )
        for c in range(seeds)
    ]
    finals = {
        name: {
            f"{where}_{what}": each.final(what, where)
            for where in ("test", "train", "sample")
            for what in measures
        }
        for name, each in shown.items()
    }
    table = Table(
        (
            "method",
            "h N",
            f"test {measure}",
            "±",
            "test NLL",
            "±",
            f"train {measure}",
            "s per pass",
        ),
        [
            (
                name,
                f"{each.step:g}",
                told(measure, finals[name][f"test_{measure}"][0]),
                told(measure, finals[name][f"test_{measure}"][1]) if seeds > 1 else None,
                finals[name]["test_nll"][0],
                finals[name]["test_nll"][1] if seeds > 1 else None,
                told(measure, finals[name][f"train_{measure}"][0]),
                f"{each.seconds()[-1] / each.passes()[-1]:.3g}",
            )
            for name, each in shown.items()
        ],
        ("", "", "", "", ".4f", ".4f", "", ""),
    )
    axes = {
        "data passes": Shown.passes,
        "passes as the paper counts (n1/m + n2 per step)": Shown.paper_passes,
        "seconds for one chain": Shown.seconds,
    }
    sections = [
        Section(
            f"Test data, against {label}",
            figure=picture(shown, axis, label, [("test", m) for m in reversed(measures)]),
            caption="Of the average prediction; means over seeds, bands from the least to the most.",
        )
        for label, axis in axes.items()
    ]
    sections += [
        Section(
            "Training data, and the current sample",
            figure=picture(
                shown, axes["data passes"], "data passes", [("train", measure), ("sample", measure)]
            ),
            caption="Above: the average prediction. Below: the last sample alone.",
        ),
        Section("At the end", table=table),
        *calibration(subject, shown),
    ]
    found = experiment.claims(shown)
    report = Report(
        title=experiment.title,
        lead=f"{len(shown)} methods, {size.passes:g} passes over {N:,} data each, {seeds} "
        f"seed{'s' if seeds > 1 else ''}; step sizes by the validation loss after {size.tuning:g} "
        "passes.",
        sections=sections,
        claims=found,
    )
    record = {
        "size": size._asdict(),
        "data": N,
        "seeds": seeds,
        "step_size_unit": "h N: the step on the mean log-likelihood",
        "step_size_grid": list(experiment.step_sizes),
        "tuning": {name: each.tuning for name, each in shown.items()},
        "chosen": {name: each.step for name, each in shown.items()},
        "diverged": {name: int(each.trace.diverged.sum()) for name, each in shown.items()},
        "final": finals,
        "keys": {"key": 0, "tuning": "fold_in 0", "shown": "fold_in 1"},
    }
    text = "\n".join("  ".join(row) for row in [list(table.header), *table.cells()])
    return Outcome(report, {"curves": rows}, record, text)


def picture(
    shown: Mapping[str, Shown], axis: Callable, label: str, panels: Sequence[tuple[str, str]]
) -> figures.Figure:
    titles = {"nll": "negative log-likelihood", "error": "error", "perplexity": "perplexity"}
    where = {"test": "test", "train": "training", "sample": "last sample, test"}

    def panel(rows: str, measure: str) -> figures.Panel:
        values = {name: each.scores[rows][measure] for name, each in shown.items()}
        return figures.Panel(
            f"{where[rows]}: {titles[measure]}",
            {name: (axis(each), values[name].mean(1)) for name, each in shown.items()},
            log_y=measure != "nll",
            bands={n: (v.min(1), v.max(1)) for n, v in values.items() if v.shape[1] > 1},
        )

    return figures.curves([panel(*each) for each in panels], x_label=label)


def calibration(subject: Subject, shown: Mapping[str, Shown]) -> list[Section]:
    """Do the probabilities of the first chain's average mean what they say; and on other data?"""
    test = subject.judged["test"]
    if test.labels is None:
        return []
    name = PAPER if PAPER in shown else next(iter(shown))
    found = {
        n: reliability(Probabilities(normal(s.last["test"][0]), test.labels))
        for n, s in shown.items()
    }
    others = [n for n in subject.judged if n not in ("validation", "test", "train")]
    header = (
        "method",
        "ECE",
        "of a calibrated one",
        "entropy, test",
        *(f"entropy, {n}" for n in others),
    )
    rows = []
    for method, each in shown.items():
        entropies = [entropy(each.last[rows][0]) for rows in ("test", *others)]
        rows.append((method, found[method].ece, found[method].expected, *entropies))
    return [
        Section(
            "Calibration",
            "ECE: how far stated probabilities are from frequencies. Entropy: the mean, in nats, of "
            "the predicted distribution over classes"
            + (
                f"; {', '.join(others)}: images of another kind, where it should be high."
                * bool(others)
            ),
            figure=reliability_figure(found[name]),
            caption=f"{name}, average prediction of the first chain on test data.",
            table=Table(header, rows, ("", ".4f", ".4f", *[".3f"] * (1 + len(others)))),
        )
    ]


def normal(table: np.ndarray) -> np.ndarray:
    """Probabilities that sum to 1 in spite of rounding."""
    return table / table.sum(-1, keepdims=True)


def entropy(table: np.ndarray) -> float:
    table = normal(table)
    return float(-(table * np.log(np.maximum(table, 1e-30))).sum(-1).mean())
