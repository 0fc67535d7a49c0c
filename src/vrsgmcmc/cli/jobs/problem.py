"""From a configuration to its rows, and from these to a posterior."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import datasets, models
from vrsgmcmc.core import Batch, Params, Posterior, row_likelihoods, tree
from vrsgmcmc.datasets import SplitTable, Table, tables
from vrsgmcmc.run import is_function

from ..configuration import MODELS, Config, names_code
from . import user_model

LEAST_NOISE = 1e-4  # of the target's variance: least squares can fit a few rows exactly
MOST_PARAMETERS = 10**7  # of a model on a table: every one has a name
TASKS = {"logistic": "classification", "softmax": "classification", "linear": "regression"}


class Problem(NamedTuple):
    """A posterior with its data, and how to predict with it."""

    posterior: Posterior
    data: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    init: Any
    predict: Callable | None  # (params, x [n, d]) -> [n], or [n, K]
    classify: bool
    names: Any  # of the parameters, for the report
    noise: float | None  # variance of the target around the prediction; None: unknown
    notes: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        init = self.init
        return tree.size(jax.eval_shape(init, jax.random.key(0)) if is_function(init) else init)


def read(config: Config) -> tuple[SplitTable, Callable | None]:
    """The rows of a configuration, and the function of the user's own model if it names one."""
    function = user_model.load_function(config.model) if names_code(config.model) else None
    table = tables.read(config.data, config.target, config.features, config.missing)
    ready = tables.prepare(
        table,
        classify=has_classes(config, table),
        test_fraction=config.test_fraction,
        seed=config.seed,
        standardise=config.standardise,
    )
    if config.model == "logistic" and len(ready.labels) != 2:
        raise ValueError(
            f"target {config.target!r} has {len(ready.labels)} classes "
            f"({tables.list_names(ready.labels, 6)}), and logistic tells two apart. Use --model "
            "softmax."
        )
    return ready, function


def has_classes(config: Config, table: Table) -> bool:
    """Whether the target is a class, by the model, by `task`, or by the column itself."""
    task = TASKS.get(config.model, config.task)
    if config.task not in (None, task):
        raise ValueError(
            f"task: model {config.model} is for {task}, got {config.task!r}. Leave task out, or "
            "use --model mlp."
        )
    return tables.holds_labels(table.y) if task is None else task == "classification"


def build_problem(config: Config, ready: SplitTable, function: Callable | None = None) -> Problem:
    """The problem of a configuration's model, or of the user's own."""
    (x, y), (x_test, y_test) = ready.train, ready.test
    columns: tuple[str, ...] = ready.columns
    if config.intercept and config.model in ("logistic", "linear"):
        x, x_test = datasets.with_intercept(x), datasets.with_intercept(x_test)
        columns = ("intercept", *columns)
    d, classes, prior = x.shape[1], len(ready.labels), config.prior_variance
    check_dimension(config, d, classes)
    noise: Any = None
    notes, names = [], None
    if not classes and config.model in MODELS:
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
    else:
        assert function is not None
        posterior, init, predict = user_model.build(function, x, y, x_test, classes)
    return Problem(
        posterior, (x, y), (x_test, y_test), init, predict, bool(classes), names, noise, (*notes,)
    )


def check_dimension(config: Config, d: int, classes: int) -> None:
    """Refuse a model of the table that is too large, before anything of its size is made."""
    outputs = classes or 1
    sizes = {"softmax": (d + 1) * outputs, "mlp": (d + 1 + outputs) * config.hidden + outputs}
    if (count := sizes.get(config.model, d)) > MOST_PARAMETERS:
        raise ValueError(
            f"{config.model} on {d:,} columns{f' and {classes:,} classes' if classes else ''} has "
            f"{count:,} parameters, more than {MOST_PARAMETERS:,}. Choose fewer columns with "
            f"--features{', or a smaller --hidden' if config.model == 'mlp' else ''}."
        )


def first_output(net: Any, x: Any) -> Any:
    return models.mlp.outputs(net, x)[:, 0]


def residual_variance(x: np.ndarray, y: np.ndarray) -> float:
    """The variance of the residuals of the best linear fit with an intercept."""
    x = datasets.with_intercept(x)
    weights, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    variance = np.sum((y - x @ weights) ** 2) / max(len(y) - int(rank), 1)
    return float(max(variance, LEAST_NOISE * np.var(y), np.finfo(np.float32).tiny))


def log_likelihoods(posterior: Posterior, params: Params, data: Any) -> Any:
    """The log-likelihood of every row; an augmentation uses one fixed key."""
    batch = Batch(jnp.arange(len(data[1])), data)
    return row_likelihoods(posterior, params, batch, jax.random.key(0))
