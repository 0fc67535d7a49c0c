"""Ctrl-C and SIGTERM: noted when they come, asked for between chunks."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import jax

SECONDS_TO_FINISH = 5.0  # allowed for the current chunk after a signal
POLL_SECONDS = 0.1


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

    def wait(self, values: Any) -> None:
        """Wait until arrays are computed; after a signal, for at most SECONDS_TO_FINISH.

        Another thread waits inside JAX, because there no signal is seen.
        """
        done = threading.Event()

        def block() -> None:
            try:
                jax.block_until_ready(values)
            except Exception:
                pass  # raised again where the values are used
            finally:
                done.set()

        threading.Thread(target=block, daemon=True).start()
        while not done.wait(POLL_SECONDS):
            if self.number is not None and time.monotonic() - self.since > SECONDS_TO_FINISH:
                self.leave(
                    f"the chunk in hand took over {SECONDS_TO_FINISH:g} s; the last commit stands"
                )


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
