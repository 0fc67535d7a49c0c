"""Some parameters are sampled, the rest keeps its trained values: the program of one datum is cut.

What depends on frozen arrays and x alone is computed once for each row: the values that the other
operations use are the data. Frozen arrays behind a sampled layer remain, as constants of the compiled
program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jaxtyping import Array, PyTree

from vrsgmcmc import core

from .network_frozen import Frozen, by_parts, check_rows
from .network_structure import arrays_like, item_shapes, key_shape, merge

MOST_CONSTANTS = 2**26  # bytes in a compiled program


@dataclass(frozen=True, eq=False)
class Rest:
    """The outputs after the cut, from the values of one datum."""

    function: Callable[..., list[Any]]
    constants: list[Array]
    outputs: Any  # their structure

    def __call__(self, sampled: Any, values: tuple[Array, ...], key: Any) -> Any:
        leaves = jax.tree.leaves(sampled)
        return jax.tree.unflatten(
            self.outputs, self.function(*leaves, key, *values, *self.constants)
        )


def cut(frozen: Frozen, sampled: Any, x: PyTree) -> tuple[tuple[Array, ...], Rest]:
    """What the rows are to the sampled parameters [N, ...], and the program from there on."""

    def outputs(fixed: Any, x: Any, sampled: Any, key: Any) -> Any:
        params, buffers = fixed
        return frozen.network(merge(sampled, params), buffers, x, key, frozen.training)

    fixed = (frozen.params, frozen.buffers)
    shapes = fixed, item_shapes(x), sampled, key_shape()
    closed, result = jax.make_jaxpr(outputs, return_shape=True)(*shapes)
    program = closed.jaxpr
    counts = [len(jax.tree.leaves(part)) for part in shapes[:2]]
    early_in, late_in = program.invars[: sum(counts)], program.invars[sum(counts) :]
    late, rows = set(late_in), set(early_in[counts[0] :])
    before, after = [], []
    for equation in program.eqns:
        inputs = variables(equation.invars)
        if late & inputs:
            after.append(equation)
            late |= set(equation.outvars)
        else:
            before.append(equation)
            rows |= set(equation.outvars) if rows & inputs else set()
    needs = [variables(equation.invars) for equation in after] + [variables(program.outvars)]
    border = sorted(set().union(*needs) - late, key=order_in(program))
    by_row = [variable for variable in border if variable in rows]
    constant = [variable for variable in border if variable not in rows]

    def part(invars: list, outvars: list, equations: list, consts: list) -> Any:
        constvars = program.constvars if consts else []
        piece = program.replace(constvars=constvars, invars=invars, outvars=outvars, eqns=equations)
        return jaxpr_as_fun(ClosedJaxpr(piece, consts))

    by_rows = part(early_in, by_row, before, closed.consts)
    once = part(early_in, constant, before, closed.consts)
    leaves = jax.tree.leaves(fixed)
    constants = [
        jnp.asarray(value) for value in once(*leaves, *jax.tree.leaves(arrays_like(shapes[1])))
    ]
    check_constants(constants)
    check_rows(core.nbytes([each.aval for each in by_row]), core.data_size(x), "what is frozen")
    one = jax.jit(
        lambda leaves, x: jax.vmap(lambda *row: by_rows(*leaves, *row))(*jax.tree.leaves(x))
    )
    values = tuple(by_parts(lambda rows: one(leaves, rows), x))
    rest = part([*late_in, *by_row, *constant], program.outvars, after, [])
    return values, Rest(rest, constants, jax.tree.structure(result))


def variables(atoms: Any) -> set[Any]:
    return {atom for atom in atoms if not isinstance(atom, Literal)}


def order_in(program: Any) -> Callable[[Any], int]:
    """When a program defines a variable, so that equal programs are cut alike."""
    defined = [*program.constvars, *program.invars, *(v for e in program.eqns for v in e.outvars)]
    places = {variable: number for number, variable in enumerate(defined)}
    return places.__getitem__


def check_constants(constants: list[Array]) -> None:
    size = core.nbytes(constants)
    if size > MOST_CONSTANTS:
        raise ValueError(
            f"sample_only: {size / 2**20:,.0f} MB of frozen arrays come after a sampled layer, and "
            f"each compiled program would hold them; {MOST_CONSTANTS / 2**20:,.0f} MB is the most. "
            "Sample layers nearer to the output."
        )
