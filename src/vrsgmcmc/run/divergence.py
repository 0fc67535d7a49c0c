"""Where a chain became non-finite: the chunk is run again, that chain alone and step by step."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from vrsgmcmc.core import Carry, Roots, Span, compiled

from .result import Divergence
from .setup import Setup


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
    return Divergence(chain, step, norm, h, h * float(np.clip(shrink, 1e-3, 0.5))), carry
