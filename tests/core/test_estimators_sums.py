"""Sums: SAGA's table and its total, the prior once, N/n, and a million terms without losing digits.

The model, the table of estimators and the references are those of `test_estimators.py`.
"""

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.estimator_table import (
    HERE,
    LOCK,
    PLAIN,
    START,
    START_KEY,
    STEP,
    Euler,
    estimators,
    first_refresh,
    flat,
    gradients,
    make_data,
    make_kernel,
    prior_gradient,
    show,
    take,
)

import vrsgmcmc as vr
from vrsgmcmc import core

# ---------------------------------------------------------------- SAGA's books


def indices_with_repeats(size, count, steps):
    """Random minibatches, two thirds of which have a datum twice or three times."""
    index = np.random.default_rng(5).integers(0, size, (steps, count))
    index[1::3, 1] = index[1::3, 0]
    index[2::3, 1:3] = index[2::3, :1]
    return index


def test_saga_keeps_its_books():
    """Each row of the table is the gradient at the last visit, and the total is the rows' sum."""
    size, count, steps = 6, 4, 60
    data, kernel = make_data(size), make_kernel(PLAIN, vr.saga(), size, count)
    index = indices_with_repeats(size, count, steps)

    @jax.jit
    def run(index):
        def one(state, inputs):
            l, index = inputs
            key = jax.random.fold_in(jax.random.key(STEP), l)
            new, info = kernel.step(key, state, take(data, index), 0.05)
            memory = new.memory
            return new, (state.position, info.gradient, memory.table, memory.total.value)

        inputs = (jnp.arange(steps), index)
        return jax.lax.scan(one, first_refresh(kernel, data), inputs)[1]

    positions, estimates, tables, totals = (
        np.concatenate([part["bias"][..., None], part["weight"]], -1) for part in run(index)
    )
    table = gradients(PLAIN, flat(START), data, None)
    for l in range(steps):
        here = gradients(PLAIN, positions[l], data, None)
        change = size / count * (here - table)[index[l]].sum(0)  # a datum counts as often as drawn
        expected = table.sum(0) + prior_gradient(positions[l]) + change
        np.testing.assert_allclose(estimates[l], expected, rtol=0, atol=1e-12)
        table[index[l]] = here[index[l]]
        np.testing.assert_allclose(tables[l], table, rtol=0, atol=1e-12)
        np.testing.assert_allclose(totals[l], tables[l].sum(0), rtol=0, atol=1e-12)


# ---------------------------------------------------------------- the prior once, the data N/n


def estimate(posterior, estimator, data, size):
    """At HERE, after a refresh at START."""
    kernel = vr.kernel(posterior, estimator, Euler(), size=size)
    index = jnp.arange(size if estimator.name == "full" else 2)

    @jax.jit
    def run(data):
        state = first_refresh(kernel, data)._replace(position=HERE)
        return kernel.step(jax.random.key(STEP), state, take(data, index), 0.1)[1].gradient

    return flat(run(data))


def strong_prior(x):
    return -0.5e6 * (jnp.square(x["bias"] - 1) + jnp.sum(jnp.square(x["weight"] - 1)))


def no_likelihood(x, datum):
    return jnp.zeros(())


@pytest.mark.parametrize("estimator", estimators(3), ids=show)
def test_the_prior_enters_once(estimator):
    posterior = vr.Posterior(strong_prior, no_likelihood)
    result = estimate(posterior, estimator, make_data(5), 5)
    np.testing.assert_allclose(result, -1e6 * (flat(HERE) - 1), rtol=1e-15)


@pytest.mark.parametrize("estimator", estimators(3), ids=show)
def test_twice_the_data_is_twice_the_likelihood(estimator):
    size, data = 5, make_data(5)
    twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), data)
    once = estimate(PLAIN, estimator, data, size)
    doubled = estimate(PLAIN, estimator, twice, 2 * size)
    prior = prior_gradient(flat(HERE))
    np.testing.assert_allclose(doubled - prior, 2 * (once - prior), rtol=1e-12)


# ---------------------------------------------------------------- a million terms

MANY = 10**6


def terms(kind):
    """float32 numbers whose sum, made one by one in float32, is wrong by half a percent or more."""
    rng = np.random.default_rng(0)
    if kind == "equal":
        numbers = np.full(MANY, 0.1)
    elif kind == "similar":
        numbers = rng.uniform(0.1, 0.101, MANY)
    else:  # whole numbers, of which a few thousand are summed exactly, but not all of them
        half = rng.integers(800, 1000, MANY // 2)
        numbers = np.concatenate([half + 1, -rng.permutation(half)])
    return numbers.astype(np.float32)


KINDS = ("equal", "similar", "cancelling")


def linear(x, datum):
    return x @ datum


def flat_prior(x):
    return jnp.zeros((), x.dtype)


@lru_cache
def gradient_of_a_million(estimator, parts):
    """Of sum_i x . d_i: the sum of the data, one column for each kind, at once or part by part."""
    kernel = vr.kernel(vr.Posterior(flat_prior, linear), estimator, Euler(), size=MANY)
    items = jnp.asarray(np.column_stack([terms(kind) for kind in KINDS]))

    def refresh(lock, state, everything):
        if parts == 1:
            return kernel.refresh(lock, state, everything)
        cut = jax.tree.map(lambda leaf: leaf.reshape(parts, -1, *leaf.shape[1:]), everything)
        blank = kernel.estimator.empty_sum(state.memory)
        partial, _ = jax.lax.scan(
            lambda partial, part: (kernel.collect(lock, state, partial, part), None), blank, cut
        )
        return kernel.renew(lock, state, partial)

    @jax.jit
    def run(items):
        everything = vr.Batch(jnp.arange(MANY), items)
        state = kernel.init(jax.random.key(START_KEY), jnp.full(len(KINDS), 0.5, jnp.float32))
        state = refresh(jax.random.key(LOCK), state, everything)
        batch = vr.Batch(jnp.arange(2), items[:2]) if kernel.anchor_size else everything
        return kernel.step(jax.random.key(STEP), state, batch, 0.1)[1].gradient

    return np.asarray(run(items))


def check_digits(estimator, kind, parts):
    exact, naive = terms(kind).astype(np.float64).sum(), np.cumsum(terms(kind))[-1]
    result = gradient_of_a_million(estimator, parts)
    assert result.dtype == np.float32
    assert abs(naive / exact - 1) > 5e-3
    assert abs(result[KINDS.index(kind)] / exact - 1) <= 2e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("estimator", estimators(MANY, variants=False), ids=show)
def test_a_million_terms_in_float32_lose_no_digits(estimator, kind):
    check_digits(estimator, kind, parts=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("estimator", estimators(MANY, anchored=True, variants=False), ids=show)
def test_an_anchor_in_many_parts_loses_no_digits(estimator, kind):
    check_digits(estimator, kind, parts=1000)


@pytest.mark.parametrize("count", [3, 128, 1000])
def test_the_log_posterior_is_the_sum_and_its_gradient_the_full_gradient(count):
    posterior = vr.models.logistic.posterior()
    x = np.random.default_rng(0).normal(size=(count, 4))
    data = jnp.asarray(x), jnp.asarray(x[:, 0] > 0, jnp.int32)
    batch, w = core.all_rows(data), jnp.arange(4.0)
    value, gradient = jax.value_and_grad(core.log_posterior, 1)(posterior, w, batch)
    rows = core.row_likelihoods(posterior, w, batch, jax.random.key(0))
    np.testing.assert_allclose(value, math.fsum([posterior.logprior(w), *rows]), rtol=1e-14)
    np.testing.assert_allclose(core.log_posterior(posterior, w, batch), value, rtol=1e-14)
    expected = core.log_posterior_gradient(posterior, w, batch)
    np.testing.assert_allclose(gradient, expected, rtol=1e-13)
    doubled = jax.grad(lambda w: 2 * core.log_posterior(posterior, w, batch))(w)
    np.testing.assert_array_equal(doubled, 2 * gradient)
