"""How far a download is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

SECONDS_BETWEEN_LINES = 10.0


class Meter:
    """Bytes that have come, on stderr."""

    def __init__(self, name: str, total: int):
        self.name, self.total = name, total
        self.bar: Any = None
        self.last_line = time.monotonic()

    def __enter__(self) -> Meter:
        if sys.stderr.isatty():
            from rich import progress
            from rich.console import Console

            self.bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.DownloadColumn(),
                progress.TransferSpeedColumn(),
                progress.TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self.bar.__enter__()
            self.task = self.bar.add_task(self.name, total=self.total)
        return self

    def __exit__(self, *error: Any) -> None:
        if self.bar is not None:
            self.bar.__exit__(*error)

    def at(self, done: int) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=done)
        elif time.monotonic() - self.last_line > SECONDS_BETWEEN_LINES:
            self.say(f"{self.name}: {done:,} of {self.total:,} bytes, {done / self.total:.0%}")

    def say(self, line: str) -> None:
        if self.bar is not None:
            self.bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)
        self.last_line = time.monotonic()
