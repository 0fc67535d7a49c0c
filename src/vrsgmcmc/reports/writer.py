"""A report as one HTML file.

The content of a report is data, never code: Jinja escapes every value, invisible characters and those
that change the direction of text are replaced, and figures are images (`data:` addresses), in which no
script runs. Nothing in the file depends on time or place: equal reports are equal files.
"""

import base64
import re
import unicodedata
from collections.abc import Iterable, Mapping
from importlib import resources
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from matplotlib.figure import Figure

from vrsgmcmc.core import distinct
from vrsgmcmc.run.store import Folder

from .figures import PHONE, WIDTH, render
from .page import ANSWERS, Report, Section, Table, cell, tally

LARGEST_SVG = 300_000  # bytes; a larger figure is shown as PNG
CONTENTS_FROM = 5  # parts: a shorter page has no table of contents


class Image(NamedTuple):
    """A figure as text that an HTML page can contain."""

    source: str  # data:...
    width: int
    height: int


class Picture(NamedTuple):
    """An image inside the page, and the one that a phone shows instead."""

    wide: Image
    narrow: Image | None
    alt: str


def write(report: Report, folder: str | PathLike[str], name: str = "report.html") -> list[str]:
    """Write the page, and its figures to folder/figures; returns the names of the files."""
    check(report, name)
    place = Folder(folder)
    place.make()
    files, parts = [name], []
    for anchor, section in zip(anchors(report.sections), report.sections, strict=True):
        picture = None
        if section.figure is not None:
            picture, names = draw(section, place, f"figures/{anchor}")
            files += names
        parts.append((anchor, section, picture))
    count = len(parts) + bool(report.claims) + bool(report.facts)
    topics = contents(parts) if count >= CONTENTS_FROM else None
    texts = {"answers": ANSWERS, "tally": tally(report.claims), "contents": topics}
    page = template().render(report=report, parts=parts, **texts)
    place.write(name, page.encode())
    return files


def check(report: Report, name: str) -> None:
    """Raise ValueError for a bad file name or an unknown answer."""
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
    """Each topic, with the anchors and titles of its sections."""
    return [
        (topic, [(anchor, section.title) for anchor, section, _ in group])
        for topic, group in groupby(parts, lambda part: part[1].topic)
    ]


def anchors(sections: Iterable[Section]) -> list[str]:
    """A unique name for each section that is safe in files and in links."""
    stems = []
    for section in sections:
        plain = unicodedata.normalize("NFKD", section.heading).encode("ascii", "ignore").decode()
        stems.append(re.sub("[^a-z0-9]+", "_", plain.lower())[:40].strip("_") or "section")
    names = distinct(stems, ("claims", "facts", "content", "contents"))
    return [name.replace("_", "-") for name in names]


def draw(section: Section, folder: Folder, stem: str) -> tuple[Picture, list[str]]:
    """Save a figure; returns it as a picture for the page, and the names of its files."""
    own = callable(section.figure)
    wide: Any = section.figure(width=WIDTH) if own else section.figure
    content = render(wide)
    files = {f"{stem}.{kind}": each for kind, each in content.items()}
    for name, each in files.items():
        folder.write(name, each)
    narrow = section.figure(width=PHONE) if own else None
    small = None if narrow is None else embed(narrow, render(narrow, "svg"))
    return Picture(embed(wide, content), small, section.alt or section.heading), list(files)


def embed(figure: Figure, content: Mapping[str, bytes]) -> Image:
    """The figure as SVG, or as PNG where that is shorter by far."""
    kind = "svg" if len(content["svg"]) <= LARGEST_SVG else "png"
    code = base64.b64encode(content.get(kind) or render(figure, kind)[kind]).decode("ascii")
    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    return Image(f"data:image/{'svg+xml' if kind == 'svg' else kind};base64,{code}", width, height)


def template() -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=visible,
    )
    environment.filters.update(paragraphs=paragraphs, grid=grid, cell=cell)
    source = resources.files("vrsgmcmc.reports") / "page.html.jinja"
    return environment.from_string(source.read_text(encoding="utf-8"))


def visible(value: Any) -> Any:
    """The text without control characters, lone surrogates and marks of direction."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in value
    )


def paragraphs(text: str) -> list[str]:
    return [part for part in re.split(r"\n\s*\n", text.strip()) if part]


def grid(table: Table) -> list[list[tuple[str, bool]]]:
    """The header and the rows; each cell with whether its column holds numbers."""
    numeric = table.numeric()
    return [list(zip(row, numeric, strict=True)) for row in (table.header, *table.cells())]
