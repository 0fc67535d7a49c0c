"""The sections and the figure that show an audit."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure

from .figures import COLOURS, GREY, WIDTH, canvas, finite, heading, legend, plain, style
from .page import Section, Table, cell


class Audit(Protocol):
    """What a report reads of `vr.Audit`."""

    @property
    def estimator(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def inflation(self) -> float: ...
    @property
    def plain_inflation(self) -> float: ...
    @property
    def full_inflation(self) -> float: ...
    @property
    def cost(self) -> float: ...
    @property
    def plain_batch_size(self) -> int: ...
    @property
    def blocks(self) -> Sequence[Any]: ...
    @property
    def options(self) -> Sequence[Any]: ...


def audit_sections(audit: Audit | None) -> Iterator[Section]:
    """The sections of an audit; none without one."""
    if audit is None:
        return
    verdict = audit.verdict[:1].upper() + audit.verdict[1:]
    yield Section(
        "Is variance reduction helping?",
        f"{verdict}\n\nA ratio is gradient noise against injected noise, at one step and at rest (as a "
        "chain of small steps feels it); plain is that of minibatches at the same cost. Inflation is "
        "how much too wide the posterior variances become.",
        figure=partial(audit_figure, audit, verdict=False),
        caption=f"A step costs {cell(audit.cost)} per-datum gradients, refreshes included.",
        table=Table(
            ("block", "parameters", "ratio", "at rest", "plain", "inflation"),
            [tuple(block) for block in audit.blocks],
            ("", ",", *[".3g"] * 3, "+.1%"),
        ),
        alt=f"Posterior variances are too wide by {audit.inflation:.1%}; with plain minibatches by "
        f"{audit.plain_inflation:.1%}, with the full gradient by {audit.full_inflation:.1%}.",
    )
    if audit.options:
        yield Section(
            "Other ways to run",
            "What the same model expects of each.",
            table=Table(
                ("change", "inflation by noise", "inflation", "gradients per step"),
                [tuple(option) for option in audit.options],
                ("", "+.1%", "+.1%", ".4g"),
            ),
        )


@style()
def audit_figure(
    audit: Audit, path: Any = None, width: float = WIDTH, verdict: bool = True
) -> Figure:
    """Inflation of the run, of plain minibatches and of the full gradient; noise by block."""
    low = 0.9 + 0.36 * len(audit.blocks)
    figure, (top, bottom) = canvas(2.6 + low, rows=2, width=width, height_ratios=(1.5, low))
    ways = plain(audit.estimator), f"minibatches of {audit.plain_batch_size}", "full gradient"
    inflation = audit.inflation, audit.plain_inflation, audit.full_inflation
    colours = COLOURS[2], COLOURS[1], GREY
    top.barh((2, 1, 0), [100 * finite(value) for value in inflation], color=colours)
    notes = ["" if np.isfinite(value) else ": no limit" for value in inflation]
    top.set_yticks((2, 1, 0), [f"{way}{note}" for way, note in zip(ways, notes, strict=True)])
    top.set_title(heading("posterior variances are too wide by, in %", 0.7 * width))
    rows = np.arange(len(audit.blocks))[::-1]
    for k, (field, shift) in enumerate((("at_rest", 0.2), ("plain", -0.2))):
        values = [finite(getattr(block, field)) for block in audit.blocks]
        bottom.barh(rows + shift, values, 0.38, color=colours[k], label=ways[k])
    bottom.axvline(1, color=GREY, linewidth=1)
    bottom.set_yticks(rows, [plain(block.name, int(4.2 * width)) for block in audit.blocks])
    bottom.set_title(heading("gradient noise / injected noise, at rest", 0.7 * width))
    legend(figure, [bottom])
    if verdict:
        figure.suptitle(heading(audit.verdict, 1.1 * width), fontsize=10, x=0.01, ha="left")
    if path is not None:
        figure.savefig(path)
    return figure
