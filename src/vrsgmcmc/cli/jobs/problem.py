"""From a configuration and prepared rows to a posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from vrsgmcmc import datasets, models
from vrsgmcmc.cli.configuration import MODELS, Config
from vrsgmcmc.cli.jobs import user_model
from vrsgmcmc.core import Posterior, tree
from vrsgmcmc.datasets import Prepared, Table, tables
from vrsgmcmc.run import is_function

LEAST_NOISE = 1e-4  # of the target's variance: least squares can fit a few rows exactly


class Problem(NamedTuple):
    """What is sampled, and how to predict with it."""

    posterior: Posterior
    data: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    init: Any
    predict: Callable | None  # (params, x [n, d]) -> [n], or [n, K]
    classify: bool
    names: Any  # of the parameters, for the report
    noise: float | None  # variance of the target around the prediction; None: not known
    notes: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        init = self.init
        return tree.size(jax.eval_shape(init, jax.random.key(0)) if is_function(init) else init)


def wants_labels(config: Config, table: Table) -> bool:
    """Whether the target is a class."""
    if config.model in ("logistic", "softmax", "linear"):
        fixed = "regression" if config.model == "linear" else "classification"
        if config.task not in (None, fixed):
            raise ValueError(
                f"task: model {config.model} is for {fixed}, got {config.task!r}. Leave task out, or "
                "use --model mlp."
            )
        return fixed == "classification"
    if config.task is None:
        return tables.holds_labels(table.y)
    return config.task == "classification"


def prepare(config: Config) -> Prepared:
    """The rows that a configuration asks for."""
    table = tables.read(config.data, config.target, config.features, config.missing)
    ready = tables.prepare(
        table,
        classify=wants_labels(config, table),
        test_fraction=config.test_fraction,
        seed=config.seed,
        standardise=config.standardise,
    )
    if config.model == "logistic" and len(ready.labels) != 2:
        raise ValueError(
            f"target {config.target!r} has {len(ready.labels)} classes "
            f"({', '.join(ready.labels[:6])}{', ...' if len(ready.labels) > 6 else ''}), and logistic "
            "tells two apart. Use --model softmax."
        )
    return ready


def make(config: Config, ready: Prepared, function: Callable | None = None) -> Problem:
    """The posterior of a configuration's model, or of the user's own."""
    (x, y), (x_test, y_test) = ready.train, ready.test
    columns: tuple[str, ...] = ready.columns
    if config.intercept and config.model in ("logistic", "linear"):
        x, x_test = datasets.with_intercept(x), datasets.with_intercept(x_test)
        columns = ("intercept", *columns)
    d, classes, prior = x.shape[1], len(ready.labels), config.prior_variance
    noise, notes, predict, names, init = None, [], None, None, None
    if not classes and config.model in MODELS:
        noise = config.noise_variance or residual_variance(x, y)
        if config.noise_variance is None:
            notes.append(
                f"The noise variance is taken as {noise:.4g} of the "
                f"{'standardised ' * config.standardise}target, as least squares finds it."
            )
    if config.model == "logistic":
        posterior, init = (
            models.logistic.posterior(prior_variance=prior),
            models.logistic.initial(d),
        )
        predict, names = models.logistic.predict, list(columns)
    elif config.model == "linear":
        assert noise is not None
        posterior = models.linear.posterior(variance=noise, prior_variance=prior)
        init, predict, names = models.linear.initial(d), line, list(columns)
    elif config.model == "softmax":
        posterior = models.softmax.posterior(classes, prior_variance=prior)
        init, predict = models.softmax.initial(d, classes), models.softmax.predict
        weights = [f"{column}, {label}" for column in columns for label in ready.labels]
        names = {"weight": weights, "bias": [f"intercept, {label}" for label in ready.labels]}
    elif config.model == "mlp":
        init = models.mlp.initial(d, classes or 1, config.hidden)
        if classes:
            posterior = models.mlp.classifier(classes, prior_variance=prior)
            predict = models.mlp.predict
        else:
            assert noise is not None
            posterior = models.mlp.regressor(variance=noise, prior_variance=prior)
            predict = first_output
    else:
        assert function is not None
        posterior, init, predict = user_model.build(function, x, y)
    return Problem(
        posterior,
        (x, y),
        (x_test, y_test),
        init,
        predict,
        bool(classes),
        names,
        noise,
        tuple(notes),
    )


def line(w: Any, x: Any) -> Any:
    return x @ w


def first_output(params: Any, x: Any) -> Any:
    return models.mlp.outputs(params, x)[:, 0]


def residual_variance(x: np.ndarray, y: np.ndarray) -> float:
    """Of the best linear fit, with an intercept."""
    x = datasets.with_intercept(x)
    weights, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    left = np.sum((y - x @ weights) ** 2) / max(len(y) - int(rank), 1)
    return float(max(left, LEAST_NOISE * np.var(y), np.finfo(np.float32).tiny))
