"""The error of sample averages: against closed forms, all minibatch sequences, and the samplers.

Given its minibatches a run is Gaussian, so enumerating them gives the mean and the variance of an
average exactly, of x and of x^2, with the injected noise on.
"""

import math
from itertools import chain, product

import jax.numpy as jnp
import numpy as np
import pytest
from plain_samplers import (
    FULL,
    INDEPENDENT,
    MINIBATCH,
    SAGA,
    SGHMC,
    Enumeration,
    advance,
    datum_gradients,
    describe,
    label,
    practical,
    regression,
    renew,
    sgld,
    splitting,
    subsets,
    sweeps,
)
from plain_samplers import start as blank

import vrsgmcmc as vr
from vrsgmcmc.theory import gaussian_mean, stationary
from vrsgmcmc.theory import moments as fourth
from vrsgmcmc.theory.exact import autocovariance, mse

FEW = gaussian_mean([0.3, -1.2, 2.9], noise_variance=0.8, prior_variance=3.0)


class Body(str):
    """The letters of a word up to its last A or U, which share the step as in the whole word."""

    def __new__(cls, word):
        body = super().__new__(cls, word[: max(word.rfind("A"), word.rfind("U")) + 1])
        body.count = word.count
        return body


def drawn(size, count, order, times):
    """All that can be drawn in `times` draws, each equally likely: lists of `times` batches."""
    if order in INDEPENDENT:
        return list(product(subsets(size, count, order), repeat=times))
    whole = sweeps(size, count, order)
    number = -(-times // len(whole[0]))
    return [list(chain(*several))[:times] for several in product(whole, repeat=number)]


def trajectories(
    problem,
    estimator,
    integrator,
    h,
    *,
    start,
    steps,
    batch_size=1,
    order="without_replacement",
    anchor_order="without_replacement",
):
    """Of (x_1, ..., x_steps), given each sequence of minibatches: means [s, steps, d], and
    covariances [s, d, steps, steps] from the response to every normal that is drawn."""
    size, dimension = problem.features.shape
    anchored, full = estimator.name in ("practical", "svrg"), estimator.name == "full"
    period, known = getattr(estimator, "period", 1), getattr(estimator, "average", 1)
    batches = drawn(
        size, size if full else batch_size, order if not full else INDEPENDENT[1], steps
    )
    anchors = [()]
    if anchored:
        count = getattr(estimator, "anchor_size", size)
        kind = anchor_order if estimator.name == "practical" else INDEPENDENT[1]
        anchors = drawn(size, count, kind, -(-steps // period))
    word = getattr(integrator, "word", "O")
    normals = 1 + steps * (word.count("O") + 2 * word.count("U"))  # the first is the momentum
    probes = 1 + normals * dimension

    def each(draws, l, repeats, tiles):
        index = np.array([sequence[l] for sequence in draws])
        return np.repeat(np.tile(np.repeat(index, repeats, 0), (tiles, 1)), probes, 0)

    state = blank(problem, estimator, integrator, len(batches) * len(anchors) * probes)
    everything = np.tile(np.arange(size), (len(state["x"]), 1))
    state["x"] += start
    if estimator.name == "saga":
        state["table"] = datum_gradients(problem, state["x"], state["one"], everything)
    units = np.concatenate([np.zeros((1, normals * dimension)), np.eye(normals * dimension)])
    units = np.tile(units, (len(state["x"]) // probes, 1)).reshape(-1, normals, dimension)
    units = iter(np.moveaxis(units, 1, 0))
    momentum = math.sqrt(integrator.temperature) * next(units)
    state["p"] = momentum[:, : state["p"].shape[1]]

    positions = []
    for l in range(steps):
        if anchored and l % period == 0:
            index = each(anchors, l // period, len(batches), 1)
            recent = state | {"past": state["past"][:, : min(known, l + 1) - 1]}
            state = renew(problem, estimator, recent, index) | {"past": state["past"]}
        dynamics = integrator
        if l == 0 and integrator.name == "splitting":  # nothing waits from a step before
            dynamics = describe(**vars(integrator) | {"word": Body(word)})
        index = each(batches, l, 1, len(anchors))
        state = advance(problem, estimator, dynamics, h, state, index, lambda: next(units))
        positions.append(state["x"])
    found = np.stack(positions, axis=1).reshape(-1, probes, steps, dimension)
    means, response = found[:, 0], found[:, 1:] - found[:, :1]
    return means, np.einsum("snld,snkd->sdlk", response, response)


def enumerated(problem, *arguments, burn_in=0, **settings):
    """(bias, variance) of the averages: of x, of x^2, and of x^2 by Gaussian closure."""
    means, covariances = trajectories(problem, *arguments, **settings)
    means, covariances = means[:, burn_in:], covariances[:, :, burn_in:, burn_in:]
    posterior_mean, posterior_covariance = problem.posterior()
    count = means.shape[1]

    def quadratic(mean, covariance):
        along = np.einsum("...ld,...dlk,...kd->...d", mean, covariance, mean)
        return (2 * (covariance**2).sum((-1, -2)) + 4 * along) / count**2

    average = means.mean(1)
    spread = covariances.sum((2, 3)) / count**2
    position = average.mean(0) - posterior_mean, spread.mean(0) + average.var(0)

    square = (means**2).mean(1) + np.einsum("sdll->sd", covariances) / count
    bias = square.mean(0) - posterior_mean**2 - np.diag(posterior_covariance)
    exact = bias, quadratic(means, covariances).mean(0) + square.var(0)

    mean = means.mean(0)
    apart = means - mean
    total = covariances.mean(0) + np.einsum("sld,skd->dlk", apart, apart) / len(means)
    return {"position": position, "square": exact, "gaussian": (bias, quadratic(mean, total))}


def agree(error, expected):
    np.testing.assert_allclose(error.bias, expected[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(error.variance, expected[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(error.mse, error.bias**2 + error.variance)


def check(problem, estimator, integrator, *, exact, steps=4, burn_in=1, batch_size=1, **orders):
    """`mse` against all sequences; `exact`: are fourth moments known?"""
    h = 0.1 if integrator.name == "sgld" else 0.25
    start = [1.7, -0.4][: problem.features.shape[1]]
    settings = dict(start=start, burn_in=burn_in, batch_size=batch_size, **orders)
    expected = enumerated(problem, estimator, integrator, h, steps=steps, **settings)
    arguments = problem, estimator, integrator
    settings |= dict(step_size=h, num_steps=steps)
    agree(mse(*arguments, **settings), expected["position"])
    settings |= dict(observable="square")
    agree(mse(*arguments, closure="gaussian", **settings), expected["gaussian"])
    if exact:
        agree(mse(*arguments, **settings), expected["square"])
    else:
        with pytest.raises(ValueError, match="no exact law for averages of squares"):
            mse(*arguments, **settings)


SVRG = describe("svrg", period=2)
CENTER = describe("control_variate", center=[0.4])
INTEGRATORS = [
    sgld(0.7),
    sgld(0.0),
    SGHMC,
    *map(splitting, ("BAOAB", "OBABO", "UBU", "ABOBOB")),
    splitting("BAOAB", temperature=0.0),
]


def named(value):
    return f"cold-{label(value)}" if getattr(value, "temperature", 1) == 0 else label(value)


@pytest.mark.parametrize("order", INDEPENDENT)
@pytest.mark.parametrize("integrator", INTEGRATORS, ids=named)
@pytest.mark.parametrize(
    "estimator", [FULL, MINIBATCH, SVRG, CENTER, practical(2, 2), practical(2, 3, 2)], ids=label
)
def test_gaussian_mean_against_all_sequences(estimator, integrator, order):
    orders = dict(batch_size=2 if estimator is MINIBATCH else 1, order=order, anchor_order=order)
    check(FEW, estimator, integrator, exact=True, **orders)


@pytest.mark.parametrize("order", ["shuffled", "symmetric"])
@pytest.mark.parametrize("integrator", [sgld(0.7), splitting("BAOAB")], ids=named)
def test_gaussian_sweeps_against_all_sequences(integrator, order):
    check(FEW, MINIBATCH, integrator, exact=False, steps=7, burn_in=2, order=order)
    orders = dict(order="shuffled", anchor_order=order)
    check(FEW, practical(1, 2), integrator, exact=False, steps=7, burn_in=1, **orders)
    check(FEW, SVRG, integrator, exact=True, order=order)


@pytest.mark.parametrize("order", INDEPENDENT)
@pytest.mark.parametrize("integrator", [sgld(0.7), SGHMC, splitting("OBABO")], ids=named)
@pytest.mark.parametrize(
    "estimator",
    [MINIBATCH, SAGA, SVRG, describe("control_variate", center=[0.4, 1.0]), practical(2, 1, 3)],
    ids=label,
)
def test_regression_against_all_sequences(estimator, integrator, order):
    steps = 3 if estimator.name == "practical" else 4
    check(regression(3, 2), estimator, integrator, exact=False, steps=steps, order=order)


@pytest.mark.parametrize("order", ["shuffled", "symmetric"])
@pytest.mark.parametrize("estimator", [MINIBATCH, SAGA, SVRG, practical(2, 2)], ids=label)
def test_spelled_out_sweeps_against_all_sequences(estimator, order):
    orders = dict(order=order, anchor_order="shuffled")
    integrator = splitting("BAOAB") if estimator is SAGA else sgld(0.7)
    steps = 4 if estimator.name == "practical" else 7
    check(regression(3, 1), estimator, integrator, exact=False, steps=steps, burn_in=0, **orders)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 6])
def test_moments_of_the_error(count, replace):
    values = np.array([0.3, -1.2, 2.9, 0.9, -0.5, 4.0])
    draws = np.array(subsets(6, count, INDEPENDENT[not replace]))
    errors = 6 / count * (values - values.mean())[draws].sum(1)
    expected = [(errors**k).mean() for k in range(5)]
    found = fourth.error_moments(values, count, replace=replace)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-10)
    for few in (2, 3):  # fewer data than moments
        errors = few * (values[:few] - values[:few].mean())
        found = fourth.error_moments(values[:few], 1, replace=replace)
        np.testing.assert_allclose(found[4], (errors**4).mean(), rtol=1e-12)
