"""`vr.sample` with chunks of a length that a test chooses."""

from dataclasses import fields

from vrsgmcmc.core import Sampler
from vrsgmcmc.run import Pace, run_chains, set_up
from vrsgmcmc.run import sample as run_sample


def sample(*arguments, first_chunk, seconds_per_chunk=0.0, **options):
    """The same call: the first chunk has so many units, and the next ones take so many seconds."""
    options = {**run_sample.__wrapped__.__kwdefaults__, **options}
    run_dir, progress, _ = (options.pop(name) for name in ("run_dir", "progress", "search_cost"))
    sampler = Sampler(**{field.name: options.pop(field.name) for field in fields(Sampler)})
    setup = set_up(*arguments, sampler=sampler, draws_in_memory=run_dir is None, **options)
    return run_chains(setup, run_dir, progress, Pace(first_chunk, seconds_per_chunk))
