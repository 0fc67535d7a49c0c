"""Every estimator on every minibatch: unbiased, as noisy as the theory says, exact at its anchor.

One small logistic regression, whose per-datum Hessians differ, and all n-tuples of its data. The
equally likely minibatches of any order are some of these tuples, so one table of estimates,
[anchor, minibatch], gives every expectation exactly. The references are closed formulas in NumPy.
"""

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import vrsgmcmc as vr
from vrsgmcmc.noise import fold
from vrsgmcmc.order import ORDERS, blocks, draw

# ---------------------------------------------------------------- the model

START_KEY, FIRST_LOCK, LOCK, OTHER_LOCK, STEP, OTHER_STEP, PAST = range(7)  # seeds
SIZES = [(5, 2, 3), (6, 2, 4)]  # N, n2, n1


def params(*numbers):
    return {"bias": jnp.array(numbers[0]), "weight": jnp.array(numbers[1:])}


START, HERE, CENTER = params(0.2, -0.4, 0.9), params(-0.3, 0.8, 0.5), params(0.7, 0.1, -0.6)


def flat(tree):
    return np.asarray(ravel_pytree(tree)[0])


def logprior(x):
    return -0.25 * (jnp.square(x["bias"] - 1) + jnp.sum(jnp.square(x["weight"] - 1)))


def loglik(x, datum):
    logit = x["bias"] + datum["features"] @ x["weight"]
    return jax.nn.log_sigmoid(jnp.where(datum["label"] == 1, logit, -logit))


def stretch(key, item):
    """A datum stretched at random, and the key of its dropout mask."""
    size, mask = jax.random.split(key)
    features = item["features"] * jax.random.uniform(size, (2,), minval=0.5, maxval=1.5)
    return {"features": features, "label": item["label"], "mask": mask}


def masked(datum):
    return datum["features"] * jax.random.bernoulli(datum["mask"], 0.6, (2,)) / 0.6


def dropout_loglik(x, datum):
    return loglik(x, {"features": masked(datum), "label": datum["label"]})


PLAIN = vr.Posterior(logprior, loglik)
AUGMENTED = vr.Posterior(logprior, dropout_loglik, stretch)


def make_data(size):
    rng = np.random.default_rng(3)
    features = jnp.asarray(rng.normal(size=(size, 2)) * np.linspace(0.5, 2.5, size)[:, None])
    return {"features": features, "label": jnp.asarray(rng.integers(0, 2, size))}


def take(data, index):
    return vr.Batch(index, jax.tree.map(lambda leaf: leaf[index], data))


def gradients(posterior, x, data, lock):
    """The gradient of every datum's log-likelihood at the flat point x: (y - sigmoid(z)) (1, f)."""
    features, labels = np.asarray(data["features"]), np.asarray(data["label"])
    if posterior.augment is not None:

        def seen(i, item):
            return masked(stretch(jax.random.fold_in(lock, i), item))

        features = np.asarray(jax.vmap(seen)(jnp.arange(len(labels)), data))
    features = np.column_stack([np.ones(len(labels)), features])
    return (labels - 1 / (1 + np.exp(-features @ x)))[:, None] * features


def prior_gradient(x):
    return -(x - 1) / 2


# ---------------------------------------------------------------- the table


class Row(NamedTuple):
    """How to check an estimator: with t_i what its memory holds of datum i, its formula is

    g(x) = grad logprior(x) + N/n1 sum_anchor t_i + N/n sum_batch (grad loglik(x, d_i) - t_i).
    """

    make: Callable  # description(s) for an anchor of n1 data
    stored: Callable  # t [N, 3], from the memory and `at(params)`, the gradients at a point


def nothing(memory, at):
    return 0 * at(HERE)


ROWS = {
    "full": Row(lambda n1: [vr.full()], nothing),
    "minibatch": Row(lambda n1: [vr.minibatch()], nothing),
    "practical": Row(
        lambda n1: [vr.practical(n1, 2), vr.practical(n1, 2, average=2)],
        lambda memory, at: at(memory.anchor),
    ),
    "svrg": Row(lambda n1: [vr.svrg()], lambda memory, at: at(memory.anchor)),
    "saga": Row(
        lambda n1: [vr.saga()],
        lambda memory, at: np.column_stack([memory.table["bias"], memory.table["weight"]]),
    ),
    "control_variate": Row(
        lambda n1: [vr.control_variate(), vr.control_variate(CENTER)],
        lambda memory, at: at(memory.center),
    ),
}
LOCKED = ("practical", "svrg")  # keep the augmentation until their next refresh


def estimators(n1, anchored=False, names=tuple(vr.ESTIMATORS)):
    """All descriptions of the table; those with an anchor alone, if asked for."""
    every = [e for name in names if name in ROWS for e in ROWS[name].make(n1)]
    return [e for e in every if e.anchor(9) > 0 or not anchored]


def show(value):
    """Test ids: `practical` for every description of it."""
    return getattr(value, "name", None)


def make_kernel(posterior, estimator, size, count=2, integrator=None):
    return vr.kernel(posterior, estimator, integrator or vr.sgld(), size=size, batch_size=count)


def first_refresh(kernel, data, position=START):
    """Just started and refreshed, on the first data where the anchor does not see them all."""
    state = kernel.init(jax.random.key(START_KEY), position)
    anchor = take(data, jnp.arange(kernel.anchor_size or 1))
    return kernel.refresh(jax.random.key(FIRST_LOCK), state, anchor)


def test_every_estimator_has_a_row():
    assert set(ROWS) == set(vr.ESTIMATORS)
    for name in ROWS:
        assert all(e.name == name for e in ROWS[name].make(3))


# ---------------------------------------------------------------- all minibatches, all orders


def tuples(size, count):
    """All index tuples [size**count, count]; the tuple t has number sum_k t_k size^(n-1-k)."""
    return np.array(list(itertools.product(range(size), repeat=count)), np.int32)


def sweep(order, directions):
    def positions(size, count):
        steps = jnp.arange(directions * blocks(size, count))
        drawn = jax.vmap(lambda step: draw(order, jax.random.key(PAST), step, size, count))(steps)
        return [(np.asarray(block) + np.arange(size)[:, None]) % size for block in drawn]

    return positions


# Sets of equally likely minibatches. A sweep has one for each step of an epoch: what is drawn there,
# by whatever bijection, moved by all shifts.
LIKELY = {
    "with_replacement": lambda size, count: [tuples(size, count)],
    "without_replacement": lambda size, count: [
        np.array(list(itertools.combinations(range(size), count)))
    ],
    "shuffled": sweep("shuffled", 1),
    "symmetric": sweep("symmetric", 2),
}


def likely(order, rows, size):
    """The same as numbers of `rows`, which are all tuples, or the one batch with all data."""
    if len(rows) == 1:
        return [np.array([0])]
    count = rows.shape[1]
    return [group @ size ** np.arange(count)[::-1] for group in LIKELY[order](size, count)]


class Enumeration(NamedTuple):
    anchors: np.ndarray  # [A, n1]
    batches: np.ndarray  # [B, n]
    estimates: np.ndarray  # [A, B, 3]
    here: np.ndarray  # [N, 3]: grad loglik(x, d_i), where the estimates were made
    stored: np.ndarray  # [N, 3]: what the memory holds of each datum


@lru_cache
def enumerate_estimates(posterior, estimator, size, count):
    """Two steps and a refresh away from the start: the estimates on all anchors and minibatches."""
    data, kernel = make_data(size), make_kernel(posterior, estimator, size, count)
    everything = np.arange(size)[None]
    n1 = kernel.anchor_size
    anchors = tuples(size, n1) if 0 < n1 < size else everything
    batches = everything if estimator.name == "full" else tuples(size, count)

    @jax.jit
    def run(anchors, batches, lock, step):
        state = first_refresh(kernel, data)
        for l in range(2):
            past = take(data, (jnp.arange(batches.shape[1]) + l) % size)
            state, _ = kernel.step(jax.random.key(PAST + l), state, past, 0.1)

        def one(anchor, batch):
            old = (
                state if kernel.period is None else kernel.refresh(lock, state, take(data, anchor))
            )
            _, info = kernel.step(step, old._replace(position=HERE), take(data, batch), 0.1)
            return ravel_pytree(info.gradient)[0], old.memory

        return jax.vmap(jax.vmap(one, (None, 0), (0, None)), (0, None))(anchors, batches)

    lock, step = jax.random.key(LOCK), jax.random.key(STEP)
    estimates, memories = run(jnp.asarray(anchors), jnp.asarray(batches), lock, step)
    memory = jax.tree.map(lambda leaf: leaf[0], memories)

    def at(x):
        lock = jax.random.key(LOCK) if estimator.name in LOCKED else fold(jax.random.key(STEP), 1)
        return gradients(posterior, flat(x), data, lock)

    stored = ROWS[estimator.name].stored(memory, at)
    return Enumeration(anchors, batches, np.asarray(estimates), at(HERE), stored)


CASES = [
    pytest.param(posterior, estimator, *sizes[:2], id=f"{kind}-{estimator.name}-{sizes[0]}")
    for sizes in SIZES
    for kind, posterior in (("plain", PLAIN), ("augmented", AUGMENTED))
    for estimator in estimators(sizes[2])
    if not (kind == "augmented" and estimator.name == "control_variate")
]
every_case = pytest.mark.parametrize(("posterior", "estimator", "size", "count"), CASES)


def test_every_order_is_enumerated():
    assert set(LIKELY) == set(ORDERS)


@every_case
def test_every_estimate_is_the_formula(posterior, estimator, size, count):
    """Datum by datum; with augmentation, each datum under its key fold_in(lock, index)."""
    every = enumerate_estimates(posterior, estimator, size, count)
    old = size * every.stored[every.anchors].mean(1)
    change = size * (every.here - every.stored)[every.batches].mean(1)
    expected = prior_gradient(flat(HERE)) + old[:, None] + change[None]
    np.testing.assert_allclose(every.estimates, expected, rtol=0, atol=1e-12)


@every_case
def test_the_mean_over_all_anchors_and_minibatches_is_the_gradient(
    posterior, estimator, size, count
):
    every = enumerate_estimates(posterior, estimator, size, count)
    exact = prior_gradient(flat(HERE)) + every.here.sum(0)
    for order, anchor_order in itertools.product(LIKELY, LIKELY):
        for batches in likely(order, every.batches, size):
            for anchors in likely(anchor_order, every.anchors, size):
                mean = every.estimates[np.ix_(anchors, batches)].mean((0, 1))
                np.testing.assert_allclose(mean, exact, rtol=0, atol=1e-10, err_msg=order)


# N (N-n)/n S2 for draws without replacement, N (N-1)/n S2 with
SPREAD = {
    "without_replacement": lambda size, count: size * (size - count) / count,
    "with_replacement": lambda size, count: size * (size - 1) / count,
}


@every_case
def test_the_noise_is_the_theory_s(posterior, estimator, size, count):
    every = enumerate_estimates(posterior, estimator, size, count)

    def part(order, rows, values):
        complete = len(rows) == 1  # all data: no noise, in whatever order
        return 0.0 if complete else SPREAD[order](size, rows.shape[1]) * values.var(0, ddof=1).sum()

    for order, anchor_order in itertools.product(SPREAD, SPREAD):
        (batches,) = likely(order, every.batches, size)
        (anchors,) = likely(anchor_order, every.anchors, size)
        noise = every.estimates[np.ix_(anchors, batches)].var((0, 1)).sum()
        expected = part(order, every.batches, every.here - every.stored)
        expected += part(anchor_order, every.anchors, every.stored)
        np.testing.assert_allclose(noise, expected, rtol=1e-10, atol=1e-10)
        assert (expected > 0.01) == (estimator.name != "full")


# ---------------------------------------------------------------- at the anchor, under a lock


def estimates_at_the_anchor(posterior, estimator, step=STEP, lock=LOCK):
    """The estimates on all pairs of data right after a refresh, and the anchor's own gradient."""
    size, count, _ = SIZES[0]
    data, kernel = make_data(size), make_kernel(posterior, estimator, size, count)
    anchor = np.arange(size)[-estimator.anchor(size) :]
    batches = np.arange(size)[None] if estimator.name == "full" else tuples(size, count)

    @jax.jit
    def run(batches, lock, step):
        state = kernel.init(jax.random.key(START_KEY), CENTER)
        state = kernel.refresh(lock, state, take(data, anchor))

        def one(batch):
            return ravel_pytree(kernel.step(step, state, take(data, batch), 0.1)[1].gradient)[0]

        return jax.vmap(one)(batches)

    estimates = run(jnp.asarray(batches), jax.random.key(lock), jax.random.key(step))
    old = size * gradients(posterior, flat(CENTER), data, jax.random.key(lock))[anchor].mean(0)
    return np.asarray(estimates), old + prior_gradient(flat(CENTER))


@pytest.mark.parametrize("estimator", estimators(3, anchored=True), ids=show)
def test_at_the_anchor_every_minibatch_gives_the_anchor_s_gradient(estimator):
    estimates, anchor = estimates_at_the_anchor(PLAIN, estimator)
    np.testing.assert_allclose(estimates - anchor, 0, atol=1e-12)


@pytest.mark.parametrize("estimator", estimators(3, names=LOCKED), ids=show)
def test_so_it_does_with_dropout_and_augmentation(estimator):
    """Not SAGA: its steps draw fresh augmentations, the table keeps the ones it has seen."""
    estimates, anchor = estimates_at_the_anchor(AUGMENTED, estimator)
    np.testing.assert_allclose(estimates - anchor, 0, atol=1e-12)


def test_saga_sees_fresh_augmentations():
    estimates, anchor = estimates_at_the_anchor(AUGMENTED, vr.saga())
    assert abs(estimates - anchor).max() > 0.1


@pytest.mark.parametrize(
    "estimator", [e for e in estimators(3) if e.name != "control_variate"], ids=show
)
def test_the_lock_is_the_refresh_s_or_the_step_s(estimator):
    """Another lock gives other data. Who keeps a lock does not look at the step's."""
    first, _ = estimates_at_the_anchor(AUGMENTED, estimator)
    other_step, _ = estimates_at_the_anchor(AUGMENTED, estimator, step=OTHER_STEP)
    other_lock, _ = estimates_at_the_anchor(AUGMENTED, estimator, lock=OTHER_LOCK)
    locked, anchored = estimator.name in LOCKED, estimator.anchor(5) > 0
    assert (abs(other_step - first).max() == 0) == locked
    assert (abs(other_lock - first).max() == 0) == (not anchored)
