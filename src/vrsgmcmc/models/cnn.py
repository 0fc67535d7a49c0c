"""CNN-4: four 3x3 convolutions and a linear layer, classes from small images.

    C32 - pool - C32 - pool - C64 - pool - C32 - dropout - linear

    every convolution is followed by max(0, .), every pool halves height and width by 2x2 maxima;
    dropout keeps each of the last convolution's outputs with probability 1 - rate, divided by it;
    every parameter ~ N(0, prior_variance),   P(y_i = k) = softmax(f(x_i))_k

For 32x32 images in colour and 10 classes these are 52,234 parameters (Chen et al., section 5.2; the
rate is not given there). Chains start from He's initialisation, N(0, 2 / fan-in), with biases 0.

The key of the dropout mask is part of the datum: `augment` adds it, and an anchored estimator uses the
same one until its next refresh, so that both gradients of a pair have the same mask. `predict` has no
dropout.

Data: a tuple (x [N, h, w, channels], y [N]); x bytes or floating numbers (`images`).
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from vrsgmcmc.core import Posterior, PRNGKey, Scalar, number, whole

from .checks import check_outputs
from .gaussian import normal_prior
from .images import check_channels, crop_and_flip, image_check, map_images, pixels
from .layers import Affine, Convolution, he_kernel, lecun_affine

WIDTHS = (32, 32, 64, 32)


class CNN(eqx.Module):
    """The parameters; all convolutions but the last are followed by a pool."""

    convolutions: tuple[Convolution, ...]
    head: Affine


def posterior(
    num_classes: int = 10,
    *,
    dropout: float = 0.5,
    augment: bool = False,
    prior_variance: float | int = 1.0,
) -> Posterior:
    """The posterior of the network's parameters.

    - `dropout`: the rate, from 0 (none) to below 1.
    - `augment`: shift each image by up to 4 pixels and mirror it, at random.
    """
    num_classes = whole("cnn.posterior", "num_classes", num_classes, least=2)
    dropout = number("cnn.posterior", "dropout", dropout)
    if not 0 <= dropout < 1:
        raise ValueError(
            f"cnn.posterior(dropout={dropout}): dropout must be at least 0 and below 1. "
            "It is the share of outputs that is left out."
        )
    loglik, check = _loglik(num_classes, dropout), image_check("cnn", num_classes)
    augmentation = _augment(dropout > 0, bool(augment))
    return Posterior(normal_prior(prior_variance), loglik, augmentation, check=check, network=True)


def initial(
    num_classes: int = 10, *, shape: Sequence[int] = (32, 32, 3), widths: Sequence[int] = WIDTHS
) -> Callable[[PRNGKey], CNN]:
    """A function of a key, for images [h, w, channels], so that every chain has its own start."""
    shape = tuple(whole("cnn.initial", "shape", length) for length in shape)
    widths = tuple(whole("cnn.initial", "widths", width) for width in widths)
    halvings = 2 ** (len(widths) - 1)
    if len(shape) != 3 or shape[0] % halvings or shape[1] % halvings:
        raise ValueError(
            f"cnn.initial(shape={shape}): shape must be (h, w, channels) with h and w multiples of "
            f"{halvings}, for {len(widths) - 1} pools halve them. Pad the images."
        )
    return _initial(whole("cnn.initial", "num_classes", num_classes, least=2), shape, widths)


def predict(net: CNN, images: Shaped[Array, "n h w c"]) -> Float[Array, "n classes"]:
    """The probabilities of the classes for each image, without dropout."""
    return jax.nn.softmax(map_images(lambda image: logits(net, image), images))


def logits(
    net: CNN, image: Shaped[Array, "h w c"], key: PRNGKey | None = None, dropout: float = 0.0
) -> Float[Array, " classes"]:
    """f(x) for one image, with dropout if there is a key."""
    *pooled, last = net.convolutions
    check_size(net, image)
    x = pixels(image, last.kernel.dtype)[None]
    for convolution in pooled:
        x = jax.nn.relu(max_pool(convolution(x)))
    x = jax.nn.relu(last(x)).reshape(-1)
    if key is not None:
        mask = jax.random.bernoulli(key, 1 - dropout, x.shape)
        x = jnp.where(mask, x / (1 - dropout), 0)
    return net.head(x)


def check_size(net: CNN, image: Shaped[Array, "h w c"]) -> None:
    """Refuse images of another size than those of `initial`."""
    h, w, _ = image.shape
    start = f"initial(shape={tuple(image.shape)})"
    check_channels("cnn", image, net.convolutions[0].kernel.shape[2], start)
    pools = len(net.convolutions) - 1
    side = 2**pools
    if h % side or w % side:
        raise ValueError(
            f"cnn: h and w of images must be multiples of {side}, for {pools} pools halve "
            f"them, got {h} x {w}. Pad the images."
        )
    if (h // side) * (w // side) * net.convolutions[-1].kernel.shape[3] != net.head.weight.shape[0]:
        raise ValueError(
            f"cnn: the network was made for images of another size than these. Start from {start}."
        )


def max_pool(x: Float[Array, "k h w c"]) -> Float[Array, "k h/2 w/2 c"]:
    """The maximum of each 2x2 square, as a reduction: XLA:CPU's windows take twice as long."""
    k, h, w, c = x.shape
    return jnp.max(x.reshape(k, h // 2, 2, w // 2, 2, c), axis=(2, 4))


@cache
def _initial(num_classes: int, shape: tuple[int, ...], widths: tuple[int, ...]) -> Callable:
    h, w, channels = shape
    side = 2 ** (len(widths) - 1)

    def initial(key: PRNGKey) -> CNN:
        *keys, last = jax.random.split(key, len(widths) + 1)
        convolutions = tuple(
            Convolution(he_kernel(key, inputs, outputs), jnp.zeros(outputs))
            for key, (inputs, outputs) in zip(keys, pairwise((channels, *widths)), strict=True)
        )
        inputs = (h // side) * (w // side) * widths[-1]
        return CNN(convolutions, lecun_affine(last, inputs, num_classes))

    return jax.jit(initial)


@cache
def _loglik(num_classes: int, dropout: float) -> Callable[[CNN, Any], Scalar]:
    def loglik(net: CNN, datum: tuple) -> Scalar:
        image, label, *key = datum
        outputs = logits(net, image, *key, dropout=dropout)
        check_outputs("cnn", outputs, num_classes, f"initial({num_classes})")
        return jax.nn.log_softmax(outputs)[label]

    return loglik


@cache
def _augment(dropout: bool, crops: bool) -> Callable[[PRNGKey, tuple], tuple] | None:
    if not (dropout or crops):
        return None

    def augment(key: PRNGKey, item: tuple) -> tuple:
        image, label = item
        move, drop = jax.random.split(key)
        image = crop_and_flip(move, image) if crops else image
        return (image, label, drop) if dropout else (image, label)

    return augment
