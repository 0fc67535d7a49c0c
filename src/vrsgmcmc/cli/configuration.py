"""The configuration of a run: one flat list of keys, the same in a TOML file, in `--set` and as flags.

    data = "patients.csv"
    target = "outcome"
    step_size = 1e-3

An unknown key, a key that occurs twice and a value of the wrong type are errors. A configuration is
data: nothing in it is ever imported or run. `keys` has the keys, `methods` what belongs to a method.
"""

import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, cast, get_type_hints

from vrsgmcmc.core import did_you_mean

from .keys import KEYS, LISTS, MODELS, MOST_CHOSEN, OLD_KEYS, OWN, PRIORS, TEXTS, Config
from .methods import METHODS, check_method, choices
from .toml import parse_toml

LARGEST_CONFIG = 2**20  # bytes
CALL = re.compile(r"(\w+)\s*(?:\(.*\))?", re.DOTALL)  # of a prior: its name, and numbers


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
        if name in OLD_KEYS:
            raise ValueError(f"{name} is a key of earlier versions. {OLD_KEYS[name]}")
        if name not in KEYS:
            hint = did_you_mean(str(name), KEYS) or f" The keys are: {', '.join(KEYS)}."
            raise ValueError(f"unknown key {short_text(name)}.{hint}")
    for name in ("data", "target"):
        if values.get(name) is None and (name == "data" or values.get("formula") is None):
            more = ". A formula names it, too" * (name == "target")
            raise ValueError(f"{name} is not given: it is {KEYS[name].metadata['help']}{more}.")
    config = convert(values)
    check_model(config, own_model)
    check_combinations(config)
    return config


def check_model(config: Any, own_model: bool) -> None:
    if config.model not in (None, *MODELS) and not own_model:
        raise ValueError(
            f"model: must be one of {', '.join(MODELS)}, got {config.model!r}."
            f"{did_you_mean(config.model, MODELS)} Your own is named on the command line: "
            "--model FILE.py:FUNCTION."
        )


def convert(values: Mapping[str, Any], kind: type[Config] = Config) -> Config:
    """The configuration with these values, each of the type of its key."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    hints, literal = get_type_hints(kind, include_extras=True), cast(Any, Literal)
    hints |= {each: literal[choices(each)] | None for each in METHODS}
    strict = ConfigDict(strict=True, allow_inf_nan=False)
    types: dict[str, Any] = {"data": (str, Path), "out": (str, Path)} | dict.fromkeys(
        LISTS, (list, tuple)
    )
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
    return kind(**arguments)


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
    if config.formula is not None and config.features:
        raise ValueError("a formula names its columns: give formula or features, not both.")
    if config.target in config.features:
        raise ValueError(f"target {config.target!r} is also in features. Leave it out there.")
    for name in LISTS:
        counts = Counter(getattr(config, name))
        if twice := [each for each, count in counts.items() if count > 1]:
            raise ValueError(f"{name}: {twice[0]!r} is given twice. Keep one of them.")
    if len(config.na) > MOST_CHOSEN:
        raise ValueError(f"na: at most {MOST_CHOSEN} codes, got {len(config.na)}.")
    check_prior(config)
    check_task(config)


def check_prior(config: Config) -> None:
    """Refuse a prior of another name; its numbers are looked at where it is made."""
    if config.prior is None:
        return
    if config.model == "mlp" or names_code(config.model):
        what = "has N(0, 1) on every weight" if config.model == "mlp" else "has a prior of its own"
        raise ValueError(f"prior: the model {config.model} {what}. Leave prior out.")
    names = [form.split("(")[0] for form in PRIORS]
    match = CALL.fullmatch(config.prior.strip().lower())
    word = match[1] if match else config.prior.strip()
    if word not in names:
        raise ValueError(
            f"prior: must be one of {', '.join(PRIORS)}, got {short_text(config.prior)}."
            f"{did_you_mean(word, names)}"
        )


def check_task(config: Config) -> None:
    """Refuse a task where the model says it already."""
    if config.task is not None and config.model in MODELS and config.model != "mlp":
        raise ValueError(
            f"task: model {config.model} says what its target is. Leave task out, or use --model mlp."
        )
    if config.task is not None and config.model is None:
        raise ValueError("task is for mlp and your own model. Say --model, or leave task out.")


def to_json(config: Config) -> dict[str, Any]:
    """A configuration as plain values; of paths only the last name, of code nothing."""
    return asdict(config) | {
        "data": config.data.name,
        "out": None,
        **{name: list(getattr(config, name)) for name in LISTS},
        "model": config.model if config.model in (None, *MODELS) else OWN,
    }
