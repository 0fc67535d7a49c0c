"""The configuration of a run: one flat list of keys, the same in a TOML file, in `--set` and as flags.

    data = "patients.csv"
    target = "outcome"
    model = "logistic"
    step_size = 1e-3

A key that is unknown, given twice or of the wrong kind is refused in words. A configuration is data:
nothing in it is ever imported or run.
"""
# ruff: noqa: RUF009 - `key` makes a dataclass field, as `field` does

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MinLen

MODELS = ("logistic", "softmax", "linear", "mlp")
OWN = "own"  # what a record says of a model that came from a file of the user's
LARGEST_CONFIG = 2**20  # bytes

Count = Annotated[int, Ge(1), Le(2**30)]
Positive = Annotated[float, Gt(0)]
Fraction = Annotated[float, Gt(0), Lt(1)]
Name = Annotated[str, MinLen(1)]
Order = Literal["with_replacement", "without_replacement", "shuffled", "symmetric"]


def key(help: str, default: Any = None) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Config:
    """What to sample, how, and where the results go. None: chosen for the data, and recorded."""

    data: Path = key("a table: .csv with a header, .npz with arrays, or .npy")
    target: Name = key("the column to predict")
    model: str = key("logistic, softmax, linear or mlp; on the command line also FILE.py:FUNCTION")
    out: Path | None = key("directory of the run (default: the name of the data, with -run)")
    seed: Annotated[int, Ge(0), Lt(2**32)] = key("of the split, the start and the chains", 0)

    features: tuple[Name, ...] = key("the columns to predict from (default: all others)", ())
    task: Literal["classification", "regression"] | None = key(
        "for mlp and your own model (default: told by the target column)"
    )
    missing: Literal["refuse", "drop"] = key("what to do with rows that have empty cells", "refuse")
    standardise: bool = key("bring columns to mean 0 and standard deviation 1", True)
    intercept: bool = key("add a column of ones (logistic, linear)", True)
    test_fraction: Fraction = key("of the rows, kept for testing", 0.2)

    prior_variance: Positive = key("of every parameter, whose prior is normal around 0", 1.0)
    noise_variance: Positive | None = key(
        "of the standardised target, in linear and mlp regression (default: as least squares finds it)"
    )
    hidden: Count = key("units in the hidden layer of mlp", 50)

    budget: Name | None = key(
        "of the plan that chooses the settings below when step_size is not given: '200 passes', "
        "'60 s', '5 min' (default: 2000 passes, at most 1e8 evaluations)"
    )
    step_size: Positive | None = key("h, for the gradient of the sum over data")
    estimator: (
        Literal["practical", "minibatch", "full", "svrg", "saga", "control_variate"] | None
    ) = key("of the gradient (default with a step size: practical)")
    anchor_size: Count | None = key("n1, data of a refresh (practical)")
    period: Count | None = key("m, steps between refreshes (practical, svrg)")
    batch_size: Count | None = key("n2, data of a step")
    integrator: Literal["sgld", "psgld", "sghmc", "sgnht", "splitting"] | None = key(
        "the dynamics (default with a step size: sgld)"
    )
    friction: Positive | None = key("of sghmc, sgnht and splitting")
    word: Name | None = key("of splitting, such as BAOAB")
    order: Order | None = key("how minibatches are drawn")
    anchor_order: Order | None = key("how the data of refreshes are drawn")
    num_steps: Count | None = key("of every chain, burn-in included")

    num_chains: Count = key("independent chains", 4)
    burn_in: Annotated[int, Ge(0)] | None = key(
        "steps to leave out (default: a fifth, none after a plan)"
    )
    thin: Count | None = key(
        "keep every so many-th position (default: about 1000 draws of a chain)"
    )
    temperature: Annotated[float, Ge(0)] | None = key("1 is the posterior")
    clip: Positive | None = key("shorten gradients to this norm, per mean over data; biased")
    chain_method: Literal["vmap", "sequential"] = key("chains all at once, or one by one", "vmap")


KEYS = {each.name: each for each in fields(Config)}
REQUIRED = ("data", "target", "model")
TEXTS = ("data", "target", "model", "out", "budget", "word")  # `--target 8` is the name "8"
# what a plan chooses; with a step size they are yours
PLANNED = (
    *("estimator", "anchor_size", "period", "batch_size", "order", "anchor_order", "num_steps"),
    *("integrator", "friction", "word", "temperature", "clip"),
)


def choices(name: str) -> tuple[str, ...]:
    """The words that a key can take, when these are its only values."""
    kinds = get_type_hints(Config)[name]
    kinds = get_args(kinds) if get_origin(kinds) is not Literal else (kinds,)
    return next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())


def read_toml(path: Path) -> dict[str, Any]:
    """The keys of a file, before they are looked at; paths are meant relative to the file."""
    with path.open("rb") as file:
        content = file.read(LARGEST_CONFIG + 1)
    if len(content) > LARGEST_CONFIG:
        raise ValueError(f"{path} is larger than {LARGEST_CONFIG:,} bytes: no configuration.")
    try:
        found = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {toml_problem(str(error))}") from error
    except RecursionError:
        raise ValueError(f"{path}: its lists or tables are nested too deep.") from None
    for name in ("data", "out"):
        if isinstance(found.get(name), str):
            found[name] = os.path.join(path.parent, found[name])
    model = found.get("model")
    if isinstance(model, str) and model not in MODELS and ":" in model:
        raise ValueError(
            f"{path}: model = {model!r} names code, and a configuration cannot: leave it out and say "
            f"--model {model} on the command line."
        )
    return found


def toml_problem(text: str) -> str:
    if text.startswith("Cannot overwrite a value") or text.startswith("Cannot declare"):
        return f"a key is given twice ({text}). Keep one of them."
    return f"this is no TOML: {text}. A line looks like: num_chains = 4"


def read_sets(pairs: Iterable[str]) -> dict[str, Any]:
    """`key=value` words; a value is written as in TOML, or is plain text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ValueError(f"--set {pair}: write --set KEY=VALUE.")
        if name in found:
            raise ValueError(f"--set {name} is given twice. Keep one of them.")
        found[name] = read_value(name, value)
    return found


def read_value(name: str, text: str) -> Any:
    """A value as TOML writes it; text needs no quotes."""
    try:
        value = tomllib.loads(f"x = {text.strip()}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    plain = list(value) == ["x"] and (isinstance(value["x"], str) or name not in TEXTS)
    return value["x"] if plain else text


def checked(values: Mapping[str, Any], own_model: bool = False) -> Config:
    """A configuration whose every key is known and of the right kind, or `ValueError`.

    `own_model`: the model may be a file of the user's, because the command line says so.
    """
    for name in values:
        if name not in KEYS:
            near = difflib.get_close_matches(str(name), list(KEYS), n=1)
            hint = f" Did you mean {near[0]}?" if near else f" The keys are: {', '.join(KEYS)}."
            raise ValueError(f"unknown key {name!r}.{hint}")
    for name in REQUIRED:
        if values.get(name) is None:
            raise ValueError(f"{name} is not given: it is {KEYS[name].metadata['help']}.")
    config = typed(values)
    if config.model not in MODELS and not own_model:
        near = difflib.get_close_matches(config.model, MODELS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"model: must be one of {', '.join(MODELS)}, got {config.model!r}.{hint} Your own is named "
            "on the command line: --model FILE.py:FUNCTION."
        )
    check_together(config)
    return config


def typed(values: Mapping[str, Any]) -> Config:
    from pydantic import ConfigDict, ValidationError, create_model

    hints = get_type_hints(Config, include_extras=True)
    strict = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid", frozen=True)
    definitions: Any = {name: (hints[name], each.default) for name, each in KEYS.items()}
    model = create_model("Config", __config__=strict, **definitions)
    kinds = {"data": (str, Path), "out": (str, Path), "features": (list, tuple)}
    ready = {
        name: kinds[name][1](value) if isinstance(value, kinds.get(name, ())) else value
        for name, value in values.items()
    }
    try:
        return Config(**dict(model(**ready)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        raise ValueError(f"{name}: {wanted(name, first)}, got {shown(values[name])}.") from None


def wanted(name: str, problem: Mapping[str, Any]) -> str:
    """What a key must be, in our words where pydantic's are about types."""
    if words := choices(name):
        near = difflib.get_close_matches(str(problem["input"]), words, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"must be one of {', '.join(words)}{hint}"
    kind = problem["type"]
    if kind.startswith("int"):
        return "must be a whole number"
    if kind.startswith(("float", "finite")):
        return "must be a finite number"
    if kind.startswith("bool"):
        return "must be true or false"
    if kind.startswith(("string_type", "is_instance_of")):
        return "must be text"
    if kind.startswith(("tuple", "list")):
        return "must be a list of names"
    return (
        problem["msg"].replace("Input should be", "must be").replace("String should have", "needs")
    )


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def check_together(config: Config) -> None:
    """Keys that mean something only beside another one."""
    given = [name for name in PLANNED if getattr(config, name) is not None]
    if config.step_size is None and given:
        raise ValueError(
            f"{given[0]} is given, but no step_size. Without one, a plan chooses {', '.join(PLANNED)}: "
            f"give step_size too, or leave out {', '.join(given)}."
        )
    if config.step_size is not None and config.budget is not None:
        raise ValueError(
            "budget is for the plan that is made when step_size is not given. Give one of them; the "
            "length of a run with a step size is num_steps."
        )
    estimator, integrator = config.estimator or "practical", config.integrator or "sgld"
    for name, where, chosen, owners in (
        ("anchor_size", "estimator", estimator, ("practical",)),
        ("period", "estimator", estimator, ("practical", "svrg")),
        ("friction", "integrator", integrator, ("sghmc", "sgnht", "splitting")),
        ("word", "integrator", integrator, ("splitting",)),
    ):
        if getattr(config, name) is not None and chosen not in owners:
            raise ValueError(
                f"{name} belongs to {where} {' or '.join(owners)}, and the {where} is {chosen}. "
                f"Leave it out, or choose another {where}."
            )
    if integrator in ("sghmc", "sgnht", "splitting") and config.friction is None:
        raise ValueError(f"integrator {integrator} needs a friction, such as friction = 1.0.")
    if config.target in config.features:
        raise ValueError(f"target {config.target!r} is also in features. Leave it out there.")
    twice = [name for name in config.features if config.features.count(name) > 1]
    if twice:
        raise ValueError(f"features: {twice[0]!r} is given twice. Keep one of them.")


def plain(config: Config) -> dict[str, Any]:
    """A configuration as JSON can hold it; of paths only the last name, of code nothing."""
    values = asdict(config)
    values["data"] = config.data.name
    values["out"] = None
    values["features"] = list(config.features)
    values["model"] = config.model if config.model in MODELS else OWN
    return values
