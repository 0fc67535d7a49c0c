"""From rows to a posterior: a model of the library, or the user's own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from vrsgmcmc import interop
from vrsgmcmc.core import Batch, Params, Posterior, row_likelihoods, tree
from vrsgmcmc.datasets.tables import Design
from vrsgmcmc.run import is_function

from ..keys import MODELS, Config
from . import user_model


class Rows(NamedTuple):
    """The test rows of a model of the user's, and what is needed to score and write predictions."""

    x: np.ndarray
    y: np.ndarray
    numbers: np.ndarray  # of the rows in their table
    labels: tuple[str, ...]  # class k is labels[k]; empty for a number
    center: float  # a target in the user's units is center + scale * y
    scale: float
    train_y: np.ndarray


class Problem(NamedTuple):
    """A posterior with its data, and how to predict with it."""

    posterior: Posterior
    data: Any
    init: Any
    names: Any  # of the parameters, for the report
    notes: tuple[str, ...]  # what was done to the table, and with which model
    table: Any = None  # the problem of `vr.table`, where the model is one of the library; else:
    test: Rows | None = None
    predict: Callable | None = None  # (params, x [n, d]) -> [n], or [n, K]
    noise: float | None = None  # variance of the target around the prediction; None: unknown

    @property
    def size(self) -> int:
        return len(jax.tree.leaves(self.data)[0])

    @property
    def dimension(self) -> int:
        init = self.init
        return tree.size(jax.eval_shape(init, jax.random.key(0)) if is_function(init) else init)


def build_problem(config: Config, design: Design, function: Callable | None = None) -> Problem:
    """The problem of a configuration's model, or of the user's own."""
    if config.model in (None, *MODELS):
        table = interop.table(
            design, model=config.model, prior=config.prior or "weak", hidden=config.hidden
        )
        return Problem(table.posterior, table.data, table.init, table.names, table.notes, table)
    assert function is not None
    assert design.test is not None
    data = design.x, design.y
    target, test = design.target, design.test
    labels = target.labels
    posterior, init, predict = user_model.build(function, *data, test.x, len(labels))
    rows = Rows(test.x, test.y, test.rows, labels, target.center, target.scale, design.y)
    return Problem(posterior, data, init, None, design.notes, test=rows, predict=predict)


def log_likelihoods(posterior: Posterior, params: Params, data: Any) -> Any:
    """The log-likelihood of every row; an augmentation uses one fixed key."""
    batch = Batch(jax.numpy.arange(len(data[1])), data)
    return row_likelihoods(posterior, params, batch, jax.random.key(0))
