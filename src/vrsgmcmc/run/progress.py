"""How far a run is: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich import progress
from rich.console import Console

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Steps, data passes, steps/s, mean log-likelihood and the time left, on stderr."""

    def __init__(self, wanted: bool | None, label: str, num_steps: int, num_chains: int):
        console = Console(stderr=True)
        self.visible, self.live = wanted is not False, console.is_terminal
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
        return self.visible and (self.live or waited > SECONDS_BETWEEN_LINES)

    def __enter__(self) -> Progress:
        self.bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.bar.__exit__(*error)

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
            text = f"method {self.label}  {step}  {numbers}  left {clock(left)}"
            print(text, file=sys.stderr, flush=True)
        self.last_line = time.monotonic()


def clock(seconds: float) -> str:
    """A time span as hours:minutes:seconds or minutes:seconds."""
    if not seconds < 360_000:
        return "-"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
