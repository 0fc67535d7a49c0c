"""Predictions, the library's own objects, and draws on disk that need no code."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from support.modules import LIBRARIES, named, output, problem, weights

import vrsgmcmc as vr

RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(12, 3)), RNG.integers(0, 2, 12)
LAYERS = weights(2)
DRAWS = [[w * (1 + 0.1 * k) for w in LAYERS] for k in range(6)]


def stacked(library):
    """Two chains of three draws."""
    trees = [named(library, layers) for layers in DRAWS]
    return jax.tree.map(lambda *leaves: np.stack(leaves).reshape(2, 3, *leaves[0].shape), *trees)


@pytest.mark.parametrize("library", LIBRARIES)
def test_predictions_are_means_over_the_draws(library):
    door = problem(library, LAYERS, (X, Y), "categorical")
    logits = np.array([[output(layers, x) for x in X] for layers in DRAWS])
    order = [0, 3, 1, 4, 2, 5]  # the chains in turn
    np.testing.assert_allclose(door.outputs(stacked(library), X), logits[order], rtol=1e-9)
    np.testing.assert_allclose(
        door.predict(stacked(library), X), jax.nn.softmax(logits).mean(0), rtol=1e-9
    )
    few = door.outputs(stacked(library), X[:2], most=2)
    np.testing.assert_allclose(few, logits[[0, 5], :2], rtol=1e-9)

    own = door.module(jax.tree.map(lambda leaf: leaf[1, 0], stacked(library)))
    if library in ("linen", "haiku"):
        assert jax.tree.structure(own) == jax.tree.structure(door.init)
    else:
        np.testing.assert_allclose(own(jnp.asarray(X[0])), logits[3, 0], rtol=1e-9)
        assert isinstance(own, nnx.Module if library == "nnx" else eqx.Module)


@pytest.mark.parametrize(
    ("likelihood", "mean"), [("bernoulli", jax.nn.sigmoid), ("poisson", jnp.exp)]
)
def test_predictions_have_the_shape_of_y(likelihood, mean):
    layers = weights(1)
    door = problem("haiku", layers, (X, Y), likelihood)
    draws = jax.tree.map(lambda leaf: leaf[None, None], door.init)
    expected = [mean(output(layers, x)[0]) for x in X]
    np.testing.assert_allclose(door.predict(draws, X), expected, rtol=1e-9)


READ = """
import sys
import numpy as np
import vrsgmcmc as vr
run = vr.store.open(sys.argv[1])
posterior = run.draws["posterior"]
names = sorted(posterior.data_vars)
print(run.status, *names, *(posterior[name].shape for name in names))
print(repr(float(sum(posterior[name].values.sum() for name in names))))
print(sorted({"flax", "haiku"} & set(sys.modules)))
"""


def test_draws_on_disk_need_no_code(tmp_path):
    """Another process, that has neither the module nor its library, reads them by name."""
    door = problem("linen", LAYERS, (X, Y), "categorical")
    options = {"step_size": 1e-3, "estimator": vr.minibatch(), "batch_size": 4, "num_chains": 2}
    result = vr.sample(0, *door, **options, num_steps=40, thin=10, run_dir=tmp_path / "run")
    code = [sys.executable, "-c", READ, str(tmp_path / "run")]
    out = subprocess.run(code, capture_output=True, text=True, check=True).stdout.splitlines()
    status, *names = out[0].replace("(", " (").split(" ")[:5]
    parts = [f"{layer}.{part}" for layer in ("first", "second") for part in ("bias", "kernel")]
    assert (status, sorted(names)) == ("finished", sorted(parts))
    assert "(2, 4, 3, 4)" in out[0]
    total = sum(np.asarray(leaf, float).sum() for leaf in jax.tree.leaves(result.draws))
    np.testing.assert_allclose(float(out[1]), total)
    assert out[2] == "[]"

    run = vr.store.open(tmp_path / "run")
    np.testing.assert_array_equal(door.predict(run, X), door.predict(result, X))
    with pytest.raises(ValueError, match="it is of another network, or it kept no draws"):
        problem("equinox", LAYERS, (X, Y), "categorical").predict(run, X)
    with pytest.raises(ValueError, match="average predictions online"):
        door.predict(result.with_draws(None), X)


@pytest.mark.slow
def test_a_small_network_samples_to_a_sensible_loss():
    """Two moons: the four-argument call, from the door's start."""
    rng = np.random.default_rng(0)
    angle, y = rng.uniform(0, np.pi, 400), rng.integers(0, 2, 400)
    x = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(400)])
    x[y == 1] = [1, 0.5, 0] - x[y == 1]
    x += 0.15 * rng.normal(size=x.shape)
    door = problem("linen", LAYERS, (x[:300], y[:300]), "categorical")
    result = vr.sample(0, *door, budget="2000 passes")
    probability = door.predict(result, x[300:])[np.arange(100), y[300:]]
    assert -np.log(probability).mean() < 0.15
    assert np.mean(probability < 0.5) < 0.06
