"""Check plain arguments. Messages say what was wrong, what was got and what to do."""

import difflib
import math
import operator
from collections.abc import Iterable


def is_truth(value: object) -> bool:
    """Whether a value, or an array, is true or false: no number, though float() takes it."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"


def number(where: str, name: str, value: object) -> float:
    """A finite number, as a float."""
    try:
        result = math.nan if is_truth(value) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        result = math.nan
    if not math.isfinite(result):
        raise ValueError(f"{where}({name}={value!r}): {name} must be a finite number.")
    return result


def positive(where: str, name: str, value: object) -> float:
    if (result := number(where, name, value)) <= 0:
        raise ValueError(f"{where}({name}={value!r}): {name} must be positive.")
    return result


def non_negative(where: str, name: str, value: object) -> float:
    if (result := number(where, name, value)) < 0:
        raise ValueError(f"{where}({name}={value!r}): {name} must be 0 or more.")
    return result


def whole(where: str, name: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least`, as an int."""
    try:
        result = None if is_truth(value) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        result = None
    if result is None or result < least:
        raise ValueError(
            f"{where}({name}={value!r}): {name} must be a whole number, at least {least}."
        )
    return result


def one_of(where: str, name: str, value: object, choices: Iterable[str]) -> str:
    choices = list(choices)
    if value in choices:
        return str(value)
    listed = [repr(choice) for choice in choices]
    hint = did_you_mean(repr(value), listed)
    raise ValueError(f"{where}({name}={value!r}): {name} must be one of {', '.join(listed)}.{hint}")


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The hint " Did you mean X?" with the most similar choice; empty if none is similar."""
    near = difflib.get_close_matches(word[:100], list(choices), n=1)  # long words take long
    return f" Did you mean {near[0]}?" if near else ""
