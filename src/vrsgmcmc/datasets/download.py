"""Download a file from the first mirror that serves all of it.

Bytes are collected in NAME.part, and an interrupted download continues from there, at the same mirror
or at another. A response without a length replaces the part only if it is complete. The file gets its
name in one step at the end, when its length and sha256 are those of the catalogue: mirrors are not
trusted. One process downloads a file while others wait for it.
"""

import errno
import hashlib
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from importlib.metadata import version
from pathlib import Path
from typing import IO

from filelock import AcquireReturnProxy, FileLock, Timeout

from .catalogue import File
from .meter import Meter, meter

TIMEOUT = 30.0  # seconds to wait for a response, or for the next bytes
WINDOW, SLOWEST = 60.0, 1024.0  # a mirror is too slow below SLOWEST bytes/s over WINDOW seconds
TRIES = 4  # requests to one mirror, as long as each brings some bytes
BLOCK = 2**16


class Unavailable(Exception):
    """Why a mirror, or all of them, did not serve a file."""


def download(file: File, path: Path) -> None:
    """Download a file to `path`, unless it is there."""
    part, unsized = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with acquire_lock(path), meter(file.name, file.length) as bar:
            if path.is_file():  # another process has downloaded it
                return
            unsized.unlink(missing_ok=True)  # of a process that was killed
            try_mirrors(file, part, bar)
            with part.open("rb") as stream:
                os.fsync(stream.fileno())
            os.replace(part, path)
    except OSError as error:
        raise OSError(
            error.errno,
            f"{path.parent} cannot take the file: {error.strerror or error}. Have it in another folder "
            "with vrsgmcmc data get NAME --data-dir DIR, and name that in VRSGMCMC_DATA",
        ) from error


def acquire_lock(path: Path) -> AcquireReturnProxy:
    """Wait until no other process downloads this file; the lock of a dead process is free."""
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        print(f"{path.name}: waiting for another process", file=sys.stderr, flush=True)
        return lock.acquire()


def try_mirrors(file: File, part: Path, bar: Meter) -> None:
    """Complete the part from the first mirror that can."""
    reasons = []
    for url in file.mirrors:
        bar.say(f"{file.name}, {file.length:,} bytes, from {url}")
        try:
            return complete(url, file, part, bar)
        except Unavailable as error:
            reasons.append(f"  {url}: {error}")
            bar.say(reasons[-1])
    raise Unavailable("\n".join(reasons))


def complete(url: str, file: File, part: Path, bar: Meter) -> None:
    """Complete the part from one mirror, and check its sha256."""
    if size(part) > file.length:
        part.unlink()
    failures = 0
    while True:
        before = size(part)
        try:
            receive(url, file, part, bar)
        except Unavailable:
            failures += 1
            if failures == TRIES or size(part) <= before:
                raise
            continue
        actual = sha256_of(part)
        if actual == file.sha256:
            return
        part.unlink()
        if before == 0:  # else the earlier bytes may be wrong: download all of them again
            raise Unavailable(f"expected sha256 {file.sha256}, got {actual}")


def receive(url: str, file: File, part: Path, bar: Meter) -> None:
    """Request the bytes that the part lacks, and append them."""
    start = size(part)
    if start == file.length:
        return
    headers = {"User-Agent": f"vrsgmcmc/{version('vrsgmcmc')}"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with mirror_errors():
        response = opener().open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    with response:
        start = first_byte(response, start, file.length)
        needed, free = file.length - start, shutil.disk_usage(part.parent).free
        if free < needed:
            raise OSError(errno.ENOSPC, f"{needed:,} bytes are needed and {free:,} are free")
        if response.length is None and not start:
            return receive_unsized(response, file, part, bar)
        with part.open("ab" if start else "wb") as out:
            copy(response, out, start, file.length, bar)


def receive_unsized(response: HTTPResponse, file: File, part: Path, bar: Meter) -> None:
    """Replace the part by a response of unknown length, if that is as long as the file.

    It may be a page about something else, such as the login page of a hotel.
    """
    unsized = part.with_name(f"{part.name}.new")
    try:
        with unsized.open("wb") as out:
            copy(response, out, 0, file.length, bar)
        os.replace(unsized, part)
    finally:
        unsized.unlink(missing_ok=True)


def first_byte(response: HTTPResponse, start: int, length: int) -> int:
    """The offset of the bytes that a mirror is about to send: 0 if it does not support ranges."""
    if response.status == 206:
        offer = response.headers.get("Content-Range", "")
        if not re.fullmatch(rf"bytes {start}-{length - 1}/({length}|\*)", offer):
            raise Unavailable(f"asked for the bytes from {start:,}, offered {printable(offer)!r}")
    else:
        start = 0
    if response.length not in (None, length - start):  # None: no length in the response
        raise Unavailable(f"expected {length - start:,} bytes, offered {response.length:,}")
    return start


def copy(response: HTTPResponse, out: IO[bytes], done: int, length: int, bar: Meter) -> None:
    """Append the response to a file of `done` bytes, until there are `length`.

    A file of which a mirror sends more is emptied: its bytes are those of something else.
    """
    start, received = time.monotonic(), 0
    while True:
        with mirror_errors():
            data = response.read1(BLOCK)
        if not data:
            break
        done += len(data)
        if done > length:
            out.truncate(0)
            raise Unavailable(f"sends more than the {length:,} bytes of the file")
        out.write(data)
        bar.update(done)
        received += len(data)
        seconds = time.monotonic() - start
        if seconds > WINDOW and done < length:
            if received < SLOWEST * seconds:
                raise Unavailable(f"too slow: {received / seconds:,.0f} bytes/s")
            start, received = time.monotonic(), 0
    if done < length:
        raise Unavailable(f"broke off after {done:,} of {length:,} bytes")


def opener() -> urllib.request.OpenerDirector:
    """HTTP and HTTPS, through the user's proxy if there is one; no redirects to local files."""
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
def mirror_errors() -> Iterator[None]:
    """Turn every error of a connection into `Unavailable`, with a short reason."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        raise Unavailable(f"HTTP {error.code} {printable(error.reason)}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            raise Unavailable(f"nothing came for {TIMEOUT:g} s") from None
        raise Unavailable(printable(reason) or type(reason).__name__) from None


def printable(text: object) -> str:
    """One line of at most 200 characters, without control sequences for the terminal."""
    line = " ".join(str(text).split())
    return "".join(letter for letter in line if letter.isprintable())[:200]


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
