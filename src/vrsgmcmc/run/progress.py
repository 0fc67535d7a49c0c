"""How far a run is: a live table on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Shows steps, data passes, steps/s, mean log-likelihood and the time left, on stderr."""

    def __init__(self, wanted: bool | None, label: str, num_steps: int, num_chains: int):
        self.console = Console(stderr=True)
        self.visible = wanted is not False
        self.live: Any = None
        self.label, self.num_steps, self.num_chains = label, num_steps, num_chains
        self.began = self.last_line = time.monotonic()
        self.eager = wanted is True

    @property
    def due(self) -> bool:
        """Whether an update would be seen: what is not seen need not be computed."""
        waited = time.monotonic() - self.last_line
        return self.visible and (self.console.is_terminal or waited > SECONDS_BETWEEN_LINES)

    def __enter__(self) -> Progress:
        if self.visible and self.console.is_terminal:
            self.live = Live(console=self.console, refresh_per_second=4, transient=not self.eager)
            self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.live is not None:
            self.live.__exit__(*error)

    def update(self, steps: int, data_passes: float, loglik: float) -> None:
        seconds = max(time.monotonic() - self.began, 1e-9)
        rate = steps / seconds
        left = (self.num_steps - steps) / rate if rate else float("inf")
        row = {
            "method": self.label,
            "step": f"{steps:,} / {self.num_steps:,}",
            "data passes": f"{data_passes:.2f}",
            "steps/s": f"{rate:,.0f}" + (f" x {self.num_chains} chains" * (self.num_chains > 1)),
            "mean loglik": f"{loglik:.4f}",
            "left": clock(left),
        }
        if self.live is not None:
            table = Table(*row, box=None)
            table.add_row(*row.values())
            self.live.update(table)
        else:
            print("  ".join(f"{k} {v}" for k, v in row.items()), file=sys.stderr, flush=True)
        self.last_line = time.monotonic()


def clock(seconds: float) -> str:
    """A time span as a person reads it."""
    if not seconds < 360_000:
        return "-"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
