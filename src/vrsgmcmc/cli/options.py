"""Options that several commands share: every key of a configuration is a flag."""

import argparse
import shlex
from pathlib import Path
from typing import Any

from vrsgmcmc import run

from . import configuration
from .keys import KEYS, LISTS, OLD_KEYS, SWITCHES
from .methods import choices
from .parser import Parser
from .terminal import say as say


def read_run(
    command: str, description: str, words: list[str], with_model: bool = True
) -> dict[str, Any]:
    """The options of a command about one run: its directory, and its model if it is the user's."""
    parser = Parser(command, description)
    parser.add_argument("run", metavar="RUN", type=Path, help="the directory of a run")
    if with_model:
        add_model(parser)
    return parser.read(words)


def add_model(parser: Parser) -> None:
    parser.add_argument(
        "--model", metavar="FILE.py:FUNCTION", help="the model, where it is your own: given again"
    )


def read_config(command: str, description: str, words: list[str]) -> configuration.Config:
    """The configuration of a command: a file, with the changes by flags and --set."""
    options = config_parser(command, description).read(words)
    path = Path(options.pop("file"))
    sets = configuration.read_sets(options.pop("set", []))
    flags = {name: flag_value(name, value) for name, value in options.items()}
    twice = sorted(flags.keys() & sets.keys())
    if twice:
        raise ValueError(
            f"--set {twice[0]} and --{twice[0].replace('_', '-')} are both given. Keep one."
        )
    if path.suffix.lower() == ".toml":
        if not path.is_file():
            raise ValueError(f"{path}: no such file.")
        values = configuration.read_toml(path)
    else:
        values = {"data": str(path)}
        if "data" in sets:
            raise ValueError(f"--set data: the data are {path} already. Name one table.")
    if ":" in str(sets.get("model", "")):
        raise ValueError("--set model: code is named by the flag alone: --model FILE.py:FUNCTION.")
    own_model = configuration.names_code(flags.get("model"))
    return configuration.validate({**values, **sets, **flags}, own_model)


def config_parser(command: str, description: str) -> Parser:
    """The parser of a command that takes a configuration: FILE, --set, and a flag for each key."""
    parser = Parser(command, description)
    parser.add_argument(
        "file", metavar="FILE", help="CONFIG.toml, or a table: .csv, .csv.gz, .parquet, .npz, ..."
    )
    parser.add_argument(
        "--set",
        action="append",
        metavar="KEY=VALUE",
        help="any key below, with the value as in TOML: --set step_size=1e-3",
    )
    add = parser.add_argument_group("keys of a configuration, with their defaults").add_argument
    for name, key in KEYS.items():
        if name == "data":
            continue
        help = key.metadata["help"].replace("%", "%%")
        if key.default not in (None, ()):
            help += f" ({key.default})"
        metavar = "|".join(choices(name)) or name.split("_")[-1].upper()
        kind: Any = {"nargs": "+"} if name in LISTS else {"action": "append"}
        add(f"--{name.replace('_', '-')}", metavar=metavar, help=help, **kind)
    for name in OLD_KEYS:  # so that what replaces them can be said
        if name in SWITCHES:
            add(f"--no-{name}", dest=name, action="store_false", help=argparse.SUPPRESS)
        else:
            add(f"--{name.replace('_', '-')}", action="append", help=argparse.SUPPRESS)
    return parser


def flag_value(name: str, value: Any) -> Any:
    """The value of a flag; `ValueError` if the flag occurs twice."""
    if name in LISTS or name in SWITCHES:
        return value
    if len(value) > 1:
        raise ValueError(f"--{name.replace('_', '-')} is given twice. Keep one of them.")
    return configuration.read_value(name, value[0])


def command_line(name: str, words: list[str]) -> str:
    """The command as the user typed it, without the path of the user's home."""
    return run.store.without_home(shlex.join(["vrsgmcmc", name, *words]))
