"""The choices of `estimator` and `integrator`, and the keys that belong to a method.

They come from the method tables of `core`. The parameters of a method are read in its file, since to
import the method is to import JAX, and a mistyped option is refused before.
"""

import ast
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from vrsgmcmc.core import ESTIMATORS, INTEGRATORS

from .keys import KEYS, Config

METHODS = {"estimator": ESTIMATORS, "integrator": INTEGRATORS}
# methods that lists begin with; the first of a kind is the default
FIRST = ("practical", "minibatch", "sgld")
WORD = "BAOAB"  # the default of splitting


class Parameter(NamedTuple):
    type: str  # as the file has it
    required: bool


def choices(name: str) -> tuple[str, ...]:
    """The words that a key can take, when these are its only values."""
    if name in METHODS:
        names = set(METHODS[name]) - {"ito"}  # which takes functions
        return (*(each for each in FIRST if each in names), *sorted(names - {*FIRST}))
    hint = get_type_hints(Config).get(name)  # Literal[...], or Literal[...] | None
    return next((get_args(t) for t in (hint, *get_args(hint)) if get_origin(t) is Literal), ())


def method(config: Config, kind: str) -> dict[str, Any]:
    """The estimator or integrator as plain values: its name, and the options that are set."""
    name = getattr(config, kind) or choices(kind)[0]
    values = {"word": WORD} | {k: v for k, v in vars(config).items() if v is not None}
    return {"name": name} | {k: values[k] for k in parameters(kind, name) if k in values}


@cache
def parameters(kind: str, name: str) -> Mapping[str, Parameter]:
    """The parameters of a method by name."""
    spec = find_spec(METHODS[kind].package)
    assert spec is not None
    assert spec.origin is not None
    source = (Path(spec.origin).parent / f"{name}.py").read_text(encoding="utf-8")
    function = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    each = [*function.args.posonlyargs, *function.args.args]
    optional = len(function.args.defaults)
    takes = {
        arg.arg: Parameter(ast.unparse(arg.annotation) if arg.annotation else "", required)
        for arg, required in zip(
            each, [True] * (len(each) - optional) + [False] * optional, strict=True
        )
    }
    for arg, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        takes[arg.arg] = Parameter(
            ast.unparse(arg.annotation) if arg.annotation else "", default is None
        )
    return {each: takes[each] for each in takes if each != "order"}  # a key: of the minibatches


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
        if parameter.required and option not in options:  # all are numbers
            example = 5 if parameter.type == "int" else 1.0
            raise ValueError(f"{kind} {name} needs a {option}, such as {option} = {example}.")
