"""The rows of a job as arrays and a record, and back: `load` believes nothing that it reads.

Arrays: x, y and the numbers of rows, of training and of test rows; codes of groups, in their order.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vrsgmcmc.datasets.tables import Design, Group, Recipe, design_columns, design_target

from ..keys import MODELS

MOST_NOTES, LONGEST_NOTE = 1000, 10_000
PLACES = ("line", "row")


def arrays_of(design: Design) -> dict[str, np.ndarray]:
    """Everything of a design that is an array, by name."""
    arrays = {}
    for part, rows in parts_of(design).items():
        y = np.float64 if design.target.kind == "number" else np.int32
        arrays |= {f"{part}_x": np.ascontiguousarray(rows.x, np.float64)}
        arrays |= {f"{part}_y": np.asarray(rows.y, y), f"{part}_rows": np.asarray(rows.rows, int)}
        for number, group in enumerate(rows.groups):
            arrays[f"{part}_group_{number}"] = np.asarray(group.codes, np.int32)
    return arrays


def parts_of(design: Design) -> dict[str, Design]:
    assert design.test is not None
    return {"train": design, "test": design.test}


def record_of(design: Design) -> dict[str, Any]:
    """The rest of it, but for the recipe."""
    return {"place": design.place, "notes": list(design.notes)}


def design_of(record: Any, recipe: Recipe, arrays: Mapping[str, np.ndarray]) -> Design:
    """The design again; ValueError if something in it contradicts the recipe."""
    place, notes = record["place"], tuple(record["notes"])
    texts = all(isinstance(each, str) and len(each) <= LONGEST_NOTE for each in notes)
    if (
        place not in PLACES
        or not texts
        or len(notes) > MOST_NOTES
        or set(record) != {"place", "notes"}
    ):
        raise ValueError("its sentences about the table are not as they were written")
    expected = {f"{part}_{name}" for part in ("train", "test") for name in ("x", "y", "rows")}
    expected |= {f"{p}_group_{i}" for p in ("train", "test") for i in range(len(recipe.groups))}
    if set(arrays) != expected:
        raise ValueError(f"its arrays are {', '.join(sorted(arrays))}")
    target = design_target(recipe)
    if target.model not in MODELS:
        raise ValueError(f"its recipe names the model {target.model[:40]!r}")
    parts = []
    for part in ("train", "test"):
        x, y, rows = (arrays[f"{part}_{name}"] for name in ("x", "y", "rows"))
        codes = [arrays[f"{part}_group_{i}"] for i in range(len(recipe.groups))]
        check_part(recipe, part, x, y, rows, codes)
        groups = tuple(
            Group(group.name, group.levels, each)
            for group, each in zip(recipe.groups, codes, strict=True)
        )
        parts.append(
            Design(x, y, design_columns(recipe), target, groups, rows, place, recipe, notes)
        )
    return parts[0]._replace(test=parts[1])


def check_part(
    recipe: Recipe, part: str, x: Any, y: Any, rows: Any, codes: list[np.ndarray]
) -> None:
    """Refuse arrays of other types and lengths, and codes of nothing."""
    goal, count = recipe.target, len(y) if y.ndim else 0
    wanted = {"x": (x, "float64", (count, len(recipe.steps))), "rows": (rows, "int64", (count,))}
    wanted["y"] = (y, "float64" if goal.kind == "number" else "int32", (count,))
    wanted |= {f"group_{i}": (each, "int32", (count,)) for i, each in enumerate(codes)}
    for name, (array, dtype, shape) in wanted.items():
        if array.dtype != dtype or array.shape != shape or not count:
            raise ValueError(f"{part}_{name} is {array.dtype}{list(array.shape)}")
    fine = np.isfinite(x).all() and np.isfinite(y).all() and (goal.kind == "number" or y.min() >= 0)
    if goal.kind == "classes":
        fine = fine and y.max() < len(goal.labels) and len(goal.labels) > 1
    for group, each in zip(recipe.groups, codes, strict=True):
        fine = (
            fine and each.min() >= (-1 if part == "test" else 0) and each.max() < len(group.levels)
        )
    if not fine:
        raise ValueError(f"the {part} rows are none of this recipe")


def data_of(design: Design) -> Any:
    """The training rows as a model has them, in 64 bits."""
    arrays = arrays_of(design)
    x, y = arrays["train_x"], arrays["train_y"]
    if not design.groups:
        return x, y
    codes = {g.name: arrays[f"train_group_{i}"] for i, g in enumerate(design.groups)}
    return {"x": x, "y": y, "groups": codes}
