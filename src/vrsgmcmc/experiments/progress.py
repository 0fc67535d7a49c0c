"""Progress of an experiment: one line for each method, with the time left.

A terminal shows a live table. Elsewhere a line is printed when a method is done, and every few seconds
in between.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from vrsgmcmc.run import SECONDS_BETWEEN_LINES, clock


class MethodProgress:
    """One method: waiting, running, or done with a result in `text`."""

    def __init__(self, name: str):
        self.name, self.text = name, "waiting"
        self.parts: Sequence[float] = (1.0,)  # lengths of the parts that the work consists of
        self.part = 0  # index of the current part
        self.fraction = 0.0  # of the current part that is done
        self.loaded = 0.0  # share of the work that a checkpoint contained
        self.start: float | None = None
        self.seconds: float | None = None  # set at the end

    @property
    def share(self) -> float:
        if self.seconds is not None or self.part >= len(self.parts):
            return 1.0
        done = sum(self.parts[: self.part]) + self.fraction * self.parts[self.part]
        return done / sum(self.parts)

    @property
    def elapsed(self) -> float:
        if self.seconds is not None or self.start is None:
            return self.seconds or 0.0
        return time.monotonic() - self.start


class ExperimentProgress:
    """The lines of an experiment: `method` starts one, `update` sets how much of it is done."""

    def __init__(self, names: Sequence[str], console: Console | None = None):
        self.console = console or Console(stderr=True)
        self.methods = {name: MethodProgress(name) for name in names}
        self.current: MethodProgress | None = None
        self.live: Any = None
        self.last = time.monotonic()

    def __enter__(self) -> ExperimentProgress:
        if self.console.is_terminal:
            self.live = Live(get_renderable=self.table, console=self.console, refresh_per_second=4)
            self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.live is not None:
            self.live.__exit__(*error)
            self.live = None

    @contextmanager
    def method(self, name: str, parts: Sequence[float] = (1.0,)) -> Iterator[MethodProgress]:
        """Run a method, in parts of these lengths; the caller sets the result in `text`."""
        line = self.current = self.methods[name]
        line.parts, line.start, line.text = parts, time.monotonic(), ""
        yield line
        line.seconds, self.current = line.elapsed, None
        if self.live is None:
            left = time_left(*self.methods.values())
            self.print(f"{name}: {line.text}, {clock(line.seconds)}{about(left)}")

    def update(self, fraction: float, *, loaded: bool = False) -> None:
        """Set the fraction of the current part that is done; 1 starts the next part.

        `loaded`: a checkpoint contained this work, so it took no time.
        """
        line = self.current
        if line is None:
            return
        before, line.fraction = line.share, fraction
        if fraction >= 1:
            line.part, line.fraction = line.part + 1, 0.0
        if loaded:
            line.loaded += line.share - before
        if self.live is None and time.monotonic() - self.last > SECONDS_BETWEEN_LINES:
            self.print(f"{line.name}: {line.share:.0%}{about(time_left(line))}")

    def print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
        self.last = time.monotonic()

    def table(self) -> Table:
        left = time_left(*self.methods.values())
        table = Table(box=None, show_header=False, caption=about(left)[2:] or None)
        for line in self.methods.values():
            if line is self.current:
                state: Any = ProgressBar(completed=100 * line.share, width=24)
                seconds = f"{clock(time_left(line))} left"
            else:
                state, seconds = escape(line.text), clock(line.elapsed)
            table.add_row(escape(line.name), state, seconds if line.start is not None else "")
        return table


def time_left(*lines: MethodProgress) -> float:
    """Seconds to the end of these methods, if the rest takes as long as what is done."""
    share = sum(line.share for line in lines)
    done = share - sum(line.loaded for line in lines)
    seconds = sum(line.elapsed for line in lines)
    return seconds / done * (len(lines) - share) if done else float("inf")


def about(left: float) -> str:
    return f", about {clock(left)} left" if 0 < left < float("inf") else ""
