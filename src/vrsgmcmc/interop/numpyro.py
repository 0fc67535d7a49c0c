"""The NumPyro door: a model with a plate over the data, ready for `vr.sample`.

    problem = vr.from_numpyro(model, X, y)
    result = vr.sample(key, *problem)
    problem.constrain(result.draws)

What the two densities are is in `numpyro_density.py`, which arguments hold rows in `numpyro_rows.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core, run

from .problem import Problem

if TYPE_CHECKING:
    import xarray

    from .numpyro_density import Call
    from .numpyro_sites import Site

MOST_BYTES = 2**31  # of constrained draws
AT_ONCE = 2**22  # numbers that one batch of draws computes


def from_numpyro(
    model: Callable, *args: Any, rows: str | Sequence[str] | None = None, **kwargs: Any
) -> NumPyroProblem:
    """A NumPyro model with one plate over the data, as a posterior, its data and a start.

    `args` and `kwargs` are those of the model. Arguments with rows are those that the model
    subsamples (`numpyro.subsample`, or an index from the plate), else all arrays whose leading axis is
    the plate's size; `rows=("X", "y")` names them where this is ambiguous. Everything else stays as it
    is: numbers, None, and arrays such as one value for each group.

    The parameters are unconstrained, a dict by site. Before anything is returned, prior and one-row
    likelihoods are compared with NumPyro's log density at two random points, with gradients.
    """
    require_numpyro()
    from .numpyro_check import check_densities
    from .numpyro_density import Likelihood, Prior
    from .numpyro_rows import find_call
    from .numpyro_sites import candidate_plates, find_sites, name_arguments, start_of

    leaves = name_arguments(model, args, kwargs)
    sites = find_sites(model, args, kwargs)
    plates = candidate_plates(sites)
    start = start_of(sites)
    call, arrays = find_call(model, args, kwargs, leaves, plates, rows, start)
    data, _ = run.as_data(arrays)
    posterior = core.Posterior(Prior(call), Likelihood(call))
    check_densities(call, posterior, data, start)
    return NumPyroProblem(posterior, data, start, call, sites)


@dataclass(frozen=True, eq=False)
class NumPyroProblem(Problem):
    """A NumPyro model for `vr.sample(key, *problem)`, and the way back to its sites."""

    call: Call
    sites: dict[str, Site]

    def constrain(self, draws: Any, sites: Collection[str] | None = None) -> dict[str, np.ndarray]:
        """Unconstrained draws, leaves [..., *shape], as values of the model's sites [..., *shape].

        All latent and deterministic sites, or those that `sites` names.
        """
        names = self.site_names(sites)
        leading = self.leading_axes(draws)
        count = int(np.prod(leading, dtype=int))
        each = sum(int(np.prod(self.sites[name].shape, dtype=int)) for name in names)
        if count * each * 8 > MOST_BYTES:
            largest = max(names, key=lambda name: np.prod(self.sites[name].shape, dtype=float))
            raise ValueError(
                f"constrain: {count:,} draws of all sites take {count * each * 8 / 2**30:.1f} GiB; the "
                f"largest is {largest!r} with shape {list(self.sites[largest].shape)}. Name the sites "
                'that you need, constrain(draws, sites=("a", "b")), or pass fewer draws.'
            )
        flat = {
            name: jnp.reshape(jnp.asarray(leaf), (count, *jnp.shape(leaf)[len(leading) :]))
            for name, leaf in draws.items()
        }
        size = core.data_size(self.data)
        values = jax.device_get(
            constrain_all(self.call, names, at_once(count, each + size), flat, self.data)
        )
        return {
            name: np.reshape(values[name], (*leading, *values[name].shape[1:])) for name in names
        }

    def predict(self, draws: Any, *args: Any, rng_key: Any = 0, **kwargs: Any) -> dict[str, Any]:
        """What the draws predict, by NumPyro's `Predictive`: sites [..., *shape] for new arguments.

        Pass None for what is observed. Without arguments: new observations for the rows of the data.
        """
        from numpyro.handlers import uncondition
        from numpyro.infer import Predictive

        from .numpyro_density import Plates

        leading = self.leading_axes(draws)
        latent = [name for name, site in self.sites.items() if site.kind == "latent"]
        samples = {n: jnp.asarray(value) for n, value in self.constrain(draws, latent).items()}
        model = self.call.model
        if not (args or kwargs):
            model = uncondition(model)
            args, kwargs = self.call.fill(self.data)
        numbers = sum(np.size(leaf) for leaf in jax.tree.leaves((args, kwargs)) if np.ndim(leaf))
        parallel = int(np.prod(leading, dtype=int)) * numbers <= AT_ONCE
        predictive = Predictive(
            Plates(model), posterior_samples=samples, batch_ndims=len(leading), parallel=parallel
        )
        return jax.device_get(predictive(core.as_key(rng_key), *args, **kwargs))

    def to_arviz(self, result: run.Result, sites: Collection[str] | None = None) -> xarray.DataTree:
        """The constrained draws for ArviZ: variables by site, and dimensions by plate."""
        if result.draws is None:
            return result.to_arviz()  # which says what to do
        names = self.site_names(sites)
        tree = result.with_draws(self.constrain(result.draws, names)).to_arviz()
        posterior: Any = tree["posterior"].to_dataset()
        variables = core.distinct([n.replace("/", "_") for n in sorted(names)], ("chain", "draw"))
        dims = {}
        for name, variable in zip(sorted(names), variables, strict=True):
            dims |= plate_dims(self.sites[name], variable, set(posterior.data_vars))
        sizes = {dims[dim]: posterior.sizes[dim] for dim in dims}
        posterior = posterior.drop_vars([dim for dim in dims if dim in posterior.coords])
        posterior = posterior.rename_dims(dims)
        posterior = posterior.assign_coords({dim: np.arange(size) for dim, size in sizes.items()})
        tree["posterior"] = type(tree)(posterior)
        return tree

    def site_names(self, names: Collection[str] | None) -> tuple[str, ...]:
        """The latent and deterministic sites, or those of them that are named."""
        ours = [s.name for s in self.sites.values() if s.kind in ("latent", "deterministic")]
        if names is None:
            return tuple(ours)
        for name in [names] if isinstance(names, str) else names:
            core.one_of("constrain", "sites", name, ours)
        return (names,) if isinstance(names, str) else tuple(names)

    def leading_axes(self, draws: Any) -> tuple[int, ...]:
        """The axes of the draws before those of one draw: (chain, draw), or any."""
        shapes = {s.name: s.free_shape for s in self.sites.values() if s.kind == "latent"}
        if not isinstance(draws, dict) or set(draws) != set(shapes):
            names = sorted(draws) if isinstance(draws, dict) else type(draws).__name__
            raise ValueError(
                f"draws must be a dict with the sites {sorted(shapes)}, got {names}. Pass result.draws."
            )
        leading = set()
        for name, shape in shapes.items():
            whole = np.shape(draws[name])
            split = len(whole) - len(shape)
            if split < 0 or whole[split:] != shape:
                raise ValueError(
                    f"draws of {name!r} have the shape {list(whole)}, which does not end in "
                    f"{list(shape)}, the unconstrained shape of the site. Pass result.draws."
                )
            leading.add(whole[:split])
        if len(leading) > 1:
            raise ValueError(f"draws have different leading axes: {sorted(leading)}.")
        return leading.pop()


def at_once(count: int, numbers: int) -> int:
    return max(1, min(count, 512, AT_ONCE // max(1, numbers)))


@partial(core.bounded_jit, static=3)
def constrain_all(
    call: Call, names: tuple[str, ...], batch_size: int, draws: Any, data: Any
) -> dict[str, Any]:
    """The values of the sites `names` for draws [n, ...]."""
    from numpyro.infer.util import constrain_fn

    from .numpyro_density import Plates

    def one(params: Any) -> dict[str, Any]:
        args, kwargs = call.fill(data)
        values = constrain_fn(Plates(call.model), args, kwargs, params, return_deterministic=True)
        return {name: jnp.asarray(values[name]) for name in names}

    return jax.lax.map(one, draws, batch_size=batch_size)


def plate_dims(site: Site, variable: str, taken: set[str]) -> dict[str, str]:
    """ArviZ's default names of the dimensions of a variable -> the plates that they are."""
    batch = len(site.shape) - site.event_dim
    dims = {}
    for frame in site.frames:
        axis = batch + frame.axis
        if axis >= 0 and site.shape[axis] == frame.size and frame.plate not in taken:
            dims[f"{variable}_dim_{axis}"] = frame.plate
    return dims


def require_numpyro() -> None:
    try:
        import numpyro  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "vr.from_numpyro needs NumPyro: pip install 'vrsgmcmc[numpyro]'"
        ) from error
