"""Whether the log-densities are finite where the chains start, and where they end."""

import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core

from .rows import find_bad_rows

ROWS_TRIED = 64  # data whose gradients are tried at the start; a pass over all would take long
SECONDS = 1.0  # the most that looking at the log-likelihoods of all data may take

logger = logging.getLogger("vrsgmcmc")


def check_starts(
    posterior: core.Posterior, starts: core.Params, data: core.Data, differ: bool
) -> None:
    """The log-densities are finite where the chains start, and on the first rows their gradients.

    `differ`: the chains start at different places, so a message names the chain that it is about.
    """
    rows = min(ROWS_TRIED, core.data_size(data))
    items = jax.tree.map(lambda leaf: leaf[:rows], data)
    if not differ:
        starts = jax.tree.map(lambda leaf: leaf[:1], starts)
    values = jax.tree.map(np.asarray, _try(posterior, starts, items, jax.random.key(0)))
    fine = np.isfinite(values[0]) & np.isfinite(values[1]).all(1)
    fine &= ~np.any([flags for flags in values[2] + values[3]], axis=0)
    if fine.all():
        if rows < core.data_size(data):
            check_all_rows(posterior, starts, data, differ)
        return
    chain = int(np.argmin(fine))
    params = jax.tree.map(lambda leaf: leaf[chain], starts)
    prior, likelihoods, prior_bad, rows_bad = jax.tree.map(lambda leaf: leaf[chain], values)
    where = f"at the start of chain {chain}" if differ else "at init"
    if not np.isfinite(prior):
        raise ValueError(
            f"logprior is {prior} {where}. Start inside the prior's support"
            f"{_suspect(prior_bad, params)}."
        )
    if not np.all(np.isfinite(likelihoods)):
        row = int(np.argmin(np.isfinite(likelihoods)))
        raise ValueError(
            f"loglik is {likelihoods[row]} for data row {row} {where}"
            f"{_suspect(rows_bad, params)}. Start elsewhere, or make loglik safe there."
        )
    for name, bad in (("logprior", prior_bad), ("loglik", rows_bad)):
        if any(bad):
            raise ValueError(
                f"the gradient of {name} is not finite {where}{_suspect(bad, params)}, though its "
                "value is. Look for jnp.where around an unsafe function, or a root or norm at 0."
            )


def check_all_rows(
    posterior: core.Posterior, starts: core.Params, data: core.Data, differ: bool
) -> None:
    """The log-likelihoods of all rows are finite where the chains start, as far as time allows."""
    chains = jax.tree.leaves(starts)[0].shape[0]
    for chain in in_time(range(chains), SECONDS):
        params = jax.tree.map(lambda leaf, c=chain: leaf[c], starts)
        if bad := find_bad_rows(posterior, params, data, seconds=SECONDS / chains):
            where = f"at the start of chain {chain}" if differ else "at init"
            raise ValueError(
                f"loglik is {bad.value} for data row {bad.first} {where} ({bad.count} of "
                f"{bad.looked_at} rows are not finite). Look at that row, start elsewhere, or make "
                "loglik safe there."
            )


def check_ends(
    posterior: core.Posterior, state: core.State, data: core.Data, chains: Any, seconds: float
) -> None:
    """Warn of rows that have no finite log-likelihood where the chains ended, as far as time allows:
    no step notices them while their gradients are finite."""
    seconds = min(seconds, SECONDS)
    for chain in in_time(chains, seconds):
        params = jax.tree.map(lambda leaf, c=chain: leaf[c], state.position)
        if bad := find_bad_rows(posterior, params, data, seconds=seconds / len(chains)):
            logger.warning(
                "chain %d: loglik is %s for data row %d at its last position (%d of %d rows are not "
                "finite), though its gradient is finite. Its draws are not of the posterior: look at "
                "that row, or make loglik safe there.",
                *(chain, bad.value, bad.first, bad.count, bad.looked_at),
            )


def in_time(chains: Iterable[int], seconds: float) -> Iterator[int]:
    """The chains, until `seconds` have passed since the first was looked at: that one compiles."""
    end = np.inf
    for chain in chains:
        if time.monotonic() > end:
            return
        yield chain
        end = min(end, time.monotonic() + seconds)


@core.bounded_jit
def _try(
    posterior: core.Posterior, starts: core.Params, items: core.Data, augment_key: core.PRNGKey
):
    """Log prior, log-likelihoods, and which leaves of their gradients are bad, for each chain."""
    batch = core.all_rows(items)

    def bad(gradient):
        return [~jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(gradient)]

    def one(params):
        return (
            posterior.logprior(params),
            core.row_likelihoods(posterior, params, batch, augment_key),
            bad(core.prior_gradient(posterior, params)),
            bad(core.row_gradients(posterior, params, batch, augment_key)),
        )

    return jax.lax.map(one, starts)


def _suspect(bad: list, params: core.Params) -> str:
    names = [name for (name, _), flag in zip(core.named_leaves(params), bad, strict=True) if flag]
    return f" (its gradient is not finite in leaf {', '.join(names)})" if names else ""
