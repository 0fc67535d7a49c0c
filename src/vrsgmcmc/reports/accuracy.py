"""The section that shows how right a result is."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from .page import Section, Table

MOST_ROWS = 10  # of the table, worst first


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
    def verdict(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...


def accuracy_sections(accuracy: Accuracy | None) -> Iterator[Section]:
    """The verdict and the bounds of the worst parameters; none where nothing was measured."""
    if accuracy is None:
        return
    worst = np.argsort(-np.fmax(accuracy.mean, accuracy.sd), kind="stable")[:MOST_ROWS]
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
    total = len(accuracy.names)
    if total > len(worst):
        about += f" The worst {len(worst)} of {total:,}."
    numbers = f"The least ESS is {accuracy.ess:,.0f}, the largest R-hat {accuracy.r_hat:.3f}."
    yield Section(
        "How right is it?",
        "\n\n".join([accuracy.verdict, " ".join([numbers, *accuracy.notes]), about]),
        table=Table(header, list(zip(*columns, strict=True)), formats),
    )
