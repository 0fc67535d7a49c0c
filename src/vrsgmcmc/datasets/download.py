"""A file from the first mirror that gives all of it.

What comes is kept in NAME.part, and a download that broke off goes on behind it, from the same mirror
or from another; of an answer that does not say how long it is, all or nothing is kept. The file gets
its name at the end, in one step, when its length and sha256 are those of the catalogue: a mirror is
asked, never trusted. One process downloads, others wait for it.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from vrsgmcmc.datasets.catalogue import File
from vrsgmcmc.datasets.meter import Meter

TIMEOUT = 30.0  # seconds to wait for an answer, or for the next bytes
WINDOW, SLOWEST = 60.0, 1024.0  # in so many seconds there must be so many bytes for each
TRIES = 4  # at one mirror, as long as each brings something
AT_ONCE = 2**16


class Unavailable(Exception):
    """Why a mirror, or all of them, did not give a file."""


def download(file: File, path: Path) -> None:
    """Bring a file to `path`."""
    part = path.with_name(f"{path.name}.part")
    with explained(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path), Meter(file.name, file.length) as meter:
            if path.is_file():  # the other process has brought it
                return
            aside(part).unlink(missing_ok=True)  # of a process that was killed
            from_any(file, part, meter)
            with part.open("rb") as whole:
                os.fsync(whole.fileno())
            os.replace(part, path)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """One process at a time; the system lets go of the lock of one that died."""
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print(f"{path.name}: waiting for another process", file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def from_any(file: File, part: Path, meter: Meter) -> None:
    reasons = []
    for url in file.mirrors:
        meter.say(f"{file.name}, {file.length:,} bytes, from {url}")
        try:
            return from_one(url, file, part, meter)
        except Unavailable as error:
            reasons.append(f"  {url}: {error}")
            meter.say(reasons[-1])
    raise Unavailable("\n".join(reasons))


def from_one(url: str, file: File, part: Path, meter: Meter) -> None:
    """Bring the rest of a part from one mirror; it is whole and right afterwards."""
    if size(part) > file.length:
        part.unlink()
    breaks = 0
    while True:
        before = size(part)
        try:
            receive(url, file, part, meter)
        except Unavailable:
            breaks += 1
            if breaks == TRIES or size(part) <= before:
                raise
            continue
        found = sum_of(part)
        if found == file.sha256:
            return
        part.unlink()
        if before == 0:  # else the bytes that were here may be to blame: once more, from nothing
            raise Unavailable(f"expected sha256 {file.sha256}, got {found}")


def receive(url: str, file: File, part: Path, meter: Meter) -> None:
    """Ask for the bytes behind those that are here, and append what comes."""
    start = size(part)
    if start == file.length:
        return
    headers = {"User-Agent": f"vrsgmcmc/{version('vrsgmcmc')}"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with told():
        response = opener().open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    with response:
        start = check_answer(response, start, file.length)
        room(part, file.length - start)
        if response.length is None and not start:
            return whole_or_nothing(response, file, part, meter)
        with part.open("ab" if start else "wb") as out:
            try:
                copy(response, out, start, file.length, meter)
            except Overlong:
                out.truncate(0)
                raise


def whole_or_nothing(
    response: http.client.HTTPResponse, file: File, part: Path, meter: Meter
) -> None:
    """An answer that does not say how long it is may be a page about something else.

    It takes the place of what is here only if it is as long as the file.
    """
    try:
        with aside(part).open("wb") as out:
            copy(response, out, 0, file.length, meter)
        os.replace(aside(part), part)
    finally:
        aside(part).unlink(missing_ok=True)


def aside(part: Path) -> Path:
    return part.with_name(f"{part.name}.new")


def check_answer(response: http.client.HTTPResponse, start: int, length: int) -> int:
    """Where the bytes begin that a mirror is about to send: 0 if it knows nothing of ranges."""
    if response.status == 206:
        place = response.headers.get("Content-Range", "")
        if not re.fullmatch(rf"bytes {start}-{length - 1}/({length}|\*)", place):
            raise Unavailable(f"asked for the bytes from {start:,}, offered {plain(place)!r}")
    else:
        start = 0
    if response.length not in (None, length - start):  # None: it does not say
        raise Unavailable(f"expected {length - start:,} bytes, offered {response.length:,}")
    return start


class Overlong(Unavailable):
    """A mirror that does not stop where the file ends."""


def copy(
    response: http.client.HTTPResponse, out: IO[bytes], done: int, length: int, meter: Meter
) -> None:
    began, came = time.monotonic(), 0
    while True:
        with told():
            data = response.read1(AT_ONCE)
        if not data:
            break
        done += len(data)
        if done > length:
            raise Overlong(f"sends more than the {length:,} bytes of the file")
        out.write(data)
        meter.at(done)
        came += len(data)
        seconds = time.monotonic() - began
        if seconds > WINDOW and done < length:
            if came < SLOWEST * seconds:
                raise Unavailable(f"too slow: {came / seconds:,.0f} bytes/s")
            began, came = time.monotonic(), 0
    if done < length:
        raise Unavailable(f"broke off after {done:,} of {length:,} bytes")


def opener() -> urllib.request.OpenerDirector:
    """HTTP and HTTPS, through the user's proxy if there is one; a redirect to a file is refused."""
    director = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        director.add_handler(handler())
    return director


@contextmanager
def told() -> Iterator[None]:
    """Whatever goes wrong on the way to a mirror, in a few words."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        raise Unavailable(f"HTTP {error.code} {plain(error.reason)}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            raise Unavailable(f"nothing came for {TIMEOUT:g} s") from None
        raise Unavailable(plain(reason) or type(reason).__name__) from None


def plain(words: object) -> str:
    """What a mirror says, as a line that cannot play with the terminal."""
    line = " ".join(str(words).split())
    return "".join(letter for letter in line if letter.isprintable())[:200]


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """What the disk refuses, with the folder and a way out."""
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"{folder} cannot take the file: {error.strerror or error}. Have it in another folder with "
            "vrsgmcmc data get NAME --data-dir DIR, and name that in VRSGMCMC_DATA",
        ) from error


def room(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if free < needed:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes are needed and {free:,} are free")


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
