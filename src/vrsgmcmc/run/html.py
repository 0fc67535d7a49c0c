"""What a notebook shows of a result: a few lines and a table. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .parts import has_draws, on_disk
from .scalars import scalars
from .tables import quiet_summary
from .totals import NOT_MEASURED

if TYPE_CHECKING:
    from .result import Result

FIRST = 20  # parameters in the table
FEWEST_DRAWS = 4  # of a chain: what R-hat of half chains needs
LARGEST = 2**28  # bytes of draws on disk that are read for a table
LONGEST = 60  # letters of a name
COLUMNS = {"mean": ".4g", "sd": ".3g", "ess_bulk": ",.0f", "r_hat": ".3f"}
HEADER = ("parameter", "mean", "sd", "ESS", "R-hat")
CELL = 'style="text-align:{};padding:1px 10px 1px 0"'


def document(lead: str, *parts: str) -> str:
    """A first line in bold, and what follows it: parts are HTML."""
    return f"<div><p><b>{text(lead)}</b></p>{''.join(parts)}</div>"


def paragraphs(lines: Iterable[str]) -> str:
    return "".join(f"<p>{text(line)}</p>" for line in lines if line)


def details(title: str, lines: Iterable[str]) -> str:
    """Lines that are shown when the title is clicked."""
    content = paragraphs(lines)
    return f"<details><summary>{text(title)}</summary>{content}</details>" if content else ""


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], formats: Sequence[str]) -> str:
    """Rows of text and numbers; `formats` are those of the numbers, "" for text."""
    sides = ["left" if not form else "right" for form in formats]
    head = row("th", header, sides)
    body = "".join(
        row("td", [cell(v, f) for v, f in zip(values, formats, strict=True)], sides)
        for values in rows
    )
    return f'<table style="overflow-x:auto"><thead>{head}</thead><tbody>{body}</tbody></table>'


def row(tag: str, words: Sequence[str], sides: Sequence[str]) -> str:
    cells = zip(words, sides, strict=True)
    return (
        "<tr>"
        + "".join(f"<{tag} {CELL.format(side)}>{text(word)}</{tag}>" for word, side in cells)
        + "</tr>"
    )


def cell(value: Any, form: str) -> str:
    if form:
        return format(value, form)
    word = str(value)
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 9]}…{word[-8:]}"


def text(value: Any) -> str:
    return escape(str(value)).replace("\n", "<br>")


def of_result(result: Result) -> str:
    """The verdict, the parameters, and what the run was."""
    ended, record = str(result).split("\n")[0], result.record
    lines = [] if record is None else [ended]
    lines += map(str, result.divergences)
    decision = [] if result.decision is None else str(result.decision).split("\n")
    if decision and record is None:
        lines.append(NOT_MEASURED)
    return document(
        ended if record is None else record.verdict,
        paragraphs(lines),
        parameters(result),
        details("How it was sampled", decision),
    )


def parameters(result: Result) -> str:
    """The table of the first parameters; why not, where there is none."""
    if not has_draws(result):
        names = ", ".join(result.averages)
        return paragraphs([f"No draws were kept. result.averages has: {names or 'nothing'}."])
    if result.diverged.all():
        return paragraphs(["Every chain became non-finite."])
    if result.draw_steps.size < FEWEST_DRAWS:
        return paragraphs([f"{result.draw_steps.size} draws of a chain are too few for a table."])
    stored = on_disk(result)
    if stored is not None and stored.nbytes > LARGEST:
        return paragraphs([f"{stored.nbytes:,} bytes of draws are on disk: result.summary()."])
    chosen = scalars(result, "summary", first=FIRST)
    values = np.full((len(result.diverged), *chosen.shape[1:]), np.nan)
    values[chosen.chains] = chosen.values()
    numbers = quiet_summary(result, values)[list(COLUMNS)].to_numpy(np.float64)
    rows = ([name, *line] for name, line in zip(chosen.names, numbers, strict=True))
    more = f"The first {chosen.note}. result.summary() has all." if chosen.note else ""
    return table(HEADER, rows, ("", *COLUMNS.values())) + paragraphs([more])
