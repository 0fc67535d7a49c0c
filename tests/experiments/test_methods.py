"""The methods of a comparison cost what they say, and an answer is worth what it says."""

import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.experiments import pima
from vrsgmcmc.experiments.methods import PAPER, SHUFFLED, paper_evaluations
from vrsgmcmc.experiments.scores import binary_nll, knowledge_error


@pytest.mark.parametrize("name", pima.METHODS)
@pytest.mark.parametrize("passes", [2, 3, 50])
def test_a_method_takes_as_many_steps_as_it_can_pay(name, passes):
    sampler, size = pima.METHODS[name], 460
    steps = sampler.affordable_steps(size, passes * size)
    assert sampler.evaluations(size, steps) <= passes * size < sampler.evaluations(size, steps + 1)


def test_sgld_at_equal_cost_costs_what_the_paper_s_method_does():
    cost = {name: sampler.evaluations(460, 46_000) for name, sampler in pima.METHODS.items()}
    assert cost["SGLD, n = 30"] == cost[PAPER] == cost[SHUFFLED]
    assert paper_evaluations(pima.METHODS[PAPER], 460, 46_000) == 46_000 * (100 / 10 + 10)


def test_the_cost_is_the_one_that_sample_counts():
    sampler = pima.METHODS["SVRG-LD"]
    result = vr.sample(
        0,
        vr.models.gaussian.posterior(),
        np.random.default_rng(0).normal(size=460),
        np.zeros(()),
        estimator=sampler.estimator,
        step_size=1e-4,
        batch_size=sampler.batch_size,
        num_steps=57,
        num_chains=1,
        keep="averages",
        progress=False,
    )
    assert result.evaluations == sampler.evaluations(460, 57) == 2 * 460 + 57 * 20


def test_k_independent_draws_are_worth_k():
    rng = np.random.default_rng(0)
    scale, center = np.array([1.0, 5.0]), np.array([3.0, -1.0])
    draws = center + scale * rng.normal(size=(4000, 50, 2))
    distance = knowledge_error(draws.mean(1), draws.var(1), center, scale**2)
    # (k - 1)/k of the sample variance adds bias^2/4 = 1/(4 k^2) and takes a factor (k-1)/k: about 1/k
    assert abs(1 / distance.mean() - 50) < 1
    assert knowledge_error(center, scale**2, center, scale**2) == 0


def test_the_negative_log_likelihood_of_labels():
    probability = np.array([[0.25, 0.8]])
    np.testing.assert_allclose(
        binary_nll(probability, np.array([1, 0])), -np.log([0.25, 0.2]).mean()
    )
