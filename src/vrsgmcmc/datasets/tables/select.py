"""Which columns of a table can be used, and what is stored of each: levels, fills, the first day."""

import re
from collections.abc import Sequence

import numpy as np

from .cells import FORMATS
from .columns import list_names, printable
from .frame import Frame, take
from .readings import MISSING, OTHER, Reading
from .schema import Source

MOST_LEVELS = 30  # of a column; the rest are one level
FEW = 20
LONGEST_LEVEL = 100  # characters; longer ones are sentences
ID_NAME = re.compile(
    r"(?:^|[\W_])(?:id|idx|index|no|nr|row|rowid|rownum|rownames|key|uuid)\.?$|^unnamed: [0-9]+$",
    re.IGNORECASE,
)
CAMEL_ID = re.compile(r"[a-z](?:Id|ID)$")


def useless(name: str, reading: Reading) -> str:
    """Why a column says nothing about other rows, or ""."""
    full = (
        reading.values[~np.isnan(reading.values)]
        if reading.kind != "level"
        else reading.values[reading.values >= 0]
    )
    if not len(full):
        return "empty"
    different = len(np.unique(full))
    if reading.kind == "level":
        if max(map(len, reading.levels)) > LONGEST_LEVEL:
            return "free text"
        if (different == len(full) > 2) or different > max(FEW, len(full) // 2):
            return "names or ids"
        return ""
    looks_like_id = ID_NAME.search(name) or CAMEL_ID.search(name)
    whole = reading.kind == "number" and bool((full == np.round(full)).all())
    return "names or ids" if looks_like_id and whole and different == len(full) > 2 else ""


WHY = {
    "empty": "no cell of them has a value",
    "free text": f"they hold sentences of more than {LONGEST_LEVEL} characters",
    "names or ids": "they differ from row to row, as names and ids do",
}


REFUSALS = {
    "empty": "none has a value",
    "free text": f"some have more than {LONGEST_LEVEL} characters",
    "names or ids": "most differ, as names and ids do",
}


def drop_useless(names: dict[str, str], readings: dict[str, Reading]) -> list[str]:
    """Remove the columns that say nothing, and say so."""
    reasons: dict[str, list[str]] = {}
    for key, name in list(names.items()):
        if why := useless(name, readings[key]):
            reasons.setdefault(why, []).append(name)
            del names[key], readings[key]
    return [f"Left out, since {WHY[why]}: {list_names(out, 10)}." for why, out in reasons.items()]


def refuse_useless(names: dict[str, str], readings: dict[str, Reading], frame: Frame) -> None:
    """The same for columns that the user named: an error, but for numbers."""
    for key, name in names.items():
        why = useless(name, readings[key])
        if why == "empty" or (why and readings[key].kind == "level"):
            raise ValueError(
                f"{frame.source}: column {name!r} cannot be used, since of its cells "
                f"{REFUSALS[why]}. Leave it out, or use it as a group, (1 | group), if it is one."
            )


def fit_source(
    key: str,
    name: str,
    reading: Reading,
    train: np.ndarray,
    impute: bool,
    notes: list[str],
    listed: Sequence[str] = (),
) -> Source:
    """What is stored of a column, from the training rows `train` alone."""
    values = reading.values[train]
    if reading.kind == "level":
        return fit_levels(key, name, reading.levels, values, impute, notes, listed)
    full = values[~np.isnan(values)]
    origin = float(full.min()) if reading.kind == "date" and len(full) else 0.0
    if reading.kind == "date" and len(full):
        first = np.datetime64(int(origin * 86_400_000), "ms").astype("datetime64[D]")
        notes.append(f"{name!r} is the number of days since {first}.")
    center = float(np.median(full)) - origin if impute and len(full) else None
    kind = "date" if reading.kind == "date" else "number"
    assert reading.form in FORMATS
    return Source(key=key, name=name, kind=kind, fill=center, origin=origin, form=reading.form)


def fit_levels(
    key: str,
    name: str,
    levels: tuple[str, ...],
    codes: np.ndarray,
    impute: bool,
    notes: list[str],
    listed: Sequence[str],
) -> Source:
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    present = [number for number in range(len(levels)) if counts[number]]
    if listed:
        if others := [levels[i] for i in present if levels[i] not in listed]:
            raise ValueError(
                f"formula: {printable(key)} does not list "
                f"{list_names([repr(v[:40]) for v in others], 5)}, which {name!r} has."
            )
        present = [
            levels.index(level)
            for level in listed
            if level in levels and counts[levels.index(level)]
        ]
    chosen = present
    if len(present) > MOST_LEVELS:
        frequent = sorted(present, key=lambda number: -counts[number])[: MOST_LEVELS - 1]
        chosen = [number for number in present if number in set(frequent)]
    names = [levels[number] for number in chosen]
    rest = len(present) - len(chosen)
    if rest:
        rows = counts.sum() - counts[chosen].sum()
        names.append(OTHER)
        notes.append(
            f"{name!r} has {len(present)} levels; the {rest} least frequent, in {rows} rows, are one "
            f"level, {OTHER!r}."
        )
    fill = None
    if impute:
        fill = levels[int(np.argmax(counts))]
        if (codes < 0).any():
            names.append(MISSING)
            fill = MISSING
    if len(names) > 1:
        notes.append(f"{name!r} has {len(names)} levels; the reference is {names[0]!r}.")
    return Source(key=key, name=name, kind="level", levels=tuple(names), fill=fill)


def rows_of(frame: Frame, rows: np.ndarray) -> Frame:
    """Some rows of a frame."""
    columns = {name: take(cells, rows) for name, cells in frame.columns.items()}
    return frame._replace(columns=columns, rows=frame.rows[rows], notes=())
