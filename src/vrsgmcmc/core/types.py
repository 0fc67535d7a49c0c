"""The vocabulary: what a posterior, a batch, an estimator, an integrator and a state are.

Everything else in the library is written in these words. An estimator is memory plus a formula for
the gradient; an integrator is dynamics that calls `gradient(x)` once per step, wherever its scheme
wants it. Neither knows the other, so any pair composes (see `kernel.py`).

Descriptions of both are frozen dataclasses registered as pytrees: their numbers (temperature,
friction, centre) are leaves, hence arguments of the compiled program; their structure (sizes,
periods, words) is marked STATIC, hence part of the compilation cache's key.
"""

from __future__ import annotations

import typing
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import jax
from jaxtyping import Array, Float, Int, Key, PyTree

Params: TypeAlias = PyTree[Array]
Data: TypeAlias = PyTree[Array]  # every leaf has the leading axis N
PRNGKey: TypeAlias = Key[Array, ""]
Scalar: TypeAlias = Float[Array, ""]
Gradient: TypeAlias = Callable[[Params], Params]

STATIC = {"static": True}  # metadata of a field that the compiled program depends on


def identity(value: Any) -> Any:
    return value


@typing.dataclass_transform(frozen_default=True, field_specifiers=(field,))
def description(cls: type) -> Any:
    """Make of a class a frozen dataclass and a pytree: its leaves are the fields not marked STATIC.

    The class is part of the structure. With `jax.tree_util.register_dataclass` it is not (JAX 0.10):
    two classes with the same fields have equal structures, and jit may take one for the other.
    """
    cls = cls if "__dataclass_fields__" in vars(cls) else dataclass(frozen=True)(cls)
    static = [each.name for each in fields(cls) if each.metadata.get("static")]
    leaves = [each.name for each in fields(cls) if not each.metadata.get("static")]

    def flatten(value: Any) -> tuple[list[tuple[Any, Any]], tuple]:
        named = [(jax.tree_util.GetAttrKey(name), getattr(value, name)) for name in leaves]
        return named, tuple(getattr(value, name) for name in static)

    def unflatten(structure: tuple, values: Any) -> Any:
        return cls(**dict(zip([*leaves, *static], [*values, *structure], strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
    return cls


@dataclass(frozen=True)
class Posterior:
    """A prior and the log-likelihood of ONE datum: log p(x | D) = logprior(x) + sum_i loglik(x, d_i).

    - `logprior(params)`: a scalar.
    - `loglik(params, datum)`: a scalar, for one datum (a row of the data, without the leading axis).
    - `augment(key, item)`: makes the datum that the model sees from the stored one (random crop,
      dropout key). The key belongs to the datum; an anchored estimator keeps it until its next refresh.
    - `check(data)`: raises `ValueError` when the data cannot be meant for this model (labels, ranks).
    - `network`: many equal modes are expected, so a single weight means nothing; predictions do.
    """

    logprior: Callable[[Params], Scalar]
    loglik: Callable[[Params, Any], Scalar]
    augment: Callable[[PRNGKey, Any], Any] | None = None
    _: KW_ONLY
    check: Callable[[Data], None] | None = None
    network: bool = False


@dataclass(frozen=True, kw_only=True)
class GLM(Posterior):
    """A posterior whose data (x, y) enter through linear predictors: loglik = likelihood(eta, y),

        eta = features(x) @ coefficients(params),   a scalar or a vector,

    with `coefficients` a rearrangement of the parameters into [p] or [p, K], zeros in other places. So
    the Hessian over all data takes one pass: sum_i f_i f_i^T W_i, W_i the second derivative of the
    likelihood in eta.
    `vr.glm` makes one.
    """

    likelihood: Callable[[Any, Any], Scalar]
    features: Callable[[Any], Array] = identity
    coefficients: Callable[[Params], Array] = identity

    @property
    def concave(self) -> bool:
        """Whether likelihood and prior say that they are smooth and concave: there is one mode."""
        return all(getattr(part, "concave", False) for part in (self.likelihood, self.logprior))


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
    """What a step computed besides the next state: the gradient estimate that it used.

    None: the integrator took as many exact gradients as it liked.
    """

    gradient: Params | None


@typing.runtime_checkable
class Estimator(Protocol):
    """Memory plus a formula: an unbiased estimate of the gradient of the log posterior.

    An estimator inherits from this class and states what differs: its name, its cost and its formula.
    The rest has the defaults of an estimator without memory.
    """

    name: ClassVar[str]
    uses_all_data: ClassVar[bool] = False  # a step visits all data, whatever the batch size
    block_size: int = 1  # minibatches consist of blocks of so many consecutive rows

    @abstractmethod
    def cost(self, size: int, batch_size: int) -> int:
        """Per-datum gradient evaluations of one step."""
        ...

    @abstractmethod
    def estimate(
        self,
        posterior: Posterior,
        memory: Any,
        point: Params,
        batch: Batch,
        augment_key: PRNGKey,
        size: int,
    ) -> tuple[Params, Any]:
        """The gradient estimate at `point`, and the memory after it."""
        ...

    def init(self, params: Params, size: int) -> Any:
        """The memory before the first refresh: NaN where the refresh fills it in."""
        return ()

    def update(self, memory: Any, position: Params) -> Any:
        """The memory after a step to `position`."""
        return memory

    # A refresh: `empty_sum`, then `collect` for each part of the anchor, then `renew`, all of them at
    # one position and under one augmentation key.

    def refresh_size(self, size: int) -> int:
        """How many data one refresh visits; 0: there is nothing to refresh."""
        return 0

    def refresh_period(self, size: int, batch_size: int) -> int | None:
        """Steps between two refreshes; None: one refresh, before the first step. Batch size 0: any."""
        return None

    def empty_sum(self, memory: Any) -> Any:
        """The partial sum of a refresh that has visited no datum."""
        return ()

    def collect(
        self,
        posterior: Posterior,
        partial_sum: Any,
        memory: Any,
        position: Params,
        part: Batch,
        augment_key: PRNGKey,
        present: Float[Array, " b"] | None = None,
    ) -> Any:
        """The partial sum with one more part of the anchor; `present` masks its rows."""
        return partial_sum

    def renew(
        self, partial_sum: Any, memory: Any, position: Params, augment_key: PRNGKey, size: int
    ) -> Any:
        """The memory after a refresh, from the sum over the whole anchor."""
        return memory

    # What a run asks before it starts.

    def check_posterior(self, posterior: Posterior) -> None:
        """Raise `ValueError` for a posterior that this estimator cannot be used with."""

    def check_sizes(self, size: int, batch_size: int) -> None:
        """Raise `ValueError` for sizes that do not fit each other."""

    def check_order(self, order: str) -> None:
        """Raise `ValueError` for an order of minibatches that this estimator cannot be used with."""

    def check_params(self, params: Params) -> None:
        """Raise `ValueError` for parameters of other shapes than those this estimator holds."""

    def table_bytes(self, params: Params, size: int) -> int:
        """Bytes of memory that grow with the data, for one chain."""
        return 0

    @property
    def seeks_mode(self) -> bool:
        """Whether a posterior mode must be found before the first step (`at_mode`)."""
        return False

    def at_mode(self, mode: Params, gradient: Params | None = None) -> Estimator:
        """This estimator centred at a mode; `gradient`: the likelihood's there, where it is known."""
        return self

    @property
    def seeks_curvature(self) -> bool:
        """Whether the likelihood's Hessian at the mode is needed, too (`with_curvature`)."""
        return False

    def with_curvature(
        self, hessian: Float[Array, "d d"], hot: Batch | None = None, linear: bool = False
    ) -> Estimator:
        """This estimator with the Hessian, and rows that every step visits; `linear`: of a `GLM`."""
        return self

    def mode(self, memory: Any) -> Params:
        """The mode that a memory is centred at."""
        raise TypeError(f"{self.name}() has no mode.")


@typing.runtime_checkable
class Integrator(Protocol):
    """Dynamics: the paper's NextS(x, g, h). Calls `gradient` exactly once per step."""

    name: ClassVar[str]

    def init(self, key: PRNGKey, params: Params) -> Any:
        """The first values of the integrator's own variables, such as momenta."""
        return ()

    @abstractmethod
    def step(
        self,
        key: PRNGKey,
        position: Params,
        dynamics: Any,
        gradient: Gradient,
        step_size: Scalar,
        size: int,
    ) -> tuple[Params, Any]:
        """The next position, and the integrator's variables there."""
        ...


class DensityIntegrator(Integrator):
    """Dynamics that look at all data as often as they like, as NUTS does.

    `step` gets log p(x | D) in the place of `gradient`, a function that `jax.value_and_grad` takes.
    """

    @abstractmethod
    def gradient_counts(self, dynamics: Any) -> Any:
        """How many gradients of all data each chain has taken since it began: int64 [chain]."""
        ...

    def check_steps(self, burn_in: int, varies: bool, dynamics: Any | None) -> None:
        """Raise `ValueError` for a burn-in, or for step sizes that vary, where they do not suit.

        `dynamics` [chain] are those of the run that is continued; None: the chains start here.
        """

    def complaint(self, dynamics: Any) -> str | None:
        """What is wrong with chains that end with these `dynamics` [chain]."""
        return None
