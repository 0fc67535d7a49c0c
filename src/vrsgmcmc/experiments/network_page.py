"""The page of a network: curves against three costs, step sizes, calibration, audit, claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.advice import Audit, audit
from vrsgmcmc.core import Batch, State, square_norm, take
from vrsgmcmc.experiments.curves import AXES, MethodResult, format_score, three_digits
from vrsgmcmc.experiments.experiment import Experiment, Size, Subject
from vrsgmcmc.experiments.methods import PAPER
from vrsgmcmc.experiments.settings import Outcome
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

GRADIENTS = 20
TITLES = {"nll": "negative log-likelihood", "error": "error", "perplexity": "perplexity"}
ROWS = {
    **{"test": "test", "train": "training"},
    **{"test_sample": "last sample, test", "train_sample": "last sample, training"},
}


def outcome(
    experiment: Experiment,
    subject: Subject,
    results: dict[str, MethodResult],
    size: Size,
    seeds: int,
) -> Outcome:
    measures = subject.evaluation["test"].measures
    table = final_table(results, measures[1], seeds)
    calibration = calibrate(subject, results)
    lengths = {} if subject.task.clip is None else gradient_lengths(subject, results)
    verdict = audit_paper_method(subject, results)
    divided = " The time of all chains is divided by their number." * (seeds > 1)
    sections = [
        *(
            Section(
                f"Test data, against {label}",
                figure=draw(results, label, "test"),
                caption="Of the average prediction; means over seeds, bands from the least to the "
                "most." + divided * (axis is MethodResult.seconds),
            )
            for label, axis in AXES.items()
        ),
        Section(
            "Training data, against data passes",
            figure=draw(results, "data passes", "train"),
            caption="Of the average prediction.",
        ),
        Section(
            "The last sample alone, against data passes",
            figure=draw(results, "data passes", "test_sample", "train_sample"),
        ),
        Section("At the end", table=table),
        *step_size_section(results, measures),
        *calibration_section(subject, results, calibration),
        *clip_section(subject, lengths),
        *audit_sections(verdict),
    ]
    choice = f"step sizes by the validation loss after {size.tuning:g} passes"
    if len(experiment.step_sizes) == 1:
        choice = f"step size h N = {experiment.step_sizes[0]:g}"
    report = Report(
        title=experiment.title,
        lead=f"{len(results)} methods, {size.passes:g} passes over {subject.size:,} data each, "
        f"{seeds} seed{'s' if seeds > 1 else ''}; {choice}.",
        sections=sections,
        claims=experiment.claims(results),
    )
    record = {
        "size": size._asdict(),
        "data": subject.size,
        "seeds": seeds,
        "step_size_unit": "h N: the step on the mean log-likelihood",
        "step_size_grid": list(experiment.step_sizes),
        "tuning": {name: each.tuning for name, each in results.items()},
        "chosen": {name: each.step for name, each in results.items()},
        "chosen_at_the_end_of_the_grid": at_grid_end(results),
        "diverged": {name: int(each.trace.diverged.sum()) for name, each in results.items()},
        "final": {
            name: {
                f"{rows}_{measure}": each.final(measure, rows)
                for rows in each.scores
                for measure in measures
            }
            for name, each in results.items()
        },
        "calibration": calibration,
        "audit": None if verdict is None else verdict.verdict,
        "gradient_lengths": lengths,
        "keys": {"key": 0, "tuning": "fold_in 0", "shown": "fold_in 1"},
    }
    text = "\n".join("  ".join(row) for row in [list(table.header), *table.cells()])
    return Outcome(report, {"curves": curve_rows(results, seeds)}, record, text)


def curve_rows(results: Mapping[str, MethodResult], seeds: int) -> list[dict[str, Any]]:
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
                f"{rows}_{measure}": float(values[p, c])
                for rows, scores in each.scores.items()
                for measure, values in scores.items()
            },
        }
        for name, each in results.items()
        for p, (end, passes, paper, seconds) in enumerate(
            zip(each.trace.ends, each.passes(), each.paper_passes(), each.seconds(), strict=True)
        )
        for c in range(seeds)
    ]


def final_table(results: Mapping[str, MethodResult], measure: str, seeds: int) -> Table:
    def row(name: str, each: MethodResult) -> tuple:
        (score, score_error), (nll, nll_error) = each.final(measure), each.final("nll")
        return (
            name,
            f"{each.step:g}",
            format_score(measure, score),
            format_score(measure, score_error) if seeds > 1 else None,
            nll,
            nll_error if seeds > 1 else None,
            format_score(measure, each.final(measure, "train")[0]),
            three_digits(each.seconds()[-1] / each.passes()[-1]),
        )

    names = f"test {measure}", "±", "test NLL", "±", f"train {measure}", "s per pass"
    rows = [row(name, each) for name, each in results.items()]
    return Table(("method", "h N", *names), rows, ("", "", "", "", ".4f", ".4f", "", ""))


def at_grid_end(results: Mapping[str, MethodResult]) -> list[str]:
    """The methods whose step size is the least or the largest of the grid."""
    return [
        name
        for name, each in results.items()
        if each.tuning and each.step in (min(each.tuning), max(each.tuning))
    ]


def draw(results: Mapping[str, MethodResult], label: str, *rows: str) -> figures.Figure:
    """Both scores of some rows against a cost."""

    def panel(part: str, measure: str) -> figures.Panel:
        values = {name: each.scores[part][measure] for name, each in results.items()}
        return figures.Panel(
            f"{ROWS[part]}: {TITLES[measure]}",
            {name: (AXES[label](each), values[name].mean(1)) for name, each in results.items()},
            log_y=True,
            bands={n: (v.min(1), v.max(1)) for n, v in values.items() if v.shape[1] > 1},
        )

    measures = next(iter(results.values())).measures
    return figures.curves([panel(r, m) for r in rows for m in reversed(measures)], x_label=label)


def step_size_section(
    results: Mapping[str, MethodResult], measures: Sequence[str]
) -> list[Section]:
    """The scores of every step size at the end of the tuning runs."""
    tuned = {name: each for name, each in results.items() if each.tuning}
    if not tuned:
        return []

    def panel(measure: str) -> figures.Panel:
        lines = {
            name: (
                np.array(list(each.tuning)),
                np.array([scores[f"validation_{measure}"][-1] for scores in each.tuning.values()]),
            )
            for name, each in tuned.items()
        }
        return figures.Panel(f"validation: {TITLES[measure]}", lines, log_y=True)

    passes = max(s["data_passes"][-1] for each in tuned.values() for s in each.tuning.values())
    edge = at_grid_end(tuned)
    return [
        Section(
            "Every step size",
            figure=figures.curves([panel(m) for m in reversed(measures)], x_label="step size h N"),
            caption=f"After {passes:.3g} data passes, one chain each. The lowest loss was chosen"
            + (f", for {'; '.join(edge)} at an end of the grid." if edge else "."),
        )
    ]


def audit_paper_method(subject: Subject, results: Mapping[str, MethodResult]) -> Audit | None:
    """Audit the last state of the first finite chain of the paper's method."""
    each = results.get(PAPER)
    if each is None or each.trace.state is None or (c := each.trace.first_finite_chain) is None:
        return None
    step = each.step / (subject.size * subject.images_per_datum)
    if subject.task.schedule is not None:
        step *= float(subject.task.schedule(int(each.trace.ends[-1])))
    return audit(
        subject.task.posterior,
        subject.task.data,
        jax.tree.map(lambda leaf: leaf[c : c + 1], each.trace.state),
        estimator=each.sampler.estimator,
        integrator=each.sampler.integrator,
        step_size=step,
        batch_size=each.sampler.batch_size,
        order=each.sampler.order,
        anchor_order=each.sampler.anchor_order,
    )


def gradient_lengths(
    subject: Subject, results: Mapping[str, MethodResult]
) -> dict[str, list[float]]:
    """|g| / N of some estimates before the clip, at the last state of each first finite chain."""
    lengths = {}
    for name, each in results.items():
        state, c = each.trace.state, each.trace.first_finite_chain
        if state is None or c is None:
            continue
        kernel = subject.task.kernel(each.sampler)
        state = jax.tree.map(lambda leaf, c=c: jnp.asarray(leaf[c]), state)

        @jax.jit
        def length(key: Any, state: State, data: Any, kernel: Any = kernel) -> Any:
            draw, move = jax.random.split(key)
            index = jax.random.choice(draw, subject.size, (kernel.batch_size,), replace=False)
            info = kernel.step(move, state, Batch(index, take(data, index)), 1e-9)[1]
            return jnp.sqrt(square_norm(info.gradient)) / subject.size

        keys = jax.random.split(jax.random.key(7), GRADIENTS)
        lengths[name] = [float(length(key, state, subject.task.data)) for key in keys]
    return lengths


def clip_section(subject: Subject, lengths: Mapping[str, Sequence[float]]) -> list[Section]:
    if not lengths:
        return []
    rows = [
        (name, float(np.median(each)), float(np.mean(np.array(each) > subject.task.clip)))
        for name, each in lengths.items()
    ]
    return [
        Section(
            "Gradients that are shortened",
            "Gradients of the mean log-likelihood longer than "
            f"{subject.task.clip:g} are shortened to that. Where this happens often the drift has a "
            "direction but no size, and the chain does not sample the posterior. The audit that "
            "follows is of gradients as they are.",
            table=Table(("method", "median length", "shortened"), rows, ("", ".3g", ".0%")),
            caption=f"{GRADIENTS} estimates at the end of the first chain.",
        )
    ]


def calibrate(subject: Subject, results: Mapping[str, MethodResult]) -> dict[str, dict[str, float]]:
    """Calibration error and entropies of the average prediction of each first finite chain."""
    labels = subject.evaluation["test"].labels
    if labels is None:
        return {}
    calibration = {}
    for name, each in results.items():
        if (c := each.trace.first_finite_chain) is not None:
            curve = reliability(Probabilities(normalise(each.last["test"][c]), labels))
            calibration[name] = {"ECE": curve.ece, "of a calibrated one": curve.calibrated_ece} | {
                f"entropy, {n}": entropy(each.last[n][c]) for n in ("test", *other_rows(subject))
            }
    return calibration


def calibration_section(
    subject: Subject,
    results: Mapping[str, MethodResult],
    calibration: Mapping[str, Mapping[str, float]],
) -> list[Section]:
    if not calibration:
        return []
    name, others = PAPER if PAPER in calibration else next(iter(calibration)), other_rows(subject)
    average = results[name].last["test"][results[name].trace.first_finite_chain]
    predicted = Probabilities(normalise(average), subject.evaluation["test"].labels)
    columns = list(calibration[name])
    return [
        Section(
            "Calibration",
            "ECE: how far stated probabilities are from frequencies. Entropy: the mean, in nats, of "
            "the predicted distribution over classes"
            + f"; {', '.join(others)}: images of another kind, where it should be high."
            * bool(others),
            figure=reliability_figure(reliability(predicted)),
            caption=f"{name}, average prediction of the first chain on test data.",
            table=Table(
                ("method", *columns),
                [(n, *each.values()) for n, each in calibration.items()],
                ("", ".4f", ".4f", *[".3f"] * (len(columns) - 2)),
            ),
        )
    ]


def other_rows(subject: Subject) -> list[str]:
    """The evaluation sets that hold data of another kind."""
    return [name for name in subject.evaluation if name not in ("validation", "test", "train")]


def normalise(table: np.ndarray) -> np.ndarray:
    """Probabilities that sum to 1 in spite of rounding."""
    return table / table.sum(-1, keepdims=True)


def entropy(table: np.ndarray) -> float:
    table = normalise(table)
    return float(-(table * np.log(np.maximum(table, 1e-30))).sum(-1).mean())
