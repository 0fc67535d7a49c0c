"""The parser of a command: options have full names, and a mistake is a `ValueError` in a sentence."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from vrsgmcmc.core import did_you_mean

from .endings import HelpRequest


class Parser(argparse.ArgumentParser):
    """argparse, with `ValueError` for mistakes, and a hint when an option is misspelt."""

    def __init__(self, command: str, description: str, **options: Any):
        super().__init__(
            prog=f"vrsgmcmc {command}",
            description=description,
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **options,
        )

    def add_folder(self, name: str, purpose: str, metavar: str = "DIR") -> None:
        self.add_argument(name, type=Path, metavar=metavar, help=f"folder {purpose}")

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """The values of the options that occur in the command."""
        options, rest = self.parse_known_args(words)
        if rest:
            names = [name for name in self._option_string_actions if name.startswith("--")]
            name = rest[0].split("=")[0]
            what = "unknown option" if name.startswith("-") else "one word too many:"
            raise ValueError(
                f"{what} {rest[0]!r}.{did_you_mean(name, names)} See {self.prog} --help."
            )
        return vars(options)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpRequest(status)

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}. See {self.prog} --help.")
