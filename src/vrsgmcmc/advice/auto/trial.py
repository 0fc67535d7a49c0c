"""A short run of the choice: does it stay where the posterior is?

|z|^2 / d is 1 on average under the Gaussian approximation, and up to `limit` noise, chance and moderate
tails explain its mean over a chain. A chain that goes further gets half of the step size, until it does
not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from vrsgmcmc import core, run

from .site import Site

CHAINS, STEPS = 4, 200
MOST_HALVINGS = 6
EXCURSION = 4.0  # times the limit of a mean: no step may be so far out


class Trial(NamedTuple):
    """The sampler with the step size that was tried last."""

    sampler: core.Sampler
    evaluations: int
    fits: bool
    note: str


def try_out(
    site: Site, sampler: core.Sampler, inflation: float, allowance: float, seed: int
) -> Trial:
    """Halve the step size until a short run stays as close as it should."""
    size, spent = site.size, 0
    cost = CHAINS * sampler.cost_per_step(size)
    steps = int(np.clip(allowance / 2 / cost, 20, STEPS))
    limit = 2 * (1 + inflation) + 6 / np.sqrt(core.tree.size(site.mode))
    starts = run.Starts(site.draws(jax.random.key(seed), CHAINS))
    for halvings in range(MOST_HALVINGS + 1):
        options: dict[str, Any] = {"num_steps": steps, "num_chains": CHAINS, "progress": False}
        result = run.sample(seed, site.posterior, site.data, starts, **vars(sampler), **options)
        spent += result.evaluations
        inside = not result.diverged.any()
        if inside:
            flat = jax.tree.map(
                lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[2:]), result.draws
            )
            squares = site.squares(flat)
            inside = squares.mean() < limit and squares.max() < EXCURSION * limit
        if inside:
            factor = 2**halvings
            note = f"A trial went too far: the step size was divided by {factor}." * bool(halvings)
            return Trial(sampler, spent, True, note)
        sampler = replace(sampler, step_size=float(sampler.step_size) / 2)
    return Trial(
        sampler,
        spent,
        False,
        "Trials went further out than the curvature at the mode allows, whatever the step size: the "
        "posterior has heavy tails, or the mode is not where its mass is.",
    )
