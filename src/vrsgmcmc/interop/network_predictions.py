"""What comes after sampling a network: outputs and predictions at new rows, draw by draw.

    predict(x) = mean over draws w of E[y | f(x; w)]

The mean is a running sum, so that draws x rows x outputs are never held at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from vrsgmcmc import core, run

from .network_likelihoods import LOG_SCALE, Custom
from .network_structure import Network, merge
from .problem import Problem

ROWS = 128  # that are computed at once
MOST = 400  # draws whose outputs are held


@dataclass(frozen=True)
class Model:
    """The program of predictions: equal for equal structures, so that it compiles once."""

    network: Network
    likelihood: Any
    items: Any  # shapes of x and y of one datum

    def __hash__(self) -> int:
        return hash((self.network, self.likelihood))

    def outputs(self, params: Any, buffers: Any, x: Any) -> Any:
        return self.network(params, buffers, x, jax.random.key(0), False)

    def means(self, params: Any, buffers: Any, x: Any) -> Any:
        return self.likelihood.mean(self.outputs(params, buffers, x), self.items[1].shape)


@dataclass(frozen=True, eq=False)
class NetworkProblem(Problem):
    """The posterior of a network's parameters: `vr.sample(key, *problem)`.

    - `predict(result, x)`: predictive means (probabilities, for classes), averaged over the draws.
    - `outputs(result, x)`: what the network returns, for each draw.
    - `module(draw)`: the library's own object with the parameters of one draw.
    - `paths`: the names of all parameters of the module, as `sample_only` gets them.

    `result` is that of `vr.sample`, a run directory that `vr.store.open` opened, or draws: a pytree
    like `result.draws`, with leaves [chain, draw, ...].
    """

    model: Model
    frozen: dict[str, Any]
    buffers: Any
    paths: tuple[str, ...]

    def predict(self, result: Any, x: Any, *, most: int | None = None) -> np.ndarray:
        """E[y | x, data] for each row of x, [row, ...]: for classes their probabilities.

        `most`: use so many draws, evenly spaced. None: all of them.
        """
        if isinstance(self.model.likelihood, Custom):
            raise ValueError(
                "predict: a likelihood of your own has no mean. Use problem.outputs(result, x), and "
                "average over its first axis what you need."
            )
        total, count = 0.0, 0
        for draw in self.draws_of(result, most):
            total, count = total + self.rows("means", draw, x).astype(np.float64), count + 1
        return np.asarray(total) / count

    def outputs(self, result: Any, x: Any, *, most: int = MOST) -> Any:
        """The outputs of each draw, [draw, row, ...], of at most `most` draws, evenly spaced."""
        each = [self.rows("outputs", draw, x) for draw in self.draws_of(result, most)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *each)

    def module(self, draw: Any) -> Any:
        """The module of nnx or Equinox, or the parameters of linen or Haiku, of one draw."""
        return self.model.network.rebuild(self.params_of(draw), self.buffers)

    def params_of(self, draw: Any) -> dict[str, Any]:
        """All parameters of the module: those of a draw, and the frozen ones."""
        weights = {name: part for name, part in draw.items() if name != LOG_SCALE}
        return jax.tree.map(jnp.asarray, merge(weights, self.frozen))

    def rows(self, what: str, draw: Any, x: PyTree) -> Any:
        """One function of the model for all rows of x, a part at a time."""
        shapes = self.model.items[0]
        here, there = (jax.tree.map(lambda leaf: leaf.shape, tree) for tree in (x, shapes))
        if jax.tree.map(lambda shape: shape[1:], here, is_leaf=is_shape) != there:
            raise ValueError(
                f"{what}: a row of x has the shape {there} in the data of this problem, got x of shape "
                f"{here}."
            )
        x = jax.tree.map(lambda leaf, like: np.asarray(leaf, like.dtype), x, shapes)
        params = self.params_of(draw)
        return rows_of(self.model, what, params, self.buffers, x)

    def draws_of(self, result: Any, most: int | None) -> Iterator[dict[str, Any]]:
        """Some draws of the chains that stayed finite, one after another."""
        draws, alive = self.load(result)
        chains, count = jax.tree.leaves(draws)[0].shape[:2]
        chains = np.arange(chains) if alive is None else np.flatnonzero(alive)
        places = [(c, d) for d in range(count) for c in chains]
        if not places:
            raise ValueError("there are no draws: every chain became non-finite.")
        if most is not None:
            most = core.whole("predict", "most", most)
            picks = np.linspace(0, len(places) - 1, min(most, len(places))).round().astype(int)
            places = [places[pick] for pick in picks]
        for chain, draw in places:
            yield jax.tree.map(lambda leaf, c=chain, d=draw: leaf[c, d], draws)

    def load(self, result: Any) -> tuple[Any, Any]:
        """Draws [chain, draw, ...] in memory, and which chains stayed finite."""
        if isinstance(result, run.Result):
            if result.draws is None:
                raise ValueError(
                    'no draws were kept (keep="averages"). Run with keep="draws", or average '
                    "predictions online with observables."
                )
            return result.draws, ~result.diverged
        if not isinstance(result, run.store.Run):
            return result, None
        key = jax.eval_shape(lambda: jax.random.key(0))
        like = jax.eval_shape(self.init, key) if callable(self.init) else self.init
        stored = result.leaves
        names = [name for name, _ in core.named_leaves(like)]
        missing = [name for name in names if name not in stored]
        if missing:
            raise ValueError(
                f"the run in {result.path} holds no draws of {', '.join(missing[:5])}: it is of "
                "another network, or it kept no draws."
            )
        leaves = [np.asarray(stored[name]) for name in names]
        alive = np.ones(len(leaves[0]), bool)
        alive[[chain for chain, *_ in result.progress["divergences"]]] = False
        return jax.tree.unflatten(jax.tree.structure(like), leaves), alive


def is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, int) for each in value)


def rows_of(model: Model, what: str, params: Any, buffers: Any, x: PyTree) -> Any:
    return jax.tree.map(np.asarray, _rows(model, what, params, buffers, x))


@partial(core.bounded_jit, static=2)
def _rows(model: Model, what: str, params: Any, buffers: Any, x: PyTree) -> Any:
    function = getattr(model, what)
    return jax.lax.map(lambda row: function(params, buffers, row), x, batch_size=ROWS)
