"""All runs of a few steps: every sequence of minibatches, and the law of the positions given it.

Given its minibatches a run is Gaussian, so their enumeration gives the mean and the variance of an
average exactly, of x and of x^2, with the injected noise on.
"""

import math
from itertools import chain, product

import numpy as np
from support.plain_samplers import (
    INDEPENDENT,
    advance,
    datum_gradients,
    describe,
    renew,
    subsets,
    sweeps,
)
from support.plain_samplers import start as blank


class Body(str):
    """The letters of a word up to its last A or U, which share the step as in the whole word."""

    def __new__(cls, word):
        body = super().__new__(cls, word[: max(word.rfind("A"), word.rfind("U")) + 1])
        body.count = word.count
        return body


def draw_sequences(size, count, order, times):
    """All sequences of `times` draws, each equally likely: lists of `times` batches."""
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
    covariances [s, d, steps, steps] from the response to every normal."""
    size, dimension = problem.features.shape
    anchored, full = estimator.name in ("practical", "svrg"), estimator.name == "full"
    period, average = getattr(estimator, "period", 1), getattr(estimator, "average", 1)
    batches = draw_sequences(
        size, size if full else batch_size, order if not full else INDEPENDENT[1], steps
    )
    anchors = [()]
    if anchored:
        count = getattr(estimator, "anchor_size", size)
        kind = anchor_order if estimator.name == "practical" else INDEPENDENT[1]
        anchors = draw_sequences(size, count, kind, -(-steps // period))
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
            recent = state | {"past": state["past"][:, : min(average, l + 1) - 1]}
            state = renew(problem, estimator, recent, index) | {"past": state["past"]}
        dynamics = integrator
        if l == 0 and integrator.name == "splitting":  # nothing waits from a step before
            dynamics = describe(**vars(integrator) | {"word": Body(word)})
        index = each(batches, l, 1, len(anchors))
        state = advance(problem, estimator, dynamics, h, state, index, lambda: next(units))
        positions.append(state["x"])
    paths = np.stack(positions, axis=1).reshape(-1, probes, steps, dimension)
    means, response = paths[:, 0], paths[:, 1:] - paths[:, :1]
    return means, np.einsum("snld,snkd->sdlk", response, response)
