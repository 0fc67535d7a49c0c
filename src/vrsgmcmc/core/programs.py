"""`jax.jit` with a bounded number of programs: the least recently used ones are forgotten.

JAX keeps every program that it has compiled. One of ours takes some 350 memory maps and 20 to 30 MB;
Linux allows a process 65,530 maps. A service that samples many problems would end in a crash of the
compiler.
"""

from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Any

import jax

MOST_PROGRAMS = 16  # of each function


def bounded_jit(function: Callable, *, static: int = 1) -> Callable[..., Any]:
    """Compile a function whose first `static` arguments are hashable parts of the program."""

    @lru_cache(maxsize=MOST_PROGRAMS)
    def program(*fixed: Any) -> Callable[..., Any]:
        one = partial(function, *fixed)
        one.__name__ = function.__name__  # type: ignore[attr-defined]  # for profiles and tracebacks
        return jax.jit(one)

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return program(*arguments[:static])(*arguments[static:])

    call.program = program  # type: ignore[attr-defined]
    return call
