"""The one door to the files of a run, for reading and for writing.

The directory itself may be reached through a symbolic link, which is resolved once. Below it nothing
is opened through a link, and nothing but a regular file: every part of a name is opened relative to
the part before it, without following, and a pipe, a device or a socket is refused before it can block.
A directory that was renamed, deleted or replaced since is noticed at the next use, and never recreated.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from .errors import ClosedFile, IrregularFile, RunError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_AT_ONCE = 2**22
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Folder:
    """A directory and the files in it, by names such as "draws.zarr/zarr.json".

    A file that is not there is a `FileNotFoundError`. After `sync`, what was written survives a power
    cut.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(os.path.realpath(path))
        self.identity: tuple[int, int] | None = None
        self.handle: int | None = None  # a handle of the directory, while it is locked
        self.locks: dict[str, tuple[int, int]] = {}
        self.unsynced: dict[str, None] = {}
        if self.path.is_dir():
            self.identity = identity(os.stat(self.path))

    # --- opening ---------------------------------------------------------------------------------

    def make(self) -> None:
        """Create the directory, unless it is there."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.identity = identity(os.stat(self.path))

    @contextmanager
    def walk(self, parts: list[str], make: bool = False) -> Iterator[int]:
        """A handle of a folder in the directory, while the block runs."""
        try:
            handles = [os.open(self.path, DIRECTORY)]
        except (FileNotFoundError, NotADirectoryError):
            raise self.lost() from None
        except PermissionError as error:
            raise closed(self.path, error) from None
        try:
            if self.identity != (there := identity(os.fstat(handles[0]))):
                if self.identity is not None:
                    raise self.lost()
                self.identity = there
            for depth in range(1, len(parts) + 1):
                handles.append(self.step(handles[-1], parts[:depth], make))
            yield handles[-1]
        finally:
            for handle in handles:
                os.close(handle)

    def step(self, handle: int, parts: list[str], make: bool) -> int:
        """A handle of the last folder of `parts`, inside the one before it."""
        part = parts[-1]
        if make and not is_there(handle, part):
            os.mkdir(part, dir_fd=handle)
        try:
            return os.open(part, DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        except PermissionError as error:
            raise closed(self.path.joinpath(*parts), error) from None
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            mode = os.stat(part, dir_fd=handle, follow_symlinks=False).st_mode
            what = KINDS.get(stat.S_IFMT(mode), "a file")
            raise IrregularFile(self.path.joinpath(*parts), what) from None

    def status(self, handle: int, name: str) -> os.stat_result | None:
        """The status of a regular file in an open folder; None: it is not there."""
        try:
            status = os.stat(name.rpartition("/")[2], dir_fd=handle, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            what = KINDS.get(stat.S_IFMT(status.st_mode), "no regular file")
            raise IrregularFile(self.path / name, what)
        return status

    @contextmanager
    def open(self, name: str, flags: int = os.O_RDONLY) -> Iterator[int]:
        """A handle of a regular file, while the block runs; O_CREAT makes it and its folders."""
        *folders, last = split(name)
        with self.walk(folders, make=bool(flags & os.O_CREAT)) as folder:
            before = self.status(folder, name)
            safe = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            try:
                handle = os.open(last, flags | safe, 0o666, dir_fd=folder)
            except PermissionError as error:
                raise closed(self.path / name, error) from None
        try:
            after = os.fstat(handle)
            if not stat.S_ISREG(after.st_mode) or (before and identity(before) != identity(after)):
                raise IrregularFile(self.path / name, "replaced while it was opened")
            yield handle
        finally:
            os.close(handle)

    def lost(self) -> RunError:
        """The error for a directory that is no longer at its place."""
        if self.identity is None:
            return RunError(f"{str(self.path)!r}: no such directory.")
        text = f"run_dir={str(self.path)!r} was renamed, deleted or replaced while it was in use"
        if self.handle is None:
            return RunError(f"{text}. Open it again where it is now.")
        if os.fstat(self.handle).st_nlink == 0:
            return RunError(f"{text}: it is deleted, and its last commit with it. Sample again.")
        try:
            place = f"it is {os.readlink(f'/proc/self/fd/{self.handle}')!r} now"
        except OSError:
            place = "find it under its new name"
        return RunError(
            f"{text}: {place}. Its last commit is whole. Nothing was written at the old place: "
            "go on with the directory's new name."
        )

    # --- reading ---------------------------------------------------------------------------------

    def exists(self, name: str) -> bool:
        """Whether there is anything of this name."""
        with suppress(FileNotFoundError), self.walk(split(name)[:-1]) as handle:
            return is_there(handle, os.path.basename(name))
        return False

    def names(self, below: str = "") -> list[str]:
        """What a folder holds."""
        with self.walk(split(below) if below else []) as handle:
            return sorted(os.listdir(handle))

    def size(self, name: str) -> int:
        """Bytes of a file."""
        with self.open(name) as handle:
            return os.fstat(handle).st_size

    def read(self, name: str, most: int | None = None) -> bytes:
        """The bytes of a file, or its first ones."""
        with self.open(name) as handle, os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(-1 if most is None else most)

    def sum(self, name: str, length: int) -> Any:
        """The running sha256 of the first bytes of a file."""
        total, left = hashlib.sha256(), length
        with self.open(name) as handle:
            while left and (part := os.read(handle, min(left, READ_AT_ONCE))):
                total.update(part)
                left -= len(part)
        return total

    # --- writing ---------------------------------------------------------------------------------

    def write(self, name: str, content: bytes) -> None:
        """Write a file that no commit points at."""
        with self.explain(name, len(content)):
            if self.exists(name):
                self.remove(name)  # its bytes may have another name too, by a hard link
            with self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as handle:
                write_all(handle, content)
        self.unsynced[name] = None

    def append(self, name: str, content: bytes) -> None:
        """Add bytes to the end of a file."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with self.explain(name, len(content)), self.open(name, flags) as handle:
            self.check_single(handle, name)
            write_all(handle, content)
        self.unsynced[name] = None

    def truncate(self, name: str, length: int) -> None:
        """Cut off what comes behind the first `length` bytes."""
        with self.open(name, os.O_WRONLY) as handle:
            if os.fstat(handle).st_size != length:
                self.check_single(handle, name)
                os.ftruncate(handle, length)

    def replace(self, name: str, content: bytes) -> None:
        """Replace a file atomically: at every moment it holds the old bytes or the new ones."""
        part = f"{name}.part"
        self.write(part, content)
        with self.explain(name, len(content)), self.walk(split(name)[:-1]) as handle:
            self.status(handle, name)
            self.sync_file(part)
            old, new = os.path.basename(part), os.path.basename(name)
            os.replace(old, new, src_dir_fd=handle, dst_dir_fd=handle)
            os.fsync(handle)

    def remove(self, name: str) -> None:
        """Delete a regular file."""
        with self.walk(split(name)[:-1]) as handle:
            if self.status(handle, name):
                os.unlink(os.path.basename(name), dir_fd=handle)

    def remove_tree(self, name: str) -> None:
        """Delete a folder and what is in it, as far as it can be."""
        with self.walk([]) as handle:
            shutil.rmtree(name, ignore_errors=True, dir_fd=handle)

    def remove_empty(self) -> None:
        """Delete the directory itself, where nothing is left in it."""
        if not self.names():
            os.rmdir(self.path)

    def sync(self) -> None:
        """Files first, then the folders that name them, inner ones first."""
        folders = {(): None}
        for name in self.unsynced:
            with self.explain(name, 0):
                self.sync_file(name)
            parts = split(name)[:-1]
            folders |= {tuple(parts[:depth]): None for depth in range(len(parts) + 1)}
        for parts in sorted(folders, key=len, reverse=True):
            with self.explain("/".join(parts), 0), self.walk(list(parts)) as handle:
                os.fsync(handle)
        self.unsynced.clear()

    def sync_file(self, name: str) -> None:
        """Sync one file; one that was renamed since was synced before."""
        with suppress(FileNotFoundError), self.open(name) as handle:
            os.fsync(handle)

    def check_single(self, handle: int, name: str) -> None:
        """Refuse to change a file that has another name, maybe outside of the directory."""
        if os.fstat(handle).st_nlink > 1:
            raise IrregularFile(self.path / name, "a file with a second name (a hard link)")

    # --- one writer ------------------------------------------------------------------------------

    @contextmanager
    def lock(self, name: str, message: str) -> Iterator[None]:
        """Hold a lock while the block runs; `RunError(message)` when another process holds it."""
        import fcntl  # POSIX

        with ExitStack() as stack:
            with self.explain(name, 0):
                handle = stack.enter_context(self.open(name, os.O_RDWR | os.O_CREAT))
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(message) from None
            self.locks[name] = identity(os.fstat(handle))
            self.handle = os.open(self.path, DIRECTORY)
            stack.callback(self.release, name)
            self.check_lock(name, message)
            yield

    def release(self, name: str) -> None:
        handle, self.handle = self.handle, None
        self.locks.pop(name)
        if handle is not None:
            os.close(handle)

    def check_lock(self, name: str, message: str) -> None:
        """`RunError(message)` when the file that is locked is no longer the one of this name."""
        with self.walk(split(name)[:-1]) as handle:
            there = self.status(handle, name)
        if there is None or identity(there) != self.locks.get(name):
            raise RunError(message)

    @contextmanager
    def explain(self, name: str, needed: int) -> Iterator[None]:
        """Errors about disk space or permissions, with a repair."""
        try:
            yield
        except OSError as error:
            if error.errno in NO_ROOM:
                free = shutil.disk_usage(self.path).free
                limit = ", or a limit on file sizes" if error.errno == errno.EFBIG else ""
                raise OSError(
                    error.errno,
                    f"run_dir={str(self.path)!r}: no room to write {name}: {needed:,} bytes are needed "
                    f"and {free:,} are free{limit}. The last commit stands and nothing is damaged: "
                    "make room and run the same again",
                ) from error
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise ClosedFile(
                    error.errno,
                    f"run_dir={str(self.path)!r}: {name} cannot be written ({error.strerror}). Choose "
                    "a directory that you may write to",
                ) from error
            raise


def closed(path: Path, error: OSError) -> ClosedFile:
    """The error of the system, as an error of the run."""
    return ClosedFile(error.errno, error.strerror, str(path))


def identity(status: os.stat_result) -> tuple[int, int]:
    """What stays when a file or a directory is renamed."""
    return status.st_dev, status.st_ino


def is_there(handle: int, part: str) -> bool:
    """Whether an open folder holds anything of this name."""
    with suppress(FileNotFoundError):
        os.stat(part, dir_fd=handle, follow_symlinks=False)
        return True
    return False


def split(name: str) -> list[str]:
    """The parts of a name inside the directory; `RunError` for one that leaves it."""
    parts = name.split("/")
    text = name.encode(errors="ignore").decode()  # a lone surrogate is no part of a name
    if any(part in ("", ".", "..") or "\0" in part for part in parts) or text != name:
        raise RunError(f"{name!r} is no name of a file in a run directory")
    return parts


def write_all(handle: int, content: bytes) -> None:
    """Write every byte to an open file."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]
