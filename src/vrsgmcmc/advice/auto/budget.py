"""The most that a run may cost: evaluations, passes over the data, or seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from vrsgmcmc.core import positive

SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}


def parse_budget(
    budget: Any, size: int, where: str = "sample"
) -> tuple[float | None, float | None]:
    """(evaluations, None) or (None, seconds)."""
    if budget is None:
        return None, None
    if isinstance(budget, timedelta):
        return None, positive(where, "budget", budget.total_seconds())
    if isinstance(budget, str):
        match = re.fullmatch(
            r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-z]+)\s*", budget.lower()
        )
        number, unit = (float(match[1]), match[2]) if match else (0.0, "")
        evaluations = {"evaluations": 1, "pass": size, "passes": size}
        if unit in SECONDS:
            return None, positive(where, "budget", number * SECONDS[unit])
        if unit in evaluations:
            return positive(where, "budget", number * evaluations[unit]), None
        raise ValueError(
            f"{where}(budget={budget!r}): write a number of evaluations, '200 passes', '60 s' or "
            "'5 min'."
        )
    return positive(where, "budget", budget), None
