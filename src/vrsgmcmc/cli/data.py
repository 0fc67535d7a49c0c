"""`vrsgmcmc data`: the data sets that do not come with the package."""

from pathlib import Path

from vrsgmcmc import datasets
from vrsgmcmc.core import did_you_mean
from vrsgmcmc.datasets import CATALOGUE, Dataset, File, find, places

from .options import say
from .parser import Parser

WRONG = 2


def data(words: list[str]) -> int:
    parser = Parser(
        "data",
        "list: the data sets, their licences, and where they are on this machine.\n"
        "get: download what is missing. verify: compare every file with its sha256.",
        epilog="data sets:\n"
        + "\n".join(f"  {each.name:10}  {each.title}" for each in CATALOGUE.values())
        + "\n  pima        comes with the package",
    )
    actions = {"list": show, "get": get, "verify": verify}
    parser.add_argument("action", choices=actions, metavar="list|get|verify")
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets; all stands for all")
    parser.add_folder(
        "--data-dir",
        "of data sets to look at, or to get them into; else the environment variable "
        "VRSGMCMC_DATA, and the user's cache",
    )
    options = parser.read(words)
    names = dict.fromkeys(options.get("names", []))
    selection = [*CATALOGUE.values()] if "all" in names else [look_up(name) for name in names]
    problems = actions[options["action"]](selection, options.get("data_dir"))
    return WRONG if problems else 0


def look_up(name: str) -> Dataset:
    if name == "pima":
        raise ValueError("pima comes with the package: vrsgmcmc.datasets.pima() has it.")
    if name not in CATALOGUE:
        hint = did_you_mean(name, CATALOGUE)
        raise ValueError(f"unknown data set {name!r}.{hint} See vrsgmcmc data list.")
    return CATALOGUE[name]


def show(selection: list[Dataset], data_dir: Path | None) -> int:
    rows = [("data set", "size", "licence", "where")]
    for dataset in selection or CATALOGUE.values():
        paths, count = find(dataset, places(data_dir)), len(dataset.files)
        where = ", ".join(dict.fromkeys(str(path.parent) for path in paths.values())) or "-"
        if 0 < len(paths) < count:
            where = f"{len(paths)} of {count} files in {where}"
        rows.append((dataset.name, f"{dataset.length / 1e6:.1f} MB", dataset.licence, where))
    if not selection:
        rows.append(("pima", "23 kB", "none stated; copies say CC0", "in the package"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, size, licence, where in rows:
        print(f"{name:{widths[0]}}  {size:>{widths[1]}}  {licence:{widths[2]}}  {where}")
    return 0


def get(selection: list[Dataset], data_dir: Path | None) -> int:
    if not selection:
        raise ValueError(f"get what? Name data sets: {', '.join(CATALOGUE)}, or all.")
    problems = 0
    for dataset in selection:
        say(f"{dataset.title}; licence: {dataset.licence}")
        try:
            paths = datasets.obtain(dataset, into=data_dir)
        except (KeyboardInterrupt, SystemExit) as error:
            error.add_note("The same command goes on behind what has been kept.")
            raise
        problems += sum(report(file, paths[file.name]) for file in dataset.files)
    return problems


def verify(selection: list[Dataset], data_dir: Path | None) -> int:
    problems = count = 0
    for dataset in selection or CATALOGUE.values():
        paths = find(dataset, places(data_dir))
        for file in dataset.files if selection or paths else ():
            count += 1
            problems += report(file, paths.get(file.name), ": as published")
    if not count:
        print("There is no data set on this machine. See vrsgmcmc data get --help.")
    return problems


def report(file: File, path: Path | None, praise: str = "") -> bool:
    """Verify a file and print the result; returns whether something is wrong with it."""
    try:
        if path is None:
            raise ValueError(f"{file.name} is missing.")
        datasets.from_npz(path) if path.suffix == ".npz" else datasets.content(file, path)
    except ValueError as error:
        say(f"vrsgmcmc: {error}")
        return True
    print(f"{path}{praise}")
    return False
