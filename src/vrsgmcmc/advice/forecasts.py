"""The forecast of a sampler under the local model of a posterior."""

from typing import Any

from vrsgmcmc.core import Sampler
from vrsgmcmc.theory import Forecast, Local, forecast


def predict(model: Local, sampler: Sampler, step_sizes: Any = None, **options: Any) -> Forecast:
    """The forecast at each step size, or at the sampler's own where there are none.

    `options`: `num_steps`, `num_chains` and `filter` of `theory.forecast`.
    """
    return forecast(
        model,
        sampler.estimator,
        sampler.integrator,
        [sampler.step_size] if step_sizes is None else step_sizes,
        batch_size=sampler.batch_size,
        order=sampler.order,
        anchor_order=sampler.anchor_order,
        **options,
    )
