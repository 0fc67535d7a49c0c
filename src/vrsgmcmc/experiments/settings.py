"""The options of `vrsgmcmc reproduce`, the outcome of an experiment, and the table of experiments."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True)
class Settings:
    """The options of `vrsgmcmc reproduce`."""

    size: Literal["smoke", "small", "paper"] = "small"  # seconds, minutes, or the full curves
    seeds: int | None = None  # repetitions of every method; None: the size's own number
    passes: float | None = None  # data passes of every method; None: the size's own number
    methods: tuple[str, ...] = ()  # only the methods whose names contain one of these words
    data_dir: Path | None = None  # None: VRSGMCMC_DATA, the user's cache, or a download into it
    out: Path | None = None  # folder of the report; None: NAME-report

    def __post_init__(self) -> None:
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"--seeds must be at least 1, got {self.seeds}.")
        if self.passes is not None and not 0 < self.passes < float("inf"):
            raise ValueError(f"--passes must be a positive number, got {self.passes}.")

    def pick_size(self, sizes: Mapping[str, Any]) -> Any:
        """The size of this name, with the passes of `--passes`."""
        size = sizes[self.size]
        return size if self.passes is None else size._replace(passes=self.passes)

    def pick_methods(self, methods: Mapping[str, Any]) -> dict[str, Any]:
        """The methods whose names contain a word of `--methods`; no word matches half a number."""
        if not self.methods:
            return dict(methods)
        words = {word: word_pattern(word) for word in self.methods}
        unknown = [word for word, part in words.items() if not any(map(part.search, methods))]
        if unknown:
            raise ValueError(
                f"--methods {' '.join(unknown)}: no method has this in its name. They are: "
                f"{'; '.join(methods)}."
            )
        return {n: m for n, m in methods.items() if any(p.search(n) for p in words.values())}


def word_pattern(word: str) -> re.Pattern[str]:
    before, after = r"(?<!\d)" * word[:1].isdigit(), r"(?!\d)" * word[-1:].isdigit()
    return re.compile(before + re.escape(word) + after, re.I)


class ChainSize(NamedTuple):
    """A size of an experiment with many chains of a small model."""

    passes: float
    chains: int
    points: int
    methods: tuple[str, ...]


class Outcome(NamedTuple):
    """The results of an experiment: a report for people, tables and numbers for programs."""

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
