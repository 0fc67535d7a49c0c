"""The tables of methods: name -> function, each imported when it is first asked for.

The names alone cost nothing, so the command line lists the methods without importing JAX.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from . import estimators, integrators


class Table(Mapping[str, Callable[..., Any]]):
    """The methods of a package: `sgld` is the function `sgld` in the file `sgld.py`."""

    def __init__(self, package: Any):
        self.package: str = package.__name__
        self.names: list[str] = package.__all__

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self.names:
            raise KeyError(name)
        return getattr(import_module(f"{self.package}.{name}"), name)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Table({', '.join(self.names)})"


ESTIMATORS, INTEGRATORS = Table(estimators), Table(integrators)
