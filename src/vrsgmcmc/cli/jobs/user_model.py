"""A model of the user's own, in a file that the command line names.

    # my_model.py
    def build(x, y):                      # the training data, x [N, d] and y [N]
        return posterior, init            # or posterior, init, predict

`posterior` is a `vr.Posterior` for data (x, y); `init` a start or a function of a key; `predict(params,
x)` gives, for rows x [n, d], probabilities [n] or [n, K], or in a regression means [n].
"""

import importlib.util
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from vrsgmcmc.core import Posterior
from vrsgmcmc.run import is_function


def load_function(place: str) -> Callable:
    """The function that FILE.py:FUNCTION names. The file is run: it is the user's."""
    file, _, name = place.rpartition(":")
    path = Path(file)
    if not name.isidentifier() or path.suffix != ".py":
        raise ValueError(f"--model {place}: write FILE.py:FUNCTION, such as my_model.py:build.")
    if not path.is_file():
        raise ValueError(f"--model {place}: there is no file {path}.")
    spec: Any = importlib.util.spec_from_file_location("vrsgmcmc_own_model", path)
    module = importlib.util.module_from_spec(spec)
    with explain_errors(path, "could not be loaded"):
        spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"--model {place}: {path} has no function {name}.")
    return function


def build(function: Callable, x: Any, y: Any) -> tuple[Posterior, Any, Callable | None]:
    """Call the user's function with the training data: posterior, init, and predict or None."""
    path = Path(function.__code__.co_filename) if hasattr(function, "__code__") else Path("model")
    with explain_errors(path, f"{function.__name__}(x, y) failed"):
        parts = function(x, y)
    if not (isinstance(parts, tuple) and len(parts) in (2, 3) and isinstance(parts[0], Posterior)):
        raise ValueError(
            f"{path.name}: {function.__name__}(x, y) must return (posterior, init) or (posterior, "
            f"init, predict) with a vr.Posterior, got {type(parts).__name__}."
        )
    posterior, init, *rest = parts
    if is_function(init):
        with explain_errors(path, "init(key) failed"):
            jax.eval_shape(init, jax.random.key(0))
    predict = rest[0] if rest else None
    if predict is not None and not callable(predict):
        raise ValueError(f"{path.name}: predict must be a function of (params, x).")
    return posterior, init, predict


@contextmanager
def explain_errors(path: Path, what: str) -> Iterator[None]:
    """Turn an error of the user's code into a sentence with the line in the user's file."""
    try:
        yield
    except SyntaxError as error:
        raise ValueError(f"{path.name} {what}: line {error.lineno}: {error.msg}.") from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).name == path.name]
        where = f"line {lines[-1]}: " if lines else ""
        raise ValueError(f"{path.name}: {what}: {where}{type(error).__name__}: {error}") from error
