"""The networks: their log-densities are the formulas of their docstrings, their sizes the paper's."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_softmax

from vrsgmcmc.models import cnn, lstm, mlp, resnet
from vrsgmcmc.models.images import crop_and_flip, pixels
from vrsgmcmc.models.layers import FEW, convolve


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def numbers(initial):
    """A network with random numbers everywhere: no bias or shift is 0, no scale is 1."""
    rng = np.random.default_rng(7)
    shapes = jax.eval_shape(initial, jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0.1, 0.5, leaf.shape)), shapes)


def convolved(x, kernel, stride=1):
    """Images [k, h, w, c], by the definition."""
    count, h, w, _ = x.shape
    framed = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    out = np.zeros((count, -(-h // stride), -(-w // stride), kernel.shape[3]))
    for p, q in np.ndindex(out.shape[1:3]):
        met = framed[:, stride * p : stride * p + 3, stride * q : stride * q + 3]
        out[:, p, q] = np.einsum("kijc,ijco->ko", met, kernel)
    return out


def relu(x):
    return np.maximum(x, 0)


# ---------------------------------------------------------------- sizes


def kernels(*channels):
    return sum(9 * a * b for a, b in itertools.pairwise(channels))


SIZES = {
    "mlp on MNIST": (mlp.initial(784, 10, 100), 784 * 100 + 100 + 100 * 10 + 10, 79_510),
    "mlp on CIFAR-10": (mlp.initial(3072, 10, 100), 3072 * 100 + 100 + 100 * 10 + 10, 308_310),
    "cnn": (cnn.initial(), kernels(3, 32, 32, 64, 32) + 160 + 4 * 4 * 32 * 10 + 10, 52_234),
    "resnet": (
        resnet.initial(),
        kernels(3, *[16] * 7, *[32] * 6, *[64] * 6) + 2 * (7 * 16 + 6 * 32 + 6 * 64) + 650,
        269_722,
    ),
    "lstm on Penn Treebank": (lstm.initial(10_000), 401 * 10_000 + 2 * (400 + 1) * 800, 4_651_600),
    "lstm on WikiText-2": (lstm.initial(33_278), 401 * 33_278 + 2 * (400 + 1) * 800, 13_986_078),
}


@pytest.mark.parametrize(("initial", "formula", "count"), SIZES.values(), ids=SIZES)
def test_the_number_of_parameters(initial, formula, count):
    leaves = jax.tree.leaves(jax.eval_shape(initial, jax.random.key(0)))
    assert sum(leaf.size for leaf in leaves) == formula == count
    assert all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves)


# ---------------------------------------------------------------- convolutions


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [(6, 4), (5, 7)])
@pytest.mark.parametrize("channels", [(3, 2), (FEW, FEW), (2, FEW + 1), (FEW + 1, 2)])
def test_a_convolution_and_its_gradients(stride, side, channels):
    x, kernel = normal(2, *side, channels[0]), normal(3, 3, *channels, seed=1)
    np.testing.assert_allclose(
        convolve(x, kernel, stride), convolved(x, kernel, stride), rtol=1e-12, atol=1e-12
    )

    def plain(x, kernel):
        around, layout = ((1, 1), (1, 1)), ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), around, dimension_numbers=layout
        )

    slope = normal(*plain(x, kernel).shape, seed=2)

    @jax.jit
    def gradients(x, kernel, slope):
        both = [lambda x, k: convolve(x, k, stride), plain]
        return [jax.vjp(function, x, kernel)[1](slope) for function in both]

    for actual, expected in zip(*gradients(x, kernel, slope), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)

    @jax.jit
    def curvatures(kernel, along):  # as the audit takes them: forward over reverse
        both = [lambda k: convolve(x, k, stride), lambda k: plain(x, k)]
        gradients = [jax.grad(lambda k, f=f: jnp.sum(jnp.tanh(f(k)))) for f in both]
        return [jax.jvp(gradient, (kernel,), (along,))[1] for gradient in gradients]

    np.testing.assert_allclose(*curvatures(kernel, normal(*kernel.shape, seed=3)), rtol=1e-9)


# ---------------------------------------------------------------- CNN-4

SMALL_CNN = cnn.initial(3, shape=(16, 8, 2), widths=(2, 3, 4, 2))


def test_the_cnn_is_its_formula():
    net = jax.tree.map(np.asarray, numbers(SMALL_CNN))
    image = np.random.default_rng(0).integers(0, 256, (16, 8, 2)).astype(np.uint8)
    x = (image[None] / 255 - 0.5) / 0.25
    for number, layer in enumerate(net.convolutions):
        x = convolved(x, layer.kernel) + layer.bias
        if number < 3:
            x = np.max([x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], axis=0)
        x = relu(x)
    logits = x.reshape(-1) @ net.head.weight + net.head.bias
    loglik = jax.jit(cnn.posterior(3, dropout=0.0).loglik)
    np.testing.assert_allclose(loglik(net, (image, 2)), log_softmax(logits)[2], rtol=1e-12)
    probabilities = cnn.predict(net, jnp.asarray(np.stack([image, image[::-1]])))
    np.testing.assert_allclose(probabilities[0], np.exp(log_softmax(logits)), rtol=1e-12)
    assert probabilities.shape == (2, 3)


@pytest.mark.slow
def test_dropout_leaves_out_its_share_and_keeps_the_mean():
    net = jax.tree.map(abs, numbers(SMALL_CNN))  # so that nothing is 0 before it is dropped
    image = jnp.asarray(abs(normal(16, 8, 2)))
    keys = jax.random.split(jax.random.key(1), 4000)
    outputs = jax.jit(jax.vmap(lambda key: cnn.logits(net, image, key, 0.75)))(keys)
    error = np.std(outputs, axis=0) / np.sqrt(len(keys))
    assert np.all(abs(outputs.mean(0) - cnn.logits(net, image)) < 4 * error)
    features = jax.grad(lambda net: cnn.logits(net, image)[0])(net).head.weight[:, :1]
    spread = 0.75 / 0.25 * jnp.square(features * net.head.weight).sum(0)
    np.testing.assert_allclose(np.var(outputs, axis=0), spread, rtol=0.1)


def test_the_posterior_of_a_cnn_shows_each_datum_its_own_mask():
    posterior, net = cnn.posterior(3, dropout=0.5), jax.tree.map(abs, numbers(SMALL_CNN))

    @jax.jit
    def loglik_at(key):
        assert posterior.augment is not None
        return posterior.loglik(net, posterior.augment(key, (jnp.ones((16, 8, 2)), 1)))

    first, again, other = (loglik_at(jax.random.key(seed)) for seed in (3, 3, 4))
    assert first == again != other
    assert cnn.posterior(dropout=0).augment is None


# ---------------------------------------------------------------- ResNet-20

SMALL_RESNET = resnet.initial(3, channels=2, width=2, blocks=1)
SMALL_BATCH_NORM = resnet.initial(3, channels=2, width=2, blocks=1, norm="batch_norm")


def normalised(x, norm, axes):
    x = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    return x.reshape(*x.shape[:3], -1) * norm.scale + norm.shift


def in_groups(x, norm):
    channels = x.shape[3]
    groups = min(8, channels)
    return normalised(x.reshape(*x.shape[:3], groups, channels // groups), norm, (1, 2, 4))


def over_batch(x, norm):
    return normalised(x, norm, (0, 1, 2))


def resnet_by_hand(net, images, normalise):
    net = jax.tree.map(np.asarray, net)
    x = relu(normalise(convolved(images, net.kernel), net.norm))
    for block in net.blocks:
        stride = block.kernels[0].shape[3] // block.kernels[0].shape[2]
        y = relu(normalise(convolved(x, block.kernels[0], stride), block.norms[0]))
        y = normalise(convolved(y, block.kernels[1]), block.norms[1])
        x = x[:, ::stride, ::stride]
        new = y.shape[3] - x.shape[3]
        x = relu(y + np.pad(x, ((0, 0), (0, 0), (0, 0), (new // 2, new // 2))))
    return x.mean((1, 2)) @ net.head.weight + net.head.bias


@pytest.mark.parametrize("width", [2, 8])  # a channel alone in its group, and more of them
def test_a_resnet_with_group_norm_is_its_formula(width):
    net = numbers(resnet.initial(3, channels=2, width=width, blocks=1))
    images = normal(2, 8, 8, 2)
    logits = resnet_by_hand(net, images, in_groups)
    probabilities = jax.jit(resnet.predict)(net, images)
    np.testing.assert_allclose(probabilities, np.exp(log_softmax(logits, axis=1)), rtol=1e-10)
    loglik = resnet.posterior(3).loglik(net, (images[1], 2))
    np.testing.assert_allclose(loglik, log_softmax(logits[1])[2], rtol=1e-10)


@pytest.mark.slow
def test_a_resnet_with_batch_norm_is_its_formula_over_a_group():
    net, images = numbers(SMALL_BATCH_NORM), normal(4, 8, 8, 2)
    labels = np.array([0, 2, 1, 1])
    logits = log_softmax(resnet_by_hand(net, images, over_batch), axis=1)
    loglik = jax.jit(resnet.posterior(3, norm="batch_norm").loglik)(net, (images, labels))
    np.testing.assert_allclose(loglik, logits[range(4), labels].sum(), rtol=1e-10)

    by = resnet.statistics(net, images[None])  # one group: its own statistics
    np.testing.assert_allclose(resnet.predict(net, images, by), np.exp(logits), rtol=1e-10)


def test_statistics_are_those_of_all_groups_together():
    net, images = numbers(SMALL_BATCH_NORM), normal(3, 4, 8, 8, 2) * 3 + 1
    first = jax.jit(resnet.statistics)(net, images)[0]
    outputs = convolved(images.reshape(12, 8, 8, 2), net.kernel)
    np.testing.assert_allclose(first.mean[0, 0, 0], outputs.mean((0, 1, 2)), rtol=1e-10)
    np.testing.assert_allclose(first.variance[0, 0, 0], outputs.var((0, 1, 2)), rtol=1e-10)


def test_groups_are_fixed_and_hold_every_image_once():
    x, y = np.arange(23.0)[:, None, None, None] * np.ones((1, 2, 2, 1)), np.arange(23)
    images, labels = resnet.groups(x, y, size=5)
    assert images.shape == (4, 5, 2, 2, 1)
    np.testing.assert_array_equal(images[..., 0, 0, 0], labels)
    assert len(np.unique(labels)) == 20
    assert not np.array_equal(labels.reshape(-1), np.arange(20))
    np.testing.assert_array_equal(resnet.groups(x, y, size=5)[1], labels)
    assert not np.array_equal(resnet.groups(x, y, size=5, seed=1)[1], labels)


# ---------------------------------------------------------------- images


def test_bytes_are_read_as_numbers_around_0():
    image = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    np.testing.assert_allclose(pixels(jnp.asarray(image)), (image / 255 - 0.5) / 0.25, rtol=1e-12)
    assert pixels(jnp.asarray(image), jnp.float32).dtype == jnp.float32
    floats = jnp.asarray(normal(4, 4, 1))
    np.testing.assert_array_equal(pixels(floats), floats)


def test_crops_are_the_image_moved_and_mirrored():
    image = normal(6, 5, 1)
    framed = np.pad(image, ((4, 4), (4, 4), (0, 0)))
    moved = [framed[i : i + 6, j : j + 5] for i in range(9) for j in range(9)]
    allowed = {tile.tobytes() for tile in (*moved, *(tile[:, ::-1] for tile in moved))}
    keys = jax.random.split(jax.random.key(0), 1500)
    crops = np.asarray(jax.jit(jax.vmap(crop_and_flip, (0, None)))(keys, image))
    assert {np.ascontiguousarray(tile).tobytes() for tile in crops} == allowed


# ---------------------------------------------------------------- LSTM

SMALL_LSTM = lstm.initial(7, hidden=3)


def lstm_by_hand(net, words):
    """log P(every word | the words up to each)."""
    net = jax.tree.map(np.asarray, net)
    states = [(np.zeros(3), np.zeros(3)) for _ in net.layers]
    rows = []
    for word in words:
        x = net.embedding[word]
        for number, layer in enumerate(net.layers):
            h, c = states[number]
            i, f, g, o = np.split(
                x @ layer.inputs.weight + layer.inputs.bias + h @ layer.recurrent, 4
            )
            c = expit(f) * c + expit(i) * np.tanh(g)
            x = expit(o) * np.tanh(c)
            states[number] = x, c
        rows.append(log_softmax(x @ net.head.weight + net.head.bias))
    return np.array(rows)


TEXT = np.random.default_rng(0).integers(0, 7, 40)


def test_the_lstm_is_its_formula():
    net = numbers(SMALL_LSTM)
    words, following = lstm.segments(TEXT, 9)
    assert words.shape == (4, 9)
    expected = [
        lstm_by_hand(net, row)[range(9), to].sum() for row, to in zip(words, following, strict=True)
    ]
    loglik = jax.jit(jax.vmap(lstm.posterior(7).loglik, (None, 0)))
    np.testing.assert_allclose(loglik(net, (words, following)), expected, rtol=1e-12)


def test_segments_are_the_text_with_its_next_words():
    words, following = lstm.segments(np.arange(22), 5)
    np.testing.assert_array_equal(words.reshape(-1), np.arange(20))
    np.testing.assert_array_equal(following, words + 1)
    assert len(lstm.segments(np.arange(21), 5)[0]) == 4
    assert len(lstm.segments(np.arange(20), 5)[0]) == 3


@pytest.mark.parametrize("at_once", [1, 7, 13, 39, 256])
def test_the_state_is_carried_through_a_text_read_in_blocks(at_once, monkeypatch):
    monkeypatch.setattr(lstm, "AT_ONCE", at_once)
    net = numbers(SMALL_LSTM)
    expected = np.exp(lstm_by_hand(net, TEXT[:-1])[range(39), TEXT[1:]])
    np.testing.assert_allclose(lstm.predict(net, jnp.asarray(TEXT)), expected, rtol=1e-10)


def test_the_perplexity_of_a_die_is_its_number_of_faces():
    assert float(lstm.perplexity(np.full(10, 1 / 6))) == pytest.approx(6)
    assert float(lstm.perplexity(np.array([1, 1 / 4]))) == pytest.approx(2)


# ---------------------------------------------------------------- MLP


def test_the_mlp_of_the_paper_has_sigmoids():
    net = mlp.MLP(weight_1=normal(3, 4), bias_1=normal(4), weight_2=normal(4, 2), bias_2=normal(2))
    x = normal(5, 3)
    hidden = expit(x @ net.weight_1 + net.bias_1)
    logits = log_softmax(hidden @ net.weight_2 + net.bias_2, axis=1)
    posterior = mlp.classifier(2, activation="sigmoid")
    np.testing.assert_allclose(posterior.loglik(net, (x[1], 1)), logits[1, 1], rtol=1e-12)
    np.testing.assert_allclose(mlp.predict(net, x, "sigmoid"), np.exp(logits), rtol=1e-12)
    number = mlp.regressor(activation="sigmoid").loglik(
        replace(net, weight_2=net.weight_2[:, :1], bias_2=net.bias_2[:1]), (x[1], 0.5)
    )
    mean = hidden[1] @ net.weight_2[:, 0] + net.bias_2[0]
    np.testing.assert_allclose(number, -((0.5 - mean) ** 2 + np.log(2 * np.pi)) / 2, rtol=1e-12)


# ---------------------------------------------------------------- starts, caches, mistakes


def test_starts_have_the_usual_scales_and_differ_from_chain_to_chain():
    start = jax.jit(cnn.initial(widths=(32,)))
    first, second = (start(jax.random.key(seed)) for seed in (0, 1))
    (layer,) = first.convolutions
    for weights, variance in ((layer.kernel, 2 / 27), (first.head.weight, 1 / (32 * 32 * 32))):
        assert abs(np.std(weights) / variance**0.5 - 1) < 4 / np.sqrt(2 * weights.size)
    assert not np.any(layer.bias)
    assert not np.any(first.head.bias)
    assert not np.array_equal(first.head.weight, second.head.weight)

    norm = jax.jit(lambda key: SMALL_RESNET(key).norm)(jax.random.key(0))
    assert np.all(norm.scale == 1)
    assert not np.any(norm.shift)

    words = jax.jit(lstm.initial(50, hidden=20))(jax.random.key(0))
    for leaf in jax.tree.leaves(words):
        assert 0.08 < abs(leaf).max() <= 0.1
        assert leaf.min() < 0 < leaf.max()


def test_equal_descriptions_are_the_same_functions():
    for make in (
        lambda: cnn.posterior(3, dropout=0.2, augment=True, prior_variance=2),
        lambda: resnet.posterior(3, norm="batch_norm", augment=True),
        lambda: lstm.posterior(7),
        lambda: mlp.classifier(3, activation="sigmoid"),
    ):
        assert make() == make()
    assert cnn.initial(3, widths=[1, 2]) is cnn.initial(3, widths=(1, 2))
    assert resnet.initial(4) is resnet.initial(4)
    assert lstm.initial(7) is lstm.initial(7)
    assert cnn.posterior(dropout=0.5) != cnn.posterior(dropout=0.4)


ONES = np.ones((16, 8, 2))
IMAGES = np.zeros((4, 8, 8, 3), np.uint8), np.zeros(4, int)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cnn.posterior(1), r"num_classes=1\).*at least 2"),
        (lambda: cnn.posterior(dropout=1.0), r"dropout=1.0\).*below 1"),
        (lambda: cnn.posterior(prior_variance=0), "prior_variance must be a finite number above"),
        (lambda: cnn.initial(shape=(30, 32, 3)), "h and w multiples of 8"),
        (lambda: cnn.initial(shape=(32, 32)), r"\(h, w, channels\)"),
        (lambda: cnn.posterior().check(IMAGES[0]), r"a tuple \(x, y\).*got a ndarray"),
        (lambda: cnn.posterior().check((IMAGES[0][0], IMAGES[1])), r"got x \(8, 8, 3\)"),
        (
            lambda: cnn.posterior().check((IMAGES[0][:3], IMAGES[1])),
            r"got x \(3, .* y \(4,\)\. Each image has one label",
        ),
        (lambda: cnn.posterior().check((IMAGES[0], IMAGES[1][:, None])), r"class: y\[\.\.\., 0\]"),
        (lambda: cnn.posterior().check((IMAGES[0].astype(int), IMAGES[1])), "bytes .*got int64"),
        (lambda: cnn.posterior().check((IMAGES[0], np.array([0, 9, 10, 1]))), "10 in row 2"),
        (lambda: cnn.posterior(4).loglik(numbers(SMALL_CNN), (ONES, 0)), "have 4 outputs"),
        (lambda: resnet.posterior(norm="batch"), "one of 'group_norm', 'batch_norm'.*mean"),
        (
            lambda: resnet.posterior(norm="batch_norm").check(IMAGES),
            r"x \[N, group, h, w, channels\].*resnet.groups\(x, y\)",
        ),
        (lambda: cnn.posterior().check((IMAGES[0][..., 0], IMAGES[1])), r"x\[\.\.\., None\]"),
        (lambda: cnn.posterior().check((IMAGES[0], np.eye(4, 10))), r"y.argmax\(-1\)"),
        (lambda: cnn.predict(numbers(SMALL_CNN), ONES[None, ..., :1]), r"reads .* 2 channels, got 1"),
        (lambda: cnn.predict(numbers(SMALL_CNN), ONES[None, :8]), r"another size.*shape=\(8, 8, 2\)"),
        (lambda: cnn.predict(numbers(SMALL_CNN), ONES[None, :7]), "multiples of .*, got 7 x"),
        (lambda: resnet.predict(numbers(SMALL_RESNET), IMAGES[0]), r"initial\(channels=3\)"),
        (lambda: resnet.initial(width=0), r"width=0\).*at least 1"),
        (lambda: resnet.initial(norm="batch"), "one of 'group_norm', 'batch_norm'.*mean"),
        (
            lambda: resnet.predict(numbers(SMALL_BATCH_NORM), ONES[None]),
            r"has batch-norm.*statistics of training images.*resnet.statistics\(net, groups\)",
        ),
        (
            lambda: resnet.predict(numbers(SMALL_RESNET), ONES[None], by=()),
            r"resnet.predict with statistics needs .*batch_norm'.*got .*group_norm'.*initial\(",
        ),
        (lambda: resnet.statistics(numbers(SMALL_RESNET), ONES[None, None]), "resnet.statistics needs"),
        (
            lambda: resnet.posterior(3, norm="batch_norm").loglik(
                numbers(SMALL_RESNET), (ONES[None], np.array([0]))
            ),
            r"norm='batch_norm'\) needs .*got .*'group_norm'.*initial\(\.\.\., norm='batch_norm'\)",
        ),
        (
            lambda: resnet.posterior(3).loglik(numbers(SMALL_BATCH_NORM), (ONES, 0)),
            r"norm='group_norm'\) needs .*got .*'batch_norm'",
        ),
        (lambda: resnet.groups(*IMAGES, size=5), "at least 5, got 4 and 4"),
        (lambda: resnet.posterior(4).loglik(numbers(SMALL_RESNET), (ONES, 0)), "have 4 outputs"),
        (
            lambda: resnet.posterior(3, norm="batch_norm").check(
                (IMAGES[0].reshape(2, 2, 8, 8, 3), np.array([[0, 1], [-1, 2]]))
            ),
            "-1 in row 1",
        ),
        (lambda: lstm.posterior(1), r"vocabulary=1\).*at least 2"),
        (lambda: lstm.initial(7, scale=0), r"scale=0\).*positive"),
        (lambda: lstm.segments(TEXT.reshape(8, 5), 3), r"one row of words.*got shape \(8, 5\)"),
        (lambda: lstm.segments(TEXT[:9], 9), "Give at least 10 words"),
        (lambda: lstm.posterior(7).check(TEXT), "Cut a text with lstm.segments"),
        (lambda: lstm.posterior(7).check((TEXT, TEXT)), r"got shapes \(40,\) and \(40,\)"),
        (lambda: lstm.posterior(6).check(lstm.segments(np.array([0, 1, 2, 6, 1]), 2)), "6 in row 1"),
        (lambda: lstm.posterior(6).loglik(numbers(SMALL_LSTM), (TEXT, TEXT)), "know 6 words, got 7"),
        (lambda: mlp.classifier(2, activation="relu"), "one of 'tanh', 'sigmoid'"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_words(call, message):
    with pytest.raises(ValueError, match=message):
        call()
