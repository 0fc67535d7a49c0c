"""Step sizes: a number, one for each chain, or a schedule; evaluated and checked before the run."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped

from vrsgmcmc.core import bounded_jit


def resolve(
    step_size: Any, first: int, num_steps: int, num_chains: int
) -> tuple[Float[np.ndarray, " chains"], Float[np.ndarray, " H"]]:
    """A step size for each chain and a common schedule; h_l is their product, H is 1 if it is fixed."""
    if callable(step_size):
        values = _evaluate(step_size, first, num_steps)
        bad = ~np.isfinite(values) | (values < 0)
        if bad.any():
            l = int(np.argmax(bad))
            raise ValueError(
                f"step_size: the schedule gives {values[l]} at step {first + l}; step sizes must be "
                "finite and not negative."
            )
        if not values.any():
            raise ValueError(
                "step_size: the schedule is 0 at every step; the chain would not move."
            )
        return np.ones(num_chains), values
    try:
        values = np.asarray(step_size)
        if values.dtype.kind not in "fiu" and not jnp.issubdtype(values.dtype, jnp.floating):
            raise TypeError  # bool, too: True is no step size of 1
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"step_size must be a number, an array [num_chains] or a schedule(l), got {step_size!r}."
        ) from None
    if values.shape not in ((), (num_chains,)):
        raise ValueError(
            f"step_size has shape {values.shape}; it must be a number or an array of shape "
            f"({num_chains},), one for each chain."
        )
    if not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise ValueError(
            f"step_size={step_size!r}: step sizes must be positive and finite. They multiply the "
            "gradient of the sum over N data; a step of 0.1 on the mean is 0.1 / N here."
        )
    return np.broadcast_to(values, (num_chains,)), np.ones(1)


def in_dtype(values: Float[np.ndarray, " n"], dtype: Any) -> Shaped[np.ndarray, " n"]:
    """Step sizes in the dtype of the parameters, where a positive one may not become 0 or infinite."""
    with np.errstate(over="ignore"):
        rounded = values.astype(dtype)
    infinite = ~np.isfinite(rounded.astype(np.float64))
    if infinite.any():
        raise ValueError(
            f"step_size: {values[infinite][0]:.3g} is infinite in {np.dtype(dtype)}, the dtype of the "
            f"parameters, whose largest number is {float(jnp.finfo(dtype).max):.2g}. Lower it."
        )
    lost = (values > 0) & (rounded == 0)
    if lost.any():
        limits, wider = jnp.finfo(dtype), "float64" if np.dtype(dtype).itemsize > 2 else "float32"
        raise ValueError(
            f"step_size: {values[lost][0]:.3g} is 0 in {limits.dtype}, the dtype of the parameters, "
            f"whose smallest positive number is {float(limits.smallest_subnormal):.2g}. Use {wider} "
            "parameters, or larger steps; a schedule may also be exactly 0 there."
        )
    return rounded


def _evaluate(schedule: Callable, first: int, num_steps: int) -> np.ndarray:
    """schedule(first), ..., in one compiled call where it can be traced."""
    try:
        values = _traced(schedule, num_steps, first)
    except Exception:
        values = None
    if values is None:
        try:
            values = [schedule(l) for l in range(first, first + num_steps)]
        except Exception as error:
            raise ValueError(
                f"step_size: schedule(l) failed: {type(error).__name__}: {error}. It gets the step "
                "l = 0, 1, ... and returns one number."
            ) from error
    values = np.asarray(values)
    if values.shape != (num_steps,) or values.dtype.kind not in "fiu":
        raise ValueError(
            f"step_size: schedule(l) must return one number, got {values.ravel()[0]!r} of shape "
            f"{values.shape[1:]}."
        )
    return values.astype(np.float64)


@partial(bounded_jit, static=2)
def _traced(schedule: Callable, num_steps: int, first: int):
    return jax.vmap(schedule)(first + jnp.arange(num_steps))
