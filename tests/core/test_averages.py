"""Online averages: what they are, which positions they see, and that no digit is lost."""

import gc
import math
import tracemalloc
from contextlib import contextmanager
from functools import cache, partial
from itertools import chain, repeat

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import chunks

import vrsgmcmc as vr
from vrsgmcmc.core import averages
from vrsgmcmc.run import loop
from vrsgmcmc.run.interrupts import Interruption

N, D, CHAINS, STEPS, H, BURN_IN = 20, 2, 3, 41, 3e-2, 6
_rng = np.random.default_rng(1)
X = _rng.normal(size=(N, D))
GRID = _rng.normal(size=(4, D))
EVERY = 3

POSTERIOR = vr.models.gaussian.posterior()


def position(x):
    return x


def moments(x):
    return {"square": x**2, "sign": (x > 0, jnp.sum(x).astype(jnp.int32))}


def predict(x, grid):
    return jax.nn.sigmoid(grid @ x)


def schedule(l):
    return H / (1 + 0.2 * l)


OBSERVABLES = {
    "position": position,
    "moments": moments,
    "seldom": vr.observable(position, every=EVERY),
    "predictive": vr.observable(predict, data=GRID),
    "predictive, seldom": vr.observable(predict, data=GRID + 1, every=EVERY),
}


def run(**options):
    given = {
        "estimator": vr.practical(7, 4),
        "step_size": schedule,
        "batch_size": 3,
        "num_steps": STEPS,
        "num_chains": CHAINS,
        "burn_in": BURN_IN,
        "observables": OBSERVABLES,
        "progress": False,
    }
    sample = chunks.sample if "first_chunk" in options else vr.sample
    return sample(5, POSTERIOR, X, np.array([1.0, -1.0]), **given | options)


@cache
def whole_run():
    return run()


def expected(result):
    """The averages of every position after burn-in, from the draws, which are all of them."""
    steps = result.draw_steps
    assert steps.tolist() == list(range(BURN_IN + 1, STEPS + 1))
    w = np.array([float(schedule(l)) for l in steps - 1])  # x_l+1 is made with step size h_l
    seldom = (steps - BURN_IN) % EVERY == 0
    x = result.draws

    def mean(values, kept):
        values = np.asarray(values, float)[:, kept]
        return np.einsum("l,cl...->c...", w[kept], values) / w[kept].sum()

    def probability(grid):
        return 1 / (1 + np.exp(-np.einsum("gd,cld->clg", grid, x)))

    always = np.ones(len(steps), bool)
    whole = np.trunc(x.sum(-1))
    return {
        "position": mean(x, always),
        "moments": {
            "square": mean(x**2, always),
            "sign": (mean(x > 0, always), mean(whole, always)),
        },
        "seldom": mean(x, seldom),
        "predictive": mean(probability(GRID), always),
        "predictive, seldom": mean(probability(GRID + 1), seldom),
    }


def assert_equal(one, other, **tolerance):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


def test_averages_are_those_of_every_position_after_burn_in():
    result = whole_run()
    exact = expected(result)
    assert list(result.averages) == list(OBSERVABLES)
    assert_equal(result.averages, exact, rtol=0, atol=1e-6)
    for name in ("position", "seldom", "predictive", "predictive, seldom"):  # float64 throughout
        np.testing.assert_allclose(result.averages[name], exact[name], rtol=0, atol=1e-13)
    plain = result.draws.mean(1)
    assert np.all(np.abs(plain - exact["position"]) > 1e-6)  # the weights matter


@pytest.mark.parametrize("first", [1, 7, 1000])
def test_chunks_change_no_bit(first):
    assert_equal(run(first_chunk=first).averages, whole_run().averages, rtol=0, atol=0)


def test_without_draws_the_averages_are_the_same_and_memory_is_constant():
    averages = run(keep="averages")
    assert averages.draws is None
    assert_equal(averages.averages, whole_run().averages, rtol=0, atol=0)
    assert_equal(averages.state.position, whole_run().state.position, rtol=0, atol=0)

    def peak(num_steps):
        few = {name: OBSERVABLES[name] for name in ("position", "predictive, seldom")}
        options = {"keep": "averages", "step_size": H, "num_steps": num_steps}
        options |= {"estimator": vr.minibatch(), "observables": few}  # compiled sooner
        run(**options)  # what is compiled and cached
        gc.collect()  # arrays in cycles are not held; versions differ in when they are freed
        tracemalloc.start()
        before = sum(array.nbytes for array in jax.live_arrays())
        result = run(**options)
        gc.collect()
        held = sum(array.nbytes for array in jax.live_arrays()) - before
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert np.all(np.isfinite(result.averages["position"]))
        return most, held

    (short, held), (long, held_long) = peak(10_000), peak(40_000)
    assert held_long == held
    assert long - short < 8 * 30_000  # less than one number for each further step; a draw is six


def test_an_interrupted_average_is_of_what_was_done(monkeypatch):
    pressed = chain([False, False], repeat(True))

    class Pressed(Interruption):
        def __call__(self):
            return next(pressed)

    @contextmanager
    def interruptible():
        yield Pressed()

    monkeypatch.setattr(loop, "interruptible", interruptible)
    result = run(first_chunk=10)  # the second chunk has one unit
    assert result.interrupted
    assert BURN_IN < result.num_steps < STEPS
    assert result.draws.shape[1] == result.num_steps - BURN_IN
    sizes = np.array([float(schedule(l)) for l in result.draw_steps - 1])
    mean = np.einsum("l,cld->cd", sizes, result.draws) / sizes.sum()
    np.testing.assert_allclose(result.averages["position"], mean, rtol=0, atol=1e-13)


# --- the sums alone ------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=(0, 1))
def average_of(watch, terms, scale, weight):
    """The average of scale * l / terms over l = 1, ..., terms."""
    start = averages.start_average(watch, jnp.zeros((), jnp.float32))

    def one(l, average):
        x = scale * (l.astype(jnp.float32) / terms)
        return averages.update_average(watch, average, x, l, weight)

    return averages.average_value(jax.lax.fori_loop(1, terms + 1, one, start))


def shifted(x):
    return 1.0 + x


@pytest.mark.parametrize("weight", [1.0, 0.7, 1e-7])
def test_a_million_float32_terms_lose_no_digit(weight):
    terms = 10**6
    watch = averages.Observable(shifted, None, 1)
    mean = average_of(watch, terms, jnp.float32(1e-3), jnp.float32(weight))
    values = np.float32(1) + np.float32(1e-3) * (
        np.arange(1, terms + 1, dtype=np.float32) / np.float32(terms)
    )
    exact = math.fsum(values.astype(float)) / terms
    naive = float(np.cumsum(values)[-1]) / terms  # one after another, in float32
    assert abs(naive - exact) > 1e-4
    assert abs(float(mean) - exact) < 1.2e-7  # a rounding of float32


def test_nothing_is_averaged_before_burn_in_ends_or_off_the_grid():
    watch = averages.Observable(position, None, 4)
    average = averages.start_average(watch, jnp.zeros(()))
    seen = []
    for age in range(-5, 13):
        grown = averages.update_average(
            watch, average, jnp.float64(age), jnp.int32(age), jnp.float64(1)
        )
        if float(grown.weight.value) != float(average.weight.value):
            seen.append(age)
        average = grown
    assert seen == [4, 8, 12]
    assert float(averages.average_value(average)) == 8.0


def test_an_average_of_nothing_is_nan():
    average = averages.start_average(averages.Observable(position, None, 1), jnp.zeros(2))
    assert np.all(np.isnan(averages.average_value(average)))


def test_a_value_that_does_not_count_cannot_spoil_the_average():
    """A NaN before burn-in ends is none of ours."""
    watch = averages.Observable(position, None, 1)
    average = averages.start_average(watch, jnp.zeros(()))
    for age, x in ((0, jnp.nan), (1, 2.0), (2, 4.0)):
        average = averages.update_average(
            watch, average, jnp.float64(x), jnp.int32(age), jnp.float64(2)
        )
    assert float(averages.average_value(average)) == 3.0
