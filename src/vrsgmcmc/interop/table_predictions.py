"""Predictions for rows of a table: the distribution of the target, averaged over the draws.

    p(y | x, D) = mean over draws of p(y | eta(x, draw))

Numbers and counts: its mean, sd and central 90 % interval. Classes: their probabilities, with the 90 %
interval that the posterior leaves to each probability.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float, Int

from vrsgmcmc.datasets.tables import Design
from vrsgmcmc.models import table as models
from vrsgmcmc.run import Result

if TYPE_CHECKING:
    import pandas

MOST_DRAWS = 1000  # that a prediction is averaged over
MOST_NUMBERS = 4 * 10**6  # draws times rows of one block
ENDS = (0.05, 0.95)


@dataclass(frozen=True)
class TablePredictions:
    """Predictions for rows; of classes, `mean`, `low` and `high` are [row, class]."""

    target: str
    labels: tuple[str, ...]  # of classes
    rows: Int[np.ndarray, " n"]
    place: str  # what `rows` counts: "line" or "row"
    mean: Float[np.ndarray, "n ..."]
    sd: Float[np.ndarray, "n ..."]
    low: Float[np.ndarray, "n ..."]
    high: Float[np.ndarray, "n ..."]
    notes: tuple[str, ...]

    @property
    def probabilities(self) -> Float[np.ndarray, "n k"]:
        if not self.labels:
            raise ValueError(f"target {self.target!r} has no classes, so it has no probabilities.")
        return self.mean

    @property
    def label(self) -> tuple[str, ...]:
        """The likeliest class of each row."""
        return tuple(self.labels[k] for k in self.probabilities.argmax(1))

    def to_pandas(self) -> "pandas.DataFrame":
        import pandas

        if not self.labels:
            parts = {"mean": self.mean, "sd": self.sd, "low_90": self.low, "high_90": self.high}
        else:
            parts: dict[str, Any] = {"predicted": self.label}
            for k, label in enumerate(self.labels):
                parts[f"P({label})"] = self.mean[:, k]
                parts[f"low_90({label})"], parts[f"high_90({label})"] = (
                    self.low[:, k],
                    self.high[:, k],
                )
        return pandas.DataFrame(parts, index=pandas.Index(self.rows, name=self.place))

    def __str__(self) -> str:
        lines = [f"{len(self.rows)} predictions of {self.target}", *self.notes]
        for i in range(min(len(self.rows), 10)):
            if self.labels:
                each = ", ".join(
                    f"{label} {p:.3g} ({a:.3g} to {b:.3g})"
                    for label, p, a, b in zip(
                        self.labels, self.mean[i], self.low[i], self.high[i], strict=True
                    )
                )
            else:
                each = f"{self.mean[i]:.4g} ({self.low[i]:.4g} to {self.high[i]:.4g})"
            lines.append(f"{self.place} {self.rows[i]}: {each}")
        return "\n".join([*lines, *["..."] * (len(self.rows) > 10)])


def flat_draws(result: Result, most: int | None = None) -> Any:
    """Draws of the chains that stayed finite: leaves [draw, ...]; at most `most`, evenly spaced."""
    if result.draws is None:
        raise ValueError('no draws were kept (keep="averages"). Run with keep="draws".')
    alive = np.flatnonzero(~result.diverged)
    if not alive.size:
        raise ValueError(f"every chain became non-finite. {result.divergences[0]}")
    length = len(result.draw_steps)
    each = length if most is None else max(1, min(length, most // alive.size))
    index = np.unique(np.linspace(0, length - 1, each).round().astype(int))
    return jax.tree.map(
        lambda leaf: np.asarray(leaf)[alive][:, index].reshape(-1, *leaf.shape[2:]), result.draws
    )


def blocks(
    family: Any, design: Design, draws: Any, rng: np.random.Generator
) -> Iterator[tuple[slice, Float[np.ndarray, "draw n k"]]]:
    """The rows of the design in blocks, with eta of every draw."""
    count, total = len(jax.tree.leaves(draws)[0]), len(design.x)
    width = max(1, len(design.target.labels))
    length = max(1, MOST_NUMBERS // (count * width))
    for first in range(0, total, length):
        some = slice(first, min(first + length, total))
        x = design.x[some]
        if family.name == "mlp":
            yield some, models.outputs(draws, x)
        else:
            groups = {group.name: group.codes[some] for group in design.groups}
            yield some, models.predictors(family, draws, x, groups, rng)


def own_units(design: Design, values: np.ndarray) -> np.ndarray:
    """Values of a standardised number in the target's units; counts and codes as they are."""
    target = design.target
    return target.center + target.scale * values if target.kind == "number" else values


def simulate(family: Any, design: Design, draws: Any, seed: int) -> np.ndarray:
    """A target for every draw and row, [draw, n]: numbers in their own units, counts, or codes."""
    rng = np.random.default_rng(seed)
    parts = [family.draw(rng, eta) for _, eta in blocks(family, design, draws, rng)]
    return own_units(design, np.concatenate(parts, 1))


def log_likelihood(family: Any, design: Design, draws: Any) -> Float[np.ndarray, "draw n"]:
    """log p(y_i | draw) of every draw and row, of a number as density in its own units."""
    rng = np.random.default_rng(0)
    parts = [
        models.log_likelihoods(family, eta, design.y[some])
        for some, eta in blocks(family, design, draws, rng)
    ]
    values = np.concatenate(parts, 1)
    return values - np.log(design.target.scale) if design.target.kind == "number" else values


def predict(family: Any, design: Design, draws: Any) -> TablePredictions:
    """Predictions for the rows of a design."""
    rng, parts = np.random.default_rng(0), []
    for _, eta in blocks(family, design, draws, rng):
        mean = family.mean(eta)
        values = mean if family.kind == "classes" else own_units(design, family.draw(rng, eta))
        middle = own_units(design, mean).mean(0)
        parts.append((middle, values.std(0), *np.quantile(values, ENDS, axis=0)))
    numbers = [np.concatenate(part) for part in zip(*parts, strict=True)]
    target, notes = design.target, [*design.notes]
    for group in design.groups:
        if new := int((group.codes < 0).sum()):
            notes.append(
                f"{new} of {len(group.codes)} rows have a new level of {group.name!r}: their effects "
                "are drawn from the distribution of levels."
            )
    labels = target.labels if target.kind == "classes" else ()
    middle, sd, low, high = numbers
    return TablePredictions(
        target.name, labels, design.rows, design.place, middle, sd, low, high, tuple(notes)
    )
