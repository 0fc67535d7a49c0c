"""Compiled programs are bounded in number, and what they hold is let go."""

import gc
import weakref

import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.core import MOST_PROGRAMS, bounded_jit


class Factor:
    """A static argument that counts how often a program of it is traced."""

    def __init__(self, value):
        self.value, self.traces = value, 0


def multiply(factor, x):
    factor.traces += 1
    return factor.value * x


def test_the_least_recently_used_programs_are_forgotten():
    compiled_multiply = bounded_jit(multiply)
    factors = [Factor(value) for value in range(MOST_PROGRAMS + 1)]
    for factor in (*factors[:-1], factors[0], factors[-1], factors[0], factors[1]):
        assert compiled_multiply(factor, jnp.ones(2))[0] == factor.value
    assert [factor.traces for factor in factors[:3]] == [1, 2, 1]
    last = weakref.ref(factors.pop(2))
    del factor
    compiled_multiply(factors.pop(2), jnp.ones(2))  # the second and the third were oldest
    gc.collect()
    assert last() is None


def test_a_program_has_the_name_of_its_function():
    assert "multiply" in bounded_jit(multiply).program(Factor(1)).lower(jnp.ones(2)).as_text()


@pytest.mark.slow
def test_many_problems_leave_memory_bounded():
    def sample_problem(scale):
        posterior = vr.Posterior(lambda w: -0.5 * w**2, lambda w, x: -0.5 * scale * (x - w) ** 2)
        vr.sample(0, posterior, np.ones(8), jnp.zeros(()), step_size=1e-3, batch_size=2,
                  estimator=vr.minibatch(), num_steps=5, progress=False)  # fmt: skip
        return weakref.ref(posterior.loglik)

    first = sample_problem(1.0)
    problems = [sample_problem(scale) for scale in range(2, 2 + 2 * MOST_PROGRAMS)]
    gc.collect()
    assert first() is None
    assert sum(problem() is not None for problem in problems) <= MOST_PROGRAMS
