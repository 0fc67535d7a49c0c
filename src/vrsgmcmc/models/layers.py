"""The layers that the networks share: affine maps and 3x3 convolutions.

    affine       y = x W + b
    convolution  y[p, q] = sum_ij x[s p + i - 1, s q + j - 1] K[i, j] + b,   zeros around the image

A network is an `equinox.Module` whose leaves are its parameters; strides and the like are static. So
the network itself is the `params` of `loglik(params, datum)`, a pytree of arrays.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vrsgmcmc.core import PRNGKey

from .linear import affine

LAYOUT = ("NHWC", "HWIO", "NHWC")
FEW = 16  # most channels, in and out, for products of matrices


class Affine(eqx.Module):
    """x W + b, for one row or many."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, "*rows inputs"]) -> Float[Array, "*rows outputs"]:
        return affine(x, self.weight, self.bias)


class Convolution(eqx.Module):
    """A 3x3 convolution of some images, with a bias."""

    kernel: Float[Array, "3 3 inputs outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, "k h w inputs"]) -> Float[Array, "k h w outputs"]:
        return convolve(x, self.kernel) + self.bias[None, None, None]


def lecun_affine(key: PRNGKey, inputs: int, outputs: int) -> Affine:
    """Weights N(0, 1 / inputs), biases 0: outputs have the scale of the inputs (LeCun et al. 1998)."""
    weight = jax.random.normal(key, (inputs, outputs)) / inputs**0.5
    return Affine(weight, jnp.zeros(outputs))


def he_kernel(key: PRNGKey, inputs: int, outputs: int) -> Float[Array, "3 3 inputs outputs"]:
    """N(0, 2 / (9 inputs)): a ReLU keeps the scale of the signal (He et al. 2015)."""
    return jax.random.normal(key, (3, 3, inputs, outputs)) * (2 / (9 * inputs)) ** 0.5


def convolve(
    x: Float[Array, "k h w inputs"], kernel: Float[Array, "3 3 inputs outputs"], stride: int = 1
) -> Float[Array, "k p q outputs"]:
    """The convolution without its bias.

    Its gradients are written out. JAX's own gradients are convolutions with exchanged axes, and XLA:CPU
    has fast code for them only at the top level of a program: in the body of a loop, where chains run,
    they take 20 times as long. With few channels, products of matrices are faster in both places.
    """
    if stride == 1 and max(kernel.shape[2:]) <= FEW:
        return _convolve_few(x, kernel)
    return _convolve(x, kernel, stride)


# ---------------------------------------------------------------- few channels
#
# X holds side by side the three columns that a row of the kernel multiplies, Y the products of the
# three rows of the kernel, and M is the kernel as a matrix:
#
#     X[r, q, (j, c)] = x[r - 1, q + j - 1, c],   Y[r, q, (i, d)] = y[r - i, q, d],
#     M[(j, c), (i, d)] = K[i, j, c, d],   zeros where there is no such pixel.
#
# Then y is X M with its three rows i added up, the gradient in M is X^T Y, and that in x is Y M^T with
# its three columns j added up. X and Y are three times as large as x and y; the usual matrix of patches
# is nine times as large as x.


def _few_value(x: Array, kernel: Array) -> Array:
    above, here, below = jnp.split(_columns(x) @ _matrix(kernel), 3, axis=3)
    return _pad(above, 1, (0, -2)) + _pad(here, 1, (-1, -1)) + _pad(below, 1, (-2, 0))


def _few_forward(x, kernel):
    return _few_value(x, kernel), (x, kernel)


def _few_backward(residuals, slope):
    x, kernel = residuals
    inputs, outputs = kernel.shape[2:]
    rows = jnp.concatenate([_pad(slope, 1, (i, 2 - i)) for i in range(3)], axis=3)
    in_matrix = jnp.tensordot(_columns(x), rows, ((0, 1, 2), (0, 1, 2)))
    left, here, right = jnp.split(rows[:, 1:-1] @ _matrix(kernel).T, 3, axis=3)
    in_x = _pad(left, 2, (-1, 1)) + here + _pad(right, 2, (1, -1))
    return in_x, in_matrix.reshape(3, inputs, 3, outputs).transpose(2, 0, 1, 3)


_convolve_few = jax.custom_vjp(_few_value)
_convolve_few.defvjp(_few_forward, _few_backward)


def _columns(x: Array) -> Array:
    framed = _pad(x, 1, (1, 1))
    return jnp.concatenate([_pad(framed, 2, (1 - j, j - 1)) for j in range(3)], axis=3)


def _matrix(kernel: Array) -> Array:
    return kernel.transpose(1, 2, 0, 3).reshape(3 * kernel.shape[2], -1)


def _pad(x: Array, axis: int, ends: tuple[int, int]) -> Array:
    """Add zeros at the ends of an axis; negative numbers cut elements off."""
    frame = [(0, 0, 0)] * x.ndim
    frame[axis] = (*ends, 0)
    return jax.lax.pad(x, jnp.zeros((), x.dtype), frame)


# ---------------------------------------------------------------- many channels


def _value(x: Array, kernel: Array, stride: int) -> Array:
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=LAYOUT
    )


def _forward(x, kernel, stride):
    return _value(x, kernel, stride), (x, kernel)


def _backward(stride, residuals, slope):
    """In x the same convolution with the flipped kernel; in K[i, j] one matrix product."""
    x, kernel = residuals
    (h, w), (p, q) = x.shape[1:3], slope.shape[1:3]
    in_x = jax.lax.conv_general_dilated(
        slope,
        jnp.flip(kernel, (0, 1)).swapaxes(2, 3),
        (1, 1),
        ((1, h - stride * (p - 1)), (1, w - stride * (q - 1))),
        lhs_dilation=(stride, stride),
        dimension_numbers=LAYOUT,
    )
    framed = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))

    def pixels(i, j):
        """The pixels that kernel element (i, j) multiplies, one for each output."""
        rows = slice(i, i + stride * (p - 1) + 1, stride)
        columns = slice(j, j + stride * (q - 1) + 1, stride)
        return framed[:, rows, columns].reshape(-1, x.shape[3])

    slope = slope.reshape(-1, slope.shape[3])
    in_kernel = [pixels(i, j).T @ slope for i in range(3) for j in range(3)]
    return in_x, jnp.stack(in_kernel).reshape(kernel.shape)


_convolve = jax.custom_vjp(_value, nondiff_argnums=(2,))
_convolve.defvjp(_forward, _backward)
