"""A regression on the columns of a table: intercept, weights, group effects, and what rows share.

    eta_i  = (intercept + x_i . weights + sum_g sd_g z_g[g_i], shared)
    y_i    ~ family(eta_i),   shared: log sd, log dispersion, log gaps, or nothing
    weights ~ prior,   sd_g ~ Exponential(1),   z_g ~ N(0, 1)

The columns are standardised. Data: a tuple (x [N, p], y [N]), or with groups {"x": x, "y": y, "groups":
{name: codes [N]}}. Parameters: {"intercept", "weights"} and the family's own; with groups {"groups":
{name: {"log_sd", "levels"}}}, where `levels` are the z, so that sd and z are nearly independent when a
level has few rows. Without groups the model is a `GLM` with features (x, 1):

    coefficients = [weights    0  ]
                   [intercept  shared],   and its Hessian takes one pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jax.numpy as jnp
from jaxtyping import Array, Float

from vrsgmcmc.core import GLM, Params, Posterior, Scalar, did_you_mean

from ..checks import check_array, check_table
from ..softmax import with_one
from .classes import Logistic, Ordinal, Softmax
from .counts import NegativeBinomial, Poisson
from .numbers import Linear, Robust, log_exponential
from .priors import Normal, WeightPrior, parse_prior

FAMILIES = {
    "linear": Linear,
    "robust": Robust,
    "logistic": Logistic,
    "softmax": Softmax,
    "ordinal": Ordinal,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
}
WIDE = 5.0  # sd of the intercept's prior
UNIT = Normal(0.0, 1.0)


class Family(Protocol):
    """The distribution of one target, whose linear predictors eta are [width + shared numbers]."""

    name: Any  # "linear", ...
    kind: Any  # what the target is: "number", "count" or "classes"
    concave: Any  # whether the log-likelihood is smooth and concave in eta
    ratio: Any  # what exp(weight) is called: "odds ratio", "rate ratio" or ""

    @property
    def width(self) -> int: ...
    @property
    def shared(self) -> Mapping[str, tuple[int, ...]]: ...
    @property
    def sentence(self) -> str: ...
    def __call__(self, eta: Any, y: Any) -> Scalar: ...
    def logprior(self, params: Params) -> Scalar: ...
    def mean(self, eta: Any) -> Any: ...
    def draw(self, rng: Any, eta: Any) -> Any: ...
    def check(self, y: Any) -> None: ...


def family(name: str, num_classes: int = 0) -> Family:
    """The family of this name; softmax and ordinal have at least three classes."""
    if name not in FAMILIES:
        hint = did_you_mean(name, FAMILIES)
        raise ValueError(f"model={name!r}: known are {', '.join(FAMILIES)}.{hint}")
    if name not in ("softmax", "ordinal"):
        return FAMILIES[name]()
    if num_classes < 3:
        raise ValueError(
            f'model="{name}" is for three classes or more, got {num_classes}. Two classes are for '
            'model="logistic".'
        )
    return FAMILIES[name](num_classes)


@dataclass(frozen=True)
class TablePrior:
    """The log prior of all parameters."""

    family: Family
    weights: WeightPrior
    intercept: Normal

    @property
    def concave(self) -> bool:
        return self.weights.concave

    def __call__(self, params: Params) -> Scalar:
        total = self.intercept(params["intercept"]) + self.family.logprior(params)
        if "weights" in params:
            total += self.weights(params["weights"])
        for group in params.get("groups", {}).values():
            total += log_exponential(group["log_sd"]) + UNIT(group["levels"])
        return total


@dataclass(frozen=True)
class TableLoglik:
    """The log-likelihood of one row."""

    family: Family

    def __call__(self, params: Params, datum: Any) -> Scalar:
        grouped = isinstance(datum, dict)
        x, y = (datum["x"], datum["y"]) if grouped else datum
        location = params["intercept"]
        if "weights" in params:
            location = location + x @ params["weights"]
        if grouped:
            for name, code in datum["groups"].items():
                group = params["groups"][name]
                location = location + jnp.exp(group["log_sd"]) * group["levels"][code]
        return self.family(jnp.concatenate([location.reshape(-1), *self.shared(params)]), y)

    def shared(self, params: Params) -> list[Array]:
        return [params[name].reshape(-1) for name in self.family.shared]


@dataclass(frozen=True)
class Coefficients:
    """The coefficients of the features (x, 1): weights above the intercept, zeros above the rest."""

    family: Family

    def __call__(self, params: Params) -> Float[Array, "p k"]:
        last = jnp.reshape(params["intercept"], (1, -1))
        rows = [params["weights"].reshape(-1, self.family.width)] if "weights" in params else []
        location = jnp.concatenate([*rows, last])
        columns = [location]
        for name in self.family.shared:
            shared = jnp.reshape(params[name], (1, -1))
            columns.append(jnp.pad(shared, ((location.shape[0] - 1, 0), (0, 0))))
        return jnp.concatenate(columns, 1)


@dataclass(frozen=True)
class DataCheck:
    """Refuse data of another form, and targets that the family is not for."""

    family: Family
    groups: tuple[str, ...]

    def __call__(self, data: Any) -> None:
        model = f"table ({self.family.name})"
        if self.groups:
            if not isinstance(data, dict) or set(data) != {"x", "y", "groups"}:
                raise ValueError(f'{model}: with groups the data are {{"x", "y", "groups"}}.')
            names, data = set(data["groups"]), (data["x"], data["y"])
            if names != set(self.groups):
                raise ValueError(
                    f"{model}: its groups are {sorted(self.groups)}, got {sorted(names)}."
                )
        if isinstance(data, tuple) and len(data) == 2 and 0 in jnp.shape(data[0])[1:]:
            check_array(f"{model}: y", data[1], ranks=(1,))  # an intercept alone
        else:
            check_table(model, data)
        self.family.check(data[1])


def posterior(
    likelihood: Family,
    *,
    prior: WeightPrior | str = "weak",
    center: float = 0.0,
    groups: tuple[str, ...] = (),
) -> Posterior:
    """The posterior of a regression; `center` is the mean of the intercept's prior N(., 5^2)."""
    logprior = TablePrior(likelihood, parse_prior(prior), Normal(center, WIDE))
    loglik, check = TableLoglik(likelihood), DataCheck(likelihood, groups)
    if groups:
        return Posterior(logprior, loglik, check=check)
    return GLM(
        logprior,
        loglik,
        check=check,
        likelihood=likelihood,
        features=with_one,
        coefficients=Coefficients(likelihood),
    )


def initial(
    likelihood: Family, num_columns: int, groups: Mapping[str, int] | None = None, center=0.0
) -> dict[str, Any]:
    """A start at zero; `groups`: how many levels each has, `center`: of the intercept."""
    sizes = () if likelihood.width == 1 else (likelihood.width,)
    params: dict[str, Any] = {"intercept": jnp.full(sizes, float(center))}
    if num_columns:
        params["weights"] = jnp.zeros((num_columns, *sizes))
    params |= {name: jnp.zeros(shape) for name, shape in likelihood.shared.items()}
    if groups:
        params["groups"] = {
            name: {"log_sd": jnp.zeros(sizes), "levels": jnp.zeros((count, *sizes))}
            for name, count in groups.items()
        }
    return params


def describe_prior(model: Posterior) -> str:
    """The prior as a sentence."""
    prior: Any = model.logprior
    parts = [f"coefficients of standardised columns: {prior.weights}"]
    parts.append(f"intercept: {prior.intercept}")
    parts += [prior.family.sentence] if prior.family.sentence else []
    check: Any = model.check
    parts += [f"sd of (1 | {name}): Exponential(1)" for name in check.groups]
    return "; ".join(parts) + "."
