"""`vr.table`: a regression on a table as people have it, up to effects and predictions.

    problem = vr.table("diamonds.csv", "price")
    result = vr.sample(0, *problem)
    print(problem.effects(result))

The columns are standardised and levels become columns of 0 and 1 (`vrsgmcmc.datasets.tables`); the
models and their priors are those of `vrsgmcmc.models.table`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from vrsgmcmc.core import as_key, did_you_mean, key_seed, named_leaves
from vrsgmcmc.datasets import tables
from vrsgmcmc.datasets.tables import Design
from vrsgmcmc.models import table as models
from vrsgmcmc.run import Result

from .problem import Problem
from .table_effects import Effects, effects, label_of
from .table_names import parameter_names
from .table_predictions import (
    MOST_DRAWS,
    TablePredictions,
    flat_draws,
    log_likelihood,
    predict,
    simulate,
)
from .table_scores import Scores, score

KINDS = {name: kind.kind for name, kind in models.FAMILIES.items()}


@dataclass(frozen=True, eq=False)
class TableProblem(Problem):
    """A posterior for the rows of a table, with what the numbers mean.

    `design` are the rows as numbers, `family` the distribution of the target, `notes` what was done.
    """

    design: Design
    family: Any
    notes: tuple[str, ...]

    @property
    def names(self) -> dict[str, list[str]] | None:
        """Leaf -> names of its scalars, in words of the columns; None for a network."""
        return None if self.family.name == "mlp" else parameter_names(self.family, self.design)

    def effects(self, result: Result) -> Effects:
        """What each column does to the target, on the standardised scale and in its own units."""
        if self.family.name == "mlp":
            raise ValueError(
                "effects: a weight of a network has no meaning by itself. Look at predictions, or "
                "choose another model."
            )
        return effects(self.family, self.design, self.draws(result, most=None))

    def predict(self, result: Result, rows: Any) -> TablePredictions:
        """The target of new rows: a file or a frame like the one of the problem, or a `Design`."""
        return predict(self.family, self.rows(rows), self.draws(result))

    def scores(self, result: Result, test: Any = None) -> Scores:
        """Scores for rows with a target, by default those held out; a baseline is beside them."""
        return score(self.family, self.design, self.test_rows("scores", test), self.draws(result))

    def simulate(self, result: Result, rows: Any = None, key: Any = 0) -> np.ndarray:
        """Draws [draw, row] of the target of rows, by default those of the problem.

        They are what the model expects to see: compare them with what the table holds. Numbers and
        counts are in their own units, classes are numbers of `design.target.labels`.
        """
        design = self.design if rows is None else self.rows(rows)
        return simulate(self.family, design, self.draws(result), key_seed(as_key(key)))

    def log_likelihood(self, result: Result, rows: Any = None) -> Float[np.ndarray, "draw n"]:
        """log p(y_i | draw) of rows, by default those of the problem: for PSIS-LOO and WAIC."""
        design = self.design if rows is None else self.test_rows("log_likelihood", rows)
        return log_likelihood(self.family, design, self.draws(result))

    def draws(self, result: Result, most: int | None = MOST_DRAWS) -> Any:
        """Draws of the chains that stayed finite, leaves [draw, ...]."""
        draws = flat_draws(result, most)
        init = self.init(jax.random.key(0)) if callable(self.init) else self.init
        wanted, got = (
            {n: jnp.shape(leaf)[k:] for n, leaf in named_leaves(t)}
            for t, k in ((init, 0), (draws, 1))
        )
        if wanted != got:
            raise ValueError(
                f"this result is of another model: it has {got}, and the problem {wanted}. Take the "
                "result of vr.sample(key, *problem)."
            )
        return draws

    def rows(self, rows: Any, target: bool = False) -> Design:
        """New rows, treated as those of the problem were."""
        if isinstance(rows, Design):
            return rows
        return tables.new_rows(self.design, rows, target)

    def test_rows(self, caller: str, test: Any) -> Design:
        """Rows with a target."""
        if test is not None:
            return self.rows(test, target=True)
        if self.design.test is None:
            raise ValueError(
                f"{caller}: there are no rows to test on. Pass some, or hold some out with "
                "vr.table(..., test_fraction=0.2)."
            )
        return self.design.test


def table(
    data: Any,
    target: str = "",
    *,
    formula: str = "",
    model: str | None = None,
    prior: Any = "weak",
    features: Iterable[str] = (),
    groups: Iterable[str] = (),
    missing: str = "",
    test_fraction: float = 0.0,
    seed: int = 0,
    hidden: int = 50,
    **options: Any,
) -> TableProblem:
    """A regression on a table: `vr.sample(key, *vr.table("data.csv", "price"))`.

    - `data`: the path of a file (CSV, Parquet, Arrow, ...), a frame of pandas or polars, or a `Design`.
    - `target`: the column to predict; or a `formula` such as "price ~ carat + cut + (1 | shop)".
    - `model`: "linear", "robust", "logistic", "softmax", "ordinal", "poisson", "negative_binomial"
      or "mlp"; None: chosen by the target.
    - `prior`: of the coefficients of standardised columns: "weak" is N(0, 2.5^2), others are
      "normal(0, 1)", "student_t(4, 0, 1)", "laplace(1)" and "flat".
    - `features`: the columns to predict from; `groups`: columns whose levels have effects of their own,
      as `(1 | shop)` says in a formula.
    - `missing`: "drop" rows with missing cells, "impute" them, or "refuse"; `options` are others of
      `vr.datasets.tables.treat`: levels, na, collinear, scale_levels.
    - `test_fraction`: the share of rows that are held out for `scores`, drawn with `seed`.
    - `hidden`: units of the hidden layer of "mlp".
    """
    names = (*models.FAMILIES, "mlp")
    if model is not None and model not in names:
        raise ValueError(
            f"table(model={model!r}): known are {', '.join(names)}.{did_you_mean(model, names)}"
        )
    weights = models.parse_prior(prior)
    if not isinstance(data, Design):
        data = tables.treat(
            data,
            target,
            formula=formula,
            features=tuple(features),
            groups=tuple(groups),
            model=model or "",
            missing=missing,
            test_fraction=test_fraction,
            seed=seed,
            **options,
        )
    return make_problem(data, model or data.target.model, weights, hidden)


def make_problem(design: Design, model: str, prior: Any, hidden: int = 50) -> TableProblem:
    """The problem of a design and a model."""
    target = design.target
    check_model(design, model)
    kind = jax.dtypes.canonicalize_dtype(float)
    x = np.asarray(design.x, kind)
    y = np.asarray(design.y, kind if target.kind == "number" else np.int32)
    said = f" Model: {target.model}."  # the last note says it, with the prior
    notes = [note.removesuffix(said) for note in design.notes]
    if model == "mlp":
        if design.groups:
            raise ValueError('model="mlp" has no group effects. Leave (1 | ...) out.')
        family, posterior, init = models.network(x, y, len(target.labels), hidden)
        notes.append(f"Model: mlp with {hidden} hidden units. Prior: N(0, 1) on every weight.")
        return TableProblem(posterior, (x, y), init, design, family, clean(notes))
    family = models.family(model, len(target.labels))
    check_prior(design, prior, x)
    center = round(float(np.log(max(np.mean(y), 1e-3))), 2) if family.kind == "count" else 0.0
    sizes = {group.name: len(group.levels) for group in design.groups}
    posterior = models.posterior(family, prior=prior, center=center, groups=tuple(sizes))
    init = models.initial(family, x.shape[1], sizes, center)
    rows: Any = (x, y)
    if design.groups:
        codes = {group.name: np.asarray(group.codes, np.int32) for group in design.groups}
        rows = {"x": x, "y": y, "groups": codes}
    notes.append(f"Model: {model}. Prior: {models.describe_prior(posterior)}")
    if model == "ordinal":
        notes.append(f"Order of the classes: {' < '.join(target.labels)}.")
    return TableProblem(posterior, rows, init, design, family, clean(notes))


def clean(notes: list[str]) -> tuple[str, ...]:
    return tuple(note for note in notes if note)


def check_model(design: Design, model: str) -> None:
    """Refuse a model that the target is not for."""
    target = design.target
    if model == "mlp":
        if target.kind == "count":
            raise ValueError(
                f'model="mlp" is for classes or numbers, and {target.name!r} is a count.'
            )
        return
    fits = [name for name, kind in KINDS.items() if kind == target.kind]
    if target.kind == "classes":
        fits = ["logistic"] if len(target.labels) == 2 else ["softmax", "ordinal"]
    if model not in fits:
        size = f" with {len(target.labels)} classes" if target.labels else ""
        raise ValueError(
            f'model="{model}": target {target.name!r} is a {target.kind.removesuffix("es")}{size}. '
            f"Models for it: {', '.join(fits)}."
        )


def check_prior(design: Design, prior: Any, x: Float[np.ndarray, "n p"]) -> None:
    """Refuse a flat prior where the columns depend on each other: the posterior would be improper."""
    if not isinstance(prior, models.Flat):
        return
    full = np.column_stack([np.ones(len(x)), x]).astype(np.float64)
    factor = np.abs(np.diag(np.linalg.qr(full, mode="r")))
    short = len(factor) < full.shape[1]
    bad = np.flatnonzero(factor < 1e-9 * factor.max(initial=1.0))
    if short or bad.size:
        column = "" if short else f" {label_of(design.columns[bad[0] - 1])!r} depends on others."
        raise ValueError(
            f'prior="flat": the {x.shape[1]} columns and the intercept are linearly dependent in '
            f'{len(x)} rows, so the posterior would be improper.{column} Take prior="weak", or leave '
            "columns out."
        )
