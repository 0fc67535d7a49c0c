"""The vocabulary: what a posterior, a batch, an estimator, an integrator and a state are.

Everything else in the library is written in these words. An estimator is memory plus a formula for
the gradient; an integrator is dynamics that calls `gradient(x)` once per step, wherever its scheme
wants it. Neither knows the other, so any pair composes (see `kernels.py`).

Descriptions of both are frozen dataclasses registered as pytrees: their numbers (temperature,
friction, centre) are leaves, hence arguments of the compiled program; their structure (sizes,
periods, words) is static, hence part of the compilation cache's key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Array, Float, Int, Key, PyTree

Params: TypeAlias = PyTree[Array]
Data: TypeAlias = PyTree[Array]  # every leaf has the leading axis N
PRNGKey: TypeAlias = Key[Array, ""]
Scalar: TypeAlias = Float[Array, ""]
Gradient: TypeAlias = Callable[[Params], Params]

STATIC = {"static": True}  # metadata of a field that the compiled program depends on


@dataclass(frozen=True)
class Posterior:
    """A prior and the log-likelihood of ONE datum: log p(x | D) = logprior(x) + sum_i loglik(x, d_i).

    - `logprior(params)`: a scalar.
    - `loglik(params, datum)`: a scalar, for one datum (a row of the data, without the leading axis).
    - `augment(key, item)`: makes the datum the model sees from the stored one (random crop, dropout
      key). The key belongs to the datum and is kept by an anchored estimator until its next refresh.
    - `check(data)`: raises `ValueError` when the data cannot be meant for this model (labels, ranks).
    """

    logprior: Callable[[Params], Scalar]
    loglik: Callable[[Params, Any], Scalar]
    augment: Callable[[PRNGKey, Any], Any] | None = None
    _: KW_ONLY
    check: Callable[[Data], None] | None = None


class Batch(NamedTuple):
    """Some rows of the data: `index` says which ones, `items` are the rows themselves."""

    index: Int[Array, " b"]
    items: Data


class State(NamedTuple):
    """What the next step needs: x, the integrator's own variables, the estimator's memory, l."""

    position: Params
    dynamics: Any
    memory: Any
    step: Int[Array, ""]


class Info(NamedTuple):
    """The rest of what a step knows: the gradient estimate that it used."""

    gradient: Params


@runtime_checkable
class Estimator(Protocol):
    """Memory plus a formula: an unbiased estimate of the gradient of the log posterior.

    `point` is where the integrator wants the gradient, `lock` the augmentation key of this step. An
    estimator may also have `remember(memory, position)`, called after every step.
    """

    name: ClassVar[str]

    def refresh_size(self, size: int) -> int:
        """How many data one refresh visits; 0: this estimator has nothing to refresh."""
        ...

    def refresh_period(self, size: int, batch_size: int | None) -> int | None:
        """Steps between two refreshes; None: one refresh, before the first step."""
        ...

    def cost(self, size: int, batch_size: int) -> int:
        """Per-datum gradient evaluations of one step."""
        ...

    def init(self, params: Params, size: int) -> Any: ...

    def estimate(
        self,
        posterior: Posterior,
        memory: Any,
        point: Params,
        batch: Batch,
        lock: PRNGKey,
        size: int,
    ) -> tuple[Params, Any]: ...


@runtime_checkable
class Anchored(Estimator, Protocol):
    """An estimator with something to refresh: a sum over `anchor(size)` data, collected in parts.

    `blank`, then `collect` for each part, then `renew`, at one `position` and under one `lock`.
    """

    def blank(self, memory: Any) -> Any: ...

    def collect(
        self,
        posterior: Posterior,
        partial: Any,
        memory: Any,
        position: Params,
        part: Batch,
        lock: PRNGKey,
        present: Float[Array, " b"] | None = None,
    ) -> Any: ...

    def renew(
        self, partial: Any, memory: Any, position: Params, lock: PRNGKey, size: int
    ) -> Any: ...


@runtime_checkable
class Integrator(Protocol):
    """Dynamics: the paper's NextS(x, g, h). Calls `gradient` exactly once per step."""

    name: ClassVar[str]

    def init(self, key: PRNGKey, params: Params) -> Any: ...

    def step(
        self,
        key: PRNGKey,
        position: Params,
        dynamics: Any,
        gradient: Gradient,
        step_size: Scalar,
        size: int,
    ) -> tuple[Params, Any]: ...
