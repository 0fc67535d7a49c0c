"""The options that describe a run: every key of a configuration is a flag."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrsgmcmc.cli import configuration
from vrsgmcmc.cli.parser import Parser

if TYPE_CHECKING:
    from vrsgmcmc.cli.configuration import Config

SWITCHES = ("standardise", "intercept")


def run_parser(command: str, description: str) -> Parser:
    """FILE is a table or a configuration; flags and --set say more, or change what a file says."""
    parser = Parser(command, description)
    parser.add_argument("file", metavar="FILE", help="CONFIG.toml, or a table: .csv, .npz, .npy")
    parser.add_argument(
        "--set",
        action="append",
        metavar="KEY=VALUE",
        help="any key below, with the value as in TOML: --set step_size=1e-3",
    )
    group = parser.add_argument_group("keys of a configuration, with their defaults")
    for name, key in configuration.KEYS.items():
        if name == "data":
            continue
        help = key.metadata["help"].replace("%", "%%")
        if key.default not in (None, ()):
            help += f" ({key.default})"
        if name in SWITCHES:
            group.add_argument(
                f"--no-{name}", dest=name, action="store_false", help=f"do not {help}"
            )
            continue
        group.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            metavar="|".join(configuration.choices(name)) or name.split("_")[-1].upper(),
            nargs="+" if name == "features" else None,
            action="append" if name != "features" else "store",
            help=help,
        )
    return parser


def read_config(given: dict[str, Any]) -> Config:
    """The configuration that a file, its flags and --set make together."""
    path = Path(given.pop("file"))
    sets = configuration.read_sets(given.pop("set", []))
    flags = {name: flag(name, value) for name, value in given.items()}
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
    return configuration.checked(
        {**values, **sets, **flags}, own_model=names_code(flags.get("model"))
    )


def names_code(model: Any) -> bool:
    return isinstance(model, str) and ":" in model


def flag(name: str, value: Any) -> Any:
    """What a flag says; given twice it is refused."""
    if name in SWITCHES or name == "features":
        return value
    if len(value) > 1:
        raise ValueError(f"--{name.replace('_', '-')} is given twice. Keep one of them.")
    return configuration.read_value(name, value[0])


def out_of(config: Config) -> Path:
    return config.out or Path(f"{config.data.stem}-run")


def command_of(name: str, words: list[str]) -> str:
    """The command as it was given, without the path of the user's home."""
    from vrsgmcmc.run.store import without_home

    return without_home(shlex.join(["vrsgmcmc", name, *words]))


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
