"""Chains of networks: anchors that are exact, estimates that are unbiased, runs that go on."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from support.crashes import Crash, commit_chunks, crash_after

import vrsgmcmc as vr
from vrsgmcmc.core.gradients import prior_gradient, row_gradients
from vrsgmcmc.models import cnn, lstm, resnet
from vrsgmcmc.run import store

RNG = np.random.default_rng(1)
N = 5
IMAGES = RNG.integers(0, 256, (N, 8, 8, 1)).astype(np.uint8), RNG.integers(0, 2, N)
GROUPS = RNG.integers(0, 256, (N, 2, 8, 8, 1)).astype(np.uint8), RNG.integers(0, 2, (N, 2))
WORDS = lstm.segments(RNG.integers(0, 5, 4 * N + 1), 4)

SMALL = {
    "cnn": (
        cnn.posterior(2, augment=True),
        cnn.initial(2, shape=(8, 8, 1), widths=(2, 2, 2, 6)),
        IMAGES,
    ),
    "resnet": (
        resnet.posterior(2, augment=True),
        resnet.initial(2, channels=1, width=2, blocks=1),
        IMAGES,
    ),
    "resnet in groups": (
        resnet.posterior(2, norm="batch_norm", augment=True),
        resnet.initial(2, channels=1, width=2, blocks=1, norm="batch_norm"),
        GROUPS,
    ),
    "lstm": (lstm.posterior(5), lstm.initial(5, hidden=2, layers=1), WORDS),
}
BATCHES, ANCHORS = (np.array([*itertools.combinations(range(N), n)]) for n in (2, 3))


def take(data, index):
    return vr.Batch(index, jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], data))


@pytest.mark.parametrize(
    "network",
    [
        "lstm",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("cnn", "resnet", "resnet in groups")),
    ],
)
def test_estimates_are_exact_at_the_anchor_and_unbiased_elsewhere(network):
    """Over all minibatches and all anchors, with dropout and crops under one lock.

    Estimates are gradients of sums, what they are compared with are sums of gradients.
    """
    posterior, initial, data = SMALL[network]
    kernel = vr.kernel(posterior, vr.practical(3, 2), vr.sgld(), size=N, batch_size=2)
    anchor_at, here = map(jax.jit(initial), jax.random.split(jax.random.key(0)))

    @jax.jit
    def estimates(lock, step, at):
        """[anchor, minibatch, parameter]: refreshed at one point, asked for another."""

        def one(anchor, batch):
            state = kernel.init(jax.random.key(5), anchor_at)
            state = kernel.refresh(lock, state, take(data, anchor))
            state = state._replace(position=at)
            return ravel_pytree(kernel.step(step, state, take(data, batch), 0.1)[1].gradient)[0]

        return jax.lax.map(lambda a: jax.lax.map(partial(one, a), BATCHES), ANCHORS)

    @jax.jit
    def wanted(lock, at):
        """The prior's gradient, and every datum's as seen under the lock: [N, parameter]."""
        seen = row_gradients(posterior, at, take(data, jnp.arange(N)), lock)
        prior = ravel_pytree(prior_gradient(posterior, at))[0]
        return prior, jax.vmap(lambda tree: ravel_pytree(tree)[0])(seen)

    def keys():
        return jax.random.key(2), jax.random.key(3)

    prior, rows = map(np.asarray, wanted(keys()[0], anchor_at))
    exact = prior + N * rows[ANCHORS].mean(1)
    found = np.asarray(estimates(*keys(), anchor_at))
    scale = abs(exact).max()
    assert abs(found - exact[:, None]).max() < 1e-11 * scale
    assert abs(exact - exact[0]).max() > 1e-3 * scale

    prior, rows = map(np.asarray, wanted(keys()[0], here))
    found = np.asarray(estimates(*keys(), here))
    assert abs(found.mean((0, 1)) - (prior + rows.sum(0))).max() < 1e-11 * abs(found).max()
    assert found.std((0, 1)).max() > 1e-3 * abs(found).max()

    if posterior.augment is not None:  # another lock shows other data
        _, other = wanted(jax.random.key(4), here)
        assert abs(other - rows).max() > 1e-3 * abs(rows).max()


def by_statistics(net, data):
    images, training = data
    return resnet.predict(net, images, resnet.statistics(net, training))


PREDICTIONS = {
    "cnn": (cnn.predict, IMAGES[0], (N, 2)),
    "resnet": (resnet.predict, IMAGES[0], (N, 2)),
    "resnet in groups": (by_statistics, (IMAGES[0], GROUPS[0]), (N, 2)),
    "lstm": (lstm.predict, RNG.integers(0, 5, 30), (29,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("network", SMALL)
def test_a_chain_is_averaged_stored_and_continued(network, tmp_path, monkeypatch):
    """Continued in the middle of a period: under the anchor, the masks and the crops that it has."""
    posterior, initial, data = SMALL[network]
    predict, seen, shape = PREDICTIONS[network]
    run = partial(
        vr.sample, 0, posterior, data, estimator=vr.practical(3, 4), batch_size=2, step_size=1e-3,
        num_chains=1, keep="averages", progress=False,
        observables={"test": vr.observable(predict, data=jax.tree.map(jnp.asarray, seen), every=5)},
    )  # fmt: skip
    whole = run(init=initial, num_steps=20)
    (probabilities,) = whole.averages["test"]
    assert probabilities.shape == shape
    assert np.all((probabilities > 0) & (probabilities < 1))
    assert np.std(probabilities) > 0

    half = run(init=initial, num_steps=10)
    later = run(init=half.state, num_steps=10)
    commit_chunks(monkeypatch, 3)
    with monkeypatch.context() as patch:
        crash_after(patch, 3)
        with pytest.raises(Crash):
            run(init=initial, num_steps=20, run_dir=tmp_path / "run")
    assert 0 < store.open(tmp_path / "run").progress["steps"] < 20
    resumed = run(init=initial, num_steps=20, run_dir=tmp_path / "run")
    for other in (later, resumed):
        jax.tree.map(np.testing.assert_array_equal, whole.state.position, other.state.position)
    np.testing.assert_array_equal(whole.averages["test"], resumed.averages["test"])
