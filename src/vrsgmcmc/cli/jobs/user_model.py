"""A model of the user's own, in a file that the command line names.

    # my_model.py
    def build(x, y):                      # the training data, x [N, d] and y [N]
        return posterior, init            # or posterior, init, predict

`posterior` is a `vr.Posterior` for data (x, y); `init` a start or a function of a key; `predict(params,
x)` gives, for rows x [n, d], probabilities [n] or [n, K], or in a regression means [n].
"""

import importlib.util
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from vrsgmcmc.core import Posterior
from vrsgmcmc.run import as_params, is_function

from ..configuration import names_code
from ..endings import Terminated

LONGEST_TEXT = 2000  # characters of an error of the user's


def load_own(model: str | None) -> Callable | None:
    """The function of a model that names code; None for the models of the library."""
    return load_function(model) if model is not None and names_code(model) else None


def load_function(place: str) -> Callable:
    """The function that FILE.py:FUNCTION names. The file is run: it is the user's."""
    file, _, name = place.rpartition(":")
    path = Path(file)
    if not name.isidentifier() or path.suffix != ".py":
        raise ValueError(f"--model {place}: write FILE.py:FUNCTION, such as my_model.py:build.")
    if not path.is_file():
        raise ValueError(f"--model {place}: there is no such file.")
    spec: Any = importlib.util.spec_from_file_location("vrsgmcmc_own_model", path)
    module = importlib.util.module_from_spec(spec)
    with explain_errors(path, "could not be loaded"):
        spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"--model {place}: the file has no function {name}.")
    return function


def build(
    function: Callable, x: Any, y: Any, x_test: Any, classes: int
) -> tuple[Posterior, Any, Callable | None]:
    """Call the user's function with the training data: posterior, init, and predict or None."""
    path = Path(function.__code__.co_filename) if hasattr(function, "__code__") else Path("model")
    name = getattr(function, "__name__", type(function).__name__)
    with explain_errors(path, f"{name}(x, y) failed"):
        parts = function(x, y)
    if inspect.iscoroutine(parts):
        parts.close()  # else Python warns that it was never awaited
    if not (isinstance(parts, tuple) and len(parts) in (2, 3) and isinstance(parts[0], Posterior)):
        raise ValueError(
            f"{path.name}: {name}(x, y) must return (posterior, init) or (posterior, "
            f"init, predict) with a vr.Posterior, got {type(parts).__name__}."
        )
    posterior, init, *rest = parts
    if is_function(init):
        with explain_errors(path, "init(key) failed"):
            params = jax.eval_shape(init, jax.random.key(0))
    else:
        params = init = as_params(init)
    predict = rest[0] if rest else None
    if predict is not None:
        check_predict(path, predict, params, x_test, classes)
    return posterior, init, predict


def check_predict(path: Path, predict: Any, params: Any, x: Any, classes: int) -> None:
    """Refuse a `predict` that fails or returns another shape, before anything is sampled for it."""
    if not callable(predict):
        raise ValueError(f"{path.name}: predict must be a function of (params, x).")
    with explain_errors(path, "predict(params, x) failed"):
        answer = jax.eval_shape(predict, params, x)
    count, shape = len(x), getattr(answer, "shape", None)
    shapes = [(count,), (count, classes)] if classes else [(count,)]
    if shape not in shapes or jnp.issubdtype(answer.dtype, jnp.complexfloating):
        what = f"[n] or [n, {classes}] probabilities" if classes else "[n] means"
        got = type(answer).__name__ if shape is None else f"{answer.dtype} of shape {shape}"
        raise ValueError(
            f"{path.name}: predict(params, x) must return {what}; for {count} rows it returns {got}."
        )


@contextmanager
def explain_errors(path: Path, what: str) -> Iterator[None]:
    """Turn an error of the user's code into a sentence with the line in the user's file."""
    try:
        yield
    except (KeyboardInterrupt, Terminated):
        raise
    except SyntaxError as error:
        raise ValueError(f"{path.name} {what}: line {error.lineno}: {error.msg}.") from error
    except BaseException as error:  # also exit()
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).name == path.name]
        where = f"line {lines[-1]}: " if lines else ""
        raise ValueError(f"{path.name}: {what}: {where}{error_text(error)}") from error


def error_text(error: BaseException) -> str:
    """The class and the message of an error, whose `__str__` may fail too."""
    if isinstance(error, SystemExit):
        return f"it ended the program with exit({error.code!r})"
    text = traceback.format_exception_only(error)[0].strip()
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + " ..."
