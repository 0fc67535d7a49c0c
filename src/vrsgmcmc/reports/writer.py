"""A report as one HTML file.

Whatever a report says is data: Jinja escapes every value, characters that could not be seen or could
turn the text around are replaced, and figures are pictures (`data:` addresses), in which no script
runs. Nothing in the file depends on time or place: equal reports are equal files.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterable
from importlib import resources
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from vrsgmcmc.reports import figures
from vrsgmcmc.reports.page import ANSWERS, Report, Section, Table, cell

LARGEST_SVG = 300_000  # bytes; a larger figure is shown as PNG
CONTENTS_FROM = 5  # parts that make a table of contents worth its place


class Picture(NamedTuple):
    source: str  # data:...
    width: int
    height: int
    alt: str


def write(report: Report, folder: str | PathLike[str], name: str = "report.html") -> list[str]:
    """Write the page, and its figures to folder/figures; returns the names of the files."""
    folder = Path(folder)
    check(report, name)
    folder.mkdir(parents=True, exist_ok=True)
    files, parts = [name], []
    free = names()
    for section in report.sections:
        anchor = free(section.heading)
        picture = None
        if section.figure is not None:
            picture, made = draw(section, folder / "figures" / anchor)
            files += [f"figures/{file}" for file in made]
        parts.append((anchor, section, picture))
    listed = len(parts) + bool(report.claims) + bool(report.facts)
    page = template().render(
        report=report,
        parts=parts,
        answers=ANSWERS,
        contents=contents(parts) if listed >= CONTENTS_FROM else None,
    )
    (folder / name).write_text(page, encoding="utf-8", newline="\n")
    return files


def check(report: Report, name: str) -> None:
    if Path(name).name != name or not name.endswith(".html"):
        raise ValueError(
            f"write(name={name!r}): name is a file name that ends in .html, inside the folder."
        )
    for claim in report.claims:
        if claim.answer not in ANSWERS:
            raise ValueError(
                f"write: the answer to the claim {claim.text!r} must be one of "
                f"{', '.join(map(repr, ANSWERS))}, got {claim.answer!r}."
            )


def contents(parts: Iterable[tuple[str, Section, Any]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """For each topic its name, and the anchors and titles of its sections."""
    return [
        (topic, [(anchor, section.title) for anchor, section, _ in group])
        for topic, group in groupby(parts, lambda part: part[1].topic)
    ]


def names() -> Any:
    """A function from titles to names that are safe in files and in links, each given once."""
    taken = {"claims", "facts", "content", "contents"}

    def free(title: str) -> str:
        plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
        stem = re.sub("[^a-z0-9]+", "-", plain)[:40].strip("-") or "section"
        number, found = 1, stem
        while found in taken:
            number += 1
            found = f"{stem}-{number}"
        taken.add(found)
        return found

    return free


def draw(section: Section, path: Path) -> tuple[Picture, list[str]]:
    """Save a figure; returns it as a picture for the page, and the names of its files."""
    path.parent.mkdir(exist_ok=True)
    files = figures.save(section.figure, path)
    png, svg = (path.with_name(file).read_bytes() for file in files)
    kind, content = ("svg+xml", svg) if len(svg) <= LARGEST_SVG else ("png", png)
    source = f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
    width, height = (round(96 * inches) for inches in section.figure.get_size_inches())
    return Picture(source, width, height, section.alt or section.heading), files


def template() -> Any:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=visible,
    )
    environment.filters.update(paragraphs=paragraphs, grid=grid, shown=cell)
    source = resources.files("vrsgmcmc.reports") / "page.html.jinja"
    return environment.from_string(source.read_text(encoding="utf-8"))


def visible(value: Any) -> Any:
    """Text without control characters, lone surrogates and marks that change its direction."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in value
    )


def paragraphs(text: str) -> list[str]:
    return [part for part in re.split(r"\n\s*\n", text.strip()) if part]


def grid(table: Table) -> list[list[tuple[str, bool]]]:
    """The header and the rows: each cell, and whether its column holds numbers."""
    numeric = table.numeric()
    return [list(zip(row, numeric, strict=True)) for row in (table.header, *table.cells())]
