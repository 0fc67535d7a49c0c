"""Arguments and data that the models refuse, each with a ValueError that says how to repair it."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vrsgmcmc.core import is_truth


def as_variance(name: str, value: Any) -> float:
    """A finite number above zero, as a Python float."""
    try:
        number = math.nan if is_truth(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(
            f"{name} must be a finite number above zero, got {value!r}. "
            "It is a variance, the square of a standard deviation."
        )
    return number


def check_array(name: str, value: Any, ranks: tuple[int, ...]) -> None:
    """Refuse anything but a non-empty array of real numbers with one of these ranks."""
    shapes = " or ".join({1: "[N]", 2: "[N, d]"}[rank] for rank in ranks)
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        raise ValueError(
            f"{name} must be one array {shapes}, got a {type(value).__name__}. "
            "Convert it with numpy.asarray."
        )
    real = jnp.issubdtype(value.dtype, jnp.number) or jnp.issubdtype(value.dtype, jnp.bool_)
    if not real or jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise ValueError(
            f"{name} must hold real numbers, got dtype {value.dtype}. "
            "Encode it as floats or integers first."
        )
    if len(value.shape) not in ranks:
        raise ValueError(
            f"{name} must have shape {shapes}, got {tuple(value.shape)}. "
            "The first axis counts the data; reshape the array."
        )
    if 0 in value.shape:
        raise ValueError(f"{name} is empty, got shape {tuple(value.shape)}. Give at least one row.")


def check_tuple(model: str, data: Any, form: str, repair: str) -> None:
    """Refuse anything but a tuple of two."""
    if not (isinstance(data, tuple) and len(data) == 2):
        count = f" of {len(data)}" if isinstance(data, tuple) else ""
        raise ValueError(
            f"{model}: the data must be a tuple {form}, got a {type(data).__name__}{count}. {repair}"
        )


def check_table(model: str, data: Any) -> None:
    """Refuse anything but a tuple of x [N, d] and y [N] with the same N."""
    check_tuple(model, data, "(x, y) with x [N, d] and y [N]", "Write data = (x, y).")
    x, y = data
    check_array(f"{model}: x", x, ranks=(2,))
    check_array(f"{model}: y", y, ranks=(1,))
    if x.shape[0] != y.shape[0]:
        raise ValueError(
            f"{model}: x and y must have one row per datum, got {x.shape[0]} rows in x and "
            f"{y.shape[0]} in y. Take the same rows of both."
        )


TWO_LABELS = (
    "Two other labels, such as -1 and 1 or 1 and 2, become 0 and 1 with "
    "numpy.unique(y, return_inverse=True)[1]."
)


def check_labels(model: str, y: Any, num_classes: int, repair: str = "") -> None:
    """Refuse labels [N, ...] other than integers 0..num_classes-1: JAX reads -1 as the last."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "iub":
        raise ValueError(
            f"{model}: labels must be integers, got dtype {labels.dtype}. Use y.astype(int)."
        )
    outside = (labels < 0) | (labels >= num_classes)
    rows = np.flatnonzero(outside.any(axis=tuple(range(1, labels.ndim))))
    if rows.size:
        repair = repair or (
            f"num_classes is {num_classes}; to number the labels from 0 use "
            "numpy.unique(y, return_inverse=True)[1]."
        )
        raise ValueError(
            f"{model}: labels must be in 0..{num_classes - 1}, got {rows.size} of {len(labels)} "
            f"outside; the first is {labels[outside][0]} in row {rows[0]}. {repair}"
        )


@cache
def class_check(model: str, num_classes: int, repair: str = "") -> Callable[[Any], None]:
    """The check of a classifier's data (x [N, d], y [N])."""

    def check(data: Any) -> None:
        check_table(model, data)
        check_labels(model, data[1], num_classes, repair)

    return check


def check_outputs(model: str, outputs: Float[Array, " k"], num_classes: int, start: str) -> None:
    """Refuse a network with another number of outputs, where JAX would clamp the labels."""
    if outputs.shape != (num_classes,):
        raise ValueError(
            f"{model}: the network must have {num_classes} outputs, one per class, got "
            f"{outputs.shape[0]}. Start from {start}."
        )
