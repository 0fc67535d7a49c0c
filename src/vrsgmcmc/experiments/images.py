"""Images for the experiments: the last 5,000 of the training images are kept for validation.

Size `smoke` has random images of the same shapes, so that it needs no files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from vrsgmcmc import datasets
from vrsgmcmc.experiments.judged import Judged
from vrsgmcmc.experiments.settings import Settings
from vrsgmcmc.models import pixels

KEPT_BACK, SMOKE = 5000, 200  # for validation; of each part


class Part(NamedTuple):
    x: UInt8[np.ndarray, "n height width channels"]
    y: Int[np.ndarray, " n"]


class Pictures(NamedTuple):
    train: Part
    validation: Part
    test: Part


def pictures(name: str, settings: Settings) -> Pictures:
    """MNIST or CIFAR-10."""
    if settings.size == "smoke":
        rng, shape = np.random.default_rng(0), {"mnist": (28, 28, 1), "cifar10": (32, 32, 3)}[name]
        made = rng.integers(0, 256, (3, SMOKE, *shape), np.uint8), rng.integers(0, 10, (3, SMOKE))
        return Pictures(*(Part(x, y) for x, y in zip(*made, strict=True)))
    found = {"mnist": datasets.mnist, "cifar10": datasets.cifar10}[name](settings.data_dir)
    x, x_test = (part.reshape(*part.shape[:3], -1) for part in (found.x_train, found.x_test))
    return Pictures(
        Part(x[:-KEPT_BACK], found.y_train[:-KEPT_BACK]),
        Part(x[-KEPT_BACK:], found.y_train[-KEPT_BACK:]),
        Part(x_test, found.y_test),
    )


def judged(
    parts: Pictures,
    predict: Callable[[Any, Any], Any],
    read: Callable[[np.ndarray], Any],
    most: int = KEPT_BACK,
) -> dict[str, Judged]:
    """All test images, and some of those for validation and training."""
    named = {
        "validation": some(parts.validation, most),
        "test": parts.test,
        "train": some(parts.train, most),
    }
    return {name: Judged(predict, read(part.x), part.y) for name, part in named.items()}


def some(part: Part, most: int) -> Part:
    return Part(part.x[:most], part.y[:most])


def flat(x: UInt8[np.ndarray, "n h w c"]) -> np.ndarray:
    """Pixels in a row, from 0 to 1."""
    return (x.reshape(len(x), -1) / 255).astype(np.float32)


def centred(x: UInt8[np.ndarray, "n h w c"]) -> np.ndarray:
    """Pixels in a row, around 0, as the convolutional networks read them."""
    return pixels(x.reshape(len(x), -1), np.float32)
