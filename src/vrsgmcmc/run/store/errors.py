"""The errors of a run directory."""

from pathlib import Path


class RunError(ValueError):
    """A run directory that cannot be used as it was asked for."""


class IrregularFile(RunError):
    """Something else where a file or a folder of a run must be."""

    def __init__(self, path: Path, what: str):
        super().__init__(
            f"{path} is {what}. A run directory holds regular files and folders only: put the file "
            "itself there."
        )
        self.what = what


class ClosedFile(PermissionError, RunError):
    """A file or a folder of a run that the system does not let this user open."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}" if self.filename else str(self.strerror)
