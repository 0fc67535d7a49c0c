"""The options of `vrsgmcmc reproduce`, what an experiment gives back, and the table of experiments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True)
class Settings:
    """The options of `vrsgmcmc reproduce`."""

    size: Literal["smoke", "small", "paper"] = "small"
    """smoke: seconds, a test; small: minutes; paper: the full curves."""
    seeds: int | None = None
    """Independent repetitions of every method; the size's own number if not given."""
    passes: float | None = None
    """Data passes of every method; the size's own number if not given."""
    methods: tuple[str, ...] = ()
    """Only the methods whose names contain one of these words."""
    data_dir: Path | None = None
    """Folder of data sets; else VRSGMCMC_DATA, the user's cache, or a download into it."""
    out: Path | None = None
    """Folder for the report; NAME-report if not given. It is made if it does not exist."""

    def __post_init__(self) -> None:
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"--seeds must be at least 1, got {self.seeds}.")
        if self.passes is not None and not 0 < self.passes < float("inf"):
            raise ValueError(f"--passes must be a positive number, got {self.passes}.")

    def of(self, sizes: Mapping[str, Any]) -> Any:
        """The size asked for, with the passes asked for."""
        size = sizes[self.size]
        return size if self.passes is None else size._replace(passes=self.passes)

    def chosen(self, methods: dict[str, Any]) -> dict[str, Any]:
        """The methods asked for, by a part of their names that does not cut a number short."""
        if not self.methods:
            return methods
        words = {word: part_of_name(word) for word in self.methods}
        unknown = [word for word, part in words.items() if not any(map(part.search, methods))]
        if unknown:
            raise ValueError(
                f"--methods {' '.join(unknown)}: no method has this in its name. They are: "
                f"{'; '.join(methods)}."
            )
        return {n: m for n, m in methods.items() if any(p.search(n) for p in words.values())}


def part_of_name(word: str) -> re.Pattern[str]:
    before, after = r"(?<!\d)" * word[:1].isdigit(), r"(?!\d)" * word[-1:].isdigit()
    return re.compile(before + re.escape(word) + after, re.I)


class Outcome(NamedTuple):
    """What an experiment found: a report for people, tables and numbers for programs."""

    report: Any  # reports.Report
    tables: dict[str, list[dict[str, Any]]]  # file name without .csv -> rows
    record: dict[str, Any]
    text: str  # the main table, for the terminal


EXPERIMENTS = {
    "gaussian": "MSE of theta^2 on a Gaussian mean against cost and time, with the exact curve",
    "pima": "Logistic regression on the Pima diabetes data: test NLL and the posterior itself",
    "mlp-mnist": "A network with 100 hidden units on MNIST: test error and loss, calibration",
    "mlp-cifar10": "A network with 100 hidden units on CIFAR-10",
    "n1-sensitivity": "The same on CIFAR-10 with anchors of 100 to 2000 images",
    "cnn4-cifar10": "Four convolutions with dropout on CIFAR-10",
    "resnet20-cifar10": "ResNet-20 on CIFAR-10, with group-norm and with batch-norm",
    "lstm-ptb": "A language model on Penn Treebank: perplexity",
    "lstm-wikitext2": "The same on WikiText-2",
}
