"""Check data, parameters, functions and states, in plain words, before anything is traced.

JAX lets much bad input through in silence (an index past the end reads the last row, 2**40 becomes
another int32, a vector-valued loss differentiates its sum somewhere else), so it is checked here.
"""

import warnings
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core

from .arrays import as_array, partition_advice

ROWS_AT_ONCE = 2**24  # numbers looked at together in the one pass over the data


def as_data(data: Any) -> tuple[core.Data, int]:
    """The data as JAX arrays, and N."""
    with warnings.catch_warnings():  # JAX warns of iterators, which are refused below
        warnings.simplefilter("ignore", DeprecationWarning)
        named = core.named_leaves(data)
    if not named:
        raise ValueError("data holds no arrays. Pass an array, or a pytree of arrays, with N rows.")
    lengths, arrays = {}, []
    for name, leaf in named:
        array = as_array(f"data leaf {name}", leaf)
        if array.dtype != bool and not jnp.issubdtype(array.dtype, jnp.number):
            raise TypeError(
                f"data leaf {name} has dtype {array.dtype}, which JAX cannot hold. "
                "Encode it as numbers first."
            )
        if array.ndim == 0:
            raise ValueError(
                f"data leaf {name} is a scalar; every leaf needs the leading axis N."
                + " A list of rows is one array: pass numpy.asarray(data)." * _in_list(data)
            )
        lengths[name] = array.shape[0]
        _check_values(name, array)
        arrays.append(array)
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(f"data leaves must have the same number of rows; got {listed}.")
    size = next(iter(lengths.values()))
    if size == 0:
        raise ValueError("data is empty: every leaf has 0 rows.")
    return jax.tree.unflatten(jax.tree.structure(data), map(jnp.asarray, arrays)), size


def _in_list(data: Any) -> bool:
    """Whether numbers stand in a list, which JAX takes for a container of arrays."""
    lists = (data, *data) if isinstance(data, list | tuple) else ()
    return any(isinstance(each, list) for each in lists)


def _check_values(name: str, array: Any) -> None:
    """One pass over one array: floats are finite and integers fit, in the dtype that JAX gives them."""
    values = np.asarray(array)
    if not values.size:
        return
    dtype = jax.dtypes.canonicalize_dtype(values.dtype)
    if values.dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if dtype != values.dtype and (values.max() > limits.max or values.min() < limits.min):
            raise ValueError(
                f"data leaf {name} holds integers that do not fit {dtype} "
                f"(from {values.min()} to {values.max()}). Enable jax_enable_x64, or make them smaller."
            )
    elif jnp.issubdtype(values.dtype, jnp.inexact):
        step = max(1, ROWS_AT_ONCE * values.shape[0] // values.size)
        count, first = 0, None
        for row in range(0, values.shape[0], step):
            part = values[row : row + step]
            if dtype == values.dtype and np.isfinite(part).all():
                continue
            largest = float(jnp.finfo(dtype).max)
            bad = ~(np.abs(part.astype(np.result_type(dtype, np.float64))) <= largest)
            if bad.any():
                count += int(bad.sum())
                first = row + int(np.argwhere(bad)[0][0]) if first is None else first
        if count:
            raise ValueError(
                f"data leaf {name} holds {count} values that are NaN or infinite (in {dtype}), the "
                f"first in row {first}. Remove or impute those rows."
            )


def as_params(params: Any, what: str = "init") -> core.Params:
    """The parameters as floating JAX arrays."""
    named = core.named_leaves(params)
    if not named:
        raise ValueError(f"{what} holds no parameters. Pass an array or a pytree of arrays.")
    arrays = []
    for name, leaf in named:
        try:
            array = jnp.asarray(as_array(f"{what}: leaf {name}", leaf))
        except (TypeError, ValueError) as error:
            ours = str(error).startswith(what)
            text = f"{what}: leaf {name} is {type(leaf).__name__}, not an array of numbers."
            raise TypeError((str(error) if ours else text) + partition_advice(params)) from error
        if not jnp.issubdtype(array.dtype, jnp.floating):
            repair = partition_advice(params) or " Convert it: jnp.asarray(x, float)."
            raise TypeError(
                f"{what}: leaf {name} has dtype {array.dtype}; parameters must be floating.{repair}"
            )
        if not np.all(np.isfinite(np.asarray(array, np.float64))):
            raise ValueError(f"{what}: leaf {name} holds NaN or infinite values.")
        # a weakly typed number would compile another program
        arrays.append(jax.lax.convert_element_type(array, array.dtype))
    return jax.tree.unflatten(jax.tree.structure(params), arrays)


def is_function(init: Any) -> bool:
    """Whether `init` is a function of a key: a model that can be called is a pytree of parameters."""
    return callable(init) and jax.tree.leaves(init) == [init]


def warn_of_few_bits(params: core.Params) -> None:
    """Warn of parameters in 16 bits: steps shorter than their rounding are lost."""
    names = [name for name, leaf in core.named_leaves(params) if leaf.dtype.itemsize < 4]
    if names:
        warnings.warn(
            f"parameters in 16 bits (leaf {', '.join(names[:5])}): steps are rounded, and standard "
            "deviations can be 20 % wrong or more. Use float32: jax.tree.map(lambda x: "
            "x.astype(jnp.float32), init), and cast to 16 bits inside loglik.",
            UserWarning,
            stacklevel=5,
        )


def check_model(posterior: core.Posterior, params: core.Params, data: core.Data) -> None:
    """The log-densities are scalars of one datum, and the data are meant for them."""
    if posterior.check is not None:
        posterior.check(data)
    shape = lambda drop: lambda leaf: jax.ShapeDtypeStruct(leaf.shape[drop:], leaf.dtype)  # noqa: E731
    leaves, structure = jax.tree.flatten(
        (jax.tree.map(shape(0), params), jax.tree.map(shape(1), data))
    )
    _check_shapes(posterior, structure, tuple(leaves))


@lru_cache(maxsize=core.MOST_PROGRAMS)
def _check_shapes(posterior: core.Posterior, structure: Any, leaves: tuple) -> None:
    params, item = jax.tree.unflatten(structure, leaves)
    datum = item
    if posterior.augment is not None:
        key = jax.eval_shape(lambda: jax.random.key(0))
        try:
            datum = jax.eval_shape(posterior.augment, key, item)
        except Exception as error:
            raise ValueError(
                f"augment(key, item) failed for an item of shapes {_shapes(item)}: "
                f"{type(error).__name__}: {error}"
            ) from error
    shapes = f"a datum of shapes {_shapes(datum)} and parameters of shapes {_shapes(params)}"
    for name, function, arguments in (
        ("logprior(params)", posterior.logprior, (params,)),
        ("loglik(params, datum)", posterior.loglik, (params, datum)),
    ):
        try:
            value = jax.eval_shape(function, *arguments)
        except Exception as error:
            raise ValueError(
                f"{name} failed for {shapes}: {type(error).__name__}: {error}. loglik gets ONE datum, "
                "without the leading axis N."
            ) from error
        values = jax.tree.leaves(value)
        if len(values) != 1 or values[0].shape != ():
            raise ValueError(
                f"{name} must return one number, got shapes {_shapes(value)} for {shapes}. "
                "It is a log-density: sum over the components (jnp.sum)."
            )
        if not jnp.issubdtype(values[0].dtype, jnp.floating):
            raise TypeError(f"{name} must return a floating number, got dtype {values[0].dtype}.")


def _shapes(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: tuple(leaf.shape), tree)


def check_chains(state: core.State, num_chains: int) -> None:
    count = state.step.shape[0] if jnp.ndim(state.step) else None
    if count != num_chains:
        raise ValueError(
            f"init is a state of {count or 'one chain, without a chain axis,'} chains, but "
            f"num_chains={num_chains}. They must agree."
        )


def check_continuation(
    state: core.State, estimator: core.Estimator, integrator: core.Integrator, size: int
) -> None:
    """A state is continued by the estimator and the integrator, and on the data, that made it."""
    one = jax.tree.map(lambda leaf: leaf[0], state)
    memory = jax.eval_shape(lambda: estimator.init(one.position, size))
    key = jax.eval_shape(lambda: jax.random.key(0))
    dynamics = jax.eval_shape(integrator.init, key, one.position)
    for owner, kind, part, expected in (
        (estimator, "estimator", one.memory, memory),
        (integrator, "integrator", one.dynamics, dynamics),
    ):
        name = "memory" if kind == "estimator" else "dynamics"
        if jax.tree.structure(expected) != jax.tree.structure(part):
            raise ValueError(
                f"init is a state that {owner.name}() cannot continue: its {name} is of another "
                f"{kind}. Start from its position instead, or run the same {kind}."
            )
        shapes = [jax.tree.map(jnp.shape, tree) for tree in (part, expected)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"init is a state that {owner.name}() cannot continue: its {name} has shapes "
                f"{shapes[0]}, but these data and parameters need {shapes[1]}."
            )


def check_refreshed(state: core.State, estimator: core.Estimator) -> None:
    """Refuse a state that was never refreshed, of an estimator that refreshes once."""
    refreshes = estimator.refresh_size(1) > 0
    if refreshes and int(state.step.max()) == 0 and not core.all_finite(state.memory):
        raise ValueError(
            f"init is a state that {estimator.name}() cannot continue: it was never refreshed, and its "
            "memory holds NaN. Call kernel.refresh(key, state, Batch(arange(N), data)) for each chain "
            "first, or start from its position instead."
        )
