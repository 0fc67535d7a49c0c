"""Data sets and the few preparations that they need, in NumPy.

`pima()` comes with the package. `mnist()`, `cifar10()`, `penn_treebank()` and `wikitext2()` are found
on this machine, or downloaded once into the user's cache (`finding`). Whatever is read is compared with
a known sha256 first (`sums`), and nothing is ever unpickled.

Names are imported when they are first asked for, so that the table of files alone costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vrsgmcmc.datasets.catalogue import CATALOGUE, Dataset, File
    from vrsgmcmc.datasets.cifar import cifar10
    from vrsgmcmc.datasets.idx import mnist
    from vrsgmcmc.datasets.packaged import PIMA_COLUMNS, PIMA_SHA256, pima
    from vrsgmcmc.datasets.preparing import split, standardise, with_intercept
    from vrsgmcmc.datasets.shapes import Images, Tokens
    from vrsgmcmc.datasets.words import penn_treebank, wikitext2

HOMES = {
    "catalogue": ("CATALOGUE", "Dataset", "File"),
    "cifar": ("cifar10",),
    "idx": ("mnist",),
    "packaged": ("PIMA_COLUMNS", "PIMA_SHA256", "pima"),
    "preparing": ("split", "standardise", "with_intercept"),
    "shapes": ("Images", "Tokens"),
    "words": ("penn_treebank", "wikitext2"),
}

__all__ = [
    "CATALOGUE",
    "PIMA_COLUMNS",
    "PIMA_SHA256",
    "Dataset",
    "File",
    "Images",
    "Tokens",
    "cifar10",
    "mnist",
    "penn_treebank",
    "pima",
    "split",
    "standardise",
    "wikitext2",
    "with_intercept",
]


def __getattr__(name: str) -> Any:
    for home, names in HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
