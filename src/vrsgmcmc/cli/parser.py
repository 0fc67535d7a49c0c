"""The words of a command: options that are asked for by their full names, mistakes in a sentence."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A hint to put behind a sentence, or nothing."""
    near = difflib.get_close_matches(word, list(choices), n=1)
    return f" Did you mean {near[0]}?" if near else ""


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

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """The options that were given."""
        given, rest = self.parse_known_args(words)
        if rest:
            known = [option for option in self._option_string_actions if option.startswith("--")]
            name = rest[0].split("=")[0]
            hint = did_you_mean(name, known)
            what = "unknown option" if name.startswith("-") else "one word too many:"
            raise ValueError(f"{what} {rest[0]!r}.{hint} See {self.prog} --help.")
        return vars(given)

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}. See {self.prog} --help.")
