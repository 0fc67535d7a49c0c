"""Leave-one-out cross-validation by ArviZ: Pareto-smoothed importance sampling over the draws.

    elpd = sum_i log p(d_i | D without d_i),     p(d_i | D without d_i) ~ sum_s w_is p(d_i | x_s)

with weights w_is proportional to 1 / p(d_i | x_s), whose tail is smoothed (Vehtari et al. 2017, 2024).
With many rows, some of them, and a density at every row that is cheap (Magnusson et al. 2019):

    elpd ~ sum_i a_i + N/m sum_{i in m} (elpd_i - a_i),     a_i = log p(d_i | mean of the draws)
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.core import data_size, whole

from .likelihood import COPIES, LazyLogLikelihood, blocks, check_size, predictive_density
from .parts import Part, need_model, parts, select
from .predict import predict_mean
from .scalars import variables

if TYPE_CHECKING:
    import xarray
    from arviz_stats.utils import ELPDData

    from .result import Result

logger = logging.getLogger("vrsgmcmc")
FEWEST = 2  # draws
NETWORK_DRAWS = 32  # whose mean density stands for that at the mean, which means nothing there
MOST_NAMED = 10  # rows in a warning


def loo(result: Result, *, most: int | None = None) -> ELPDData:
    """See `Result.loo`."""
    from arviz_stats.loo import loo

    size, part = select_enough(result, "loo", most)
    check_size("loo", part, size, COPIES)
    tree = as_tree(result, part, blocks(result, part, np.arange(size)).astype(np.float64))
    with quiet():
        value: Any = loo(tree, pointwise=True)
    warn_of_tails("loo", value)
    return value


def loo_subsample(
    result: Result, observations: int = 400, *, most: int | None = None, seed: int = 0
) -> ELPDData:
    """See `Result.loo_subsample`."""
    import xarray
    from arviz_stats.loo import loo_subsample
    from xarray.core import indexing

    where = "loo_subsample"
    size, part = select_enough(result, where, most)
    observations = whole(where, "observations", observations, least=2)
    if observations >= size:
        raise ValueError(
            f"{where}(observations={observations}): the data have {size:,} rows. result.loo() takes "
            "all of them."
        )
    check_size(where, part, observations, COPIES)
    lazy = indexing.LazilyIndexedArray(LazyLogLikelihood(result, part, size))
    tree = as_tree(result, part, lazy)
    tree["observed_data"] = xarray.DataTree(xarray.Dataset({"data": ("row", np.arange(size))}))
    density = xarray.DataArray(approximation(result, part), dims="row")
    with quiet():
        value: Any = loo_subsample(
            tree,
            observations,
            pointwise=True,
            var_name="data",
            seed=seed,
            method="plpd",
            log_lik_fn=lambda observed, data: density,
        )
    warn_of_tails(where, value)
    return value


def select_enough(result: Result, where: str, most: int | None) -> tuple[int, Part]:
    """The number of rows, and draws that are enough for a variance."""
    need_model(result, where)
    part = select(result, where, most)
    if part.draws.size < FEWEST:
        raise ValueError(
            f"{where}: {part.draws.size} draws of a chain are too few. Take more draws."
        )
    return data_size(result.context.data), part


def approximation(result: Result, part: Part) -> np.ndarray:
    """log p(d_i | x) at the mean of the draws; for a network, of the mean density of some."""
    if result.context.posterior.network:
        few = select(result, "loo_subsample", min(NETWORK_DRAWS, part.count))
        trees = [tree for _, tree in parts(result, few)]
        draws = jax.tree.map(lambda *leaves: jnp.concatenate([flat(x) for x in leaves]), *trees)
        return predictive_density(result, draws, few.count)
    mean = predict_mean(result, lambda params, x: params, None, most=part.count)
    like = next(parts(result, part))[1]
    point = jax.tree.map(lambda leaf, one: jnp.asarray(leaf[None], one.dtype), mean, like)
    return predictive_density(result, point, 1)


def flat(leaf: np.ndarray) -> np.ndarray:
    return leaf.reshape(-1, *leaf.shape[2:])


def as_tree(result: Result, part: Part, values: Any) -> xarray.DataTree:
    """The groups that ArviZ reads: the draws, for their effective number, and the log-likelihoods."""
    import xarray

    draws: dict[str, Any] = {}
    for where, tree in parts(result, part):
        for name, leaf in variables(tree):
            if name not in draws:
                shape = (part.chains.size, part.draws.size, *leaf.shape[2:])
                draws[name] = np.empty(shape)
            draws[name][:, where] = leaf
    posterior = xarray.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_dim_{i}" for i in range(leaf.ndim - 2))), leaf)
            for name, leaf in draws.items()
        },
        {"chain": part.chains, "draw": part.draws},
    )
    likelihood = xarray.Dataset(
        {"data": xarray.Variable(("chain", "draw", "row"), values)}, posterior.coords
    )
    return xarray.DataTree.from_dict({"/posterior": posterior, "/log_likelihood": likelihood})


@contextmanager
def quiet() -> Iterator[None]:
    """ArviZ warns without saying which rows; `warn_of_tails` says it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimated shape parameter of Pareto")
        yield


def warn_of_tails(where: str, value: ELPDData) -> None:
    """Say in words which rows importance sampling cannot leave out."""
    k = np.asarray(value.pareto_k)
    rows = np.flatnonzero(k > value.good_k)
    if not rows.size:
        return
    worst = rows[np.argsort(-k[rows], kind="stable")][:MOST_NAMED]
    logger.warning(
        "%s: %d of %d rows that were left out have a Pareto k above %.2f (row %s%s; the largest k is "
        "%.2f). Without such a row the posterior is another one, so its term, and the sum, are not "
        "reliable: it looks better than it is. Take more draws, look at these rows, or sample without "
        "them and compare.",
        *(where, rows.size, int(np.isfinite(k).sum()), value.good_k),
        *(", ".join(map(str, worst)), ", ..." if rows.size > worst.size else "", k[worst[0]]),
    )
