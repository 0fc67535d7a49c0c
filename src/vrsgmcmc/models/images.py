"""Images: their scale, their augmentation, and checks of their shapes.

Bytes stay bytes in memory, a quarter of the size, and enter a network as (v / 255 - 1/2) / (1/4). On
photographs that has about mean 0 and variance 1 (the channels of CIFAR-10 have means 0.45 to 0.49 and
standard deviations 0.24 to 0.26 after v / 255). Images of floating numbers are used unchanged.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from vrsgmcmc.core import PRNGKey

from .checks import check_labels, check_tuple

MARGIN = 4  # largest shift of a random crop, in pixels (He et al. 2016)
AT_ONCE = 50  # images of a prediction in memory at a time


def pixels(image: Shaped[Any, "..."], kind: Any = float) -> Float[Any, "..."]:
    """An image as numbers around 0, a NumPy or a JAX array like the argument."""
    if jnp.issubdtype(image.dtype, jnp.floating):
        return image.astype(kind)
    return (image.astype(kind) / 255 - 0.5) * 4


def crop_and_flip(key: PRNGKey, image: Shaped[Array, "h w c"]) -> Float[Array, "h w c"]:
    """Shift an image by up to 4 pixels each way, padded with zeros, and mirror it at random."""
    crop, flip = jax.random.split(key)
    framed = jnp.pad(pixels(image), ((MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)))
    row, column = jax.random.randint(crop, (2,), 0, 2 * MARGIN + 1)
    moved = jax.lax.dynamic_slice(framed, (row, column, 0), image.shape)
    return jnp.where(jax.random.bernoulli(flip), moved[:, ::-1], moved)


def map_images(
    function: Callable[[Array], Float[Array, " k"]], images: Shaped[Array, "n h w c"]
) -> Float[Array, "n k"]:
    """A function of every image, `AT_ONCE` of them at a time to bound the memory."""
    return jax.lax.map(function, images, batch_size=AT_ONCE)


def check_channels(
    model: str, images: Shaped[Array, "*k h w c"], channels: int, start: str
) -> None:
    """Refuse images with another number of channels than the first convolution."""
    if images.shape[-1] != channels:
        raise ValueError(
            f"{model}: the network reads images of {channels} channels, got {images.shape[-1]}. "
            f"Start from {start}."
        )


@cache
def image_check(model: str, num_classes: int, grouped: bool = False) -> Callable[[Any], None]:
    """The check of images [N, h, w, channels] and labels [N], or of groups of them."""
    lead = "N, group" if grouped else "N"
    shapes = f"x [{lead}, h, w, channels] and y [{lead}]"
    rank = 5 if grouped else 4

    def check(data: Any) -> None:
        check_tuple(model, data, f"(x, y) with {shapes}", "Write data = (x, y).")
        x, y = data
        if len(x.shape) != rank or x.shape[: rank - 3] != y.shape:
            raise ValueError(
                f"{model}: the data must be {shapes}, got x {tuple(x.shape)} and y {tuple(y.shape)}. "
                f"{shape_repair(x.shape, y.shape, rank)}"
            )
        if not jnp.issubdtype(x.dtype, jnp.floating) and x.dtype != jnp.uint8:
            raise ValueError(
                f"{model}: x must hold bytes (uint8, 0 to 255) or floating numbers, got {x.dtype}. "
                "Use x.astype(numpy.uint8)."
            )
        check_labels(model, y, num_classes)

    return check


def shape_repair(x: tuple[int, ...], y: tuple[int, ...], rank: int) -> str:
    """What to do about images and labels of these shapes, where x must have `rank` axes."""
    if rank == 5 and len(x) == 4:
        return "Make groups with resnet.groups(x, y)."
    if len(x) == rank - 1:
        return "Grey images get a last axis with x[..., None]."
    if len(y) == rank - 2:
        how = "y[..., 0]" if y[-1] == 1 else "y.argmax(-1), if y has a column for each"
        return f"A label is the number of a class: {how}."
    return "Each image has one label."
