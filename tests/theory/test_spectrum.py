"""The correlation of gradient errors: against all permutations."""

import itertools

import numpy as np
import pytest

from vrsgmcmc.theory.forecast.spectrum import anchor_correlation, draw_correlation
from vrsgmcmc.theory.noise import all_lags, one_step

SWEEPS = ("shuffled", "symmetric")
ORDERS = ("without_replacement", "with_replacement", *SWEEPS)

MODES = [0.0, 0.4, -0.7, 0.999, 1 - 1e-5, 1 - 1e-8, 1.0, 0.9 * np.exp(0.5j), np.exp(0.3j)]


def correlations(order, size, count, period):
    """r(k), k = 0, 1, ..., of the errors of blocks, each for `period` steps: all permutations.

    Sweeps are independent, with errors of mean 0, so steps of two sweeps have no correlation.
    """
    values = np.random.default_rng(size).normal(size=size)
    sequences = np.array(list(itertools.permutations(values)))[:, : size // count * count]
    errors = size / count * sequences.reshape(len(sequences), -1, count).sum(-1) - values.sum()
    if order == "symmetric":
        errors = np.concatenate([errors, errors[:, ::-1]], axis=1)
    errors = np.repeat(errors, period, axis=1)
    np.testing.assert_allclose(errors.mean(0), 0, atol=1e-12)
    covariance = errors.T @ errors / len(errors)
    lags = np.array([np.trace(covariance, offset=k) for k in range(len(covariance))])
    return lags / lags[0]


BLOCKS = [(4, 1), (4, 2), (4, 3), (5, 2), (6, 1), (6, 2), (6, 3), (6, 4)]


@pytest.mark.parametrize("period", [1, 2, 3])
@pytest.mark.parametrize("order", SWEEPS)
@pytest.mark.parametrize(("size", "count"), BLOCKS)
def test_autocorrelation_of_sweeps(size, count, order, period):
    r = correlations(order, size, count, period)[1:]
    for mu in MODES:
        expected = np.sum(r * np.asarray(mu, complex) ** np.arange(len(r)))
        results = [anchor_correlation(order, size, count, period, np.asarray(mu))]
        results += [draw_correlation(order, size, count, np.asarray(mu))] if period == 1 else []
        for value in results:
            assert complex(value) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("size", "count"), [(1000, 10), (1000, 30), (77, 76)])
def test_zero_frequency_is_the_sum_over_lags(size, count, order):
    one = np.ones(())
    expected = all_lags(order, size, count) / one_step(order, size, count)
    assert 1 + 2 * float(draw_correlation(order, size, count, one)) == pytest.approx(
        expected, abs=1e-12
    )
    anchors = 1 + 2 * float(anchor_correlation(order, size, count, 7, one))
    assert anchors == pytest.approx(7 * expected, abs=1e-11)


def test_no_jump_where_the_series_takes_over():
    gaps = np.geomspace(1e-13, 1e-1, 200)
    for turn in (1, np.exp(0.25j * np.pi)):
        mu = 1 - gaps * turn
        k = np.arange(2000)
        expected = -10 / 19990 * np.array([np.sum((1 - (k + 1) / 2000) * m**k) for m in mu])
        value = draw_correlation("shuffled", 20_000, 10, mu)
        np.testing.assert_allclose(value, expected, rtol=1e-7)


def test_memory_of_differences():
    one, size, count = np.ones(()), 100, 10  # 10 blocks
    for order in SWEEPS:
        alone = float(draw_correlation(order, size, count, one))
        values = [float(draw_correlation(order, size, count, one, m)) for m in (1, 2, 5, 10, 10**6)]
        assert values[0] == 0  # a new anchor each step: nothing is left to cancel
        assert values == sorted(values, reverse=True)
        assert values[-1] == pytest.approx(alone, rel=1e-4)
        # as an average over a random walk's pairs: sum_k (1 - k/m)^2, for sweeps as long as cycles
        assert values[3] == pytest.approx(-count / (size - count) * 10 / 3, rel=0.25)
