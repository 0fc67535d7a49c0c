"""Minibatches and refreshes for a loop of another library, as a pure function of the step's key.

Step l gets a key k_l and folds a number into it for each use:

    fold(k_l, NOISE)     the key of `Kernel.step`
    fold(k_l, BATCH)     which data the step visits
    fold(k_l, ANCHOR)    which data a refresh visits, when l mod m = 0
    fold(k_l, AUGMENT)   the augmentation key of that refresh

An order of minibatches that sweeps through the data (`shuffled`, `symmetric`) holds for one sweep: the
key of the step that begins it stays in the state until it ends. The other orders draw anew each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Int, UInt32

from vrsgmcmc import core, run
from vrsgmcmc.core import compiled, tree

NOISE, BATCH, ANCHOR, AUGMENT = range(4)
SWEEPS = {"shuffled": 1, "symmetric": 2}  # passes over the data before the order begins anew


@dataclass(frozen=True, eq=False)
class Feed:
    """A kernel with the data that its steps and refreshes visit."""

    kernel: core.Kernel
    data: core.Data
    order: str

    @property
    def sweep(self) -> int:
        """Steps with one order of the data."""
        part = self.kernel.estimator.block_size
        blocks = -(-self.kernel.size // part) // (self.kernel.sampler.batch_size // part)
        return SWEEPS.get(self.order, 0) * blocks or 1

    def begin(self, key: core.PRNGKey, position: core.Params) -> core.State:
        """The state before step 0; an estimator that refreshes once does it here."""
        kernel, position = self.kernel, checked_position(position)
        kernel.estimator.check_params(position)
        run.checks.check_model(kernel.posterior, position, self.data)
        state = kernel.init(core.fold(key, NOISE), position)
        if kernel.anchor_size and kernel.period is None:
            return kernel.refresh(core.fold(key, AUGMENT), state, core.all_rows(self.data))
        return state

    def refresh(self, key: core.PRNGKey, state: core.State) -> core.State:
        """The state with a new anchor, where step l is the first of a cycle."""
        kernel = self.kernel
        if not kernel.anchor_size or kernel.period is None:
            return state
        due = state.step % kernel.period == 0

        def renew() -> Any:
            memory = kernel.refresh(core.fold(key, AUGMENT), state, self.anchor(key)).memory
            return tree.select(due, memory, state.memory)

        return state._replace(memory=lax.cond(anywhere(due), renew, lambda: state.memory))

    def anchor(self, key: core.PRNGKey) -> core.Batch:
        size, count = self.kernel.size, self.kernel.anchor_size
        if count == size:
            return core.all_rows(self.data)
        index = core.draw("without_replacement", core.fold(key, ANCHOR), 0, size, count)
        return core.rows(self.data, index)

    def batch(
        self, key: core.PRNGKey, step: Int[Array, ""], order_words: UInt32[Array, " 2"]
    ) -> tuple[core.Batch, UInt32[Array, " 2"]]:
        """The data of a step, and the words of the key that their order has."""
        estimator = self.kernel.estimator
        if estimator.uses_all_data:
            return core.all_rows(self.data), order_words
        fresh = jax.random.key_data(core.fold(key, BATCH))
        order_words = jnp.where(step % self.sweep == 0, fresh, order_words)
        order_key, count = compiled.wrap_keys(order_words), self.kernel.sampler.batch_size
        index = core.draw(
            self.order, order_key, step, self.kernel.size, count, estimator.block_size
        )
        return core.rows(self.data, index), order_words


def make_feed(
    where: str,
    posterior: core.Posterior,
    data: Any,
    estimator: core.Estimator,
    integrator: core.Integrator,
    batch_size: int,
    order: str,
    **options: Any,
) -> Feed:
    """A feed with every argument checked."""
    data, size = run.as_data(data)
    core.one_of(where, "order", order, core.ORDERS)
    kernel = core.kernel(
        posterior, estimator, integrator, size=size, batch_size=batch_size, **options
    )
    if isinstance(integrator, core.DensityIntegrator):
        raise ValueError(
            f"{where}: {integrator.name}() takes no gradient estimates, so there is nothing to "
            "connect. Use blackjax.nuts, or vr.sample(..., integrator=vr.nuts())."
        )
    estimator.check_order(order)
    return Feed(kernel, data, order)


def checked_position(position: Any) -> core.Params:
    """Floating arrays, none of them weakly typed: the carry of a loop keeps its dtypes."""
    for name, leaf in core.named_leaves(position):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            raise TypeError(
                f"position: leaf {name} has dtype {jnp.result_type(leaf)}; parameters must be "
                "floating. Convert it: jnp.asarray(x, float)."
            )
    return jax.tree.map(lambda x: lax.convert_element_type(x, jnp.result_type(x)), position)


@custom_vmap
def anywhere(condition: Bool[Array, ""]) -> Bool[Array, ""]:
    """Whether the condition holds in any chain: under vmap one scalar, so a branch stays a branch."""
    return condition


@anywhere.def_vmap
def _anywhere_among_chains(size: int, batched: Any, condition: Any) -> tuple[Any, bool]:
    return anywhere(jnp.any(condition)), False
