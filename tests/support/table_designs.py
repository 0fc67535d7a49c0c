"""Designs by hand, from arrays in their own units."""

import numpy as np

from vrsgmcmc.datasets.tables import Column, Design, Group, Target


def design(x, y, kind, labels=(), groups=None, model="", levels=()):
    """Columns of numbers `x` [n, p], named a, b, ..., then a level column for each name of `levels`."""
    x = np.asarray(x, float)
    n, p = x.shape
    names = [chr(ord("a") + j) for j in range(p)]
    scale = np.where(np.isin(np.arange(p), np.arange(p - len(levels), p)), 1.0, x.std(0))
    columns = [
        Column(name, (name,), float(c), float(s), "number")
        for name, c, s in zip(names, x.mean(0), scale, strict=True)
    ]
    for place, level in enumerate(levels, start=p - len(levels)):
        columns[place] = columns[place]._replace(
            name=f"cut[{level}]", sources=("cut",), kind="level", level=level, reference="Fair"
        )
    center, unit = (float(y.mean()), float(y.std())) if kind == "number" else (0.0, 1.0)
    values = (y - center) / unit if kind == "number" else y.astype(np.int32)
    target = Target("target", kind, tuple(labels), center, unit, model, "")
    made = tuple(
        Group(name, tuple(f"{name}{k}" for k in range(codes.max() + 1)), codes)
        for name, codes in (groups or {}).items()
    )
    table = (x - x.mean(0)) / scale, values, tuple(columns), target, made
    return Design(*table, np.arange(n), "row", None, ())
