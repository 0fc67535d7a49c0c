"""Every estimator on every minibatch: its formula, unbiased, as noisy as the theory says.

One small logistic regression, whose per-datum Hessians differ, and all n-tuples of its data. The
equally likely minibatches of any order are some of these tuples, so one table of estimates,
[anchor, minibatch], gives every expectation exactly. The references are closed formulas in NumPy.
"""

import itertools

import numpy as np
from support.estimator_table import (
    HERE,
    LIKELY,
    ROWS,
    enumerate_estimates,
    every_case,
    flat,
    likely,
    prior_gradient,
)

import vrsgmcmc as vr
from vrsgmcmc.core.order import ORDERS


def test_every_estimator_has_a_row():
    assert set(ROWS) == set(vr.ESTIMATORS)
    for name in ROWS:
        assert all(e.name == name for e in ROWS[name].make(3))


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
        exact = len(every.batches) == 1 or np.array_equal(every.here, every.stored)
        assert (expected > 0.01) != exact
