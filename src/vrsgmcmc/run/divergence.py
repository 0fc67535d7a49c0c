"""Where a chain became non-finite: the chunk is run again, that chain alone and step by step.

Then the rows of the data are looked at, at its last finite position: one of them can be the cause.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from vrsgmcmc.core import Carry, Roots, Span, compiled

from .rows import find_bad_rows
from .setup import Setup
from .totals import Divergence

SECONDS = 10.0  # the most that the search for a row may take


def locate(
    setup: Setup, chain: int, roots: Roots, carry: Carry, span: Span, schedule: Any
) -> tuple[Divergence, Carry]:
    """The divergence of one chain during a chunk, and what it carried before that step."""
    arguments = (roots, setup.step_sizes[chain], carry, span, schedule)
    carry, _, _, trouble = compiled.advance(setup.program, setup.setting, *arguments, careful=True)
    step, growth = int(trouble.step), float(trouble.growth)
    h = float(setup.step_sizes[chain] * schedule[min(step - span.first_step, schedule.size - 1)])
    # an unstable mode of curvature k grows by |1 - h k| a step, and 1/k is a stable step size
    shrink = 1 / (1 + growth) if np.isfinite(growth) and growth > 0 else 0.1
    leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(carry.state.position)]
    values = np.concatenate(leaves).astype(np.float64)
    largest = max(np.max(np.abs(values)), np.finfo(float).tiny)
    norm = float(largest * np.linalg.norm(values / largest))  # squares could overflow
    try_step_size = h * float(np.clip(shrink, 1e-3, 0.5))
    return Divergence(chain, step, norm, h, try_step_size, bad_row(setup, carry)), carry


def bad_row(setup: Setup, carry: Carry) -> int | None:
    """The first row that is not finite at the last finite position.

    None if no row is, or if most are: then the chain is too far out, and no row is to blame.
    """
    posterior, data = setup.program.posterior, setup.setting.data
    position = carry.state.position
    bad = find_bad_rows(posterior, position, data, gradients=True, seconds=SECONDS)
    return bad.first if bad is not None and 2 * bad.count <= bad.looked_at else None
