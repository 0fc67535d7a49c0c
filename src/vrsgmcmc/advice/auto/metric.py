"""A metric by its name, for a sampler whose step size is given."""

from typing import Any

from vrsgmcmc import core, run


def find_metric(
    posterior: core.Posterior, data: Any, init: Any, kind: str, key: Any
) -> core.Metric:
    """The curvature at the mode near `init`; `ValueError` where there is none."""
    data, _ = run.as_data(data)
    if isinstance(init, core.State):
        raise ValueError(
            f"sample(metric={kind!r}): a state is continued in the metric that it was made in. Give "
            "that metric."
        )
    params = run.as_params(init(core.fold(key, 2**20)) if run.is_function(init) else init)
    kind = "hessian" if kind == "auto" else kind
    located = run.locate_mode(posterior, data, params, kind=kind)
    if not located.converged:
        raise ValueError(
            f"sample(metric={kind!r}): the search for a mode ended {located.distance:.2g} posterior "
            "standard deviations away from it. Scale the columns alike, or start elsewhere."
        )
    return located.metric
