"""Progress of a download on stderr: a bar on a terminal, a line every few seconds elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich import progress
from rich.console import Console

SECONDS_BETWEEN_LINES = 10.0


class Meter:
    """Shows how many bytes of a file are here."""

    def __init__(self, bar: progress.Progress, name: str, total: int):
        self.bar, self.name, self.total = bar, name, total
        self.task = bar.add_task(name, total=total)
        self.last_line = time.monotonic()

    def update(self, done: int) -> None:
        self.bar.update(self.task, completed=done)
        late = time.monotonic() - self.last_line > SECONDS_BETWEEN_LINES
        if late and not self.bar.live.is_started:
            self.say(f"{self.name}: {done:,} of {self.total:,} bytes, {done / self.total:.0%}")

    def say(self, line: str) -> None:
        self.bar.console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)
        self.last_line = time.monotonic()


@contextmanager
def meter(name: str, total: int) -> Iterator[Meter]:
    """Show the progress of one file while the block runs."""
    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar if sys.stderr.isatty() else nullcontext():
        yield Meter(bar, name, total)
