"""Labels in rows: a group of images, a stretch of text."""

from __future__ import annotations

from typing import Any

import numpy as np

from vrsgmcmc.models.logistic import check_labels


def check_rows(model: str, labels: Any, num_classes: int, repair: str) -> None:
    """Refuses rows [N, ...] in which a label is no integer 0..num_classes-1, and tells which row."""
    rows = np.asarray(labels)
    rows = rows.reshape(len(rows), -1)
    low, high = rows.min(axis=1, initial=0), rows.max(axis=1, initial=0)
    check_labels(model, np.where(low < 0, low, high), num_classes, repair)
