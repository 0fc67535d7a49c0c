"""Whether what a run must hold fits in the memory of this machine."""

from __future__ import annotations

import psutil


def free_memory() -> int:
    """Bytes that the machine can still give."""
    return psutil.virtual_memory().available


def check_memory(needed: int, what: str, instead: str) -> None:
    """Refuse what cannot fit in the machine's memory."""
    if needed > (free := free_memory()):
        raise MemoryError(f"{what} needs {needed:,} bytes and {free:,} are free. {instead}")
