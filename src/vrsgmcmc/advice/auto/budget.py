"""The most that a run may cost: evaluations, passes over the data, or seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from vrsgmcmc.core import positive

SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "min": 60.0, "minutes": 60.0, "h": 3600.0}


def parse_budget(
    budget: Any, size: int, where: str = "sample"
) -> tuple[float | None, float | None]:
    """(evaluations, None) or (None, seconds)."""
    if budget is None:
        return None, None
    if isinstance(budget, timedelta):
        return None, positive(where, "budget", budget.total_seconds())
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-z]+)\s*", budget)
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
