"""Centre and scale the columns of a design, and leave out those that say nothing new."""

import numpy as np
from jaxtyping import Float

from .collinear import repeats
from .columns import list_names
from .prepare import LARGEST
from .schema import Step

MOST_LISTED = 5


def scale_steps(
    steps: list[Step], raw: Float[np.ndarray, "n p"], scale_levels: bool, notes: list[str]
) -> tuple[list[Step], Float[np.ndarray, "n p"]]:
    """Columns with mean 0, and numbers with standard deviation 1; without those that are constant."""
    if not steps:
        return steps, raw
    varies = raw.min(0) < raw.max(0)
    if not varies.all():
        names = [step.name for step, v in zip(steps, varies, strict=True) if not v]
        notes.append(f"Columns that are constant were left out: {list_names(names, 10)}.")
        steps, raw = [step for step, v in zip(steps, varies, strict=True) if v], raw[:, varies]
    ready = []
    with np.errstate(all="ignore"):
        for number, step in enumerate(steps):
            column = raw[:, number]
            center = float(column.mean())
            column -= center
            plain = all(atom.kind != "value" for atom in step.atoms) and not scale_levels
            scale = 1.0 if plain else float(np.sqrt((column**2).mean()))
            column /= scale
            if not (np.isfinite(scale) and scale > 0 and (np.abs(column) < LARGEST).all()):
                raise ValueError(
                    f"column {step.name!r} holds numbers that are too large, or too near to each "
                    "other, to compute with. Rescale it."
                )
            ready.append(step.model_copy(update={"center": center, "scale": scale}))
    return ready, raw


def drop_repeats(
    steps: list[Step], x: Float[np.ndarray, "n p"], drop: bool, every_level: bool, notes: list[str]
) -> tuple[list[Step], Float[np.ndarray, "n p"]]:
    """Leave out the columns that follow from earlier ones (or only say so), and say from which."""
    if len(steps) < 2:
        return steps, x
    out = []
    sentences = []
    for repeat in repeats(x):
        step = steps[repeat.index]
        others = [steps[other].name for other in repeat.others]
        if every_level and step.kind == "level":
            continue  # asked for: the levels of a column always sum to 1
        out.append(repeat.index)
        said = "repeats" if len(others) == 1 else "is a sum of multiples of"
        sentences.append(f"{step.name!r} {said} {list_names(others, MOST_LISTED)}")
    if not out:
        return steps, x
    more = f", and {len(sentences) - MOST_LISTED} more" * (len(sentences) > MOST_LISTED)
    listed = ", ".join(sentences[:MOST_LISTED]) + more
    if not drop:
        notes.append(
            f"Columns that follow from others stay in, so only the prior tells them apart: {listed}."
        )
        return steps, x
    notes.append(f"Columns that follow from others were left out: {listed}.")
    chosen = np.setdiff1d(np.arange(len(steps)), out)
    return [steps[i] for i in chosen], x[:, chosen]
