"""`predict` and `predict_mean`: the function at the draws, from memory and from disk."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from support import small_runs
from support.results import result_of

from vrsgmcmc.run import memory, parts

CHAINS, DRAWS = 3, 50
RNG = np.random.default_rng(5)
W = RNG.normal(size=(CHAINS, DRAWS, 2))
RESULT = result_of({"w": W, "b": W[..., 0] + 1})
X = RNG.normal(size=(7, 2))


def line(params, x):
    return x @ params["w"] + params["b"]


def test_predictions_are_those_of_every_draw_chain_after_chain():
    every = RESULT.predict(line, X, most=None)
    assert every.shape == (CHAINS * DRAWS, 7)
    expected = np.einsum("nk,csk->csn", X, W) + W[..., :1] + 1
    np.testing.assert_allclose(every, expected.reshape(-1, 7), atol=1e-12)


@pytest.mark.parametrize("most", [1, 2, 3, 40, 149, 150, 10_000])
def test_draws_are_spaced_evenly_and_at_most_so_many(most):
    place = result_of(np.arange(CHAINS * DRAWS, dtype=float).reshape(CHAINS, DRAWS))
    values = place.predict(lambda params, x: params, most=most)
    chains, draws = np.divmod(values, DRAWS)
    assert min(most, CHAINS * DRAWS) - CHAINS < values.size <= min(most, CHAINS * DRAWS)
    assert set(chains) == set(range(min(most, CHAINS)))
    gaps = np.diff(draws[chains == 0])
    assert gaps.size == 0 or gaps.max() - gaps.min() <= 1


def test_the_mean_is_the_mean_of_the_predictions(monkeypatch):
    monkeypatch.setattr(parts, "MOST_IN_PART", 16)  # 50 draws in parts of 16, 16, 16, 2

    def several(params, x):
        mean = line(params, x)
        return {
            "mean": mean,
            "positive": mean > 0,
            "count": jnp.int32(3),
            "wave": jnp.exp(1j * mean),
        }

    one_by_one = RESULT.predict(several, X, most=None)
    mean = RESULT.predict_mean(several, X)
    assert mean["mean"].dtype == np.float64
    jax.tree.map(
        lambda each, whole: np.testing.assert_allclose(each.mean(axis=0), whole, rtol=1e-12),
        *(one_by_one, mean),
    )


def test_chains_that_became_non_finite_are_left_out():
    draws = np.stack([np.full((4,), 2.0), np.full((4,), np.nan), np.full((4,), 3.0)])
    result = result_of(draws, diverged=np.array([False, True, False]))
    np.testing.assert_array_equal(result.predict(lambda p, x: p), [2, 2, 2, 2, 3, 3, 3, 3])
    assert result.predict_mean(lambda p, x: p) == 2.5


def test_draws_on_disk_are_read_in_parts_and_give_the_same(small, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "MOST_IN_PART", 9)
    result = small_runs.run(tmp_path / "run")
    values = result.predict(lambda p, x: p * x, 2.0, most=50)
    mean = result.predict_mean(lambda p, x: p, None)
    assert "draws" not in vars(result)  # not read into memory
    places = (2 * np.arange(25) + 1) * small_runs.STEPS // 50
    np.testing.assert_array_equal(values, 2 * result.draws[:, places].reshape(50, -1))
    np.testing.assert_allclose(mean, result.draws.mean((0, 1)), rtol=1e-12)


def test_what_a_function_closes_over_may_change():
    factor = 1.0

    def scaled(params, x):
        return factor * params["b"]

    first = RESULT.predict(scaled)
    factor = 2.0
    np.testing.assert_array_equal(RESULT.predict(scaled), 2 * first)


def test_a_key_simulates_with_another_key_for_each_draw():
    def simulate(params, x, key):
        return params["b"] + jax.random.normal(key, (20,))

    values = RESULT.predict(simulate, key=3, most=None)
    noise = values - (W[..., 0] + 1).reshape(-1, 1)
    assert abs(noise.std() - 1) < 0.05
    assert len(np.unique(noise[:, 0].round(9))) == CHAINS * DRAWS
    np.testing.assert_array_equal(values, RESULT.predict(simulate, key=3, most=None))


@pytest.mark.parametrize(
    ("function", "x", "words"),
    [
        (line, np.ones((7, 3)), r"line\(params, x\) raised TypeError(.|\n)*x = float64\[7, 3\]"),
        (lambda p, x: p["weight"], X, r"raised KeyError: 'weight'(.|\n)*'w': 'float64\[2\]'"),
        (lambda p, x: None, X, "returned None. Return an array"),
        (lambda p, x: "text", X, "Return an array|raised TypeError"),
        (lambda p, x: np.exp(p["w"]), X, "write it with jax.numpy"),
        (lambda p: p["w"], X, "raised TypeError"),
    ],
)
def test_a_function_that_cannot_be_called_is_named(function, x, words):
    for method in (RESULT.predict, RESULT.predict_mean):
        with pytest.raises(ValueError, match=words):
            method(function, x)


def test_outputs_that_do_not_fit_are_refused_before_they_are_computed(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 10_000)
    calls = []

    def wide(params, x):
        jax.debug.callback(lambda: calls.append(1))
        return jnp.zeros(1000)

    with pytest.raises(MemoryError, match=r"most=15\).*predict_mean"):
        RESULT.predict(wide, most=None)
    assert calls == []


def test_wrong_numbers_of_draws_are_refused():
    with pytest.raises(ValueError, match="most must be a whole number, at least 1"):
        RESULT.predict(line, X, most=0)
    with pytest.raises(ValueError, match="no draws yet"):
        result_of(np.zeros((2, 0))).predict(line, X)
    with pytest.raises(ValueError, match="no draws were kept"):
        RESULT.with_draws(None).predict(line, X)
    with pytest.raises(TypeError, match="pandas"):
        RESULT.predict(line, pandas.DataFrame(X))
