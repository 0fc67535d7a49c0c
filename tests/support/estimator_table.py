"""A small logistic regression and every estimator on it, with references in NumPy."""

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
from vrsgmcmc.core.order import draw
from vrsgmcmc.core.rng import fold

# ---------------------------------------------------------------- the model

START_KEY, FIRST_LOCK, LOCK, OTHER_LOCK, STEP, OTHER_STEP, PAST = range(7)  # seeds
SIZES = [(5, 2, 3), (6, 2, 4)]  # N, n2, n1


def params(*numbers):
    return {"bias": jnp.array(numbers[0]), "weight": jnp.array(numbers[1:])}


START, HERE, CENTER = params(0.2, -0.4, 0.9), params(-0.3, 0.8, 0.5), params(0.7, 0.1, -0.6)


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def logprior(x):
    return -0.25 * (jnp.square(x["bias"] - 1) + jnp.sum(jnp.square(x["weight"] - 1)))


def loglik(x, datum):
    logit = x["bias"] + datum["features"] @ x["weight"]
    return jax.nn.log_sigmoid(jnp.where(datum["label"] == 1, logit, -logit))


def stretch(key, item):
    """A datum stretched at random, with its dropout mask: the key's own bits are random enough."""
    words = jax.random.key_data(key)
    return item | {"features": item["features"] * (0.5 + words / 2**32), "mask": words % 3 > 0}


def dropout_loglik(x, datum):
    return loglik(x, datum | {"features": datum["features"] * datum["mask"] * 1.5})


def hessians(x, data):
    """Minus the second derivative of every datum's log-likelihood at the flat point x: s (1-s) f f'."""
    features = np.column_stack([np.ones(len(data["label"])), data["features"]])
    mean = 1 / (1 + np.exp(-features @ x))
    return np.einsum("i,ij,ik->ijk", mean * (1 - mean), features, features)


PLAIN = vr.Posterior(logprior, loglik)
AUGMENTED = vr.Posterior(logprior, dropout_loglik, stretch)


def make_data(size):
    rng = np.random.default_rng(3)
    features = jnp.asarray(rng.normal(size=(size, 2)) * np.linspace(0.5, 2.5, size)[:, None])
    return {"features": features, "label": jnp.asarray(rng.integers(0, 2, size))}


def take(data, index):
    return vr.Batch(index, jax.tree.map(lambda leaf: leaf[index], data))


@jax.jit
def dropped(lock, data):
    """The features as the model sees them: datum i under the key fold_in(lock, i)."""
    keys = jax.vmap(lambda i: jax.random.fold_in(lock, i))(jnp.arange(len(data["label"])))
    data = jax.vmap(stretch)(keys, data)
    return data["features"] * data["mask"] * 1.5


def gradients(posterior, x, data, lock):
    """The gradient of every datum's log-likelihood at the flat point x: (y - sigmoid(z)) (1, f)."""
    features, labels = data["features"], np.asarray(data["label"])
    if posterior.augment is not None:
        features = dropped(lock, data)
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


def second_order(*hot, size=SIZES[0][0]):
    """The second-order control variate at CENTER, for the data of the first size."""
    data, index = make_data(size), np.array(hot, int)
    hessian = hessians(flat(CENTER), data).sum(0)
    return vr.control_variate(CENTER, 2, take(data, index), hessian)


def taylor(estimator, at, data):
    """t of order 2 at HERE: the gradient's polynomial around the centre, or itself in hot rows."""
    away = flat(HERE) - flat(CENTER)
    stored = at(CENTER) - hessians(flat(CENTER), data) @ away
    stored[estimator.hot.index] = at(HERE)[estimator.hot.index]
    return stored


ROWS = {
    "full": Row(lambda n1: [vr.full()], lambda memory, at: 0.0),
    "minibatch": Row(lambda n1: [vr.minibatch()], lambda memory, at: 0.0),
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
    # with one row in a block; `test_block_saga.py` has longer ones
    "block_saga": Row(
        lambda n1: [vr.block_saga(1)],
        lambda memory, at: np.column_stack([memory.table["bias"], memory.table["weight"]]),
    ),
}
SECOND_ORDER = [second_order(), second_order(3), second_order(1, 4), second_order(*range(5))]
LOCKED = ("practical", "svrg")  # keep the augmentation until their next refresh


def estimators(n1, names=tuple(vr.ESTIMATORS), anchored=False, variants=True):
    """The table's descriptions: of all names, with and without an anchor, one or more of each."""
    groups = [ROWS[name].make(n1) for name in names if name in ROWS]
    every = [e for group in groups for e in (group if variants else group[:1])]
    return [e for e in every if e.refresh_size(9) > 0 or not anchored]


class Euler:
    """x' = x + h g(x): the plainest integrator; the estimators' tests need no noise."""

    name = "euler"

    def init(self, key, params):
        return ()

    def step(self, key, position, dynamics, gradient, step_size, size):
        g = gradient(position)
        return jax.tree.map(lambda x, g: x + step_size * g, position, g), dynamics


def show(value):
    """Test ids: `practical` for every description of it."""
    return getattr(value, "name", None)


def make_kernel(posterior, estimator, size, count=2):
    return vr.kernel(posterior, estimator, Euler(), size=size, batch_size=count)


def first_refresh(kernel, data, position=START):
    """Just started and refreshed, on the first data where the anchor does not see them all."""
    state = kernel.init(jax.random.key(START_KEY), position)
    anchor = take(data, jnp.arange(kernel.anchor_size or 1))
    return kernel.refresh(jax.random.key(FIRST_LOCK), state, anchor)


def run_cycles(kernel, data, anchors, batches):
    """A refresh and m steps, again and again: the last state, all positions and all estimates.

    Anchors [cycles, n1], batches [cycles, m, n]; x_l is where estimate l was made.
    """
    m = batches.shape[1]

    def cycle(state, inputs):
        number, anchor, batches = inputs
        lock = jax.random.fold_in(jax.random.key(LOCK), number)

        def one(state, inputs):
            l, index = inputs
            key = jax.random.fold_in(jax.random.key(STEP), number * m + l)
            new, info = kernel.step(key, state, take(data, index), 0.05)
            return new, (state.position, info.gradient)

        state = kernel.refresh(lock, state, take(data, anchor))
        return jax.lax.scan(one, state, (jnp.arange(m), batches))

    state = kernel.init(jax.random.key(START_KEY), START)
    inputs = (jnp.arange(len(anchors)), jnp.asarray(anchors), jnp.asarray(batches))
    state, history = jax.lax.scan(cycle, state, inputs)
    return state, *jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), history)


def rows(history):
    """Positions or estimates of `run_cycles` as one array [l, 3]."""
    return np.column_stack([history["bias"], history["weight"]])


# ---------------------------------------------------------------- all minibatches, all orders


def tuples(size, count):
    """All index tuples [size**count, count]; the tuple t has number sum_k t_k size^(n-1-k)."""
    return np.array(list(itertools.product(range(size), repeat=count)), np.int32)


@lru_cache
def permutation(size):
    return np.asarray(jax.jit(lambda: draw("shuffled", jax.random.key(PAST), 0, size, size))())


def sweep(size, count):
    starts = range(0, size - count + 1, count)
    return [(permutation(size)[k : k + count] + np.arange(size)[:, None]) % size for k in starts]


# Sets of equally likely minibatches. A sweep has one for each of its blocks: the block of a fixed
# permutation moved by all shifts; "symmetric" visits the same blocks once more.
LIKELY = {
    "with_replacement": lambda size, count: [tuples(size, count)],
    "without_replacement": lambda size, count: [
        np.array(list(itertools.combinations(range(size), count)))
    ],
    "shuffled": sweep,
    "symmetric": sweep,
}


def likely(order, rows, size):
    """The same as numbers of `rows`, which are all tuples, or the one batch with all data."""
    return [np.array([0])] if len(rows) == 1 else numbers(order, size, rows.shape[1])


@lru_cache
def numbers(order, size, count):
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
        def walk(l, state):
            past = take(data, (jnp.arange(batches.shape[1]) + l) % size)
            return kernel.step(jax.random.key(PAST + l), state, past, 0.1)[0]

        state = jax.lax.fori_loop(0, 2, walk, first_refresh(kernel, data))

        def one(anchor, batch):
            old = kernel.refresh(lock, state, take(data, anchor)) if kernel.period else state
            _, info = kernel.step(step, old._replace(position=HERE), take(data, batch), 0.1)
            return ravel_pytree(info.gradient)[0], old.memory

        every = jax.vmap(jax.vmap(one, (None, 0), (0, None)), (0, None))
        estimates, memory = every(anchors, batches)
        return estimates, jax.tree.map(lambda leaf: leaf[0], memory)

    lock, step = jax.random.key(LOCK), jax.random.key(STEP)
    estimates, memory = run(jnp.asarray(anchors), jnp.asarray(batches), lock, step)

    def at(x):
        lock = jax.random.key(LOCK) if estimator.name in LOCKED else fold(jax.random.key(STEP), 1)
        return gradients(posterior, flat(x), data, lock)

    here = at(HERE)
    if getattr(estimator, "order", 1) == 2:
        stored = taylor(estimator, at, data)
    else:
        stored = np.broadcast_to(ROWS[estimator.name].stored(memory, at), here.shape)
    return Enumeration(anchors, batches, np.asarray(estimates), here, stored)


CASES = [
    pytest.param(posterior, estimator, *sizes[:2], id=f"{kind}-{estimator.name}-{sizes[0]}")
    for kind, posterior, sizes in [
        ("plain", PLAIN, SIZES[0]),
        ("plain", PLAIN, SIZES[1]),
        ("augmented", AUGMENTED, SIZES[0]),
    ]
    for estimator in estimators(sizes[2], variants=sizes is SIZES[0])
    if not (kind == "augmented" and estimator.name == "control_variate")
]
CASES += [
    pytest.param(
        PLAIN, estimator, *SIZES[0][:2], id=f"plain-second_order-{estimator.hot_count}-hot"
    )
    for estimator in SECOND_ORDER
]
every_case = pytest.mark.parametrize(("posterior", "estimator", "size", "count"), CASES)
