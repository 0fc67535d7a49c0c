"""What users pass as arrays, made arrays that JAX can hold; what is no array is refused by name."""

from typing import Any

import jax
import numpy as np

WIDEST = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}  # of JAX
FRAME = (
    "Pass its numbers, after text was encoded as numbers: df.to_numpy(), or, for a loglik that reads "
    "columns by name, {name: df[name].to_numpy() for name in df}. vr.table(df, target) makes a "
    "regression of a frame as it is."
)
# how to make arrays of what other libraries have, by the package of the type
INSTEAD = {
    "pandas": FRAME,
    "polars": FRAME,
    "xarray": "Pass its numbers: array.to_numpy().",
    "scipy": "Pass a dense array: x.toarray().",
}
LOADER = (
    "Batches are drawn here, so pass all data as arrays with N rows: for a data set of pairs, "
    "x, y = (numpy.stack(part) for part in zip(*dataset)) and data=(x, y)."
)


def as_array(what: str, leaf: Any) -> np.ndarray | jax.Array:
    """A leaf as an array of native byte order, of a dtype that JAX has if it holds numbers."""
    if isinstance(leaf, jax.Array):
        return leaf
    package, kind = type(leaf).__module__.split(".")[0], type(leaf).__name__
    if package in INSTEAD:
        raise TypeError(f"{what} is a {package} {kind}, not an array. {INSTEAD[package]}")
    if package in ("torch", "tensorflow") and not hasattr(leaf, "__array__"):
        raise TypeError(f"{what} is a {package} {kind}, not an array. {LOADER}")
    array = np.asarray(leaf)
    if array.dtype == object and array.ndim == 0:
        repair = f" {LOADER}" if hasattr(leaf, "__iter__") else ""
        raise TypeError(f"{what} is {kind}, not an array of numbers.{repair}")
    widest = WIDEST.get(array.dtype.kind)
    if widest is not None and array.dtype.itemsize > widest.itemsize:
        raise TypeError(
            f"{what} has dtype {array.dtype}, which JAX cannot hold. Convert it: "
            f"x.astype(numpy.{widest})."
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def partition_advice(tree: Any) -> str:
    """How to take the parameters out of an Equinox module, if the tree has one."""
    modules = [t for t in jax.tree.leaves(tree, is_leaf=is_module) if is_module(t)]
    if not modules:
        return ""
    return (
        " An Equinox module holds more than parameters. Split it: params, static = "
        "eqx.partition(model, eqx.is_inexact_array), pass init=params, and in loglik call "
        "eqx.combine(params, static)."
    )


def is_module(node: Any) -> bool:
    return any(
        kind.__name__ == "Module" and kind.__module__.startswith("equinox")
        for kind in type(node).__mro__
    )
