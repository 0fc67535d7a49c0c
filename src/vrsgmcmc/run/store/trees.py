"""Pytrees as named arrays in safetensors. The structure comes from the caller, never from the file."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from vrsgmcmc.core import named_leaves

from .errors import RunError


def is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def named(prefix: str, tree: Any) -> dict[str, np.ndarray]:
    """The leaves under their names, as NumPy arrays; keys as their words."""
    arrays: dict[str, np.ndarray] = {}
    for name, leaf in named_leaves(tree):
        name = f"{prefix}/{name}"
        if name in arrays:
            raise RunError(f"two leaves have the name {name!r}. Rename one of them.")
        arrays[name] = np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
    return arrays


def rebuilt(prefix: str, arrays: dict[str, np.ndarray], like: Any) -> Any:
    """The tree with the structure, shapes and kinds of `like`."""
    leaves = []
    for name, leaf in named_leaves(like):
        name = f"{prefix}/{name}"
        if name not in arrays:
            raise RunError(f"{name} is not in the state of this run")
        array = arrays[name]
        like_array = jax.eval_shape(jax.random.key_data, leaf) if is_key(leaf) else leaf
        kind, shape = like_array.dtype, like_array.shape
        if kind.kind == "V" and array.dtype == f"u{kind.itemsize}":
            array = array.view(kind)
        if array.shape != shape or array.dtype != kind:
            raise RunError(
                f"{name} is {array.dtype}{list(array.shape)} in the state of this run, but "
                f"{kind}{list(shape)} is needed"
            )
        if is_key(leaf):
            impl = jax.random.key_impl(leaf)
            array = jax.random.wrap_key_data(jnp.asarray(array), impl=impl)
        leaves.append(array)
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def to_bytes(arrays: dict[str, np.ndarray]) -> bytes:
    """bfloat16 and its kin travel as unsigned integers of their size."""
    plain = {}
    for name, array in arrays.items():
        array = np.ascontiguousarray(array).reshape(array.shape)
        plain[name] = array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array
    return save(plain)


def from_bytes(content: bytes) -> dict[str, np.ndarray]:
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError, TypeError, ImportError, OverflowError) as error:
        raise RunError(f"not a safetensors file ({error})") from error
