"""Images for the experiments: the last 5,000 of the training images are the validation data.

Size `smoke` has random images of the same shapes, so that it needs no files.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int32, UInt8

from vrsgmcmc import datasets
from vrsgmcmc.models import pixels

from .scores import EvaluationSet
from .settings import Settings

VALIDATION, SMOKE = 5000, 200  # images for validation; of each part


class Part(NamedTuple):
    x: UInt8[np.ndarray, "n height width channels"]
    y: Int32[np.ndarray, " n"]


class Pictures(NamedTuple):
    train: Part
    validation: Part
    test: Part


def pictures(name: str, settings: Settings) -> Pictures:
    """MNIST or CIFAR-10."""
    if settings.size == "smoke":
        rng, shape = np.random.default_rng(0), {"mnist": (28, 28, 1), "cifar10": (32, 32, 3)}[name]
        x, y = rng.integers(0, 256, (3, SMOKE, *shape), np.uint8), rng.integers(0, 10, (3, SMOKE))
        return Pictures(*map(Part, x, y.astype(np.int32)))
    data = {"mnist": datasets.mnist, "cifar10": datasets.cifar10}[name](settings.data_dir)
    x, x_test = (part.reshape(*part.shape[:3], -1) for part in (data.x_train, data.x_test))
    y, y_test = (part.astype(np.int32) for part in (data.y_train, data.y_test))
    train, validation = slice(-VALIDATION), slice(-VALIDATION, None)
    return Pictures(
        Part(x[train], y[train]), Part(x[validation], y[validation]), Part(x_test, y_test)
    )


def evaluation_sets(
    parts: Pictures,
    predict: Callable[[Any, Any], Any],
    read: Callable[[np.ndarray], Any],
    most: int = VALIDATION,
) -> dict[str, EvaluationSet]:
    """All test images, and the first `most` of those for validation and training."""
    limits = {"validation": most, "test": None, "train": most}
    rows = {"validation": parts.validation, "test": parts.test, "train": parts.train}
    return {
        name: EvaluationSet(predict, read(part.x[: limits[name]]), part.y[: limits[name]])
        for name, part in rows.items()
    }


def flat(x: UInt8[np.ndarray, "n h w c"]) -> np.ndarray:
    """Pixels in a row, from 0 to 1."""
    return (x.reshape(len(x), -1) / 255).astype(np.float32)


def centred(x: UInt8[np.ndarray, "n h w c"]) -> np.ndarray:
    """Pixels in a row, around 0, as the convolutional networks read them."""
    return pixels(x.reshape(len(x), -1), np.float32)
