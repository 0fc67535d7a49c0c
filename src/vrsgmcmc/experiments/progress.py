"""How far an experiment is: one line for each method, with the time left.

On a terminal the lines stay and change; elsewhere a line is printed when a method is done, and now and
then in between.
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


class Line:
    """One method: waiting, under way, or done with a finding."""

    def __init__(self, name: str):
        self.name, self.text = name, "waiting"
        self.parts: Sequence[float] = (1.0,)  # how long each one is that it is made of,
        self.before = 0  # those that are over,
        self.fraction = 0.0  # and how much of the present one is
        self.known = 0.0  # the share that was there already
        self.began: float | None = None
        self.seconds: float | None = None  # when it is done

    @property
    def share(self) -> float:
        if self.seconds is not None or self.before >= len(self.parts):
            return 1.0
        over = sum(self.parts[: self.before]) + self.fraction * self.parts[self.before]
        return over / sum(self.parts)

    @property
    def taken(self) -> float:
        if self.seconds is not None or self.began is None:
            return self.seconds or 0.0
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        made = self.share - self.known
        return self.taken * (1 - self.share) / made if made else float("inf")


class Board:
    """The lines of an experiment. What is found is told by `line`; `at` says how far it is."""

    def __init__(self, names: Sequence[str], console: Console | None = None):
        self.console = console or Console(stderr=True)
        self.lines = {name: Line(name) for name in names}
        self.going: Line | None = None
        self.live: Any = None
        self.last = time.monotonic()

    def __enter__(self) -> Board:
        if self.console.is_terminal:
            self.live = Live(get_renderable=self.table, console=self.console, refresh_per_second=4)
            self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.live is not None:
            self.live.__exit__(*error)
            self.live = None

    @contextmanager
    def line(self, name: str, parts: Sequence[float] = (1.0,)) -> Iterator[Line]:
        """A method at work, in parts of such lengths; it leaves its finding in `text`."""
        line = self.going = self.lines[name]
        line.parts, line.began, line.text = parts, time.monotonic(), ""
        yield line
        line.seconds, self.going = line.taken, None
        if self.live is None:
            self.print(f"{name}: {line.text}, {clock(line.seconds)}{self.told(self.left)}")

    def at(self, fraction: float, *, known: bool = False) -> None:
        """So much of the present part is done, or was `known` already; 1 ends it."""
        line = self.going
        if line is None:
            return
        before, line.fraction = line.share, fraction
        if fraction >= 1:
            line.before, line.fraction = line.before + 1, 0.0
        if known:
            line.known += line.share - before
        if self.live is None and time.monotonic() - self.last > SECONDS_BETWEEN_LINES:
            self.print(f"{line.name}: {line.share:.0%}{self.told(line.left)}")

    @property
    def left(self) -> float:
        """Seconds to the end of the experiment, if the rest is like what is done."""
        shares = sum(line.share for line in self.lines.values())
        made = shares - sum(line.known for line in self.lines.values())
        taken = sum(line.taken for line in self.lines.values())
        return taken / made * (len(self.lines) - shares) if made else float("inf")

    @staticmethod
    def told(left: float) -> str:
        return f", about {clock(left)} left" if 0 < left < float("inf") else ""

    def print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
        self.last = time.monotonic()

    def table(self) -> Table:
        table = Table(box=None, show_header=False, caption=self.told(self.left)[2:] or None)
        for line in self.lines.values():
            under_way = line is self.going
            shown = ProgressBar(completed=100 * line.share, width=24) if under_way else ""
            time_shown = clock(line.left) + " left" if under_way else clock(line.taken)
            table.add_row(
                escape(line.name),
                shown or escape(line.text),
                time_shown if line.began is not None else "",
            )
        return table
