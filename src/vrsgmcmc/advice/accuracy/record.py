"""How right a result is: bounds for every parameter, and a verdict in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri

from vrsgmcmc.run import html

GOOD = 0.1  # of a standard deviation: what means and sds may be off by
R_HAT = 1.05
MOST_ROWS = 10  # of the table in a notebook, worst first


@dataclass(frozen=True)
class Accuracy:
    """95 % upper bounds of the errors, relative to the posterior's standard deviations."""

    mean: np.ndarray = field(repr=False)  # [parameter]: |error of the mean| / sd
    sd: np.ndarray = field(repr=False)  # [parameter]: |error of the sd| / sd
    names: tuple[str, ...] = field(repr=False)
    subject: str  # what the bounds are for: "parameter", or "prediction"
    ess: float  # the least
    r_hat: float  # the largest
    bias: float  # the largest bias of a mean or sd that the coupled runs saw
    virial: float  # -E (x - c) . g(x) / d on all data, 1 for the posterior; NaN: not measured
    virial_error: float  # its standard error
    laplace_mean: np.ndarray | None = field(repr=False)  # [parameter]: mean - mode, in sds
    laplace_sd: np.ndarray | None = field(repr=False)  # [parameter]: sd / that of Laplace
    evaluations: int  # that the look took
    ended_by: str = ""
    modes: str = ""
    notes: tuple[str, ...] = ()
    doubt: str = ""  # what no measurement here can tell, and without which a result is not good

    @property
    def worst(self) -> tuple[float, float]:
        """The largest bound of a mean and of an sd."""
        return float(np.max(self.mean, initial=0.0)), float(np.max(self.sd, initial=0.0))

    @property
    def problems(self) -> list[str]:
        """Why the result is not good; empty: it is."""
        reasons, (mean, sd) = [], self.worst
        if self.r_hat > R_HAT:  # NaN: one chain
            reasons.append(f"R-hat is {self.r_hat:.3g}: the chains do not agree")
        if not mean <= GOOD:
            name = self.names[int(np.argmax(self.mean))]
            reasons.append(f"the mean of {name} may be off by {mean:.2g} sd")
        if not sd <= GOOD:
            name = self.names[int(np.argmax(self.sd))]
            reasons.append(f"the sd of {name} may be off by {sd:.0%}")
        if abs(self.virial - 1) > max(4 * self.virial_error, 0.1):
            reasons.append(
                f"on all data the chain is {self.virial:.2f} times as wide as the posterior allows"
            )
        if self.doubt:
            reasons.append(self.doubt)
        return reasons

    @property
    def good(self) -> bool:
        return not self.problems

    @property
    def verdict(self) -> str:
        mean, sd = self.worst
        if self.good:
            good = "Good"
            if self.subject == "parameter" and np.isnan(self.bias):
                good = "Good but for the bias of its steps, which was not measured"
            text = (
                f"{good}: every {self.subject}'s mean is within {mean:.2g} sd and its sd within "
                f"{sd:.0%} (95 % for each)."
            )
        else:
            text = f"Not good: {'; '.join(self.problems)}."
        return " ".join(
            filter(None, [text, self.ended_by, self.laplace(), self.modes and f"{self.modes}."])
        )

    def laplace(self) -> str:
        """The moments of the Gaussian at the mode beside those of the draws."""
        if self.laplace_mean is None or self.laplace_sd is None:
            return ""
        shift, ratio = np.abs(self.laplace_mean), np.abs(np.log(self.laplace_sd))
        # 95 % for all 2d comparisons together: of many bounds of 95 % each, chance alone exceeds some.
        wider = ndtri(0.025 / max(1, 2 * len(shift))) / ndtri(0.025)
        outside = (shift > wider * self.mean) | (np.expm1(ratio) > wider * self.sd)
        far = [self.names[j] for j in np.flatnonzero(outside)]
        if not far:
            return "Laplace's approximation has the same moments, as far as this run can tell."
        some = ", ".join(far[:3]) + (", ..." if len(far) > 3 else "")
        j = int(np.argmax(shift))
        return (
            f"Laplace's approximation differs for {len(far)} of {len(shift)} ({some}): its mean by up "
            f"to {shift[j]:.2g} sd, its sd by up to {math.expm1(float(ratio.max())):.0%}."
        )

    def __str__(self) -> str:
        lines = [self.verdict, f"least ESS {self.ess:,.0f}, largest R-hat {self.r_hat:.3f}"]
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        worst = np.argsort(-np.fmax(self.mean, self.sd), kind="stable")[:MOST_ROWS]
        rows = ((self.names[j], self.mean[j], self.sd[j]) for j in worst)
        more = f"The worst {len(worst)} of {len(self.names):,}." * (len(worst) < len(self.names))
        _, *lines = str(self).split("\n")
        return html.document(
            self.verdict,
            html.table((self.subject, "mean off by (sds)", "sd off by"), rows, ("", ".3f", ".1%")),
            html.paragraphs([more, *lines]),
        )

    def to_json(self) -> dict[str, Any]:
        plain = {**vars(self), "names": list(self.names), "notes": list(self.notes)}
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in plain.items()
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Accuracy:
        arrays = ("mean", "sd", "laplace_mean", "laplace_sd")
        values = dict(record)
        for name in arrays:
            values[name] = None if values[name] is None else np.asarray(values[name], float)
        for name in ("ess", "r_hat", "bias", "virial", "virial_error"):
            values[name] = float(values[name])
        values["names"], values["notes"] = tuple(values["names"]), tuple(values["notes"])
        return cls(**values)
