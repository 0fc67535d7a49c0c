"""Cells of text as what they mean: numbers, money, percentages, dates, or nothing.

Only the different cells of a column are looked at, so a million rows of ten levels cost ten readings.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

MISSING_CODES = {"", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "nat", "null", "?", "-", "--", "."}
LONGEST_CELL = 64  # characters of a number or a date
CURRENCY = "[$€£¥₹]|(?:USD|EUR|GBP|CHF|JPY)"
NUMBER = re.compile(
    rf"(?P<open>\()?\s*(?P<sign>[-+\u2212]?)\s*(?P<money>{CURRENCY})?\s*(?P<inner>[-+]?)"
    r"(?P<digits>[0-9][0-9,.'\u00a0\u202f\u2009 ]*|[.,][0-9]+)(?P<power>[eE][-+]?[0-9]{1,3})?"
    rf"\s*(?P<unit>%|{CURRENCY})?\s*(?P<close>\))?"
)
GROUPS = re.compile(r"[0-9]{1,3}([,.'\u00a0\u202f\u2009 ])[0-9]{3}(?:\1[0-9]{3})*")
COMMA = re.compile(r"[-+]?[0-9]*,[0-9]+")
POINTS_COMMA = re.compile(r"[-+]?[0-9]{1,3}(\.[0-9]{3})+,[0-9]+")
THOUSANDS = re.compile(r"[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+")


class Number(NamedTuple):
    value: float
    ways: frozenset[str]  # "money", "percent", "thousands", of how it is written


def is_missing(cell: str, codes: Iterable[str] = ()) -> bool:
    return cell.strip().lower() in MISSING_CODES or cell.strip() in codes


def read_number(cell: str, decimal: str = ".") -> Number | None:
    """The number of a cell (1,151 or $1,151.00 or (12) or 12.5 %), or None if it is none."""
    cell = cell.strip()
    if len(cell) > LONGEST_CELL or not (match := NUMBER.fullmatch(cell)):
        return None
    if bool(match["open"]) != bool(match["close"]) or (
        match["open"] and (match["sign"] or match["inner"])
    ):
        return None  # (12) is how accountants write -12
    digits, ways = match["digits"].strip(), set()
    whole, point, fraction = digits.rpartition(decimal)
    if not point or (decimal in whole):
        whole, fraction = digits, ""
    if fraction and not fraction.isdecimal():
        return None
    if whole and not whole.isdecimal():
        groups = GROUPS.fullmatch(whole)
        if not groups or (groups[1] == decimal and whole.count(decimal) == 1):
            return None
        whole = whole.replace(groups[1], "")
        ways.add("thousands")
    if not (whole or fraction) or (match["sign"] and match["inner"]):
        return None
    value = float(f"{whole or 0}.{fraction or 0}{match['power'] or ''}")
    negative = match["open"] or match["sign"] in ("-", "\u2212") or match["inner"] == "-"
    if match["money"] or match["unit"] not in (None, "%"):
        ways.add("money")
    if match["unit"] == "%":
        ways.add("percent")
    return Number(-value if negative else value, frozenset(ways))


def comma_decimals(sample: Iterable[str]) -> bool:
    """Whether the cells of a file without commas between them have commas before decimals.

    1,5 has one; 1,234 may have, and has unless some cell of the file has a decimal point.
    """
    maybe = points = 0
    for cell in map(str.strip, sample):
        if POINTS_COMMA.fullmatch(cell):
            return True
        if COMMA.fullmatch(cell.rstrip("%€ ")):
            if not THOUSANDS.fullmatch(cell):
                return True
            maybe += 1
        points += bool(re.fullmatch(r"[-+]?[0-9]+\.([0-9]{1,2}|[0-9]{4,})", cell))
    return maybe > 0 and points == 0


ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[-+][0-9:]{4,6})?)?"
)
DAYS = (
    *("%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m-%d-%Y", "%d-%m-%Y"),
    *("%m/%d/%y", "%d/%m/%y", "%d.%m.%y", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y"),
    *("%b %d, %Y", "%B %d, %Y", "%d %B %Y", "%b %d %Y"),
)
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
FORMATS = ("iso", *(day + time for day in DAYS for time in TIMES))


def read_date(cell: str, form: str) -> datetime | None:
    """The moment of a cell, in UTC if it names a zone, or None."""
    cell = cell.strip()
    if len(cell) > LONGEST_CELL:
        return None
    try:
        if form != "iso":
            return datetime.strptime(cell, form)
        if not ISO.fullmatch(cell):
            return None
        moment = datetime.fromisoformat(cell)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        return None


def date_formats(cells: Sequence[str]) -> tuple[str, ...]:
    """The formats that read every cell as a date; two of them if day and month could be exchanged."""
    few = cells[:50]
    if not few or not any(character.isdigit() for character in few[0]):
        return ()
    likely = [form for form in FORMATS if all(read_date(cell, form) for cell in few)]
    return tuple(form for form in likely if all(read_date(cell, form) for cell in cells))


def read_dates(cells: Sequence[str], form: str) -> np.ndarray:
    """The moments of cells, NaT where a cell is no date of this format."""
    return np.array([read_date(cell, form) for cell in cells], "datetime64[ms]")
