"""Ctrl-C and SIGTERM: noted when they come, asked for between chunks."""

import ctypes
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import jax

SECONDS_TO_FINISH = 5.0  # allowed for the current chunk after a signal
SHORT_PAUSE, LONGEST_PAUSE = 0.002, 0.1  # between two looks at a computation


class Interruption:
    """Whether a signal has come, and which; a second one acts at once."""

    def __init__(self):
        self.number: int | None = None
        self.since = 0.0

    def __call__(self) -> bool:
        return self.number is not None

    def note(self, number: int) -> None:
        self.number, self.since = number, time.monotonic()

    def leave(self, message: str) -> NoReturn:
        """End as the signal asks: like Ctrl-C, or with the code of a process that it ended."""
        if self.number is None or self.number == signal.SIGINT:
            raise KeyboardInterrupt(message)
        raise SystemExit(128 + self.number)

    def wait(self, values: Any, patience: float | None = None) -> None:
        """Wait until arrays are computed; after a signal, for `patience` seconds at most.

        This polls. A call that blocks inside JAX sees no signal, and a thread that blocks there aborts
        the process when it ends.
        """
        patience = SECONDS_TO_FINISH if patience is None else patience
        began, leaves = time.monotonic(), jax.tree.leaves(values)
        try:
            while not all(leaf.is_ready() for leaf in leaves):
                now = time.monotonic()
                if self() and now - self.since > patience:
                    self.leave(
                        f"the chunk in hand took over {patience:g} s; the last commit stands"
                    )
                time.sleep(pause(now - began))
        except BaseException:
            abandon(values)
            raise


def pause(elapsed: float) -> float:
    """Seconds to sleep between two looks: about 1/250 of the wait so far, hence a delay of 0.2 %."""
    return min(LONGEST_PAUSE, max(elapsed / 250, min(elapsed / 4, SHORT_PAUSE)))


def abandon(values: Any) -> None:
    """Let the process end while these values are still being computed.

    At its exit Python deletes JAX's clients, which wait for their computations, however long they
    take. One more reference to a client, never given back, leaves them to the system.
    """
    for leaf in jax.tree.leaves(values):
        for device in leaf.devices():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(device.client))


@contextmanager
def interruptible(*also: int) -> Iterator[Interruption]:
    """Note Ctrl-C, and the signals in `also`, while the block runs."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *also)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: Any) -> None:
        interruption.note(number)
        restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield interruption
    finally:
        restore()
