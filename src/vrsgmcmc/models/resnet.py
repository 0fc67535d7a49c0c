"""ResNet-20 for small images (He et al. 2016); a datum is one image, or a group of ten.

    x = max(0, norm(conv(image)));   three stages of three blocks, of 16, 32 and 64 channels:
    x' = max(0, x + norm(conv(max(0, norm(conv(x))))))
    f = linear(mean of x over the pixels),   P(y_i = k) = softmax(f)_k
    every parameter ~ N(0, prior_variance)

All convolutions are 3x3. The first one of the second and third stages has stride 2; its shortcut is
every second pixel of x, with zeros in the new channels. For images in colour and 10 classes these are
269,722 parameters (0.27 million in the paper). Chains start from He's initialisation, with scales 1 and
shifts 0.

The original normalises each channel by its mean and variance over the batch. The likelihood of an image
then depends on the other images of its batch: the log-likelihood is not a sum over the data, and the
gradient at an anchor belongs to another function. There are two ways out:

    norm="group_norm"   mean and variance over eight groups of channels within the image (Wu & He 2018);
                        a datum is an image. The default.
    norm="batch_norm"   a datum is a fixed group of ten images, normalised by its own means and
                        variances, so that the likelihood factorises over groups. `groups` makes them
                        once. Ten data are a hundred images, and a pass over the data costs the same.

`initial` takes the same `norm`, and a network remembers it: parameters of one norm are refused where
those of the other are needed.

To predict one image, batch-norm needs means and variances in place of those of a group: `statistics`
computes them from the training data and the parameters.

Data: (x [N, h, w, channels], y [N]), or groups of them, (x [N, 10, h, w, channels], y [N, 10]).
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Shaped

from vrsgmcmc.core import Posterior, PRNGKey, Scalar, one_of, whole

from .checks import check_outputs
from .gaussian import normal_prior
from .images import check_channels, crop_and_flip, image_check, map_images, pixels
from .layers import Affine, convolve, he_kernel, lecun_affine

CHANNEL_GROUPS = 8
EPSILON = 1e-5
NORMS = ("group_norm", "batch_norm")


class Moments(NamedTuple):
    """Mean and variance, in a shape that broadcasts against images [k, h, w, channels]."""

    mean: Float[Array, "#k 1 1 c"]
    variance: Float[Array, "#k 1 1 c"]


class Norm(eqx.Module):
    """Scale and shift after the normalisation."""

    scale: Float[Array, " c"]
    shift: Float[Array, " c"]

    def __call__(self, x: Float[Array, "k h w c"], moments: Moments) -> Float[Array, "k h w c"]:
        scale = self.scale[None, None, None] * jax.lax.rsqrt(moments.variance + EPSILON)
        return (x - moments.mean) * scale + self.shift[None, None, None]


Normalise: TypeAlias = Callable[[Norm, Float[Array, "k h w c"]], Float[Array, "k h w c"]]


class Block(eqx.Module):
    """Two convolutions and a shortcut past them."""

    kernels: tuple[Float[Array, "3 3 _ c"], Float[Array, "3 3 c c"]]
    norms: tuple[Norm, Norm]

    def __call__(self, x: Float[Array, "k h w _"], normalise: Normalise) -> Float[Array, "k p q c"]:
        inputs, outputs = self.kernels[0].shape[2:]
        stride = 1 if inputs == outputs else 2
        inner = jax.nn.relu(normalise(self.norms[0], convolve(x, self.kernels[0], stride)))
        residual = normalise(self.norms[1], convolve(inner, self.kernels[1]))
        new = outputs - inputs
        shortcut = x[:, ::stride, ::stride]
        shortcut = jnp.pad(shortcut, ((0, 0), (0, 0), (0, 0), (new // 2, new - new // 2)))
        return jax.nn.relu(shortcut + residual)


class ResNet(eqx.Module):
    """The parameters."""

    kernel: Float[Array, "3 3 channels c"]
    norm: Norm
    blocks: tuple[Block, ...]
    head: Affine
    norm_kind: str = eqx.field(static=True, default="group_norm")  # one of NORMS


def posterior(
    num_classes: int = 10,
    *,
    norm: str = "group_norm",
    augment: bool = False,
    prior_variance: float | int = 1.0,
) -> Posterior:
    """The posterior of the network's parameters.

    - `norm`: "group_norm", a datum is an image; "batch_norm", a datum is a group of images. Give the
      same to `initial`.
    - `augment`: shift each image by up to 4 pixels and mirror it, at random.
    """
    num_classes = whole("resnet.posterior", "num_classes", num_classes, least=2)
    grouped = one_of("resnet.posterior", "norm", norm, NORMS) == "batch_norm"
    loglik, check = _loglik(num_classes, grouped), image_check("resnet", num_classes, grouped)
    augmentation = (_augment_group if grouped else _augment_image) if augment else None
    return Posterior(normal_prior(prior_variance), loglik, augmentation, check=check, network=True)


def initial(
    num_classes: int = 10,
    *,
    channels: int = 3,
    width: int = 16,
    blocks: int = 3,
    norm: str = "group_norm",
) -> Callable[[PRNGKey], ResNet]:
    """A function of a key, so that every chain has its own start.

    - `width`: channels of the first stage.
    - `blocks`: their number in each stage, for 6 blocks + 2 layers.
    - `norm`: that of the posterior.
    """
    return _initial(
        whole("resnet.initial", "num_classes", num_classes, least=2),
        whole("resnet.initial", "channels", channels),
        whole("resnet.initial", "width", width),
        whole("resnet.initial", "blocks", blocks),
        one_of("resnet.initial", "norm", norm, NORMS),
    )


def groups(
    x: Shaped[ArrayLike, "n h w c"], y: Int[ArrayLike, " n"], *, size: int = 10, seed: int = 0
) -> tuple[Shaped[np.ndarray, "m size h w c"], Int[np.ndarray, "m size"]]:
    """Images in random groups, the data for batch-norm; an incomplete last group is dropped."""
    x, y = np.asarray(x), np.asarray(y)
    size = whole("resnet.groups", "size", size, least=2)
    if len(x) != len(y) or len(x) < size:
        raise ValueError(
            f"resnet.groups: x and y must have the same number of rows, at least {size}, got "
            f"{len(x)} and {len(y)}."
        )
    rows = np.random.default_rng(seed).permutation(len(x))[: len(x) // size * size]
    rows = rows.reshape(-1, size)
    return x[rows], y[rows]


def predict(
    net: ResNet, images: Shaped[Array, "n h w c"], by: tuple[Moments, ...] | None = None
) -> Float[Array, "n classes"]:
    """The probabilities of the classes for each image.

    `by`: the `statistics` of a network with batch-norm; None for one with group-norm.
    """
    if by is not None:
        check_norm("resnet.predict with statistics", net, "batch_norm")
    elif net.norm_kind == "batch_norm":
        raise ValueError(
            "resnet.predict: the network has batch-norm, and an image alone has no batch. Give the "
            "statistics of training images: resnet.predict(net, images, resnet.statistics(net, "
            "groups)), with some hundred groups of resnet.groups."
        )

    def one(image):
        moments = iter(by or ())
        normalise = group_norm if by is None else lambda norm, x: norm(x, next(moments))
        return logits(net, image[None], normalise)[0]

    return jax.nn.softmax(map_images(one, images))


def statistics(net: ResNet, images: Shaped[Array, "m size h w c"]) -> tuple[Moments, ...]:
    """Mean and variance of the inputs of each norm, over all groups, each normalised by its own.

    For the batch-norm of test images, from the training data or some hundred groups of them.
    """
    check_norm("resnet.statistics", net, "batch_norm")

    def one(group):
        moments = []

        def normalise(norm, x):
            moments.append(batch_moments(x))
            return norm(x, moments[-1])

        logits(net, group, normalise)
        return tuple(moments)

    def pool(moments: Moments) -> Moments:
        mean = moments.mean.mean(0)
        between = jnp.square(moments.mean - mean[None]).mean(0)
        return Moments(mean, moments.variance.mean(0) + between)

    return tuple(map(pool, jax.lax.map(one, images)))


def check_norm(user: str, net: ResNet, norm: str) -> None:
    """Refuse the parameters of a network with the other norm."""
    if net.norm_kind != norm:
        raise ValueError(
            f"{user} needs a network with norm={norm!r}, got one with norm={net.norm_kind!r}. Start "
            f"from resnet.initial(..., norm={norm!r})."
        )


def logits(
    net: ResNet, images: Shaped[Array, "k h w c"], normalise: Normalise
) -> Float[Array, "k classes"]:
    """f(x) for each image."""
    check_channels("resnet", images, net.kernel.shape[2], f"initial(channels={images.shape[-1]})")
    x = pixels(images, net.kernel.dtype)
    x = jax.nn.relu(normalise(net.norm, convolve(x, net.kernel)))
    for block in net.blocks:
        x = block(x, normalise)
    return net.head(jnp.mean(x, axis=(1, 2)))


def group_norm(norm: Norm, x: Float[Array, "k h w c"]) -> Float[Array, "k h w c"]:
    """Normalise over the pixels and a group of channels of each image."""
    count, *_, channels = x.shape
    group_size = channels // math.gcd(CHANNEL_GROUPS, channels)

    def average(values):  # pixels first: a reduction over channels alone is slow
        means = jnp.mean(values, axis=(1, 2)).reshape(count, -1, group_size).mean(2)
        return jnp.repeat(means, group_size, axis=1)[:, None, None]

    mean = average(x)
    return norm(x, Moments(mean, average(jnp.square(x - mean))))


def batch_norm(norm: Norm, x: Float[Array, "k h w c"]) -> Float[Array, "k h w c"]:
    """Normalise over all pixels of all images, channel by channel."""
    return norm(x, batch_moments(x))


def batch_moments(x: Float[Array, "k h w c"]) -> Moments:
    mean = jnp.mean(x, axis=(0, 1, 2), keepdims=True)
    return Moments(mean, jnp.mean(jnp.square(x - mean), axis=(0, 1, 2), keepdims=True))


@cache
def _initial(num_classes: int, channels: int, width: int, blocks: int, kind: str) -> Callable:
    widths = [width * 2**stage for stage in range(3) for _ in range(blocks)]

    def norm(width: int) -> Norm:
        return Norm(jnp.ones(width), jnp.zeros(width))

    def block(key: PRNGKey, inputs: int, outputs: int) -> Block:
        first, second = jax.random.split(key)
        kernels = he_kernel(first, inputs, outputs), he_kernel(second, outputs, outputs)
        return Block(kernels, (norm(outputs), norm(outputs)))

    def initial(key: PRNGKey) -> ResNet:
        first, last, *keys = jax.random.split(key, len(widths) + 2)
        return ResNet(
            he_kernel(first, channels, width),
            norm(width),
            tuple(map(block, keys, [width, *widths], widths)),
            lecun_affine(last, widths[-1], num_classes),
            kind,
        )

    return jax.jit(initial)


@cache
def _loglik(num_classes: int, grouped: bool) -> Callable[[ResNet, Any], Scalar]:
    start = f"initial({num_classes})"

    def group_loglik(net: ResNet, datum: tuple) -> Scalar:
        check_norm("resnet.posterior(norm='batch_norm')", net, "batch_norm")
        images, labels = datum
        outputs = jax.nn.log_softmax(logits(net, images, batch_norm))
        check_outputs("resnet", outputs[0], num_classes, start)
        return jnp.sum(jnp.take_along_axis(outputs, labels[:, None], axis=1))

    def image_loglik(net: ResNet, datum: tuple) -> Scalar:
        check_norm("resnet.posterior(norm='group_norm')", net, "group_norm")
        image, label = datum
        (outputs,) = logits(net, image[None], group_norm)
        check_outputs("resnet", outputs, num_classes, start)
        return jax.nn.log_softmax(outputs)[label]

    return group_loglik if grouped else image_loglik


def _augment_image(key: PRNGKey, item: tuple) -> tuple:
    image, label = item
    return crop_and_flip(key, image), label


def _augment_group(key: PRNGKey, item: tuple) -> tuple:
    images, labels = item
    return jax.vmap(crop_and_flip)(jax.random.split(key, len(images)), images), labels
