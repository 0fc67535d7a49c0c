"""Methods of a user's own: what they inherit, and what is refused in words."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.core import Anchored, Estimator, Integrator

SIZE, ANCHOR = 20, 5
POSTERIOR = vr.models.gaussian.posterior()
X = jnp.asarray(np.random.default_rng(0).normal(size=SIZE))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Partial(Anchored):
    """An anchor of five data, renewed every `period` steps; without one it would be refreshed once."""

    name = "partial"

    period: int | None = 4

    def refresh_size(self, size):
        return ANCHOR

    def refresh_period(self, size, batch_size):
        return self.period


def test_an_inherited_refresh_scales_a_part_of_the_data_to_all():
    anchor = vr.Batch(jnp.arange(ANCHOR), X[:ANCHOR])

    def gradient(estimator):
        kernel = vr.kernel(POSTERIOR, estimator, vr.sgld(), size=SIZE)
        state = kernel.init(jax.random.key(0), jnp.float64(0.3))
        return kernel.refresh(jax.random.key(1), state, anchor).memory.gradient

    np.testing.assert_allclose(gradient(Partial()), SIZE / ANCHOR * np.sum(X[:ANCHOR] - 0.3))
    assert gradient(Partial()) == gradient(vr.practical(ANCHOR, 4))


def test_one_refresh_over_a_part_of_the_data_is_refused():
    with pytest.raises(ValueError, match=r"one refresh visits 5 of 20 data.*or a period"):
        vr.kernel(POSTERIOR, Partial(period=None), vr.sgld(), size=SIZE)


def test_a_method_without_its_formula_cannot_be_made():
    class Costly(Estimator):
        name = "costly"

        def cost(self, size, batch_size):
            return size

    class Still(Integrator):
        name = "still"

    with pytest.raises(TypeError, match="estimate"):
        Costly()
    with pytest.raises(TypeError, match="step"):
        Still()


def test_a_class_that_does_not_inherit_is_told_to():
    class Duck:
        name = "duck"

        def estimate(self, *_):
            return jnp.zeros(()), ()

    with pytest.raises(TypeError, match=r"inherits from vrsgmcmc\.core\.Estimator"):
        vr.kernel(POSTERIOR, Duck(), vr.sgld(), size=SIZE)
    with pytest.raises(TypeError, match=r"inherits from vrsgmcmc\.core\.Integrator"):
        vr.kernel(POSTERIOR, vr.full(), Duck(), size=SIZE)
