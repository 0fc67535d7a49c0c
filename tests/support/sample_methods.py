"""Every estimator on one logistic regression, its runs, and Algorithm 1 written out in NumPy."""

import math
from dataclasses import dataclass, field
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from support import chunks

import vrsgmcmc as vr
from vrsgmcmc.core import compiled, gradients, order
from vrsgmcmc.core.rng import fold, normal_like

N, D, BATCH, CHAINS, STEPS, H = 24, 3, 4, 3, 23, 2e-2
KEY = 7
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, D))
Y = (_rng.random(N) < 0.5).astype(np.int32)
START = np.array([0.3, -0.2, 0.1])
CENTER = np.array([0.1, 0.1, -0.3])

TRACED = []  # one entry for each time that JAX traces the log-likelihood
COMPILED = []  # one entry for each program that XLA compiles
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: COMPILED.append(name) if "backend_compile" in name else None
)


def logprior(w):
    return -0.5 * jnp.sum(w**2)


def loglik(w, datum):
    TRACED.append(1)
    x, y = datum
    return jax.nn.log_sigmoid(jnp.where(y == 1, 1.0, -1.0) * (x @ w))


def dropout(key, datum):
    x, y = datum
    return x * jax.random.bernoulli(key, 0.6, x.shape), y


PLAIN = vr.Posterior(logprior, loglik)
DROPOUT = vr.Posterior(logprior, loglik, dropout)


def in_parts(rows, augment):
    """The same posterior, whose refreshes are made in parts of so many rows."""
    divided = vr.Posterior(logprior, lambda w, datum: loglik(w, datum), augment)
    most, gradients.LARGEST_PART = gradients.LARGEST_PART, rows
    try:
        items = jax.tree.map(jnp.asarray, (X, Y))
        assert gradients.part_size(divided, jnp.asarray(START), items) == rows  # now remembered
    finally:
        gradients.LARGEST_PART = most
    return divided


@dataclass(frozen=True)
class Method:
    estimator: object
    posterior: vr.Posterior = PLAIN
    options: dict = field(default_factory=dict)

    @property
    def period(self):
        return self.estimator.refresh_period(N, BATCH)

    def run(self, key=KEY, data=(X, Y), temperature=1.0, **options):
        given = {
            "init": START,
            "estimator": self.estimator,
            "integrator": vr.sgld(temperature),
            "step_size": H,
            "batch_size": BATCH,
            "num_steps": STEPS,
            "num_chains": CHAINS,
            "progress": False,
        }
        given |= self.options | options
        run = chunks.sample if "first_chunk" in given else vr.sample
        return run(key, self.posterior, data, **given)


METHODS = {
    "practical": Method(vr.practical(8, 5)),
    "practical, averaged, dropout": Method(
        vr.practical(9, 4, average=3),
        DROPOUT,
        {"order": "with_replacement", "anchor_order": "shuffled"},
    ),
    "minibatch, dropout": Method(vr.minibatch(), DROPOUT),
    "svrg, in parts, dropout": Method(vr.svrg(), in_parts(7, dropout)),
    "saga, in parts, dropout": Method(
        vr.saga(), in_parts(7, dropout), {"order": "with_replacement"}
    ),
    "control_variate": Method(vr.control_variate(CENTER)),
    "full, dropout": Method(vr.full(), DROPOUT),
    "minibatch": Method(vr.minibatch(), options={"order": "symmetric"}),
    "svrg, in parts": Method(vr.svrg(7), in_parts(7, None), {"order": "shuffled"}),
    "saga": Method(vr.saga()),
    "full": Method(vr.full()),
}
SLOW = ("minibatch", "svrg, in parts", "saga", "full")  # the same, without dropout
PRACTICAL = METHODS["practical"]
RUNS = {}


def name_of(method):
    return next(name for name, known in METHODS.items() if known is method)


def whole_run(method):
    """The run of `STEPS` steps that a method's tests compare with, made once."""
    if name_of(method) not in RUNS:
        RUNS[name_of(method)] = method.run()
    return RUNS[name_of(method)]


def leaves(tree):
    def plain(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return [plain(leaf) for leaf in jax.tree.leaves(tree)]


def assert_same_bits(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(leaves(one), leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def assert_same_run(one, other):
    assert_same_bits(
        (one.draws, one.averages, one.state), (other.draws, other.averages, other.state)
    )


# --- Algorithm 1, line by line -------------------------------------------------------------------


def of_each_chain(draw):
    """`draw(roots, l)` for every chain and every l: leaves [chain, l, ...]."""

    @jax.jit
    def all_of_them(key):
        roots = jax.vmap(lambda c: compiled.make_roots(fold(key, c)))(jnp.arange(CHAINS))
        inner = jax.vmap(draw, (None, 0))
        return jax.vmap(inner, (0, None))(roots, jnp.arange(STEPS))

    return np.asarray(all_of_them(jax.random.key(KEY)))


@cache
def noise():
    return of_each_chain(lambda roots, l: normal_like(fold(fold(roots.noise, l), 0), jnp.zeros(D)))


@cache
def rows_of(root, name, count):
    """The minibatches, or the anchors, in an order; all data have one order only."""
    if count == N:
        return np.broadcast_to(np.arange(N), (CHAINS, STEPS, N))
    return of_each_chain(lambda roots, l: order.draw(name, getattr(roots, root), l, N, count))


@cache
def masks(root):
    """What dropout leaves of each datum, at each step (`noise`) or in each cycle (`lock`)."""

    def one(roots, l):
        key = fold(roots.augment, l) if root == "lock" else fold(fold(roots.noise, l), 1)
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(N))
        return jax.vmap(dropout)(keys, (jnp.ones((N, D)), jnp.asarray(Y)))[0]

    return of_each_chain(one)


def written_out(method, c, h=H):
    """The positions x_1, x_2, ... of chain c. The old gradient is refreshed when l mod m = 0."""
    name, m, options = method.estimator.name, method.period, method.options
    batches = rows_of("batch", options.get("order", "without_replacement"), BATCH)[c]
    anchor_order = options.get("anchor_order", "without_replacement")
    anchors = rows_of("anchor", anchor_order, method.estimator.refresh_size(N) or N)[c]
    step_masks = cycle_masks = np.ones((STEPS, N, D))
    if method.posterior.augment is not None:
        step_masks, cycle_masks = masks("noise")[c], masks("lock")[c]
    h = np.broadcast_to(h, STEPS)
    everything = np.arange(N)

    def gradients(w, rows, mask):
        x = X[rows] * mask[rows]
        return (Y[rows] - 1 / (1 + np.exp(-x @ w)))[:, None] * x

    path = [START]
    for l in range(STEPS):
        w, rows, fresh = path[-1], batches[l], step_masks[l]
        if name == "full":
            likelihood = gradients(w, everything, fresh).sum(0)
        elif name == "minibatch":
            likelihood = N / BATCH * gradients(w, rows, fresh).sum(0)
        elif name == "saga":
            if l == 0:
                table = gradients(w, everything, cycle_masks[0])
            new = gradients(w, rows, fresh)
            likelihood = table.sum(0) + N / BATCH * (new - table[rows]).sum(0)
            table[rows] = new
        else:
            if l % (m or STEPS) == 0:  # the control variate's centre stays for ever
                number = l // (m or STEPS)
                seen, locked = anchors[number], cycle_masks[number]
                anchor = np.mean(path[-getattr(method.estimator, "average", 1) :], axis=0)
                anchor = CENTER if name == "control_variate" else anchor
                old = N / len(seen) * gradients(anchor, seen, locked).sum(0)
            change = gradients(w, rows, locked) - gradients(anchor, rows, locked)
            likelihood = old + N / BATCH * change.sum(0)
        g = -w + likelihood
        path.append(w + h[l] * g + math.sqrt(2 * h[l]) * noise()[c, l])
    return np.array(path[1:])


def identity(w):
    return w
