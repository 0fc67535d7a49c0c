"""The section that shows how right a result is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from vrsgmcmc.core import Params, named_leaves

from .page import Section, Table
from .summary import Names

MOST_ROWS, MOST_LISTED = 10, 2000  # of the table, worst first; of the one that a click opens


class Accuracy(Protocol):
    """What a report reads of `vr.Result.accuracy()`."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def subject(self) -> str: ...
    @property
    def mean(self) -> np.ndarray: ...
    @property
    def sd(self) -> np.ndarray: ...
    @property
    def laplace_mean(self) -> np.ndarray | None: ...
    @property
    def laplace_sd(self) -> np.ndarray | None: ...
    @property
    def ess(self) -> float: ...
    @property
    def r_hat(self) -> float: ...
    @property
    def bias(self) -> float: ...
    @property
    def good(self) -> bool: ...
    @property
    def verdict(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...


def accuracy_sections(accuracy: Accuracy | None) -> Iterator[Section]:
    """The verdict and the bounds of the worst parameters; none where nothing was measured."""
    if accuracy is None:
        return
    total = len(accuracy.names)
    worst = np.argsort(-np.fmax(accuracy.mean, accuracy.sd), kind="stable")[:MOST_LISTED]
    header, formats = [accuracy.subject, "mean off by", "sd off by"], ["", ".3f", ".1%"]
    columns: list[Sequence[Any]] = [
        [accuracy.names[j] for j in worst],
        accuracy.mean[worst].tolist(),
        accuracy.sd[worst].tolist(),
    ]
    about = (
        "Bounds hold with 95 %: of the error of a mean in posterior standard deviations (sd), and of "
        "an sd relative to itself."
    )
    if accuracy.laplace_mean is not None and accuracy.laplace_sd is not None:
        header += ["mean from the mode", "sd / Laplace's"]
        formats += ["+.3f", ".3f"]
        columns += [accuracy.laplace_mean[worst].tolist(), accuracy.laplace_sd[worst].tolist()]
        about += " Laplace is the normal distribution at the mode; distances from it are in sds."
    rows, more = list(zip(*columns, strict=True)), []
    if total > MOST_ROWS:
        about += f" The worst {MOST_ROWS} of {total:,}."
        which = "All" if len(worst) == total else f"The worst {len(worst):,} of"
        more = [(f"{which} {total:,} {accuracy.subject}s", Table(header, rows, formats))]
    numbers = (
        f"The least ESS, of means and sds, is {accuracy.ess:,.0f}, the largest R-hat "
        f"{accuracy.r_hat:.3f}."
    )
    yield Section(
        "How right is it?",
        "\n\n".join([accuracy.verdict, " ".join([numbers, *accuracy.notes]), about]),
        table=Table(header, rows[:MOST_ROWS], formats),
        more=more,
    )


def name_parameters(accuracy: Any, draws: Params | None, names: Names) -> Any:
    """The record with the names of a report in place of those of the leaves."""
    if accuracy is None or accuracy.subject != "parameter" or names is None or draws is None:
        return accuracy
    labels, start, leaves = list(accuracy.names), 0, named_leaves(draws)
    names_of = names if isinstance(names, Mapping) else {leaves[0][0]: names}
    for leaf, values in leaves:
        size = int(np.prod(values.shape[2:]))
        if leaf in names_of and labels:
            labels[start : start + size] = names_of[leaf]
        start += size
    return replace(accuracy, names=tuple(labels))


def describe_accuracy(accuracy: Accuracy) -> str:
    """Whether one can rely on a result, for readers who ask nothing else."""
    if not accuracy.good:
        return f"Do not rely on these numbers yet. {accuracy.verdict}"
    error = float(np.max(accuracy.mean, initial=0.0))
    text = (
        f"The computation is right to within {error:.2g} posterior standard deviations (95 %), so the "
        "intervals show what the data leave open, and a longer run would change little."
    )
    if accuracy.subject == "parameter" and np.isnan(accuracy.bias):
        text += " The bias of its steps was not measured."
    return text
