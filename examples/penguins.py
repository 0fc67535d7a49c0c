"""Do longer bills have less depth? A table, two regressions, and a paradox.

Over all penguins, bills that are longer are less deep. Within each species it is the other way round
(Simpson's paradox). A table needs no choice of a model, no scaling, and no coding of levels.

    pip install 'vrsgmcmc[tables]' palmerpenguins
    python examples/penguins.py [folder]    writes examples-penguins.png there
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from palmerpenguins import load_penguins

import vrsgmcmc as vr

COLOURS = {"Adelie": "#D55E00", "Chinstrap": "#CC79A7", "Gentoo": "#0072B2"}
TARGET, BILL = "bill_depth_mm", "bill_length_mm"

penguins = load_penguins()
together = vr.table(penguins, TARGET, features=[BILL])
apart = vr.table(penguins, TARGET, features=[BILL, "species"])
draws_together, draws_apart = (vr.sample(0, *problem) for problem in (together, apart))
print(draws_apart.accuracy())
print(together.effects(draws_together))
print(apart.effects(draws_apart))

figure, axes = plt.subplots(figsize=(4.8, 4), dpi=150, layout="constrained")
for species, rows in penguins.groupby("species"):
    colour, bill = COLOURS[species], rows[BILL].dropna()
    axes.plot(rows[BILL], rows[TARGET], ".", color=colour, ms=4, alpha=0.6)
    new = pd.DataFrame({BILL: np.linspace(bill.min(), bill.max(), 30), "species": species})
    line = apart.predict(draws_apart, new)
    axes.plot(new[BILL], line.mean, color=colour, lw=2)
    axes.fill_between(new[BILL], line.low, line.high, color=colour, alpha=0.12, lw=0)
    axes.text(new[BILL].iloc[-1] + 0.3, line.mean[-1], species, color=colour, va="center")
new = pd.DataFrame({BILL: [33, 59]})
axes.plot(new[BILL], together.predict(draws_together, new).mean, "--", color="#555555")
axes.text(58, 15.2, "all together", color="#555555")
axes.set(xlabel="length of the bill, mm", ylabel="depth of the bill, mm", xlim=(None, 65))
figure.savefig(Path(*sys.argv[1:]) / "examples-penguins.png")
