"""The draws as tables: ArviZ's tree and summary, pandas, netCDF."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from vrsgmcmc.core import one_of

from .memory import check_memory
from .parts import chains_alive
from .scalars import scalars, variables

if TYPE_CHECKING:
    import pandas
    import xarray

    from .result import Result

COLUMNS = ("chain", "draw")


def summary(result: Result, **options: Any) -> pandas.DataFrame:
    """ArviZ's table; see `Result.summary`."""
    from arviz_stats.summary import summary

    tree = to_arviz(result)
    options = {"round_to": "none", "kind": "all", "fmt": "wide", **options}
    table: Any = summary(tree, **options)
    if "sd" in table and options["round_to"] == "none":
        table["sd"] = sample_sds(tree, **options)
    table.attrs["note"] = tree.attrs["note"]
    return table


def sample_sds(
    tree: xarray.DataTree, coords: Mapping[str, Any] | None = None, **options: Any
) -> pandas.Series:
    """The sds (ddof = 1) of the rows of ArviZ's wide table; its own ddof depends on its version."""
    from arviz_base import dataset_to_dataframe, extract

    choice = {n: v for n, v in options.items() if n in ("var_names", "filter_vars", "group")}
    posterior: Any = extract(tree, **choice, combined=False, keep_dataset=True)
    sds = posterior.sel(coords).std(("chain", "draw"), ddof=1).expand_dims(summary=["sd"])
    table: Any = dataset_to_dataframe(sds, sample_dims=["summary"])
    return table.loc["sd"]


def quiet_summary(result: Result, draws: Any) -> pandas.DataFrame:
    """The summary of other draws of a result; what cannot be computed is NaN, without a warning."""
    with warnings.catch_warnings():  # a constant parameter, or more chains than draws
        warnings.simplefilter("ignore")
        return summary(result.with_draws(draws))


def to_arviz(result: Result) -> xarray.DataTree:
    """See `Result.to_arviz`."""
    from arviz_base import from_dict

    alive = chains_alive(result)
    # ArviZ sums in the dtype of the draws, and in float32 1e5 terms lose digits
    posterior = {
        name: np.asarray(leaf)[alive].astype(np.float64) for name, leaf in variables(result.draws)
    }
    step = np.broadcast_to(result.draw_steps, (alive.size, result.draw_steps.size))
    tree = from_dict(
        {"posterior": posterior, "sample_stats": {"step": step}}, coords={"chain": alive}
    )
    tree.attrs.update(attributes(result))
    return tree


def attributes(result: Result) -> dict[str, Any]:
    """Settings, cost and versions, as plain values."""
    out = [divergence.chain for divergence in result.divergences]
    note = f"chains left out because they became non-finite: {out}" if out else "all chains"
    packages = {name: version(name) for name in ("vrsgmcmc", "jax", "numpy")}
    return {
        **{name: str(value) for name, value in result.settings.items()},
        "evaluations": result.evaluations,
        "data_passes": result.data_passes,
        "seconds": result.seconds,
        "num_steps_done": result.num_steps,
        "interrupted": int(result.interrupted),
        "diverged_chains": out,
        "note": note,
        "versions": ", ".join(f"{name} {number}" for name, number in packages.items()),
        "python": platform.python_version(),
        "device": jax.devices()[0].platform,
    }


def to_pandas(result: Result, names: Any, form: str) -> pandas.DataFrame:
    """See `Result.to_pandas`."""
    import pandas

    one_of("to_pandas", "form", form, ("wide", "long"))
    chosen = scalars(result, "to_pandas", names)
    chains, draws, _ = chosen.shape
    count = chains * draws * chosen.count
    check_memory(
        count * 8 * (1 if form == "wide" else 3),
        f"to_pandas: {chains} chains x {draws:,} draws of {chosen.count:,} parameters",
        'Choose some: names=["..."].',
    )
    values = chosen.values().reshape(chains * draws, chosen.count)
    place = {"chain": np.repeat(chosen.chains, draws), "draw": np.tile(np.arange(draws), chains)}
    if form == "long":
        return pandas.DataFrame(
            {name: np.tile(column, chosen.count) for name, column in place.items()}
            | {
                "parameter": pandas.Categorical.from_codes(
                    np.repeat(np.arange(chosen.count), chains * draws), chosen.names
                ),
                "value": values.T.ravel(),
            }
        )
    table = pandas.DataFrame(values, columns=list(chosen.names))
    for number, (name, column) in enumerate(place.items()):
        table.insert(number, name, column)
    return table


def to_netcdf(result: Result, path: str | os.PathLike[str]) -> Path:
    """See `Result.to_netcdf`."""
    from importlib.util import find_spec

    ways = {"netcdf4": ("netCDF4",), "h5netcdf": ("h5netcdf", "h5py")}
    engine = next((way for way, needs in ways.items() if all(map(find_spec, needs))), None)
    if engine is None:  # SciPy writes netCDF 3, which has no groups
        raise ImportError(
            "to_netcdf needs netCDF4: pip install 'vrsgmcmc[netcdf]'. Without it, "
            'result.to_arviz().to_zarr("draws.zarr") writes the same tree.'
        )
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"to_netcdf({str(path)!r}): there is no directory {target.parent}.")
    tree = to_arviz(result)
    for node in tree.subtree:  # netCDF has no empty lists, and no attribute that is None
        node.attrs = {
            name: value if isinstance(value, int | float | str) else str(value)
            for name, value in node.attrs.items()
        }
    tree.to_netcdf(target, engine=engine)  # type: ignore[arg-type]
    return target
