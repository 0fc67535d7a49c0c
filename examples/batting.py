"""Who bats best? A hierarchical model in NumPyro, and what partial pooling is good for.

In April 1970 eighteen baseball players had been at bat 45 times each. Clemente had hit 18 of them
(0.400), Alvis 7 (0.156). How well do they bat in the rest of the season? The data are those of Efron
and Morris (1975), answers included.

    pip install 'vrsgmcmc[numpyro]'
    python examples/batting.py [folder]    writes examples-batting.png there
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist

import vrsgmcmc as vr

TABLE = """
    Clemente 18 .346  Robinson 17 .298    Howard 16 .276     Johnstone 15 .222  Berry 14 .273
    Spencer 14 .270   Kessinger 13 .263   Alvarado 12 .210   Santo 11 .269      Swoboda 11 .230
    Unser 10 .264     Williams 10 .256    Scott 10 .303      Petrocelli 10 .264
    Rodriguez 10 .226 Campaneris 9 .285   Munson 8 .316      Alvis 7 .200
"""  # hits in 45 times at bat, and the average in the rest of the season
names, hits, later = np.array(TABLE.split()).reshape(-1, 3).T
hits, later = hits.astype(int), later.astype(float)
player = np.arange(18)  # of each row


def model(player, players, hits=None):
    typical = numpyro.sample("typical", dist.Normal(-1, 0.5))  # log odds of a hit
    spread = numpyro.sample("spread", dist.HalfNormal(0.5))  # how much players differ
    with numpyro.plate("players", players):
        z = numpyro.sample("z", dist.Normal(0, 1))
    log_odds = numpyro.deterministic("log_odds", typical + spread * z)
    with numpyro.plate("rows", len(player)):
        numpyro.sample("hits", dist.Binomial(45, logits=log_odds[player]), obs=hits)


problem = vr.from_numpyro(model, player, len(names), hits=hits)
result = vr.sample(0, *problem)
print(result.accuracy())
log_odds = problem.constrain(result.draws)["log_odds"].reshape(-1, len(names))
low, pooled, high = np.quantile(1 / (1 + np.exp(-log_odds)), [0.05, 0.5, 0.95], axis=0)
for what, guess in (("45 times at bat", hits / 45), ("the pooled medians", pooled)):
    print(f"{what} miss the later averages by {np.sqrt(np.mean((guess - later) ** 2)):.3f}")

place = np.arange(len(names))[::-1]
figure, axes = plt.subplots(figsize=(4.8, 5.2), dpi=150, layout="constrained")
axes.hlines(place, low, high, color="#9DBFD9", lw=5, label="90 % of the posterior")
axes.plot(hits / 45, place, "o", color="#999999", mfc="white", label="45 times at bat")
axes.plot(later, place, "D", color="#D55E00", ms=5, label="rest of the season")
axes.plot(pooled, place, "|", color="#0072B2", ms=11, mew=3, label="median")
axes.set(yticks=place, yticklabels=names, xlabel="batting average")
figure.legend(loc="outside upper center", ncols=2, frameon=False)
figure.savefig(Path(*sys.argv[1:]) / "examples-batting.png")
