"""The arguments, sites and plates of a NumPyro model, and which of its plates is the one over the data.

The model is traced with shapes alone: nothing is computed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array
from numpyro.distributions import Unit, biject_to
from numpyro.handlers import seed, substitute, trace
from numpyro.infer import init_to_uniform

from vrsgmcmc.core import PRNGKey

from .numpyro_density import Plates, as_jax

CONCRETE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.TracerBoolConversionError,
)
NUTS = "or sample this model with numpyro.infer.NUTS"


class Frame(NamedTuple):
    """A plate around a site: the axis of the site's batch shape, from the right, and its size."""

    plate: str
    axis: int
    size: int


@dataclass(frozen=True)
class Site:
    """A site of a model: its kind and shapes."""

    name: str
    kind: str  # latent, discrete, observed, factor, deterministic, param or mutable
    shape: tuple[int, ...]
    frames: tuple[Frame, ...]
    event_dim: int = 0
    free_shape: tuple[int, ...] = ()  # of the unconstrained value of a latent site

    @property
    def plates(self) -> list[str]:
        return [frame.plate for frame in self.frames]


@dataclass(frozen=True)
class Start:
    """A random point in unconstrained space: uniform in (-radius, radius), as NumPyro starts."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    radius: float = 2.0

    def __call__(self, key: PRNGKey) -> dict[str, Array]:
        keys = jax.random.split(key, len(self.shapes))
        return {
            name: jax.random.uniform(keys[k], shape, minval=-self.radius, maxval=self.radius)
            for k, (name, shape) in enumerate(self.shapes)
        }


def name_arguments(model: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    """The leaves of (args, kwargs) by name, in their order: X, or data/X for a dict `data`."""
    try:
        bound = inspect.signature(model).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"from_numpyro: the model cannot be called so: {error}") from error
    positional = [
        name
        for name, value in inspect.signature(model).parameters.items()
        if name in bound.arguments
        and value.kind in (value.POSITIONAL_ONLY, value.POSITIONAL_OR_KEYWORD)
    ]
    positional += [f"args{number}" for number in range(len(positional), len(args))]
    leaves = {}
    for path, value in jax.tree_util.tree_leaves_with_path((args, kwargs)):
        place, *inner = path[1:]
        first = positional[place.idx] if hasattr(place, "idx") else str(place.key)
        rest = [jax.tree_util.keystr((each,), simple=True) for each in inner]
        leaves["/".join([first, *rest])] = value
    return leaves


def find_sites(model: Callable, args: tuple, kwargs: dict) -> dict[str, Site]:
    """Every site of the model, with plates whole."""
    sites: dict[str, Site] = {}
    args, kwargs = jax.tree.map(as_jax, (args, kwargs))

    def run() -> Any:
        whole = seed(Plates(model), jax.random.key(0))
        start = substitute(whole, substitute_fn=init_to_uniform)
        for name, site in trace(start).get_trace(*args, **kwargs).items():
            if site["type"] != "plate":
                sites[name] = read_site(name, site)
        return 0

    try:
        jax.eval_shape(run)
    except CONCRETE as error:
        raise ValueError(reads_values(error, "arguments")) from error
    return sites


def reads_values(error: Exception, names: str) -> str:
    return (
        f"from_numpyro: the model turns {names} into Python numbers or NumPy arrays, as "
        "int(group.max()), len(np.unique(group)) or `if y.max() > 0` do, but it is traced. Compute the "
        "number before and pass it as an argument (J=12); inside the model use jnp. If an array is not "
        "per row, name those that are: rows=(...). "
        f"JAX says: {type(error).__name__}: {str(error).splitlines()[0]}"
    )


def read_site(name: str, site: dict) -> Site:
    shape = tuple(jnp.shape(site["value"]))
    frames = tuple(Frame(*frame) for frame in site.get("cond_indep_stack", ()))
    if site["type"] != "sample":
        return Site(name, site["type"], shape, frames)
    fn = site["fn"]
    if site["is_observed"]:
        factor = isinstance(fn, Unit) or site["infer"].get("is_auxiliary")
        return Site(name, "factor" if factor else "observed", shape, frames, fn.event_dim)
    if fn.support.is_discrete:
        return Site(name, "discrete", shape, frames, fn.event_dim)
    free_shape = tuple(biject_to(fn.support).inverse_shape(shape))
    return Site(name, "latent", shape, frames, fn.event_dim, free_shape)


def start_of(sites: dict[str, Site]) -> Start:
    latent = [site for site in sites.values() if site.kind == "latent"]
    return Start(tuple((site.name, site.free_shape) for site in latent))


def candidate_plates(sites: dict[str, Site]) -> list[Frame]:
    """The plates that hold every observed site, outermost first; refuses what cannot be sampled."""
    kinds = {
        kind: [site for site in sites.values() if site.kind == kind]
        for kind in ("latent", "discrete", "observed", "param", "mutable")
    }
    if not kinds["observed"]:
        raise ValueError(
            "from_numpyro: the model has no observed site for these arguments. Pass the observations "
            "too: an argument that goes to numpyro.sample(..., obs=...) is None or missing."
        )
    if kinds["discrete"]:
        raise ValueError(
            f"from_numpyro: site {kinds['discrete'][0].name!r} is a discrete latent variable, which "
            "has no gradient. Sum it out by hand, for example with "
            f"numpyro.distributions.MixtureSameFamily, {NUTS}, which enumerates it."
        )
    if kinds["param"]:
        raise ValueError(
            f"from_numpyro: {kinds['param'][0].name!r} is a numpyro.param, which has no prior. Give it "
            "one: numpyro.sample(name, prior), or dist.ImproperUniform for a flat one."
        )
    if kinds["mutable"]:
        raise ValueError(
            f"from_numpyro: {kinds['mutable'][0].name!r} is numpyro.mutable: state that changes while "
            "sampling. Fix its value and pass it as an argument."
        )
    if not kinds["latent"]:
        raise ValueError(
            "from_numpyro: the model has no latent sites, so there is nothing to sample."
        )
    plated = [site for site in kinds["observed"] if site.frames]
    if not plated:
        names = " and ".join(repr(site.name) for site in kinds["observed"])
        raise ValueError(
            f"from_numpyro: no plate says which axis of the observed {names} holds the rows. "
            'Write `with numpyro.plate("data", N):` around the observed sites.'
        )
    common = [f for f in plated[0].frames if all(f.plate in site.plates for site in plated)]
    if not common:
        listed = "; ".join(f"{s.name!r} in {' and '.join(map(repr, s.plates))}" for s in plated)
        raise ValueError(
            f"from_numpyro: there are several plates of data ({listed}), and rows are drawn from one. "
            "Put all observed sites into one plate (with numpyro.handlers.mask where a row lacks one), "
            "or make the smaller part a term of the prior: "
            f"numpyro.factor(name, fn.log_prob(values).sum()) outside of all plates, {NUTS}."
        )
    free = [f for f in common if not any(f.plate in site.plates for site in kinds["latent"])]
    if not free:
        plate = common[0].plate
        inner = next(site for site in kinds["latent"] if plate in site.plates)
        raise ValueError(
            f"from_numpyro: the latent site {inner.name!r} is inside the plate {plate!r} of the data: "
            "every row would have its own parameters, which a minibatch of other rows cannot update. "
            f"Sample it before the plate, {inner.name} = numpyro.sample({inner.name!r}, "
            "fn.expand([J]).to_event(1)), and index it inside: "
            f"{inner.name}[group], with `group` an argument that has one integer for each row; {NUTS}."
        )
    return sorted(free, key=lambda frame: frame.axis)
