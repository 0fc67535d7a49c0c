"""How far a run is: a live line on a terminal or in a notebook, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

from rich import progress
from rich.console import Console

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_PICTURES = 0.2  # in a notebook, each of which is a message to the browser


class Progress:
    """Steps, data passes, steps/s, mean log-likelihood and the time to the last step, on stderr.

    A run that has its effective draws ends before: the time is a bound."""

    def __init__(self, wanted: bool | None, label: str, num_steps: int, num_chains: int):
        console = Console(stderr=True)
        self.visible, self.live = wanted is not False, console.is_terminal
        self.cell = Cell(wanted is True) if self.visible and console.is_jupyter else None
        self.label, self.num_steps, self.num_chains = label, num_steps, num_chains
        self.began = self.last_line = time.monotonic()
        self.bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=20),
            progress.TextColumn("step {task.completed:,} / {task.total:,}  {task.fields[numbers]}"),
            progress.TimeRemainingColumn(compact=True),
            progress.TextColumn("left"),
            console=console,
            transient=wanted is not True,
            disable=not (self.visible and self.live),
        )
        self.task = self.bar.add_task(label, total=num_steps, numbers="")

    @property
    def due(self) -> bool:
        """Whether an update would be printed: what is not printed need not be computed."""
        waited = time.monotonic() - self.last_line
        pause = SECONDS_BETWEEN_LINES if self.cell is None else SECONDS_BETWEEN_PICTURES
        return self.visible and (self.live or waited > pause)

    def __enter__(self) -> Progress:
        self.bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.bar.__exit__(*error)
        if self.cell is not None:
            self.cell.close()

    def update(self, steps: int, data_passes: float, loglik: float) -> None:
        rate = steps / max(time.monotonic() - self.began, 1e-9)
        chains = f" x {self.num_chains} chains" * (self.num_chains > 1)
        numbers = f"data passes {data_passes:.2f}  steps/s {rate:,.0f}{chains}"
        numbers += f"  mean loglik {loglik:.4f}"
        if self.live:
            self.bar.update(self.task, completed=steps, numbers=numbers)
        else:
            left = (self.num_steps - steps) / rate if rate else float("inf")
            step = f"step {steps:,} / {self.num_steps:,}"
            text = f"method {self.label}  {step}  {numbers}  at most {clock(left)} left"
            if self.cell is None:
                print(text, file=sys.stderr, flush=True)
            else:
                self.cell.show(text, steps / self.num_steps)
        self.last_line = time.monotonic()


class Cell:
    """A bar below a cell of a notebook. It needs no widgets, which many notebooks do not have."""

    def __init__(self, stays: bool):
        self.stays, self.handle = stays, None

    def show(self, text: str, done: float) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found]

        bar = f'<progress value="{done:.4f}" max="1"></progress> {escape(text)}'
        if self.handle is None:
            self.handle = display(HTML(bar), display_id=True)
        else:
            self.handle.update(HTML(bar))

    def close(self) -> None:
        if self.handle is not None and not self.stays:
            from IPython.display import HTML  # type: ignore[import-not-found]

            self.handle.update(HTML(""))


def clock(seconds: float) -> str:
    """A time span as hours:minutes:seconds or minutes:seconds."""
    if not seconds < 360_000:
        return "-"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
