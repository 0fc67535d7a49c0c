"""A language model: two layers of 200 LSTM cells (Zaremba et al. 2014, the small configuration).

    x_t = E[w_t],   and in every layer, with h_0 = c_0 = 0 and * the product of components,
    (i, f, g, o) = x_t A + h_(t-1) B + b                             four blocks of one affine map
    c_t = sigmoid(f) * c_(t-1) + sigmoid(i) * tanh(g),   h_t = sigmoid(o) * tanh(c_t)
    P(w_(t+1) | w_1, ..., w_t) = softmax(h_t W + b'),   every parameter ~ N(0, prior_variance)

With a vocabulary of V words these are 401 V + 641,600 parameters: 4,651,600 for Penn Treebank
(V = 10,000), 13,986,078 for WikiText-2 (V = 33,278). Chains start with every parameter uniform in
[-0.1, 0.1] and without dropout, as in that paper.

A datum is a segment of 35 words with the 35 words that follow each of them, and every segment starts
from h_0 = c_0 = 0: with a state carried over from the segment before, the likelihood would not
factorise. In `predict` the state is carried through the whole text.

Data: a tuple (words [N, length], next words [N, length]) of integers; `segments` cuts a text into them.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from vrsgmcmc.core import Posterior, PRNGKey, Scalar, positive, whole

from .checks import check_labels, check_tuple
from .gaussian import normal_prior
from .layers import Affine

AT_ONCE = 256  # words of a long text that `predict` reads at a time

State: TypeAlias = tuple[Float[Array, " hidden"], Float[Array, " hidden"]]  # h and c


class Layer(eqx.Module):
    """The cells of a layer; weights are [inputs, outputs], for fast products with rows."""

    inputs: Affine
    recurrent: Float[Array, "hidden gates"]

    def __call__(
        self, x: Float[Array, "t inputs"], state: State
    ) -> tuple[Float[Array, "t hidden"], State]:
        """The outputs at each time, and the final state."""

        def step(state, inputs):
            h, c = state
            i, f, g, o = jnp.split(inputs + h @ self.recurrent, 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        state, h = jax.lax.scan(step, state, self.inputs(x))
        return h, state


class LSTM(eqx.Module):
    """The parameters."""

    embedding: Float[Array, "vocabulary hidden"]
    layers: tuple[Layer, ...]
    head: Affine

    @property
    def zero_state(self) -> tuple[State, ...]:
        zeros = (jnp.zeros(len(each.recurrent), each.recurrent.dtype) for each in self.layers)
        return tuple((zero, zero) for zero in zeros)


def posterior(vocabulary: int, *, prior_variance: float | int = 1.0) -> Posterior:
    """The posterior of the parameters, for texts of `vocabulary` different words."""
    vocabulary = whole("lstm.posterior", "vocabulary", vocabulary, least=2)
    return Posterior(
        normal_prior(prior_variance), _loglik(vocabulary), check=_check(vocabulary), network=True
    )


def initial(
    vocabulary: int, *, hidden: int = 200, layers: int = 2, scale: float = 0.1
) -> Callable[[PRNGKey], LSTM]:
    """A function of a key, with every parameter uniform in [-scale, scale]."""
    return _initial(
        whole("lstm.initial", "vocabulary", vocabulary, least=2),
        whole("lstm.initial", "hidden", hidden),
        whole("lstm.initial", "layers", layers),
        positive("lstm.initial", "scale", scale),
    )


def segments(
    text: Int[ArrayLike, " words"], length: int = 35
) -> tuple[Int[np.ndarray, "n length"], Int[np.ndarray, "n length"]]:
    """Consecutive segments of a text, and the next word of each word; a shorter rest is dropped."""
    text = np.asarray(text)
    length = whole("lstm.segments", "length", length)
    if text.ndim != 1:
        raise ValueError(
            f"lstm.segments: the text must be one row of words [words], got shape {text.shape}. Give "
            "the words in their order, before they are cut into columns."
        )
    count = (len(text) - 1) // length
    if count < 1:
        raise ValueError(
            f"lstm.segments: a text of {len(text)} words has no segment of {length} words with a "
            f"next word each. Give at least {length + 1} words."
        )
    end = count * length
    return text[:end].reshape(-1, length), text[1 : end + 1].reshape(-1, length)


def predict(net: LSTM, text: Int[Array, " words"]) -> Float[Array, " words-1"]:
    """P(word | all words before it) for each word after the first.

    The state is carried through the text, which is read in blocks of `AT_ONCE` words, so that memory
    does not grow with the text. Averages over a chain are the predictive probabilities; papers report
    their `perplexity`.
    """
    count = text.shape[0] - 1
    blocks = -(-count // AT_ONCE)

    def cut(words):
        return jnp.pad(words, (0, blocks * AT_ONCE - count)).reshape(blocks, AT_ONCE)

    def read(state, block):
        words, targets = block
        logs, state = log_probabilities(net, words, targets, state)
        return state, jnp.exp(logs)

    _, probabilities = jax.lax.scan(read, net.zero_state, (cut(text[:-1]), cut(text[1:])))
    return probabilities.reshape(-1)[:count]


def perplexity(probabilities: Float[ArrayLike, " words"]) -> Float[Array, ""]:
    """exp(- mean of log p): 1 if every p is 1, V if every p is 1/V."""
    return jnp.exp(-jnp.mean(jnp.log(jnp.asarray(probabilities))))


def log_probabilities(
    net: LSTM, words: Int[Array, " t"], targets: Int[Array, " t"], state: tuple[State, ...]
) -> tuple[Float[Array, " t"], tuple[State, ...]]:
    """log P(next word | the words up to here) at each time, and the final state."""
    x, after = net.embedding[words], []
    for layer, before in zip(net.layers, state, strict=True):
        x, now = layer(x, before)
        after.append(now)
    # A scan puts time before the axis of the data, where products with the vocabulary take 1.2 times
    # as long; reshaping brings the axis of the data back to the front.
    x = x.reshape(-1).reshape(x.shape)
    logs = jax.nn.log_softmax(net.head(x))
    return jnp.take_along_axis(logs, targets[:, None], axis=1)[:, 0], tuple(after)


@cache
def _initial(vocabulary: int, hidden: int, layers: int, scale: float) -> Callable[[PRNGKey], LSTM]:
    def initial(key: PRNGKey) -> LSTM:
        first, *keys, last = jax.random.split(key, layers + 2)

        def uniform(key, *shape):
            return jax.random.uniform(key, shape, minval=-scale, maxval=scale)

        def affine(key, inputs, outputs):
            weight, bias = jax.random.split(key)
            return Affine(uniform(weight, inputs, outputs), uniform(bias, outputs))

        def layer(key):
            inputs, recurrent = jax.random.split(key)
            return Layer(affine(inputs, hidden, 4 * hidden), uniform(recurrent, hidden, 4 * hidden))

        return LSTM(
            uniform(first, vocabulary, hidden),
            tuple(map(layer, keys)),
            affine(last, hidden, vocabulary),
        )

    return jax.jit(initial)


@cache
def _loglik(vocabulary: int) -> Callable[[LSTM, Any], Scalar]:
    def loglik(net: LSTM, datum: tuple) -> Scalar:
        words, targets = datum
        if net.embedding.shape[0] != vocabulary:  # else JAX would read larger words as the last
            raise ValueError(
                f"lstm: the network must know {vocabulary} words, got {net.embedding.shape[0]}. "
                f"Start from initial({vocabulary})."
            )
        return jnp.sum(log_probabilities(net, words, targets, net.zero_state)[0])

    return loglik


@cache
def _check(vocabulary: int) -> Callable[[Any], None]:
    def check(data: Any) -> None:
        form, repair = "(words, next words), both [N, length]", "Cut a text with lstm.segments."
        check_tuple("lstm", data, form, repair)
        words, targets = data
        if len(words.shape) != 2 or words.shape != targets.shape:
            raise ValueError(
                "lstm: words and next words must both be [N, length], got shapes "
                f"{tuple(words.shape)} and {tuple(targets.shape)}. {repair}"
            )
        repair = f"The vocabulary has {vocabulary} words, numbered from 0."
        check_labels("lstm", words, vocabulary, repair)
        check_labels("lstm", targets, vocabulary, repair)

    return check
