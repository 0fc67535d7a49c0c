"""Whether a place on the disk can be written, tried before there is something to write."""

import os
import tempfile
from pathlib import Path


def check_writable(path: Path) -> None:
    """ValueError if no directory can be made, or no file written, at `path`; leaves nothing behind."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"--out {path}: this is a file. Name a directory.")
    new_folders = []
    try:
        for folder in reversed([path, *path.parents]):
            if not folder.exists():
                folder.mkdir()
                new_folders.append(folder)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise ValueError(
            f"--out {path}: {os.strerror(error.errno) if error.errno else error}. Name a directory "
            "that can be written."
        ) from error
    finally:
        for folder in reversed(new_folders):
            folder.rmdir()


def check_new_file(path: Path) -> None:
    """ValueError if `path` is no place for a file; a file that is there is looked at later."""
    if path.is_dir():
        raise ValueError(f"--out {path}: this is a directory. Name a file.")
    if not path.parent.is_dir():
        raise ValueError(f"--out {path}: there is no directory {path.parent}. Make it first.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"--out {path}: the directory cannot be written. Name another file.")


def write_new_file(path: Path, content: bytes) -> bool:
    """Write a file that is not there; False if it is there with this content; else ValueError."""
    try:
        with path.open("xb") as file:
            try:
                file.write(content)
            except OSError:
                path.unlink()
                raise
    except FileExistsError:
        if path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content:
            return False
        raise ValueError(
            f"--out {path}: the file is there, and holds something else. Remove it, or name another "
            "file."
        ) from None
    return True
