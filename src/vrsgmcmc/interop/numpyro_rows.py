"""Which arguments of a NumPyro model hold the rows of the data.

Those that the caller names. Else those that the model itself subsamples, by `numpyro.subsample` or by
an index that comes from the plate; and if the model does not fit one row of them, all arguments whose
leading axis is the plate's size. The check of the densities has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.handlers import seed, substitute
from numpyro.infer import init_to_uniform
from numpyro.primitives import Messenger

from vrsgmcmc.core import did_you_mean

from .numpyro_density import Call, Fixed, Likelihood, Prior, Row, as_jax, is_array
from .numpyro_sites import CONCRETE, Frame, Start, reads_values


def shaped(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))


def has_rows(value: Any, size: int) -> bool:
    return is_array(value) and value.shape[0] == size


def find_call(
    model: Callable,
    args: tuple,
    kwargs: dict,
    leaves: dict[str, Any],
    plates: Sequence[Frame],
    rows: str | Sequence[str] | None,
    start: Start,
) -> tuple[Call, dict[str, Any]]:
    """The model with the first plate and the first set of rows that fit, and the rows."""
    structure = jax.tree.structure((args, kwargs))
    reasons: list[str] = []
    for plate in plates:
        try:
            sets = row_sets(model, structure, leaves, plate, rows)
        except ValueError as error:
            reasons.append(str(error))
            continue
        for names in sets:
            arguments = tuple(
                Row(name, value.shape[1:], np.dtype(value.dtype)) if name in names else Fixed(value)
                for name, value in leaves.items()
            )
            call = Call(model, structure, arguments, plate.plate)
            reason = misfit(call, start, plate.size) if names else no_rows(leaves, plate)
            if reason is None:
                return call, {name: leaves[name] for name in names}
            reasons.append(reason)
    raise ValueError(reasons[-1])


def no_rows(leaves: dict[str, Any], plate: Frame) -> str:
    shapes = ", ".join(f"{name} {list(np.shape(value))}" for name, value in leaves.items())
    return (
        f"from_numpyro: no argument is an array with leading axis {plate.size}, the size of the plate "
        f"{plate.plate!r} (arguments: {shapes or 'none'}). Rows must be arguments of the model: NumPy "
        "or JAX arrays with the rows first. Data that the model reads from elsewhere cannot be drawn "
        "row by row: def model(X, y), from_numpyro(model, X, y)."
    )


def row_sets(
    model: Callable,
    structure: Any,
    leaves: dict[str, Any],
    plate: Frame,
    rows: str | Sequence[str] | None,
) -> list[list[str]]:
    """Sets of arguments that may be the rows, the likeliest first."""
    if rows is not None:
        return [named_rows(leaves, plate, (rows,) if isinstance(rows, str) else tuple(rows))]
    candidates = [name for name, value in leaves.items() if has_rows(value, plate.size)]
    if not candidates:
        return [[]]
    marks = subsampled(model, structure, leaves, candidates, plate)
    return [marks, candidates] if marks and marks != candidates else [candidates]


def named_rows(leaves: dict[str, Any], plate: Frame, rows: tuple[str, ...]) -> list[str]:
    """The arguments that the caller names, each with all its arrays."""
    chosen = []
    for name in rows:
        match = [leaf for leaf in leaves if leaf == name or leaf.startswith(f"{name}/")]
        if not match:
            raise ValueError(
                f"from_numpyro(rows=...): no argument is called {name!r}.{did_you_mean(name, leaves)}"
                f" Arguments are: {', '.join(leaves)}."
            )
        for leaf in match:
            if not has_rows(leaves[leaf], plate.size):
                raise ValueError(
                    f"from_numpyro(rows=...): {leaf} has the shape {list(np.shape(leaves[leaf]))}, but "
                    f"rows have the leading axis {plate.size}, the size of the plate {plate.plate!r}."
                )
        chosen += match
    return [name for name in leaves if name in chosen]


class Marks(Messenger):
    """Gives the plate an index, and notes which arrays go through `numpyro.subsample`."""

    def __init__(self, fn: Callable, plate: str, index: Any):
        self.plate, self.index, self.values = plate, index, []
        super().__init__(fn)

    def process_message(self, msg: Any) -> None:
        if msg["type"] == "plate":
            mine = msg["name"] == self.plate
            size = msg["args"][0]
            msg["value"], msg["args"] = self.index if mine else jnp.arange(size), (size, None)
        elif msg["type"] == "subsample":
            self.values.append(msg["value"])


def subsampled(
    model: Callable, structure: Any, leaves: dict[str, Any], candidates: list[str], plate: Frame
) -> list[str]:
    """The candidates that the model itself subsamples."""
    marks: set[str] = set()

    def run(arrays: dict[str, Any], index: Any) -> Any:
        marked = Marks(model, plate.plate, index)
        start = substitute(seed(marked, jax.random.key(0)), substitute_fn=init_to_uniform)
        values = [arrays.get(name, as_jax(value)) for name, value in leaves.items()]
        args, kwargs = jax.tree.unflatten(structure, values)
        start(*args, **kwargs)
        ours = {id(array): name for name, array in arrays.items()}
        marks.update(ours[id(value)] for value in marked.values if id(value) in ours)
        return 0

    arrays = {name: shaped(leaves[name].shape, leaves[name].dtype) for name in candidates}
    index = shaped((plate.size,), np.dtype(int))
    try:
        program = jax.make_jaxpr(run)(arrays, index).jaxpr
    except CONCRETE as error:
        raise ValueError(reads_values(error, " or ".join(candidates))) from error
    *inputs, last = program.invars
    origin = dict(zip(inputs, sorted(arrays), strict=True))
    marks |= indexed_by(program, origin, {last})
    return [name for name in candidates if name in marks]


def indexed_by(program: Any, origin: dict[Any, str], index: set[Any]) -> set[str]:
    """The inputs that the program gathers from by the plate's index; `index`: its variables.

    What was gathered is data again: in place[group[index]] only `group` is indexed by the plate.
    """
    marks: set[str] = set()
    for equation in program.eqns:
        variables = [v for v in equation.invars if not hasattr(v, "val")]
        depends = any(v in index for v in variables)
        inner = next((v.jaxpr for v in equation.params.values() if hasattr(v, "jaxpr")), None)
        if inner is not None and len(inner.invars) == len(equation.invars):
            pairs = [
                (there, here)
                for there, here in zip(inner.invars, equation.invars, strict=True)
                if not hasattr(here, "val")
            ]
            arrays = {there: origin[here] for there, here in pairs if here in origin}
            indices = {there for there, here in pairs if here in index}
            marks |= indexed_by(inner, arrays, indices)
            outputs = zip(inner.outvars, equation.outvars, strict=True)
            index |= {o for i, o in outputs if not hasattr(i, "val") and i in indices}
        elif equation.primitive.name in ("gather", "dynamic_slice"):
            if depends:
                marks |= {origin[v] for v in variables[:1] if v in origin}
        elif depends:
            index |= set(equation.outvars)
    return marks


def misfit(call: Call, start: Start, size: int) -> str | None:
    """Why the model cannot be called with one row, if so; shapes alone are computed."""
    problem: list[str] = []

    def run(params: Any, row: Any) -> Any:
        total, sites = Likelihood(call).with_sites(params, row)
        for name, site in sites.items():
            if site["type"] == "sample":
                density = site["fn"].log_prob(site["value"])
                scale = 1.0 if site["scale"] is None else site["scale"]
                shape = jnp.shape(scale * density)
                axis = next(f.dim for f in site["cond_indep_stack"] if f.name == call.plate)
                if len(shape) >= -axis and shape[axis] != 1:
                    problem.append(f"site {name!r} still has {shape[axis]} values with one row.")
        return total, Prior(call)(params)

    names = ", ".join(row.name for row in call.rows)
    row = {each.name: shaped(each.shape, each.dtype) for each in call.rows}
    params = jax.eval_shape(start, jax.eval_shape(lambda: jax.random.key(0)))
    try:
        program = jax.make_jaxpr(run)(params, row)
    except CONCRETE as error:
        return reads_values(error, names.replace(", ", " or "))
    except Exception as error:
        return (
            f"from_numpyro: with one row of {names} the model fails: {type(error).__name__}: {error}. "
            f"Arrays that hold one entry for each row must be arguments with leading axis {size}; if "
            "an array was cut that is not per row, name those that are: rows=(...)."
        )
    closed = [c for c in program.consts if size > 1 and np.shape(c)[:1] == (size,)]
    ours = [each.value for each in call.arguments if isinstance(each, Fixed)]
    closed = [c for c in closed if not any(c is each for each in ours)]
    if closed:
        shapes = " and ".join(sorted({str(list(np.shape(each))) for each in closed}))
        return (
            f"from_numpyro: the model reads data of shape {shapes} from outside of its arguments. Data "
            "that a function closes over cannot be drawn row by row, and would become part of the "
            "program. Pass them: def model(X, y), from_numpyro(model, X, y)."
        )
    if problem:
        return (
            f"from_numpyro: the model was called with one row of {names}, but {problem[0]} "
            "Some array that it reads for each row was not cut. Pass it as an argument, or name all "
            'arguments with rows: rows=("X", "y").'
        )
    return None
