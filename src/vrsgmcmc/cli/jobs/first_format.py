"""Jobs in the format "vrsgmcmc job 1": columns of numbers, no recipe, models with a fixed noise.

Their directories open, verify and resume as they did.
"""
# ruff: noqa: RUF009 - `key` makes a dataclass field, as `field` does

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from vrsgmcmc import datasets, models
from vrsgmcmc.datasets import SplitTable

from ..configuration import check_model, convert, short_text
from ..keys import OWN, Config, Positive, key
from ..methods import METHODS, check_method
from . import user_model
from .problem import Problem, Rows

FORMAT = "vrsgmcmc job 1"
LEAST_NOISE = 1e-4  # of the target's variance: least squares can fit a few rows exactly
ARRAYS = ("x_train", "y_train", "x_test", "y_test", "test_rows")


@dataclass(frozen=True)
class FirstConfig(Config):
    """The keys of that format."""

    standardise: bool = key("bring columns to mean 0 and standard deviation 1", True)
    intercept: bool = key("add a column of ones (logistic, linear)", True)
    prior_variance: Positive = key("of every parameter, whose prior is normal around 0", 1.0)
    noise_variance: Positive | None = key("of the standardised target, in linear and mlp")


def read_config(record: Mapping[str, Any]) -> FirstConfig:
    values = {name: value for name, value in record.items() if value is not None}
    known_names = {each.name for each in fields(FirstConfig)}
    if odd := [name for name in values if name not in known_names]:
        raise ValueError(f"unknown key {short_text(odd[0])}.")
    config = convert({"data": values["data"], "target": values["target"]} | values, FirstConfig)
    assert isinstance(config, FirstConfig)
    check_model(config, own_model=values["model"] == OWN)
    for kind in METHODS:
        check_method(config, kind)
    return config


def read_table(table: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SplitTable:
    x_train, y_train, x_test, y_test, test_rows = (arrays[name] for name in ARRAYS)
    columns, labels, notes = (tuple(table[name]) for name in ("columns", "labels", "notes"))
    center, scale = float(table["center"]), float(table["scale"])
    data = (x_train, y_train), (x_test, y_test), test_rows
    return SplitTable(*data, columns, table["target"], labels, center, scale, notes)


def build_problem(
    config: FirstConfig, ready: SplitTable, function: Callable | None = None
) -> Problem:
    """The problem of a configuration's model, or of the user's own."""
    (x, y), (x_test, y_test) = ready.train, ready.test
    columns: tuple[str, ...] = ready.columns
    if config.intercept and config.model in ("logistic", "linear"):
        x, x_test = datasets.with_intercept(x), datasets.with_intercept(x_test)
        columns = ("intercept", *columns)
    d, classes, prior = x.shape[1], len(ready.labels), config.prior_variance
    noise: Any = None
    notes, names = [*ready.notes], None
    if not classes and config.model != OWN:
        noise = config.noise_variance or residual_variance(x, y)
        if config.noise_variance is None:
            notes.append(
                f"The noise variance is taken as {noise:.4g} of the "
                f"{'standardised ' * config.standardise}target, as least squares finds it."
            )
    if config.model == "logistic":
        posterior = models.logistic.posterior(prior_variance=prior)
        init, predict, names = models.logistic.initial(d), models.logistic.predict, [*columns]
    elif config.model == "linear":
        posterior = models.linear.posterior(variance=noise, prior_variance=prior)
        init, predict, names = models.linear.initial(d), lambda w, x: x @ w, [*columns]
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
            posterior = models.mlp.regressor(variance=noise, prior_variance=prior)
            predict = first_output
    elif config.model == OWN and function is not None:
        posterior, init, predict = user_model.build(function, x, y, x_test, classes)
    else:
        raise ValueError(f"a record of the format {FORMAT!r} has no model {config.model!r}.")
    if config.model != OWN:
        notes.append(f"Prior: N(0, {prior:g}) on every parameter.")
    test = Rows(x_test, y_test, ready.test_rows, ready.labels, ready.center, ready.scale, y)
    return Problem(
        posterior, (x, y), init, names, tuple(notes), test=test, predict=predict, noise=noise
    )  # fmt: skip


def first_output(net: Any, x: Any) -> Any:
    return models.mlp.outputs(net, x)[:, 0]


def residual_variance(x: np.ndarray, y: np.ndarray) -> float:
    """The variance of the residuals of the best linear fit with an intercept."""
    x = datasets.with_intercept(x)
    weights, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    variance = np.sum((y - x @ weights) ** 2) / max(len(y) - int(rank), 1)
    return float(max(variance, LEAST_NOISE * np.var(y), np.finfo(np.float32).tiny))
