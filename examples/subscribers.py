"""How long do subscribers stay? A log-likelihood of your own, and 200,000 rows.

Two thirds of the subscribers are still there. Of these the table says only that they stayed at least
this long: a censored time, which few ready-made models know. The density of one row is enough.

    python examples/subscribers.py [folder]    writes examples-subscribers.png there
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import vrsgmcmc as vr

PLANS = {"monthly": "#D55E00", "yearly": "#0072B2", "family": "#009E73"}  # and their colours
LIFE, SHAPE = np.array([14.0, 40.0, 70.0]), 0.8  # what made the data: months, and how hazards fall

rng = np.random.default_rng(0)
plan = rng.integers(0, 3, 200_000)
stay = LIFE[plan] * rng.weibull(SHAPE, plan.size)  # months until they leave
since = rng.uniform(0, 24, plan.size)  # months since they came: the shop is two years old
data = {"plan": plan, "months": np.minimum(stay, since), "left": stay < since}


def logprior(p):
    return -0.5 * jnp.sum((p["log_life"] - 3) ** 2) - 0.5 * p["log_shape"] ** 2


def loglik(p, row):  # a Weibull density for who left, P(longer) for who is still there
    log_t = jnp.log(row["months"]) - p["log_life"][row["plan"]]
    shape = jnp.exp(p["log_shape"])
    log_hazard = p["log_shape"] + shape * log_t - jnp.log(row["months"])
    return row["left"] * log_hazard - jnp.exp(shape * log_t)


init = {"log_life": jnp.full(3, 3.0), "log_shape": 0.0}
result = vr.sample(0, vr.Posterior(logprior, loglik), data, init)
print(result.accuracy())

life, shape = np.exp(result.draws["log_life"]), np.exp(result.draws["log_shape"])
half = life * np.log(2) ** (1 / shape[..., None])  # months until half of them have left
t = np.linspace(0.1, 60, 200)
figure, axes = plt.subplots(figsize=(4.8, 3.8), dpi=150, layout="constrained")
for k, (plan_name, colour) in enumerate(PLANS.items()):
    low, mid, high = np.quantile(half[..., k], [0.05, 0.5, 0.95])
    truth = LIFE[k] * np.log(2) ** (1 / SHAPE)
    print(f"{plan_name}: half leave in {mid:.1f} months ({low:.1f}-{high:.1f}); truth {truth:.1f}")
    stays = np.exp(-((t / life[..., k].mean()) ** shape.mean()))
    axes.plot(t, stays, color=colour)
    gone = np.sort(data["months"][data["left"] & (plan == k)])
    axes.plot(gone, np.linspace(1, 0, gone.size), "--", color=colour, lw=1)
    axes.text(61, stays[-1], plan_name, color=colour, va="center")
axes.axvline(24, color="#BBBBBB", lw=1, zorder=0)
axes.text(25, 0.94, "the data end here", color="#777777")
axes.set_title("dashed: from those who left alone", fontsize="medium")
axes.set(xlabel="months", ylabel="share still subscribed", xlim=(0, 60), ylim=(0, 1))
figure.savefig(Path(*sys.argv[1:]) / "examples-subscribers.png")
