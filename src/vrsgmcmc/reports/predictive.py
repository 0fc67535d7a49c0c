"""The sections about predictions: scores beside a baseline, calibration, confusions, residuals."""

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from .calibration import (
    LEVELS,
    Coverage,
    Predictions,
    Probabilities,
    Reliability,
    coverage,
    label_scores,
    reliability,
)
from .page import Section, Table, cell
from .pictures import coverage_figure, reliability_figure, residual_figure

MOST_CLASSES = 12  # in a table of all pairs
MOST_PAIRS = 15  # of classes that are mistaken, where there are more classes
TERMS = {
    "accuracy": "Accuracy: the share of rows whose likeliest class is the right one.",
    "nll": "Negative log-likelihood: less is better; certain and wrong costs most.",
    "brier": "",
    "rmse": "RMSE: the root mean squared error of the predictive mean, in the target's unit.",
}
NAMES = {"nll": "negative log-likelihood", "brier": "Brier score", "rmse": "RMSE"}
HIGHER = {"accuracy", "r2", "log likelihood", "test log likelihood"}  # is better


def predictive_sections(
    predictive: Probabilities | Predictions | None,
    scores: Mapping[str, float] = MappingProxyType({}),
    baseline: Mapping[str, float] = MappingProxyType({}),
) -> Iterator[Section]:
    """What the model predicts for test rows; `scores` and `baseline` are shown beside its own."""
    if isinstance(predictive, Probabilities):
        bins = reliability(predictive)
        own = {name: getattr(bins, name) for name in ("accuracy", "nll", "brier")}
        simple, about = label_baseline(predictive)
        yield score_section(own | dict(scores), simple | dict(baseline), about, bins.count.sum())
        yield calibration_section(predictive, bins)
        yield confusion_section(predictive)
    elif predictive is not None:
        intervals = coverage(predictive)
        simple, about = number_baseline(predictive)
        count = intervals.ranks.size
        yield score_section(
            {"rmse": intervals.rmse, **scores}, simple | dict(baseline), about, count
        )
        yield residual_section(predictive)
        yield coverage_section(intervals)
    elif scores:
        yield score_section(dict(scores), dict(baseline), "It uses no column.", None)


def label_baseline(predictive: Probabilities) -> tuple[dict[str, float], str]:
    """The scores of the classes' shares as the prediction for every row."""
    labels, count = np.asarray(predictive.labels, int), predictive.table.shape[1]
    shares = predictive.shares
    where = "training rows" if shares is not None else "test rows themselves"
    if shares is None:
        shares = np.bincount(labels, minlength=count) / labels.size
    shares = np.asarray(shares, np.float64)
    most = int(shares.argmax())
    about = (
        f"The baseline uses no column: it predicts the shares of the classes in the {where}, so its "
        f"likeliest class is always {predictive.name(most)} ({shares[most]:.1%})."
    )
    return label_scores(np.tile(shares, (labels.size, 1)), labels), about


def number_baseline(predictive: Predictions) -> tuple[dict[str, float], str]:
    """The scores of one number as the prediction for every row."""
    targets = np.asarray(predictive.targets, np.float64)
    center = predictive.center
    where = "training rows" if center is not None else "test rows themselves"
    center = targets.mean() if center is None else center
    about = (
        f"The baseline uses no column: it predicts the mean of the {where}, {cell(float(center))}."
    )
    return {"rmse": float(np.sqrt(np.mean((targets - center) ** 2)))}, about


def score_section(
    scores: Mapping[str, float], baseline: Mapping[str, float], about: str, count: float | None
) -> Section:
    """Scores, each beside that of the prediction that says nothing."""
    own, simple = (
        {name.lower().replace("_", " "): value for name, value in each.items()}
        for each in (scores, baseline)
    )
    keys, rows = dict.fromkeys((*own, *simple)), []
    for key in keys:
        one, other, better = own.get(key), simple.get(key), None
        if one is not None and other is not None:
            better = "better" if one != other and (one > other) == (key in HIGHER) else "no better"
        rows.append((NAMES.get(key, key), one, other, better))
    terms = [TERMS[key] for key in keys if TERMS.get(key)]
    if "brier" in keys:
        terms.append(
            "Brier score: the mean of (p - y)², as scikit-learn's brier_score_loss; of more than two "
            "classes the sum over the classes. 0 is best."
        )
    on = "" if count is None else f"On {int(count):,} rows that were not used to fit. "
    return Section(
        "How well does it predict?",
        on + about,
        table=Table(("score", "model", "baseline", "model is"), rows),
        caption=" ".join(terms),
    )


def calibration_section(predictive: Probabilities, bins: Reliability) -> Section:
    name = predictive.name(1) if bins.binary else "the likeliest class"
    return Section(
        "Are its probabilities right?",
        f"Of the rows to which it gives a probability of 70 % of {name}, 70 % should be {name}. The "
        f"expected calibration error is {bins.ece:.3f}; with so many rows a perfectly calibrated model "
        f"would show about {bins.calibrated_ece:.3f}."
        if bins.binary
        else f"Of the predictions with a probability of 70 %, 70 % should be right. The expected "
        f"calibration error is {bins.ece:.3f}; with so many rows a perfectly calibrated model would "
        f"show about {bins.calibrated_ece:.3f}.",
        figure=partial(reliability_figure, bins, name=name),
        caption=f"Probabilities of {name}, in bins of width 0.1. Grey bars: where a calibrated model's "
        "points would lie 19 times in 20.",
        alt="Observed frequency against predicted probability, with the numbers of the table below.",
        more=[
            (
                "The bins",
                Table(
                    ("predicted", "observed", "test data", "calibrated: from", "to"),
                    list(zip(*bins[:5], strict=True)),
                    (".3f", ".3f", ",.0f", ".3f", ".3f"),
                ),
            )
        ],
    )


def confusion_section(predictive: Probabilities) -> Section:
    """How often each class is predicted for each, or the pairs that are mistaken most often."""
    table, labels = predictive.table, np.asarray(predictive.labels, int)
    best, count = table.argmax(1), table.shape[1]
    pairs = np.zeros((count, count), int)
    np.add.at(pairs, (labels, best), 1)
    names = [predictive.name(k) for k in range(count)]
    wrong = int(pairs.sum() - np.trace(pairs))
    text = f"The likeliest class is wrong for {wrong:,} of {labels.size:,} rows."
    if count <= MOST_CLASSES:
        header = ("is, predicted as", *names, "right")
        rows = [
            (name, *row.tolist(), f"{row[k] / row.sum():.0%}" if row.sum() else None)
            for k, (name, row) in enumerate(zip(names, pairs, strict=True))
        ]
        return Section("Which classes does it confuse?", text, table=Table(header, rows))
    np.fill_diagonal(pairs, 0)
    order = np.argsort(-pairs, axis=None, kind="stable")[:MOST_PAIRS]
    rows = [
        (names[k // count], names[k % count], int(pairs.flat[k])) for k in order if pairs.flat[k]
    ]
    return Section(
        "Which classes does it confuse?",
        f"{text} The pairs that it confuses most often:" if rows else text,
        table=Table(("is", "predicted as", "rows"), rows) if rows else None,
    )


def residual_section(predictive: Predictions) -> Section:
    mean = predictive.mean
    mean = np.mean(predictive.draws, axis=0) if mean is None else np.asarray(mean)
    residuals = np.asarray(predictive.targets, np.float64) - mean
    low, half, high = np.quantile(residuals, (0.05, 0.5, 0.95))
    return Section(
        "How far off is it?",
        f"Half of the residuals (observed minus predicted) are below {cell(float(half))}, nine of ten "
        f"between {cell(float(low))} and {cell(float(high))}.",
        figure=partial(residual_figure, mean, residuals),
        caption="Each point is a row. A trend or a funnel is structure that the model does not have.",
        alt="Residuals of the test rows against the predictive mean.",
    )


def coverage_section(intervals: Coverage) -> Section:
    rows = [(f"{100 * a:.0f} %", 100 * intervals.at(a), 100 * intervals.chance(a)) for a in LEVELS]
    return Section(
        "Do its intervals hold?",
        f"A 90 % interval should contain 90 % of the targets; it contains {intervals.at(0.9):.1%}.",
        figure=partial(coverage_figure, intervals),
        caption="Grey band: where a calibrated model's curve would pass 19 times in 20, at each level.",
        table=Table(("interval", "holds %", "± by chance"), rows, ("", ".1f", ".1f")),
        alt="Coverage of central predictive intervals, with the numbers of the table below.",
    )
