"""Where the files of a data set are, on this machine or on the net.

A data set lies in a folder of its name. The folder that the caller names is looked at first, then
VRSGMCMC_DATA, then the user's cache; what is in none of them is downloaded into the cache, unless
VRSGMCMC_OFFLINE is set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from vrsgmcmc.datasets.catalogue import Dataset, File

DATA, OFFLINE = "VRSGMCMC_DATA", "VRSGMCMC_OFFLINE"


def obtain(
    known: Dataset,
    data_dir: str | os.PathLike[str] | None = None,
    into: str | os.PathLike[str] | None = None,
) -> dict[str, Path]:
    """The path of every file of a data set, by its name; what is missing is downloaded.

    `into`: have them in this folder, wherever else they may be.
    """
    found = find(known, places(data_dir) if into is None else [Path(into)])
    missing = [file for file in known.files if file.name not in found]
    if not missing:
        return found
    home = cache() if into is None else Path(into)
    if os.environ.get(OFFLINE, "0") not in ("", "0"):
        raise FileNotFoundError(
            absent(known, missing, home, f"{OFFLINE} forbids to download them.")
        )
    from vrsgmcmc.datasets.download import Unavailable, download

    for place, file in enumerate(missing):
        path = home / known.name / file.name
        try:
            download(file, path)
        except Unavailable as error:
            why = f"no mirror has given {file.name}:\n{error}"
            raise FileNotFoundError(absent(known, missing[place:], home, why)) from error
        found[file.name] = path
    return found


def find(known: Dataset, folders: Iterable[Path]) -> dict[str, Path]:
    """The files of a data set that are there, in any of their forms: name -> path."""
    found: dict[str, Path] = {}
    for folder in folders:
        for file in known.files:
            forms = (folder / known.name / form for form in (file.name, *file.also))
            if path := next(filter(Path.is_file, forms), None):
                found.setdefault(file.name, path)
        if len(found) == len(known.files):
            break
    return found


def places(data_dir: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """The folders to look at, one after another."""
    for name, folder in (("data_dir", data_dir), (DATA, os.environ.get(DATA) or None)):
        if folder is not None:
            if not Path(folder).is_dir():
                raise ValueError(f"{name}={os.fspath(folder)!r} is not a folder. Name one that is.")
            yield Path(folder)
    yield cache()


def cache() -> Path:
    """The user's folder for what can be got again, in the manner of the system."""
    given = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    if os.path.isabs(given):  # a relative path is invalid, says the XDG specification
        return Path(given, "vrsgmcmc")
    try:
        home = Path.home()
    except RuntimeError:
        raise ValueError(
            f"this user has no home for a cache. Name a folder with {DATA} or XDG_CACHE_HOME."
        ) from None
    own = {"darwin": ("Library", "Caches"), "win32": ("AppData", "Local")}
    return home.joinpath(*own.get(sys.platform, (".cache",)), "vrsgmcmc")


def absent(known: Dataset, missing: list[File], home: Path, why: str) -> str:
    """What a person needs to bring the files here in another way."""
    lines = [f"{known.title}: {len(missing)} of {len(known.files)} files are not here, and {why}"]
    lines += ["Get them yourself:"]
    for file in missing:
        forms = "".join(f" (or {form})" for form in file.also)
        lines += [f"  {file.name}{forms}, {file.length:,} bytes, sha256 {file.sha256}"]
        lines += [f"    {mirror}" for mirror in file.mirrors]
    lines += [
        f"and put them into {home / known.name}",
        f"or into the folder {known.name} of a folder that --data-dir, data_dir or {DATA} names.",
    ]
    return "\n".join(lines)
