"""The parts of a report, and the text of its numbers."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

ANSWERS = {"yes": "✓", "no": "✗", "in part": "◐", "not tested": "○"}  # answer -> its symbol
NUMERIC = re.compile(r"[-+\N{MINUS SIGN}±<>]?\s*(\.?\d|nan\b|inf\b|∞|—$)", re.IGNORECASE)


class Table(NamedTuple):
    """Rows under a header. A cell is text, a number, or None (a dash).

    `formats`: one for each column, such as ".3f"; "" or none: the default of `cell`. Columns of
    numbers, also as text, are aligned to the right.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    formats: Sequence[str] = ()

    def cells(self) -> list[list[str]]:
        """Every row as text."""
        formats = [*self.formats, *[""] * (len(self.header) - len(self.formats))]
        for number, row in enumerate(self.rows):
            if len(row) != len(self.header) or len(formats) != len(self.header):
                raise ValueError(
                    f"Table: {len(self.header)} columns in the header, {len(row)} cells in row "
                    f"{number}, {len(self.formats)} formats. Give each column one cell and at most "
                    "one format."
                )
        return [[cell(v, f) for v, f in zip(row, formats, strict=True)] for row in self.rows]

    def numeric(self) -> list[bool]:
        """For each column, whether all its cells are numbers."""
        columns = list(zip(*self.cells(), strict=True)) or [()] * len(self.header)
        return [bool(column) and all(map(NUMERIC.match, column)) for column in columns]


class Claim(NamedTuple):
    """A statement and the result of its test: "yes", "no", "in part" or "not tested"."""

    text: str
    answer: str
    evidence: str = ""


class Section(NamedTuple):
    """A heading, then text, a figure and a table, each optional.

    A blank line in `text` starts a paragraph. `figure`: a matplotlib Figure, or a function with the
    argument `width`, in inches, that draws one: then a phone gets a drawing of its own. `alt` describes
    the figure for readers who cannot see it. `topic`: the subject of the section, on a page with
    several subjects. `points`: a list under the text. `more`: titles and tables that a click opens.
    """

    title: str
    text: str = ""
    figure: Any = None  # Figure | Callable[..., Figure] | None
    caption: str = ""
    table: Table | None = None
    alt: str = ""
    topic: str = ""
    points: Sequence[str] = ()
    more: Sequence[tuple[str, Table]] = ()

    @property
    def heading(self) -> str:
        return f"{self.topic}: {self.title}" if self.topic else self.title


class Report(NamedTuple):
    """A page. `facts`: how to reproduce it (command, versions, seeds, machine)."""

    title: str
    lead: str
    sections: Sequence[Section]
    claims: Sequence[Claim] = ()
    facts: Mapping[str, Any] = {}


def tally(claims: Sequence[Claim]) -> str:
    """The answers to the claims in one sentence; empty without claims."""
    if not claims:
        return ""
    count = Counter(claim.answer for claim in claims)
    words = {"yes": "hold{}", "in part": "hold{} in part", "no": "do{} not hold"}
    ending = {"yes": "s", "in part": "s", "no": "es"}
    parts = [
        f"{count[answer]} {text.format(ending[answer] if count[answer] == 1 else '')}"
        for answer, text in words.items()
        if count[answer]
    ]
    if count["not tested"]:
        parts.append(f"{count['not tested']} could not be tested")
    return f"Of {len(claims)} claim{'s' * (len(claims) > 1)} on this page, {join_words(parts)}."


def join_words(parts: Sequence[str]) -> str:
    """One, two and three."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def cell(value: Any, form: str = "") -> str:
    """The text of a value: four digits of a fraction, NaN and infinities by name."""
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "\N{MINUS SIGN}∞"
    if isinstance(value, int):
        text = format(value, form or ",")
    elif isinstance(value, float):
        text = format(value, form or (",.0f" if 1e3 <= abs(value) < 1e9 else ".4g"))
    elif isinstance(value, Mapping):
        return ", ".join(f"{name} {cell(each)}" for name, each in value.items())
    elif isinstance(value, (list, tuple)):
        return ", ".join(map(cell, value))
    else:
        return str(value)
    return "\N{MINUS SIGN}" + text[1:] if text.startswith("-") else text
