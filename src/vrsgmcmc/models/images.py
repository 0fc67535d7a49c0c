"""Images: how a network reads them, how they are moved about, what is refused.

Bytes are kept as bytes, a quarter of the memory, and read as (v / 255 - 1/2) / (1/4): about mean 0 and
variance 1 on photographs (the channels of CIFAR-10 have means 0.45 to 0.49 and standard deviations 0.24
to 0.26 before that). Images of floating numbers are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from vrsgmcmc.core import PRNGKey
from vrsgmcmc.models.labels import check_rows

MARGIN = 4  # pixels that a random crop moves at most (He et al. 2016)
AT_ONCE = 50  # images that a prediction holds at once


def pixels(image: Shaped[Any, "..."], kind: Any = float) -> Float[Any, "..."]:
    """An image in numbers around 0: of numpy if it came in numpy, of JAX if in JAX."""
    if jnp.issubdtype(image.dtype, jnp.floating):
        return image.astype(kind)
    return (image.astype(kind) / 255 - 0.5) * 4


def crop_and_flip(key: PRNGKey, image: Shaped[Array, "h w c"]) -> Float[Array, "h w c"]:
    """The image moved by up to 4 pixels each way, zeros coming in, and mirrored every other time."""
    crop, flip = jax.random.split(key)
    framed = jnp.pad(pixels(image), ((MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)))
    row, column = jax.random.randint(crop, (2,), 0, 2 * MARGIN + 1)
    moved = jax.lax.dynamic_slice(framed, (row, column, 0), image.shape)
    return jnp.where(jax.random.bernoulli(flip), moved[:, ::-1], moved)


def each(
    function: Callable[[Array], Float[Array, " k"]], images: Shaped[Array, "n h w c"]
) -> Float[Array, "n k"]:
    """A function of every image, a few at a time: a test set needs no more memory than those."""
    return jax.lax.map(function, images, batch_size=AT_ONCE)


def check_channels(model: str, images: Shaped[Array, "*k h w c"], channels: int, how: str) -> None:
    """Refuses images that the first convolution cannot read."""
    if images.shape[-1] != channels:
        raise ValueError(
            f"{model}: the network reads images of {channels} channels, got {images.shape[-1]}. "
            f"Start from {how}."
        )


def check_images(model: str, data: Any, num_classes: int, axes: str = "N, h, w, channels") -> None:
    """Refuses what is not a pair of images [N, h, w, channels] and labels [N], or groups of them."""
    shapes = f"x [{axes}] and y [{axes.removesuffix(', h, w, channels')}]"
    if not (isinstance(data, tuple) and len(data) == 2):
        raise ValueError(
            f"{model}: the data must be a tuple (x, y) with {shapes}, got a {type(data).__name__}. "
            "Write data = (x, y)."
        )
    x, y = data
    rank = len(axes.split(", "))
    if len(x.shape) != rank or x.shape[: rank - 3] != y.shape:
        if rank == 5 and len(x.shape) == 4:
            repair = "Make groups with resnet.groups(x, y)."
        elif len(x.shape) == rank - 1:
            repair = "Grey images get a last axis with x[..., None]."
        elif len(y.shape) == rank - 2:
            how = "y[..., 0]" if y.shape[-1] == 1 else "y.argmax(-1), if y has a column for each"
            repair = f"A label is the number of a class: {how}."
        else:
            repair = "Each image has one label."
        raise ValueError(
            f"{model}: the data must be {shapes}, got x {tuple(x.shape)} and y {tuple(y.shape)}. "
            f"{repair}"
        )
    if not jnp.issubdtype(x.dtype, jnp.floating) and x.dtype != jnp.uint8:
        raise ValueError(
            f"{model}: x must hold bytes (uint8, 0 to 255) or floating numbers, got {x.dtype}. "
            "Use x.astype(numpy.uint8)."
        )
    repair = (
        f"num_classes is {num_classes}; to number the labels from 0 use "
        "numpy.unique(y, return_inverse=True)[1]."
    )
    check_rows(model, y, num_classes, repair)
