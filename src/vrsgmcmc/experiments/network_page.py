"""The page of a network: curves against three costs, step sizes, calibration, audit, statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import figures
from vrsgmcmc.audits import Audit, audit
from vrsgmcmc.experiments import Outcome
from vrsgmcmc.experiments.shown import Shown, told
from vrsgmcmc.experiments.statements import PAPER
from vrsgmcmc.reports import Report, Section, Table
from vrsgmcmc.reports.calibration import Probabilities, reliability
from vrsgmcmc.reports.pictures import reliability_figure
from vrsgmcmc.reports.run import audited
from vrsgmcmc.tree import square_norm, take
from vrsgmcmc.types import Batch, State

if TYPE_CHECKING:
    from vrsgmcmc.experiments.networks import Experiment, Size, Subject

GRADIENTS = 20
TITLES = {"nll": "negative log-likelihood", "error": "error", "perplexity": "perplexity"}


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
            f"{where}_{what}": each.final(what, where) for where in each.scores for what in measures
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
                shown,
                axes["data passes"],
                "data passes",
                [("train", measure), ("test_sample", measure)],
            ),
            caption="Above: the average prediction. Below: the last sample alone.",
        ),
        Section("At the end", table=table),
        *grid(shown, measures),
        *calibration(subject, shown),
    ]
    lengths = {} if subject.clip is None else gradient_lengths(subject, shown)
    if lengths:
        sections.append(clipping(subject, lengths))
    checked = checkup(subject, shown)
    if checked is not None:
        sections += audited(checked)
    found = experiment.claims(shown)
    steps = experiment.step_sizes
    chosen = f"step sizes by the validation loss after {size.tuning:g} passes"
    if len(steps) == 1:
        chosen = f"step size h N = {steps[0]:g}"
    report = Report(
        title=experiment.title,
        lead=f"{len(shown)} methods, {size.passes:g} passes over {N:,} data each, {seeds} "
        f"seed{'s' if seeds > 1 else ''}; {chosen}.",
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
        "audit": None if checked is None else checked.verdict,
        **({"gradient_lengths": lengths} if lengths else {}),
        "keys": {"key": 0, "tuning": "fold_in 0", "shown": "fold_in 1"},
    }
    text = "\n".join("  ".join(row) for row in [list(table.header), *table.cells()])
    return Outcome(report, {"curves": rows}, record, text)


def picture(
    shown: Mapping[str, Shown], axis: Callable, label: str, panels: Sequence[tuple[str, str]]
) -> figures.Figure:
    where = {"test": "test", "train": "training", "test_sample": "last sample, test"}

    def panel(rows: str, measure: str) -> figures.Panel:
        values = {name: each.scores[rows][measure] for name, each in shown.items()}
        return figures.Panel(
            f"{where[rows]}: {TITLES[measure]}",
            {name: (axis(each), values[name].mean(1)) for name, each in shown.items()},
            log_y=True,
            bands={n: (v.min(1), v.max(1)) for n, v in values.items() if v.shape[1] > 1},
        )

    return figures.curves([panel(*each) for each in panels], x_label=label)


def grid(shown: Mapping[str, Shown], measures: Sequence[str]) -> list[Section]:
    """The test scores of every step size, at the end of the short runs that chose among them."""
    tried = {name: each for name, each in shown.items() if each.tuning}
    if not tried:
        return []

    def panel(measure: str) -> figures.Panel:
        lines = {
            name: (
                np.array(list(each.tuning)),
                np.array([scores[f"test_{measure}"][-1] for scores in each.tuning.values()]),
            )
            for name, each in tried.items()
        }
        return figures.Panel(f"test: {TITLES[measure]}", lines, log_y=True)

    passes = max(s["data_passes"][-1] for each in tried.values() for s in each.tuning.values())
    return [
        Section(
            "Every step size",
            figure=figures.curves([panel(m) for m in reversed(measures)], x_label="step size h N"),
            caption=f"After {passes:.3g} data passes, one chain each. The validation data chose.",
        )
    ]


def checkup(subject: Subject, shown: Mapping[str, Shown]) -> Audit | None:
    """Is variance reduction helping the first chain of the paper's method, where it ended?"""
    each = shown.get(PAPER)
    if each is None or each.trace.state is None or each.trace.diverged[0]:
        return None
    step = each.step / (subject.size * subject.together)
    if subject.schedule is not None:
        step *= float(subject.schedule(int(each.trace.ends[-1])))
    return audit(
        subject.posterior,
        subject.data,
        jax.tree.map(lambda leaf: leaf[:1], each.trace.state),
        estimator=each.method.estimator,
        integrator=each.method.integrator,
        step_size=step,
        batch_size=each.method.batch_size,
        order=each.method.order,
        anchor_order=each.method.anchor_order,
    )


def gradient_lengths(subject: Subject, shown: Mapping[str, Shown]) -> dict[str, list[float]]:
    """|g| / N of some estimates at the end of each first chain, before they are shortened."""
    found = {}
    for name, each in shown.items():
        method, state = each.method, each.trace.state
        if state is None or each.trace.diverged[0]:
            continue
        plain = method.kernel(subject.posterior, subject.size)
        state = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), state)

        @jax.jit
        def length(key: Any, state: State, data: Any, plain: Any = plain) -> Any:
            draw, move = jax.random.split(key)
            index = jax.random.choice(draw, subject.size, (plain.batch_size,), replace=False)
            info = plain.step(move, state, Batch(index, take(data, index)), 1e-9)[1]
            return jnp.sqrt(square_norm(info.gradient)) / subject.size

        keys = jax.random.split(jax.random.key(7), GRADIENTS)
        found[name] = [float(length(key, state, subject.data)) for key in keys]
    return found


def clipping(subject: Subject, lengths: Mapping[str, Sequence[float]]) -> Section:
    rows = [
        (name, float(np.median(each)), float(np.mean(np.array(each) > subject.clip)))
        for name, each in lengths.items()
    ]
    return Section(
        "Gradients that are shortened",
        f"Gradients of the mean log-likelihood longer than {subject.clip:g} are shortened to that. "
        "Where this happens often the drift has a direction but no size, and the chain does not sample "
        "the posterior.",
        table=Table(("method", "median length", "shortened"), rows, ("", ".3g", ".0%")),
        caption=f"{GRADIENTS} estimates at the end of the first chain.",
    )


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
