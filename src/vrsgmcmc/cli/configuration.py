"""The configuration of a run: one flat list of keys, the same in a TOML file, in `--set` and as flags.

    data = "patients.csv"
    target = "outcome"
    model = "logistic"
    step_size = 1e-3

An unknown key, a key that occurs twice and a value of the wrong type are errors. A configuration is
data: nothing in it is ever imported or run. The choices of `estimator` and `integrator`, and the keys
that belong to a method, come from the method tables of `core`.
"""
# ruff: noqa: RUF009 - `key` makes a dataclass field, as `field` does

import inspect
import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from vrsgmcmc.core import ESTIMATORS, INTEGRATORS, did_you_mean

from .toml import parse_toml

METHODS = {"estimator": ESTIMATORS, "integrator": INTEGRATORS}
# methods that lists begin with; the first of a kind is the default
FIRST = ("practical", "minibatch", "sgld")
MODELS = ("logistic", "softmax", "linear", "mlp")
WORD = "BAOAB"  # the default of splitting
OWN = "own"  # the model in a record when it comes from a file of the user's
LARGEST_CONFIG = 2**20  # bytes

Count = Annotated[int, Ge(1), Le(2**30)]
Positive = Annotated[float, Gt(0)]
Fraction = Annotated[float, Gt(0), Lt(1)]
Name = Annotated[str, MinLen(1), MaxLen(1000)]
Order = Literal["with_replacement", "without_replacement", "shuffled", "symmetric"]


def key(help: str, default: Any = None) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Config:
    """What to sample, how, and where the results go. A job replaces None by a value for its data."""

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
REQUIRED = ("data", "target", "model")
TEXTS = ("data", "target", "model", "out", "budget", "word")  # `--target 8` is the name "8"


def choices(name: str) -> tuple[str, ...]:
    """The words that a key can take, when these are its only values."""
    if name in METHODS:
        names = set(METHODS[name]) - {"ito"}  # which takes functions
        return (*(each for each in FIRST if each in names), *sorted(names - {*FIRST}))
    hint = get_type_hints(Config)[name]  # Literal[...], or Literal[...] | None
    return next((get_args(t) for t in (hint, *get_args(hint)) if get_origin(t) is Literal), ())


def method(config: Config, kind: str) -> dict[str, Any]:
    """The estimator or integrator as plain values: its name, and the options that are set."""
    name = getattr(config, kind) or choices(kind)[0]
    values = {"word": WORD} | {k: v for k, v in vars(config).items() if v is not None}
    return {"name": name} | {k: values[k] for k in parameters(kind, name) if k in values}


def parameters(kind: str, name: str) -> Mapping[str, inspect.Parameter]:
    """The parameters of a method by name. Imports the method, and so JAX."""
    takes = inspect.signature(METHODS[kind][name]).parameters
    return {each: takes[each] for each in takes if each != "order"}  # a key: of the minibatches


def read_toml(path: Path) -> dict[str, Any]:
    """The keys of a file, not yet validated; paths are relative to the file."""
    with path.open("rb") as file:
        content = file.read(LARGEST_CONFIG + 1)
    if len(content) > LARGEST_CONFIG:
        raise ValueError(f"{path} is larger than {LARGEST_CONFIG:,} bytes: no configuration.")
    try:
        values = parse_toml(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        problem = f"this is no TOML: {error}. A line looks like: num_chains = 4"
        if str(error).startswith(("Cannot overwrite a value", "Cannot declare")):
            problem = f"a key is given twice ({error}). Keep one of them."
        raise ValueError(f"{path}: {problem}") from error
    except RecursionError:
        raise ValueError(f"{path}: its lists or tables are nested too deep.") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    for name in ("data", "out"):
        if isinstance(values.get(name), str):
            values[name] = os.path.join(path.parent, values[name])
    model = values.get("model")
    if names_code(model):
        raise ValueError(
            f"{path}: model = {model!r} names code, and a configuration cannot: leave it out and say "
            f"--model {model} on the command line."
        )
    return values


def names_code(model: Any) -> bool:
    """Whether a model is FILE.py:FUNCTION, not one of `MODELS`."""
    return isinstance(model, str) and ":" in model


def read_sets(pairs: Iterable[str]) -> dict[str, Any]:
    """The keys of `key=value` words; a value is written as in TOML, or is plain text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ValueError(f"--set {pair}: write --set KEY=VALUE.")
        if name in values:
            raise ValueError(f"--set {name} is given twice. Keep one of them.")
        values[name] = read_value(name, value)
    return values


def read_value(name: str, text: str) -> Any:
    """A value as TOML writes it; text needs no quotes."""
    try:
        value = parse_toml(f"x = {text.strip()}")
    except (ValueError, RecursionError):
        return text
    plain = list(value) == ["x"] and (isinstance(value["x"], str) or name not in TEXTS)
    return value["x"] if plain else text


def validate(values: Mapping[str, Any], own_model: bool = False) -> Config:
    """The configuration with these values; `ValueError` for an unknown key or a wrong value.

    `own_model`: the model may be a file of the user's, because the command line names it.
    """
    for name in values:
        if name not in KEYS:
            hint = did_you_mean(str(name), KEYS) or f" The keys are: {', '.join(KEYS)}."
            raise ValueError(f"unknown key {short_text(name)}.{hint}")
    for name in REQUIRED:
        if values.get(name) is None:
            raise ValueError(f"{name} is not given: it is {KEYS[name].metadata['help']}.")
    config = convert(values)
    if config.model not in MODELS and not own_model:
        raise ValueError(
            f"model: must be one of {', '.join(MODELS)}, got {config.model!r}."
            f"{did_you_mean(config.model, MODELS)} Your own is named on the command line: "
            "--model FILE.py:FUNCTION."
        )
    check_combinations(config)
    return config


def convert(values: Mapping[str, Any]) -> Config:
    """The configuration with these values, each of the type of its key."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    hints, literal = get_type_hints(Config, include_extras=True), cast(Any, Literal)
    hints |= {kind: literal[choices(kind)] | None for kind in METHODS}
    strict = ConfigDict(strict=True, allow_inf_nan=False)
    types = {"data": (str, Path), "out": (str, Path), "features": (list, tuple)}
    arguments = {}
    for name, value in values.items():
        if name in ("data", "out") and "\0" in str(value):
            raise ValueError(f"{name}: a name of a file has no null character, got {value!r}.")
        plain = types[name][1](value) if isinstance(value, types.get(name, ())) else value
        try:
            arguments[name] = TypeAdapter(hints[name], config=strict).validate_python(plain)
        except ValidationError as error:
            raise ValueError(
                f"{name}: {requirement(name, error)}, got {short_text(value)}."
            ) from None
    return Config(**arguments)


def short_text(value: Any) -> str:
    """A value as its repr, of at most 80 characters."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of over 4300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= 80 else text[:77] + "..."


def requirement(name: str, error: Any) -> str:
    """What a key must be, in our words where pydantic's are about types."""
    problem = error.errors(include_url=False)[0]
    if words := choices(name):
        hint = did_you_mean(short_text(problem["input"]).strip("'"), words)
        return f"must be one of {', '.join(words)}" + (f" (d{hint[2:]})" if hint else "")
    kinds = {
        "int": "must be a whole number",
        ("float", "finite"): "must be a finite number",
        "bool": "must be true or false",
        ("string_type", "is_instance_of"): "must be text",
        ("tuple", "list"): "must be a list of names",
    }
    for prefix, text in kinds.items():
        if problem["type"].startswith(prefix):
            return text
    text = problem["msg"].replace("Input should be", "must be")
    return text.replace("String should have", "needs")


def check_combinations(config: Config) -> None:
    """Refuse keys that contradict each other."""
    for name in ("budget", "ess"):
        if config.step_size is not None and getattr(config, name) is not None:
            raise ValueError(
                f"{name} is for a run whose step_size is not given. Leave one of them out; the length "
                "of a run with a step size is num_steps."
            )
    for kind in METHODS:
        check_method(config, kind)
    if config.target in config.features:
        raise ValueError(f"target {config.target!r} is also in features. Leave it out there.")
    twice = [name for name, count in Counter(config.features).items() if count > 1]
    if twice:
        raise ValueError(f"features: {twice[0]!r} is given twice. Keep one of them.")


def check_method(config: Config, kind: str) -> None:
    """Refuse keys of another method, and a method without a key that it needs."""
    options = method(config, kind)
    name = options["name"]
    chosen = config.step_size is None and getattr(config, kind) is None  # by the library
    table = {each: parameters(kind, each) for each in choices(kind)}
    for option in KEYS:
        owners = [each for each, takes in table.items() if option in takes]
        if not owners or getattr(config, option) is None:
            continue
        if chosen:
            raise ValueError(
                f"{option} belongs to {kind} {' or '.join(owners)}, and no {kind} is given. Give it "
                f"too, or leave {option} out."
            )
        if name not in owners:
            raise ValueError(
                f"{option} belongs to {kind} {' or '.join(owners)}, and the {kind} is {name}. "
                f"Leave it out, or choose another {kind}."
            )
    if chosen:
        return
    for option, parameter in table[name].items():
        if parameter.default is parameter.empty and option not in options:  # all are numbers
            example = 5 if parameter.annotation is int else 1.0
            raise ValueError(f"{kind} {name} needs a {option}, such as {option} = {example}.")


def to_json(config: Config) -> dict[str, Any]:
    """A configuration as plain values; of paths only the last name, of code nothing."""
    return asdict(config) | {
        "data": config.data.name,
        "out": None,
        "features": list(config.features),
        "model": config.model if config.model in MODELS else OWN,
    }
