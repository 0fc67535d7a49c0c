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

from .pilot import run_pilot
from .site import Site

CHAINS, FEWEST_STEPS, STEPS = 4, 20, 200
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
    affordable = allowance / 2 / sampler.cost_per_step(size)  # steps of all chains
    chains = int(np.clip(affordable / FEWEST_STEPS, 1, CHAINS))
    steps = int(np.clip(affordable / chains, FEWEST_STEPS, STEPS))
    limit = 2 * (1 + inflation) + 6 / np.sqrt(core.tree.size(site.mode))
    starts = run.Starts(site.draws(jax.random.key(seed), chains))
    for halvings in range(MOST_HALVINGS + 1):
        options: dict[str, Any] = {"num_steps": steps, "num_chains": chains}
        result = run_pilot(seed, site.posterior, site.data, starts, sampler, **options)
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
