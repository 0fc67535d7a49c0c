"""Text for a terminal: what users name cannot move the cursor, change colours or hide words.

Every character that is not printable, except the end of a line, is written as its escape: a column
called "\\x1b[2J" is shown and does not clear the screen. All output of the command line passes here:
`print` through `safe_output`, standard error through `say`, and messages of the library's log.
"""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any


def safe_text(text: str) -> str:
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else escape(c) for c in text)


def safe_name(name: str) -> str:
    """A name on one line."""
    return safe_text(name).replace("\n", "\\n")


def escape(character: str) -> str:
    return ascii(character)[1:-1]


def say(line: str) -> None:
    """Print a line on standard error."""
    print(safe_text(line), file=sys.stderr, flush=True)


class SafeStream(io.TextIOBase):
    """A stream that writes safe text to another one."""

    def __init__(self, stream: Any):
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(safe_text(text))
        return len(text)

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()


class SafeFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return safe_text(super().format(record))


@contextmanager
def safe_output() -> Iterator[None]:
    """Make what is printed, and what the library logs, safe for a terminal."""
    logger, handler = logging.getLogger("vrsgmcmc"), logging.StreamHandler()
    handler.setFormatter(SafeFormatter())
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    try:
        with redirect_stdout(SafeStream(sys.stdout)):
            yield
    finally:
        logger.removeHandler(handler)
