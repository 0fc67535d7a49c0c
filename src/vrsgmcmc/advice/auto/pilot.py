"""A short run before the run: nothing of it is shown."""

from typing import Any

from vrsgmcmc import core, run


def run_pilot(
    key: Any,
    posterior: core.Posterior,
    data: core.Data,
    init: Any,
    sampler: core.Sampler,
    **options: Any,
) -> run.Result:
    """`run.sample` without progress; a chain that becomes non-finite is an answer, not news."""
    setup = run.set_up(key, posterior, data, init, sampler, **options)
    return run.run_chains(setup, progress=False, quiet=True)
