"""`vrsgmcmc data`: the data sets that do not come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrsgmcmc.cli.options import say
from vrsgmcmc.cli.parser import Parser, did_you_mean
from vrsgmcmc.datasets import CATALOGUE

if TYPE_CHECKING:
    from vrsgmcmc.datasets import Dataset, File

WRONG = 2


def data(words: list[str]) -> int:
    parser = Parser(
        "data",
        "list: the data sets, their licences, and where they are on this machine.\n"
        "get: download what is missing. verify: compare every file with its sha256.",
        epilog="data sets:\n"
        + "\n".join(f"  {known.name:10}  {known.title}" for known in CATALOGUE.values())
        + "\n  pima        comes with the package",
    )
    actions = {"list": show, "get": get, "verify": verify}
    parser.add_argument("action", choices=actions, metavar="list|get|verify")
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets; all stands for all")
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder of data sets to look at, or to get them into; else the environment variable "
        "VRSGMCMC_DATA, and the user's cache",
    )
    given = parser.read(words)
    names = dict.fromkeys(given.get("names", []))
    chosen = [*CATALOGUE.values()] if "all" in names else [named(name) for name in names]
    return actions[given["action"]](chosen, given)


def named(name: str) -> Dataset:
    if name == "pima":
        raise ValueError("pima comes with the package: vrsgmcmc.datasets.pima() has it.")
    if name not in CATALOGUE:
        hint = did_you_mean(name, CATALOGUE)
        raise ValueError(f"unknown data set {name!r}.{hint} See vrsgmcmc data list.")
    return CATALOGUE[name]


def look(known: Dataset, given: dict[str, Any]) -> dict[str, Path]:
    from vrsgmcmc.datasets import find, places

    return find(known, places(given.get("data_dir")))


def show(chosen: list[Dataset], given: dict[str, Any]) -> int:
    rows = [("data set", "size", "licence", "where")]
    for known in chosen or CATALOGUE.values():
        found = look(known, given)
        folders = ", ".join(dict.fromkeys(str(path.parent) for path in found.values()))
        part = (
            ""
            if len(found) == len(known.files)
            else f"{len(found)} of {len(known.files)} files in "
        )
        size = f"{known.length / 1e6:.1f} MB"
        rows.append((known.name, size, known.licence, part + folders if found else "-"))
    if not chosen:
        rows.append(("pima", "23 kB", "none stated; copies say CC0", "in the package"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, size, licence, where in rows:
        print(f"{name:{widths[0]}}  {size:>{widths[1]}}  {licence:{widths[2]}}  {where}")
    return 0


def get(chosen: list[Dataset], given: dict[str, Any]) -> int:
    if not chosen:
        raise ValueError(f"get what? Name data sets: {', '.join(CATALOGUE)}, or all.")
    from vrsgmcmc.datasets import obtain

    problems = 0
    for known in chosen:
        say(f"{known.title}; licence: {known.licence}")
        try:
            found = obtain(known, into=given.get("data_dir"))
        except (KeyboardInterrupt, SystemExit) as stopped:
            stopped.add_note("The same command goes on behind what has been kept.")
            raise
        for file in known.files:
            problems += judged(file, found[file.name])
    return WRONG if problems else 0


def verify(chosen: list[Dataset], given: dict[str, Any]) -> int:
    problems = count = 0
    for known in chosen or CATALOGUE.values():
        found = look(known, given)
        for file in known.files if chosen or found else ():
            count += 1
            problems += judged(file, found.get(file.name), ": as published")
    if not count:
        print("There is no data set on this machine. See vrsgmcmc data get --help.")
    return WRONG if problems else 0


def judged(file: File, path: Path | None, praise: str = "") -> int:
    """1 if something is wrong with a file, else 0; either is said."""
    problem = problem_of(file, path)
    if problem is None:
        print(f"{path}{praise}")
        return 0
    say(f"vrsgmcmc: {problem}")
    return 1


def problem_of(file: File, path: Path | None) -> str | None:
    """What is wrong with a file; None: nothing."""
    if path is None:
        return f"{file.name} is missing."
    try:
        if path.suffix == ".npz":
            from vrsgmcmc.datasets import from_npz

            from_npz(path)
        else:
            from vrsgmcmc.datasets import content

            content(file, path)
    except ValueError as error:
        return str(error)
    return None
