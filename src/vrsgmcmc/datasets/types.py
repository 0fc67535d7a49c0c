"""What the loaders return."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, UInt8


class Images(NamedTuple):
    """Pictures and their classes, in the order in which they were published."""

    x_train: UInt8[np.ndarray, "n height width *channels"]
    """Grey values or RGB, 0 to 255, channel last."""
    y_train: Int32[np.ndarray, " n"]
    """0 to 9, places in `classes`."""
    x_test: UInt8[np.ndarray, "m height width *channels"]
    y_test: Int32[np.ndarray, " m"]
    classes: tuple[str, ...]


class Tokens(NamedTuple):
    """Running text as numbers of words, one `<eos>` at the end of every line, empty lines included."""

    train: Int32[np.ndarray, " n"]
    """Places in `vocabulary`."""
    valid: Int32[np.ndarray, " m"]
    test: Int32[np.ndarray, " k"]
    vocabulary: tuple[str, ...]
    """The words of the training text, in the order in which they first appear there."""
