"""Log-likelihoods in blocks, and leave-one-out cross-validation against exact answers."""

import logging

import jax.numpy as jnp
import numpy as np
import pytest
from support.results import Conjugate, result_of

import vrsgmcmc as vr
from vrsgmcmc.run import likelihood, memory, parts

SMALL = Conjugate(60)


@pytest.fixture
def two():
    """A model with two leaves, a datum of two arrays, and draws that are no round number of parts."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(23, 2)), rng.normal(size=23)
    draws = {"w": rng.normal(size=(3, 17, 2)), "b": rng.normal(size=(3, 17))}

    def loglik(params, datum):
        return -0.5 * (datum[1] - datum[0] @ params["w"] - params["b"]) ** 2

    residual = y - np.einsum("nk,csk->csn", x, draws["w"]) - draws["b"][..., None]
    posterior = vr.Posterior(lambda params: jnp.zeros(()), loglik)
    return result_of(draws, posterior, (x, y)), -0.5 * residual**2


def test_blocks_equal_the_direct_formula(two, monkeypatch):
    result, exact = two
    np.testing.assert_allclose(result.log_likelihood(), exact, rtol=1e-12)
    monkeypatch.setattr(likelihood, "ROWS_AT_ONCE", 5)  # 23 rows in blocks of 5
    monkeypatch.setattr(likelihood, "MOST_PAIRS", 3)
    monkeypatch.setattr(parts, "MOST_IN_PART", 4)
    np.testing.assert_allclose(result.log_likelihood(), exact, rtol=1e-12)
    rows = [22, 0, 0, 7]
    np.testing.assert_allclose(result.log_likelihood(rows), exact[..., rows], rtol=1e-12)
    mask = np.arange(23) % 3 == 0
    np.testing.assert_allclose(result.log_likelihood(mask, most=6), exact[:, [4, 12]][..., mask])
    assert result.log_likelihood(slice(3, 9)).shape == (3, 17, 6)
    assert result.log_likelihood([]).shape == (3, 17, 0)


@pytest.mark.parametrize("rows", [[23], [-1], [[1, 2]], [0.5], np.ones(4, bool), "all"])
def test_rows_that_the_data_do_not_have_are_refused(two, rows):
    with pytest.raises((IndexError, TypeError), match=r"log_likelihood\(rows=...\)"):
        two[0].log_likelihood(rows)


def test_what_does_not_fit_is_refused_before_the_model_is_called(monkeypatch):
    def never(params, datum):
        raise AssertionError("the model was called")

    result = result_of(np.zeros((2, 500)), vr.Posterior(lambda w: w, never), np.zeros(1000))
    monkeypatch.setattr(memory, "free_memory", lambda: 7_999_999)
    words = r"2 chains x 500 draws x 1,000 rows needs 8,000,000 bytes.*most=100\).*loo_subsample"
    with pytest.raises(MemoryError, match=words):
        result.log_likelihood()
    with pytest.raises(MemoryError, match="loo: 2 chains"):
        result.loo()
    with pytest.raises(MemoryError, match="loo_subsample: 2 chains"):
        result.loo_subsample(400)


def test_what_is_large_is_said_before(two, monkeypatch, caplog):
    monkeypatch.setattr(likelihood, "LARGE", 1000)
    two[0].log_likelihood()
    assert "3 chains x 17 draws x 23 rows takes 9,384 of" in caplog.text


def test_leave_one_out_is_that_of_the_conjugate_gaussian(caplog):
    exact = SMALL.leave_one_out()
    value = SMALL.result.loo()
    np.testing.assert_allclose(value.elpd_i, exact, atol=0.01)
    assert value.elpd == pytest.approx(exact.sum(), abs=0.05)
    assert value.se == pytest.approx(exact.std() * np.sqrt(exact.size), rel=0.02)
    assert 0.8 < value.p < 1.2
    assert caplog.text == ""


def test_some_rows_estimate_the_sum_within_their_own_error():
    large = Conjugate(400, count=100)
    exact = large.leave_one_out().sum()
    whole, some = large.result.loo(), large.result.loo_subsample(80)
    assert (some.subsample_size, some.n_data_points) == (80, 400)
    assert abs(some.elpd - whole.elpd) < 4 * some.subsampling_se
    assert abs(some.elpd - exact) < 0.5
    assert some.subsampling_se < 0.05 * some.se  # the cheap density explains nearly all of it


def test_subsampling_computes_the_rows_that_it_takes_and_no_others(monkeypatch):
    sizes = []
    blocks = likelihood.blocks

    def counted(result, part, rows):
        sizes.append(rows.size)
        return blocks(result, part, rows)

    monkeypatch.setattr(likelihood, "blocks", counted)
    SMALL.result.loo_subsample(20)
    assert sum(sizes) == 20


def test_a_network_is_compared_by_densities_of_several_draws():
    """Two equal modes, at 1 and -1: the mean of the draws, 0, is a bad place."""
    rng = np.random.default_rng(3)
    y = rng.normal(1.0, 0.1, 300)
    loglik = lambda w, y: -0.5 * ((y - w**2) / 0.1) ** 2  # noqa: E731
    draws = rng.choice([-1.0, 1.0], (4, 200)) * (1 + rng.normal(0, 0.003, (4, 200)))
    errors = []
    for network in (False, True):
        posterior = vr.Posterior(lambda w: -(w**2), loglik, network=network)
        errors.append(result_of(draws, posterior, y).loo_subsample(50).subsampling_se)
    assert errors[1] < 0.1 * errors[0]


def test_rows_that_importance_sampling_cannot_leave_out_are_named(caplog):
    case = Conjugate(20)
    y = np.append(case.y, [0.5, 9.0])
    mean, variance = case.moments(y)
    draws = np.random.default_rng(4).normal(mean, np.sqrt(variance), (4, 500))
    with caplog.at_level(logging.WARNING):
        value = result_of(draws, case.posterior, y).loo()
    k = np.asarray(value.pareto_k)
    assert k[21] > value.good_k
    assert np.sum(k > value.good_k) == 1
    assert "loo: 1 of 22 rows that were left out have a Pareto k above 0.70 (row 21;" in caplog.text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda result: result.loo_subsample(60), "60 rows. result.loo"),
        (lambda result: result.loo_subsample(1), "at least 2"),
        (lambda result: result.loo(most=1), "1 draws of a chain are too few"),
    ],
)
def test_wrong_sizes_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(SMALL.result)


@pytest.mark.parametrize("name", ["log_likelihood", "loo", "loo_subsample", "accuracy"])
def test_a_result_without_its_model_says_what_to_do(name):
    from vrsgmcmc.advice.accuracy import assess

    result = result_of(np.zeros((2, 5)), assess=assess, run_dir="runs/first")
    with pytest.raises(ValueError, match=rf"{name} needs the model(.|\n)*run_dir='runs/first'"):
        getattr(result, name)()
