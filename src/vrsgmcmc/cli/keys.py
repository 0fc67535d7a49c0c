"""The keys of a configuration: what each is for, its type, and its default."""
# ruff: noqa: RUF009 - `key` makes a dataclass field, as `field` does

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

MODELS = (
    *("linear", "robust", "logistic", "softmax", "ordinal", "poisson", "negative_binomial"),
    "mlp",
)
OWN = "own"  # the model in a record when it comes from a file of the user's
PRIORS = ("weak", "normal(0, 1)", "student_t(4, 0, 1)", "laplace(1)", "flat")  # one of each form
MOST_CHOSEN = 100  # codes of missing cells

Count = Annotated[int, Ge(1), Le(2**30)]
Positive = Annotated[float, Gt(0)]
Fraction = Annotated[float, Gt(0), Lt(1)]
Name = Annotated[str, MinLen(1), MaxLen(1000)]
Text = Annotated[str, MinLen(1), MaxLen(4000)]
Order = Literal["with_replacement", "without_replacement", "shuffled", "symmetric"]


def key(help: str, default: Any = None) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Config:
    """What to sample, how, and where the results go. A job replaces None by a value for its data."""

    data: Path = key("a table: .csv, .csv.gz, .tsv, .parquet, .arrow, .feather, .npz or .npy")
    target: Name | None = key("the column to predict")
    model: str | None = key(
        "linear, robust, logistic, softmax, ordinal, poisson, negative_binomial or mlp; on the command "
        "line also FILE.py:FUNCTION (default: chosen by the target)"
    )
    formula: Text | None = key(
        "such as 'price ~ log(carat) + cut + (1 | shop)', in the place of target and features"
    )
    out: Path | None = key("directory of the run (default: the name of the data, with -run)")
    seed: Annotated[int, Ge(0), Lt(2**32)] = key("of the split, the start and the chains", 0)

    features: tuple[Name, ...] = key("the columns to predict from (default: all others)", ())
    task: Literal["classification", "regression"] | None = key(
        "for mlp and your own model (default: told by the target column)"
    )
    missing: Literal["drop", "impute", "refuse"] | None = key(
        "what to do with rows that have empty cells (default: drop up to 5 % of the rows, else impute)"
    )
    na: tuple[Name, ...] = key("more codes of empty cells than the usual ones, such as 99999", ())
    levels: Literal["drop_first", "all"] = key(
        "columns for the levels of a text column: without its first level, or for all", "drop_first"
    )
    test_fraction: Fraction = key("of the rows, kept for testing", 0.2)

    prior: Name | None = key(
        "of the coefficients of standardised columns: weak, normal(0, 1), student_t(4, 0, 1), "
        "laplace(1) or flat (default: weak, which is normal(0, 2.5))"
    )
    hidden: Annotated[int, Ge(1), Le(2**16)] = key("units in the hidden layer of mlp", 50)

    ess: Positive | None = key(
        "effective draws to reach, where step_size is not given (default: 2500)"
    )
    budget: Name | None = key(
        "the most that a run without step_size may cost, everything included: '200 passes', "
        "'60 s', '5 min'"
    )
    step_size: Positive | None = key(
        "h, for the gradient of the sum over data (default: chosen, with all keys below that are "
        "not given)"
    )
    estimator: str | None = key("of the gradient (default with a step size: practical)")
    anchor_size: Count | None = key("n1, data of a refresh (practical)")
    period: Count | None = key("m, steps between refreshes (practical, svrg)")
    block_size: Count | None = key("s, consecutive rows of a block (block_saga)")
    batch_size: Count | None = key("n2, data of a step")
    integrator: str | None = key("the dynamics (default with a step size: sgld)")
    friction: Positive | None = key("of sghmc, sgnht and splitting")
    word: Name | None = key("of splitting, such as BAOAB")
    order: Order | None = key("how minibatches are drawn")
    anchor_order: Order | None = key("how the data of refreshes are drawn")
    metric: Literal["hessian", "low_rank", "diagonal"] | None = key(
        "the curvature at the mode that the chain moves in (default with a step size: none)"
    )
    num_steps: Count | None = key("of every chain, burn-in included")

    num_chains: Annotated[int, Ge(1), Le(2**12)] = key("independent chains", 4)
    burn_in: Annotated[int, Ge(0), Le(2**30)] | None = key(
        "steps to leave out (default with a step size: a fifth)"
    )
    thin: Count | None = key(
        "keep every so many-th position (default with a step size: about 1000 draws of a chain)"
    )
    temperature: Annotated[float, Ge(0)] | None = key("1 is the posterior")
    clip: Positive | None = key("shorten gradients to this norm, per mean over data; biased")
    chain_method: Literal["vmap", "sequential"] = key("chains all at once, or one by one", "vmap")


KEYS = {each.name: each for each in fields(Config)}
TEXTS = (  # `--target 8` is the name "8"
    *("data", "target", "model", "formula", "out", "prior", "budget", "word"),
)
LISTS = ("features", "na")
# keys of earlier versions -> what to write in their place
OLD_KEYS = {
    "prior_variance": "Write a prior by name: prior_variance = 4 is --prior 'normal(0, 2)'.",
    "noise_variance": "The noise of a number is sampled with the other parameters. Leave it out.",
    "intercept": "Every model has an intercept, with a prior of its own. Leave it out.",
    "standardise": "Effects are reported in the columns' own units, too. Leave it out.",
}
SWITCHES = ("intercept", "standardise")  # which were written --no-KEY
