"""Bayesian sampling with stochastic gradients whose noise is under control.

`__init__.pyi` lists the public names. Each is imported when it is first asked for, so that the command
line can answer without JAX.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import lazy_loader


def _public_names() -> tuple[list[str], dict[str, list[str]]]:
    """The modules and the names, by room, that the stub lists; a star stands for a table of methods."""
    modules, names = [], {}
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    for line in stub.body:
        if not isinstance(line, ast.ImportFrom):  # __version__
            continue
        for alias in line.names:
            if line.module is None:
                modules.append(alias.name)
            elif alias.name == "*":
                names[line.module] = import_module(f"{__name__}.{line.module}").__all__
            else:
                names.setdefault(line.module, []).append(alias.name)
    return modules, names


_load, __dir__, __all__ = lazy_loader.attach(__name__, *_public_names())


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version(__name__)
    return _load(name)
