"""The page of a network: curves against three costs, step sizes, checks, claims."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from vrsgmcmc.reports import Report, Section, Table, audit_sections, figures

from . import network_checks
from .curves import AXES, MethodResult, Results, format_score, three_digits
from .experiment import Experiment, Size, Subject
from .settings import Outcome

TITLES = {"nll": "negative log-likelihood", "error": "error", "perplexity": "perplexity"}
ROWS = {"test": "test", "train": "training"}
ROWS |= {f"{name}_sample": f"last sample, {label}" for name, label in ROWS.items()}


def outcome(
    experiment: Experiment, subject: Subject, results: Results, size: Size, seeds: int
) -> Outcome:
    measures = subject.evaluation["test"].measures
    table = final_table(results, measures[1], seeds)
    calibration, calibration_section = network_checks.check_calibration(subject, results)
    lengths, clip_section = network_checks.check_clip(subject, results)
    verdict = network_checks.audit_paper_method(subject, results)
    division = " The time of all chains is divided by their number." * (seeds > 1)
    sections = [
        *(
            Section(
                f"Test data, against {label}",
                figure=draw(results, label, "test"),
                caption="Of the average prediction; means over seeds, bands from the least to the "
                "most." + division * (axis is MethodResult.seconds),
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
        *calibration_section,
        *clip_section,
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


def curve_rows(results: Results, seeds: int) -> list[dict[str, Any]]:
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


def final_table(results: Results, measure: str, seeds: int) -> Table:
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


def at_grid_end(results: Results) -> list[str]:
    """The methods whose step size is the least or the largest of the grid."""
    return [
        name
        for name, each in results.items()
        if each.tuning and each.step in (min(each.tuning), max(each.tuning))
    ]


def draw(results: Results, label: str, *rows: str) -> Callable[..., figures.Figure]:
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
    panels = [panel(r, m) for r in rows for m in reversed(measures)]
    return partial(figures.curves, panels, x_label=label)


def step_size_section(results: Results, measures: Sequence[str]) -> Iterator[Section]:
    """The scores of every step size at the end of the tuning runs."""
    grids = {name: each for name, each in results.items() if each.tuning}
    if not grids:
        return

    def panel(measure: str) -> figures.Panel:
        lines = {
            name: (
                np.array(list(each.tuning)),
                np.array([scores[f"validation_{measure}"][-1] for scores in each.tuning.values()]),
            )
            for name, each in grids.items()
        }
        return figures.Panel(f"validation: {TITLES[measure]}", lines, log_y=True)

    passes = max(s["data_passes"][-1] for each in grids.values() for s in each.tuning.values())
    edge = at_grid_end(grids)
    yield Section(
        "Every step size",
        figure=partial(
            figures.curves, [panel(m) for m in reversed(measures)], x_label="step size h N"
        ),
        caption=f"After {passes:.3g} data passes, one chain each. The lowest loss was chosen"
        + (f", for {'; '.join(edge)} at an end of the grid." if edge else "."),
    )
