"""Find the files of a data set on this machine, or download them.

Each data set has a folder of its name. It is looked for in the folder that the caller names, then in
VRSGMCMC_DATA, then in the user's cache. Missing files are downloaded into the cache, unless
VRSGMCMC_OFFLINE is set.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from .catalogue import Dataset, File

DATA, OFFLINE = "VRSGMCMC_DATA", "VRSGMCMC_OFFLINE"


def obtain(
    dataset: Dataset,
    data_dir: str | os.PathLike[str] | None = None,
    into: str | os.PathLike[str] | None = None,
) -> dict[str, Path]:
    """The path of every file of a data set, by name; missing files are downloaded.

    `into`: look in this folder only, and download into it.
    """
    paths = find(dataset, places(data_dir) if into is None else [Path(into)])
    missing = [file for file in dataset.files if file.name not in paths]
    if not missing:
        return paths
    home = cache_dir() if into is None else Path(into)
    if os.environ.get(OFFLINE, "0") not in ("", "0"):
        reason = f"{OFFLINE} forbids to download them."
        raise FileNotFoundError(missing_message(dataset, missing, home, reason))
    from .download import Unavailable, download

    for number, file in enumerate(missing):
        path = home / dataset.name / file.name
        try:
            download(file, path)
        except Unavailable as error:
            reason = f"no mirror has given {file.name}:\n{error}"
            message = missing_message(dataset, missing[number:], home, reason)
            raise FileNotFoundError(message) from error
        paths[file.name] = path
    return paths


def find(dataset: Dataset, folders: Iterable[Path]) -> dict[str, Path]:
    """The paths of those files of a data set that exist, by name; the first folder wins."""
    paths: dict[str, Path] = {}
    for folder in folders:
        for file in dataset.files:
            names = filter(None, (file.name, file.alternative))
            candidates = (folder / dataset.name / name for name in names)
            if path := next(filter(Path.is_file, candidates), None):
                paths.setdefault(file.name, path)
        if len(paths) == len(dataset.files):
            break
    return paths


def places(data_dir: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """The folders that may hold data sets, in the order of the search."""
    for name, folder in (("data_dir", data_dir), (DATA, os.environ.get(DATA) or None)):
        if folder is not None:
            if not Path(folder).is_dir():
                raise ValueError(f"{name}={os.fspath(folder)!r} is not a folder. Name one that is.")
            yield Path(folder)
    yield cache_dir()


def cache_dir() -> Path:
    """The folder of this package in the user's cache, where the operating system expects it."""
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the XDG specification calls relative paths invalid
        return Path(base, "vrsgmcmc")
    try:
        home = Path.home()
    except RuntimeError:
        raise ValueError(
            f"this user has no home for a cache. Name a folder with {DATA} or XDG_CACHE_HOME."
        ) from None
    own = {"darwin": ("Library", "Caches"), "win32": ("AppData", "Local")}
    return home.joinpath(*own.get(sys.platform, (".cache",)), "vrsgmcmc")


def missing_message(dataset: Dataset, missing: list[File], home: Path, reason: str) -> str:
    """What is missing and why, and how a person can bring the files here."""
    lines = [
        f"{dataset.title}: {len(missing)} of {len(dataset.files)} files are not here, and {reason}",
        "Get them yourself:",
    ]
    for file in missing:
        other = f" (or {file.alternative})" if file.alternative else ""
        lines += [f"  {file.name}{other}, {file.length:,} bytes, sha256 {file.sha256}"]
        lines += [f"    {mirror}" for mirror in file.mirrors]
    lines += [
        f"and put them into {home / dataset.name}",
        f"or into the folder {dataset.name} of a folder that --data-dir, data_dir or {DATA} names.",
    ]
    return "\n".join(lines)
