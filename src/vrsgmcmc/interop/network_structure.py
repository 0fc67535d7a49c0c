"""A module of some library as a pure function of nested dicts of arrays, and what can be asked of it.

    output = network(params, buffers, x, key, training)   for ONE datum x

`params` are what may be sampled, under the names that the library gives them; `buffers` are fixed
arrays (statistics, tables). A module that expects a batch axis gets one of length 1, which is taken off
again. Equal structures are equal networks, so that the same architecture does not compile twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from vrsgmcmc import core

Path: TypeAlias = tuple[str, ...]  # to a leaf of a nested dict
OFF = ("deterministic", "inference")  # arguments of a call that are true when nothing is random
ON = ("train", "training", "is_training")


@dataclass(frozen=True, eq=False)
class Network:
    """The structure of a module, without its arrays. A door says how `run` and `rebuild` go."""

    structure: Any
    batched: bool  # whether the module expects a batch axis

    def __call__(self, params: Any, buffers: Any, x: Any, key: Any, training: bool) -> Any:
        if not self.batched:
            return self.run(params, buffers, x, key, training)
        outputs = self.run(params, buffers, jax.tree.map(lambda leaf: leaf[None], x), key, training)
        return jax.tree.map(without_batch, outputs)

    def run(self, params: Any, buffers: Any, x: Any, key: Any, training: bool) -> Any:
        """The module's output for what it calls its input; a key for what it draws."""
        raise NotImplementedError

    def rebuild(self, params: Any, buffers: Any) -> Any:
        """The library's own object with these parameters."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Network)
            and type(self) is type(other)
            and self.batched == other.batched
            and is_value(self.structure)
            and is_value(other.structure)
            and self.structure == other.structure
        )

    def __hash__(self) -> int:
        return hash((self.structure, self.batched)) if is_value(self.structure) else id(self)


class Refusal(ValueError):
    """A module that no form of its input makes a posterior of."""


class Opened(NamedTuple):
    """What a door takes out of a module. `params` are trained, or None; `fresh` makes new ones."""

    network: Network
    params: dict[str, Any] | None
    buffers: PyTree
    fresh: Callable[[core.PRNGKey], dict[str, Any]] | None


def library(module: str, door: str, extra: str) -> Any:
    """A module of an optional library."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            f"{door} needs {name}: pip install 'vrsgmcmc[{extra}]'", name=name
        ) from error


def is_value(structure: Any) -> bool:
    """Whether a structure can be compared by its content."""
    try:
        hash(structure)
    except TypeError:
        return False
    return True


def without_batch(output: Any) -> Any:
    if output.shape[:1] != (1,):
        raise ValueError(
            f"with a batch of one datum the network returns shape {tuple(output.shape)}, which has no "
            "batch axis of length 1"
        )
    return output[0]


def flags(call: Callable, training: bool) -> dict[str, bool]:
    """The arguments that tell a module whether it is trained."""
    try:
        names = inspect.signature(call).parameters
    except (TypeError, ValueError):
        return {}
    return {n: training for n in ON if n in names} | {n: not training for n in OFF if n in names}


def nested(leaves: Mapping[Path, Any]) -> dict[str, Any]:
    """A nested dict from the leaves by path."""
    tree: dict[str, Any] = {}
    for path, leaf in leaves.items():
        place = tree
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = leaf
    return tree


def flat(tree: Any, path: Path = ()) -> dict[Path, Any]:
    """The leaves of a nested dict by path; a mapping of any type is read."""
    if not isinstance(tree, Mapping):
        return {path: tree}
    return {
        place: leaf
        for name, part in tree.items()
        for place, leaf in flat(part, (*path, name)).items()
    }


def merge(one: Any, other: Any) -> dict[str, Any]:
    """A nested dict with the leaves of both."""
    return nested({**flat(one), **flat(other)})


def plain(tree: Any) -> dict[str, Any]:
    """Plain dicts of JAX arrays, whatever mappings they were."""
    return nested({path: jnp.asarray(leaf) for path, leaf in flat(tree).items()})


def arrays_like(shapes: PyTree) -> PyTree:
    """Zeros of these shapes; they are the content of no argument that matters."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def item_shapes(data: PyTree) -> PyTree:
    """One datum, as shapes."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), data)


def key_shape() -> Any:
    return jax.eval_shape(lambda: jax.random.key(0))


def draws_numbers(network: Network, params: Any, buffers: Any, x: Any, training: bool) -> bool:
    """Whether the output depends on the key: what an operation makes of it reaches the output."""

    def run(params: Any, buffers: Any, x: Any, key: Any) -> Any:
        return network(params, buffers, x, key, training)

    program = jax.make_jaxpr(run)(params, buffers, x, key_shape()).jaxpr
    random = {id(program.invars[-1])}
    for equation in program.eqns:
        if any(id(variable) in random for variable in equation.invars):
            random |= {id(variable) for variable in equation.outvars}
    return any(id(variable) in random for variable in program.outvars)


def check_params(where: str, params: Any) -> None:
    """Refuse parameters that no gradient moves."""
    leaves = flat(params)
    if not leaves:
        raise ValueError(f"{where}: the module has no parameters, so there is nothing to sample.")
    for path, leaf in leaves.items():
        if not (hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)):
            kind = getattr(leaf, "dtype", type(leaf).__name__)
            raise TypeError(
                f"{where}: parameter {'/'.join(path)} has dtype {kind}; parameters must be floating. "
                "Convert it, or hold it in the module as something else than a parameter."
            )
        if not isinstance(leaf, jax.ShapeDtypeStruct) and not np.all(np.isfinite(np.asarray(leaf))):
            raise ValueError(f"{where}: parameter {'/'.join(path)} holds NaN or infinite values.")


def check_shapes(params: Any, shapes: Any) -> None:
    """Refuse trained parameters of another module."""
    here, there = (
        {"/".join(p): leaf.shape for p, leaf in flat(t).items()} for t in (params, shapes)
    )
    for name in sorted({*here, *there}):
        if here.get(name) != there.get(name):
            raise ValueError(
                f"params differ from those that the module makes: {name} is "
                f"{list(here[name]) if name in here else 'missing'} there, and "
                f"{list(there[name]) if name in there else 'missing'} in the module"
            )
