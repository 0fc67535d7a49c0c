"""Pages of documentation: their code, run, and their tables, read."""

import re
from collections.abc import Iterator
from pathlib import Path

CODE = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def execute(page: Path) -> Iterator[dict]:
    """Run the blocks of a page in one namespace, and show it after each."""
    text = page.read_text()
    names: dict = {"__name__": "page"}
    for block in CODE.finditer(text):
        line = text.count("\n", 0, block.start(1))
        source = "\n" * line + block[1]  # so that errors show the page's line
        exec(compile(source, page, "exec"), names)
        yield names


def cells(text: str, first: str) -> dict[tuple[str, str], str]:
    """The table whose first column is called so: (row, column) -> cell."""
    lines = text[text.index(f"| {first} |") :].split("\n\n")[0].splitlines()
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {(r[0], c): cell for r in rows for c, cell in zip(header, r, strict=True)}
