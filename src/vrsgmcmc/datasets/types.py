"""The records that the loaders return."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, UInt8


class Images(NamedTuple):
    """Pictures and their classes, in their published order."""

    x_train: UInt8[np.ndarray, "n height width *channels"]
    """Grey values or RGB, 0 to 255, channel last."""
    y_train: Int32[np.ndarray, " n"]
    """0 to 9, indices into `classes`."""
    x_test: UInt8[np.ndarray, "m height width *channels"]
    y_test: Int32[np.ndarray, " m"]
    classes: tuple[str, ...]


class Tokens(NamedTuple):
    """Text as indices of words, with one `<eos>` at the end of every line, also of empty ones."""

    train: Int32[np.ndarray, " n"]
    """Indices into `vocabulary`."""
    valid: Int32[np.ndarray, " m"]
    test: Int32[np.ndarray, " k"]
    vocabulary: tuple[str, ...]
    """The words of the training text, in the order of their first appearance."""
