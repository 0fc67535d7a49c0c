"""The target: classes, counts or a number, and the model that suits it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .frame import number_text
from .prepare import FEW_VALUES, MOST_CLASSES
from .readings import Reading

KINDS = {
    "logistic": "classes",
    "softmax": "classes",
    "ordinal": "classes",
    "poisson": "count",
    "negative_binomial": "count",
    "linear": "number",
    "robust": "number",
}
LARGEST_COUNT = 2**31 - 1
USUAL_COUNT = 20  # the median of what is taken for counts is at most that
ROUNDS = 25
MOST_FITTED = 10**6  # cells of the design in which overdispersion is looked for


class Choice(NamedTuple):
    """What a target is, before the training rows are chosen."""

    kind: str
    model: str
    labels: tuple[str, ...]
    y: np.ndarray  # codes, counts or numbers; of a row without a target -1 or NaN
    note: str


def choose_target(name: str, reading: Reading, model: str = "") -> Choice:
    """The kind of a target and its model; or `model`, if the target allows it."""
    values = reading.values
    if reading.kind == "level":
        return check_classes(name, values, reading.levels, model, "it is text")
    different = np.unique(values[~np.isnan(values)])
    if not different.size:
        raise ValueError(f"target {name!r} has no values.")
    if different.size == 1:
        raise ValueError(
            f"target {name!r} is {number_text(different[0])} in every row: nothing to predict."
        )
    whole = bool((different == np.round(different)).all()) and reading.kind == "number"
    kind = KINDS.get(model) or usual_kind(values, different, whole)
    if kind == "classes":
        if different.size > FEW_VALUES or (model == "logistic" and different.size > 2):
            raise ValueError(
                f"target {name!r} has {different.size} different numbers: these are no classes of "
                f"{model}. Use {'softmax' if different.size <= FEW_VALUES else 'linear'}."
            )
        codes = np.where(np.isnan(values), -1, np.searchsorted(different, values)).astype(np.int32)
        labels = tuple(map(number_text, different))
        why = "few whole numbers" if whole else "few different numbers"
        why = "two different values" if different.size == 2 else why
        return check_classes(name, codes, labels, model, f"it has {why}")
    if kind == "count":
        if not whole or different[0] < 0 or different[-1] > LARGEST_COUNT:
            wrong = number_text(different[0] if different[0] < 0 else different[-1])
            raise ValueError(
                f"target {name!r} has {wrong}, and {model} needs counts: whole numbers that are not "
                "negative. Use linear."
            )
        why = "" if model else ": it has whole numbers from 0 with small ones the most frequent"
        return Choice("count", model, (), values, f"{name!r} is a count{why}.")
    why = f"it has {different.size} different values"
    return Choice("number", model or "linear", (), values, f"{name!r} is a number: {why}.")


def usual_kind(values: np.ndarray, different: np.ndarray, whole: bool) -> str:
    """Classes, counts, or a number, from the different values and how often each is there.

    Counts begin at 0, and their largest are rare; labels 0, 1, 2, ... are all about as frequent.
    """
    if different.size == 2:
        return "classes"
    if not whole:
        return "number"
    full = values[~np.isnan(values)]
    if different[0] == 0 and different.size > 3 and np.median(full) <= USUAL_COUNT:
        upper = (full >= (different[-1] + 1) / 2).mean()
        if upper < 0.25 and (full == different[-1]).mean() < 0.25 / different.size:
            return "count"
    return "classes" if different.size <= FEW_VALUES else "number"


def check_classes(
    name: str, codes: np.ndarray, labels: tuple[str, ...], model: str, why: str
) -> Choice:
    if KINDS.get(model, "classes") != "classes":
        raise ValueError(
            f"target {name!r} has classes such as {labels[0][:40]!r}, and {model} needs numbers. Use "
            f"{'logistic' if len(labels) == 2 else 'softmax'}."
        )
    if len(labels) < 2:
        only = f"is {labels[0][:40]!r} in every row" if labels else "has no values"
        raise ValueError(f"target {name!r} {only}: no class to tell apart.")
    if long := [label for label in labels if len(label) > 100]:
        raise ValueError(
            f"target {name!r}: the name of a class has at most 100 characters, got {len(long[0])}: "
            f"{long[0][:40]!r}... Use shorter names."
        )
    if len(labels) > max(FEW_VALUES, min((codes >= 0).sum() // 2, MOST_CLASSES)):
        raise ValueError(
            f"target {name!r} has {len(labels)} different values in {len(codes)} rows: these are no "
            "classes. Choose another target."
        )
    if model == "logistic" and len(labels) > 2:
        raise ValueError(
            f"target {name!r} has {len(labels)} classes, and logistic has two. Use softmax."
        )
    chosen = model or ("logistic" if len(labels) == 2 else "softmax")
    event = f", and {labels[1]!r} is the event" if len(labels) == 2 else ""
    note = f"{name!r} has {len(labels)} classes: {why}{event}."
    return Choice("classes", chosen, labels, codes.astype(np.int32), note)


def dispersion(x: Float[np.ndarray, "n p"], counts: np.ndarray) -> float:
    """Pearson's chi-square per degree of freedom of a Poisson regression; 1 for Poisson counts.

    Fitted by Newton's method: X'WX step = X'(y - mu) - ridge b, with mu = exp(Xb) and W = diag(mu).
    """
    n = len(counts)
    x = x[:, : max(0, min(x.shape[1], n // 10, MOST_FITTED // n))]
    x = np.column_stack([np.ones(n), x / np.maximum(np.sqrt((x**2).mean(0)), 1e-300)])
    y = counts.astype(np.float64)
    b = np.zeros(x.shape[1])
    b[0] = np.log(max(y.mean(), 1e-3))
    for _ in range(ROUNDS):
        mean = np.exp(np.clip(x @ b, -20, 20))
        curvature = x.T @ (x * mean[:, None]) + np.eye(len(b))
        step = np.linalg.solve(curvature, x.T @ (y - mean) - b)
        b += step * min(1.0, 2.0 / max(1e-12, np.abs(step).max()))
    mean = np.exp(np.clip(x @ b, -20, 20))
    return float(((y - mean) ** 2 / mean).sum() / max(1, n - len(b)))
