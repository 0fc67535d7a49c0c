"""What the site loads from elsewhere: `python tests/support/site_files.py FOLDER` lists it."""

import re
import sys
from pathlib import Path

LOADED = re.compile(  # by a page: everything but the links that a reader follows
    r"<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?"
    r"\b(?:src|href|data|srcset)\s*=\s*[\"']?((?:https?:)?//[^\"'\s>]+)"
)
STYLED = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])((?:https?:)?//[^\"')\s]+)")


def elsewhere(folder: Path) -> list[str]:
    """`file: address` for each script, style, font or picture that is not in the folder."""
    lines = []
    for file in sorted(folder.rglob("*")):
        pattern = {".html": LOADED, ".svg": LOADED, ".css": STYLED}.get(file.suffix)
        if pattern:
            text = file.read_text(encoding="utf-8")
            lines += [f"{file.relative_to(folder)}: {each}" for each in pattern.findall(text)]
    return lines


if __name__ == "__main__":
    loads = elsewhere(Path(sys.argv[1]))
    sys.exit("\n".join(["The site loads from elsewhere:", *loads]) if loads else 0)
