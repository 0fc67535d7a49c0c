"""Whether the chains in the directory of a job are those of this job."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from vrsgmcmc.advice import ESS, load_request, parse_budget
from vrsgmcmc.core import as_key, tree_sum
from vrsgmcmc.run import store

if TYPE_CHECKING:
    from .directory import Job

SETTINGS = ("num_steps", "num_chains", "burn_in", "thin")
REQUEST = {"num_steps": "auto", "burn_in": "auto", "thin": "auto", "num_chains": 4, "ess": ESS}
NARROW = {"float64": "float32", "int64": "int32"}  # as JAX holds them by default


def differences(job: Job, chains: store.Run) -> list[str]:
    """Where a run contradicts the job: in its settings, seed or data. Nothing is traced or compiled."""
    settings, request = job.choice.settings, load_request(chains.path)
    here: dict[str, Any] = {"chosen by the library": job.choice.automatic}
    there: dict[str, Any] = {"chosen by the library": request is not None}
    if request is None:
        here |= {name: settings.get(name) for name in SETTINGS}
        there |= {name: chains.config[name] for name in SETTINGS}
    else:
        budget = parse_budget(settings.get("budget"), job.sizes[0])
        here |= {name: settings.get(name, default) for name, default in REQUEST.items()}
        here |= {"evaluations": str(math.inf) if budget[0] is None else budget[0]}
        here |= {"seconds": budget[1]}
        there |= {name: request.get(name) for name in here if name in request}
    seed, data = (as_dict(chains.environment.get(name)) for name in ("seed", "data"))
    words = np.ravel(jax.random.key_data(as_key(job.config.seed)))
    here["seed"], there["seed"] = [int(word) for word in words], seed.get("words")
    if not job.needs_code:
        sums = data_sums(job)
        same = data.get("sha256") in sums
        here["data"], there["data"] = sums[0], sums[0] if same else data.get("sha256")
    return [text for _, text in store.differences(there, here)]


def data_sums(job: Job) -> list[str]:
    """The sum of the rows in 64 and in 32 bits: the run has one of them."""
    data = job.data()
    narrow = jax.tree.map(lambda rows: rows.astype(NARROW.get(rows.dtype.name, rows.dtype)), data)
    return [tree_sum(data), tree_sum(narrow)]


def check(job: Job, chains: store.Run) -> None:
    """`RunError` for the chains of another job."""
    if lines := differences(job, chains):
        raise store.RunError(
            f"{job.chains} holds the chains of another job:\n  "
            + "\n  ".join(lines)
            + "\nPut the directory back from a copy, or sample again."
        )


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
