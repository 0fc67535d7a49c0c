"""The page of a network: curves against three costs, step sizes, calibration, audit, statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.advice import Audit, audit
from vrsgmcmc.core import Batch, State, square_norm, take
from vrsgmcmc.experiments.claims import PAPER
from vrsgmcmc.experiments.settings import Outcome
from vrsgmcmc.experiments.shown import Shown, three_digits, told
from vrsgmcmc.reports import (
    Probabilities,
    Report,
    Section,
    Table,
    audit_sections,
    figures,
    reliability,
    reliability_figure,
)

if TYPE_CHECKING:
    from vrsgmcmc.experiments.networks import Experiment, Size, Subject

GRADIENTS = 20
TITLES = {"nll": "negative log-likelihood", "error": "error", "perplexity": "perplexity"}
WHERE = {
    **{"test": "test", "train": "training"},
    **{"test_sample": "last sample, test", "train_sample": "last sample, training"},
}
DIVIDED = " The time of all chains is divided by their number."
AXES = {
    "data passes": Shown.passes,
    "passes as the paper counts (n1/m + n2 per step)": Shown.paper_passes,
    "seconds for one chain": Shown.seconds,
}


def outcome(
    experiment: Experiment,
    subject: Subject,
    shown: dict[str, Shown],
    size: Size,
    seeds: int,
) -> Outcome:
    measures = subject.judged["test"].measures
    table = at_the_end(shown, measures[1], seeds)
    calibrated = calibration(subject, shown)
    lengths = {} if subject.task.clip is None else gradient_lengths(subject, shown)
    checked = checkup(subject, shown)
    sections = [
        *(
            Section(
                f"Test data, against {label}",
                figure=picture(shown, label, "test"),
                caption="Of the average prediction; means over seeds, bands from the least to the "
                "most." + DIVIDED * (axis is Shown.seconds and seeds > 1),
            )
            for label, axis in AXES.items()
        ),
        Section(
            "Training data, against data passes",
            figure=picture(shown, "data passes", "train"),
            caption="Of the average prediction.",
        ),
        Section(
            "The last sample alone, against data passes",
            figure=picture(shown, "data passes", "test_sample", "train_sample"),
        ),
        Section("At the end", table=table),
        *grid(shown, measures),
        *reliability_section(subject, shown, calibrated),
        *clipping(subject, lengths),
        *audit_sections(checked),
    ]
    chosen = f"step sizes by the validation loss after {size.tuning:g} passes"
    if len(experiment.step_sizes) == 1:
        chosen = f"step size h N = {experiment.step_sizes[0]:g}"
    report = Report(
        title=experiment.title,
        lead=f"{len(shown)} methods, {size.passes:g} passes over {subject.size:,} data each, {seeds} "
        f"seed{'s' if seeds > 1 else ''}; {chosen}.",
        sections=sections,
        claims=experiment.claims(shown),
    )
    record = {
        "size": size._asdict(),
        "data": subject.size,
        "seeds": seeds,
        "step_size_unit": "h N: the step on the mean log-likelihood",
        "step_size_grid": list(experiment.step_sizes),
        "tuning": {name: each.tuning for name, each in shown.items()},
        "chosen": {name: each.step for name, each in shown.items()},
        "chosen_at_the_end_of_the_grid": at_the_edge(shown),
        "diverged": {name: int(each.trace.diverged.sum()) for name, each in shown.items()},
        "final": {
            name: {
                f"{rows}_{measure}": each.final(measure, rows)
                for rows in each.scores
                for measure in measures
            }
            for name, each in shown.items()
        },
        "calibration": calibrated,
        "audit": None if checked is None else checked.verdict,
        "gradient_lengths": lengths,
        "keys": {"key": 0, "tuning": "fold_in 0", "shown": "fold_in 1"},
    }
    text = "\n".join("  ".join(row) for row in [list(table.header), *table.cells()])
    return Outcome(report, {"curves": points(shown, seeds)}, record, text)


def points(shown: Mapping[str, Shown], seeds: int) -> list[dict[str, Any]]:
    """A row for every point of every curve."""
    return [
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


def at_the_end(shown: Mapping[str, Shown], measure: str, seeds: int) -> Table:
    def row(name: str, each: Shown) -> tuple:
        (score, score_error), (nll, nll_error) = each.final(measure), each.final("nll")
        return (
            name,
            f"{each.step:g}",
            told(measure, score),
            told(measure, score_error) if seeds > 1 else None,
            nll,
            nll_error if seeds > 1 else None,
            told(measure, each.final(measure, "train")[0]),
            three_digits(each.seconds()[-1] / each.passes()[-1]),
        )

    names = f"test {measure}", "±", "test NLL", "±", f"train {measure}", "s per pass"
    rows = [row(name, each) for name, each in shown.items()]
    return Table(("method", "h N", *names), rows, ("", "", "", "", ".4f", ".4f", "", ""))


def at_the_edge(shown: Mapping[str, Shown]) -> list[str]:
    """The methods that might have liked a step size beyond those of the grid."""
    return [
        name
        for name, each in shown.items()
        if each.tuning and each.step in (min(each.tuning), max(each.tuning))
    ]


def picture(shown: Mapping[str, Shown], label: str, *rows: str) -> figures.Figure:
    """Both scores of some rows against a cost."""
    axis = AXES[label]

    def panel(where: str, measure: str) -> figures.Panel:
        values = {name: each.scores[where][measure] for name, each in shown.items()}
        return figures.Panel(
            f"{WHERE[where]}: {TITLES[measure]}",
            {name: (axis(each), values[name].mean(1)) for name, each in shown.items()},
            log_y=True,
            bands={n: (v.min(1), v.max(1)) for n, v in values.items() if v.shape[1] > 1},
        )

    measures = next(iter(shown.values())).measures
    return figures.curves([panel(r, m) for r in rows for m in reversed(measures)], x_label=label)


def grid(shown: Mapping[str, Shown], measures: Sequence[str]) -> list[Section]:
    """The scores of every step size, at the end of the short runs that chose among them."""
    tried = {name: each for name, each in shown.items() if each.tuning}
    if not tried:
        return []

    def panel(measure: str) -> figures.Panel:
        lines = {
            name: (
                np.array(list(each.tuning)),
                np.array([scores[f"validation_{measure}"][-1] for scores in each.tuning.values()]),
            )
            for name, each in tried.items()
        }
        return figures.Panel(f"validation: {TITLES[measure]}", lines, log_y=True)

    passes = max(s["data_passes"][-1] for each in tried.values() for s in each.tuning.values())
    edge = at_the_edge(tried)
    return [
        Section(
            "Every step size",
            figure=figures.curves([panel(m) for m in reversed(measures)], x_label="step size h N"),
            caption=f"After {passes:.3g} data passes, one chain each. The lowest loss was chosen"
            + (f", for {'; '.join(edge)} at an end of the grid." if edge else "."),
        )
    ]


def checkup(subject: Subject, shown: Mapping[str, Shown]) -> Audit | None:
    """Is variance reduction helping the paper's method, where its first finite chain ended?"""
    each = shown.get(PAPER)
    if each is None or each.trace.state is None or (c := each.trace.sound) is None:
        return None
    step = each.step / (subject.size * subject.together)
    if subject.task.schedule is not None:
        step *= float(subject.task.schedule(int(each.trace.ends[-1])))
    return audit(
        subject.task.posterior,
        subject.task.data,
        jax.tree.map(lambda leaf: leaf[c : c + 1], each.trace.state),
        estimator=each.method.estimator,
        integrator=each.method.integrator,
        step_size=step,
        batch_size=each.method.batch_size,
        order=each.method.order,
        anchor_order=each.method.anchor_order,
    )


def gradient_lengths(subject: Subject, shown: Mapping[str, Shown]) -> dict[str, list[float]]:
    """|g| / N of some estimates where each first finite chain ended, before they are shortened."""
    found = {}
    for name, each in shown.items():
        method, state = each.method, each.trace.state
        if state is None or (c := each.trace.sound) is None:
            continue
        plain = method.kernel(subject.task.posterior, subject.size)
        state = jax.tree.map(lambda leaf, c=c: jnp.asarray(leaf[c]), state)

        @jax.jit
        def length(key: Any, state: State, data: Any, plain: Any = plain) -> Any:
            draw, move = jax.random.split(key)
            index = jax.random.choice(draw, subject.size, (plain.batch_size,), replace=False)
            info = plain.step(move, state, Batch(index, take(data, index)), 1e-9)[1]
            return jnp.sqrt(square_norm(info.gradient)) / subject.size

        keys = jax.random.split(jax.random.key(7), GRADIENTS)
        found[name] = [float(length(key, state, subject.task.data)) for key in keys]
    return found


def clipping(subject: Subject, lengths: Mapping[str, Sequence[float]]) -> Iterator[Section]:
    if not lengths:
        return
    rows = [
        (name, float(np.median(each)), float(np.mean(np.array(each) > subject.task.clip)))
        for name, each in lengths.items()
    ]
    yield Section(
        "Gradients that are shortened",
        "Gradients of the mean log-likelihood longer than "
        f"{subject.task.clip:g} are shortened to that. Where this happens often the drift has a "
        "direction but no size, and the chain does not sample the posterior. The audit that follows "
        "is of gradients as they are.",
        table=Table(("method", "median length", "shortened"), rows, ("", ".3g", ".0%")),
        caption=f"{GRADIENTS} estimates at the end of the first chain.",
    )


def calibration(subject: Subject, shown: Mapping[str, Shown]) -> dict[str, dict[str, float]]:
    """Of the first finite chain's average: do its probabilities mean what they say; and elsewhere?"""
    labels = subject.judged["test"].labels
    if labels is None:
        return {}

    def of(each: Shown, c: int) -> dict[str, float]:
        found = reliability(Probabilities(normal(each.last["test"][c]), labels))
        unsure = {f"entropy, {n}": entropy(each.last[n][c]) for n in ("test", *others(subject))}
        return {"ECE": found.ece, "of a calibrated one": found.calibrated_ece, **unsure}

    sound = {name: each.trace.sound for name, each in shown.items()}
    return {name: of(shown[name], c) for name, c in sound.items() if c is not None}


def reliability_section(
    subject: Subject, shown: Mapping[str, Shown], calibrated: Mapping[str, Mapping[str, float]]
) -> Iterator[Section]:
    if not calibrated:
        return
    name, elsewhere = PAPER if PAPER in calibrated else next(iter(calibrated)), others(subject)
    average = shown[name].last["test"][shown[name].trace.sound]
    predicted = Probabilities(normal(average), subject.judged["test"].labels)
    columns = list(calibrated[name])
    yield Section(
        "Calibration",
        "ECE: how far stated probabilities are from frequencies. Entropy: the mean, in nats, of "
        "the predicted distribution over classes"
        + f"; {', '.join(elsewhere)}: images of another kind, where it should be high."
        * bool(elsewhere),
        figure=reliability_figure(reliability(predicted)),
        caption=f"{name}, average prediction of the first chain on test data.",
        table=Table(
            ("method", *columns),
            [(n, *each.values()) for n, each in calibrated.items()],
            ("", ".4f", ".4f", *[".3f"] * (len(columns) - 2)),
        ),
    )


def others(subject: Subject) -> list[str]:
    """Rows of another kind."""
    return [name for name in subject.judged if name not in ("validation", "test", "train")]


def normal(table: np.ndarray) -> np.ndarray:
    """Probabilities that sum to 1 in spite of rounding."""
    return table / table.sum(-1, keepdims=True)


def entropy(table: np.ndarray) -> float:
    table = normal(table)
    return float(-(table * np.log(np.maximum(table, 1e-30))).sum(-1).mean())
