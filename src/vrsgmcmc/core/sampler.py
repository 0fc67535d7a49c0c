"""How to run a chain: one record, read by every room, and its one form as JSON.

With cost c(N, n) of a step, and n1 data visited by a refresh every m steps,

    evaluations of L steps = L c(N, n) + ceil(L / m) n1

A new option of a sampler is a field here, and is used where it acts.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .methods import ESTIMATORS, INTEGRATORS
from .metric import Metric, Preconditioned
from .tree import named_leaves
from .types import STATIC, Estimator, Integrator, Params, State, description

FUNCTION = "a function"  # what a record says in the place of code


@description
class Sampler:
    """Estimator and integrator with the sizes, orders and step size that they run with."""

    estimator: Estimator
    integrator: Integrator
    step_size: Any = 1e-4  # a number, one for each chain, or a schedule of the step
    batch_size: int = field(default=10, metadata=STATIC)
    order: str = field(default="without_replacement", metadata=STATIC)
    anchor_order: str = field(default="without_replacement", metadata=STATIC)
    clip: float | None = None
    metric: Metric | None = None  # x = c + L z, and the chain moves in z

    @property
    def dynamics(self) -> Integrator:
        """The integrator, in the variables of the metric."""
        if self.metric is None:
            return self.integrator
        return Preconditioned(self.integrator, self.metric)

    def own_dynamics(self, state: State) -> Any:
        """The integrator's own variables, without the place in z."""
        return state.dynamics if self.metric is None else state.dynamics.dynamics

    def cost_per_step(self, size: int) -> float:
        """Per-datum gradient evaluations of one step, its share of a refresh included."""
        period = self.estimator.refresh_period(size, self.batch_size)
        refresh = self.estimator.refresh_size(size) / period if period else 0.0
        return self.estimator.cost(size, self.batch_size) + refresh

    def evaluations(self, size: int, steps: Any) -> Any:
        """Per-datum gradient evaluations of the first `steps` steps of one chain; also of arrays."""
        return steps * self.estimator.cost(size, self.batch_size) + self.visits(size, steps)

    def visits(self, size: int, steps: Any) -> Any:
        """Data that the refreshes of the first `steps` steps visit."""
        period = self.estimator.refresh_period(size, self.batch_size)
        return self.estimator.refresh_size(size) * (-(-steps // period) if period else 1)

    def affordable_steps(
        self, size: int, allowance: float, per_step: float = 0.0, per_datum: float = 1.0
    ) -> int:
        """The most steps of one chain for an allowance of evaluations; or of seconds, where a step
        takes `per_step` and each datum in it `per_datum`."""
        period = self.estimator.refresh_period(size, self.batch_size)
        refresh = self.estimator.refresh_size(size) * per_datum
        step = per_step + self.estimator.cost(size, self.batch_size) * per_datum
        if period is None:
            return max(0, int((allowance - refresh) // step))
        cycles, rest = divmod(allowance, refresh + period * step)
        return int(cycles) * period + max(0, int((rest - refresh) // step))

    def to_json(self) -> dict[str, Any]:
        """Plain values; functions and large arrays are named, not held."""
        return {name: to_json(getattr(self, name)) for name in field_names(self)}

    @classmethod
    def from_json(
        cls,
        record: Mapping[str, Any],
        center: Params | None = None,
        metric: Metric | None = None,
        hessian: Any = None,
        hot: Any = None,
    ) -> Sampler:
        """The sampler of a record, which may come from a file: names are looked up, nothing else.

        `center`: the centre of a control variate, in the place of the one that the record names;
        `metric`, `hessian`, `hot`: likewise.
        """
        try:
            values = {name: record[name] for name in field_names(cls) if name != "metric"}
            if record.get("metric") is not None and metric is None:  # older records have none
                raise ValueError("settings: a record does not hold the metric. Give it.")
            values["metric"] = metric
            for kind, table in (("estimator", ESTIMATORS), ("integrator", INTEGRATORS)):
                options = dict(values[kind])
                name = options.pop("name")
                if name not in table:
                    raise ValueError(f"settings: unknown {kind} {name!r}.")
                for part, what, value in (
                    ("center", "centre", center),
                    ("hessian", "Hessian", hessian),
                    ("hot", "hot rows", hot),
                ):
                    if options.get(part) is not None:
                        if value is None:
                            raise ValueError(
                                f"settings: a record does not hold the {what}. Give it."
                            )
                        options[part] = value
                values[kind] = table[name](**options)
            if values["step_size"] == FUNCTION:
                raise ValueError("settings: a record does not hold the schedule of step sizes.")
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"these are not the settings of a run: {error}.") from error


def field_names(value: Any) -> list[str]:
    return [each.name for each in dataclasses.fields(value)]


def to_json(value: Any) -> Any:
    """A description, or a part of it, as JSON. Functions are in the model's program."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {name: to_json(getattr(value, name)) for name in field_names(value)}
        return {"name": getattr(value, "name", type(value).__name__), **fields}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | jax.Array | np.generic):
        numbers = np.asarray(value)
        if numbers.size <= 16 and numbers.dtype.kind in "fiu":
            return [float(number) for number in numbers.ravel()]
        return {"sha256": tree_sum(value), "shape": list(numbers.shape)}
    if callable(value):
        return FUNCTION
    return {name: to_json(leaf) for name, leaf in named_leaves(value)}


def tree_sum(tree: Any) -> str:
    """The sha256 of a pytree's names, dtypes, shapes and numbers."""
    total = hashlib.sha256()
    for name, leaf in named_leaves(tree):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        numbers = np.ascontiguousarray(np.asarray(leaf))
        total.update(f"{name} {numbers.dtype} {numbers.shape}\n".encode())
        total.update(numbers.reshape(-1).view(np.uint8).data)
    return total.hexdigest()
