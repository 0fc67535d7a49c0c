"""Does 90 % mean 90 %? One model and one prior in scikit-learn: best fit, and posterior.

LogisticRegression with C=1 finds the mode of the posterior with prior sd 1. With 60 rows and 20 columns
the mode is too sure of itself; the mean over the posterior is not. Ten small studies, each with 5,000
new rows to test on, tell how often a prediction comes true.

    pip install 'vrsgmcmc[sklearn]'
    python examples/probabilities.py [folder]    writes examples-probabilities.png there
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vrsgmcmc as vr

MODELS = {
    "posterior": (
        vr.sklearn.BayesianLogisticRegression(prior_scale=1.0, random_state=0),
        "#0072B2",
    ),
    "best fit, same prior": (LogisticRegression(C=1.0), "#D55E00"),
    "best fit, no prior": (LogisticRegression(C=np.inf, max_iter=1000), "#999999"),
}

rng = np.random.default_rng(0)
predicted = {name: [] for name in MODELS}
true = []
for _ in range(10):
    x = rng.normal(size=(5_060, 20))
    y = rng.random(len(x)) < 1 / (1 + np.exp(-x @ rng.normal(size=20)))
    true.extend(y[60:])
    for name, (model, _) in MODELS.items():
        pipeline = make_pipeline(StandardScaler(), model).fit(x[:60], y[:60])
        predicted[name].extend(pipeline.predict_proba(x[60:])[:, 1])

true = np.array(true)
figure, axes = plt.subplots(figsize=(4.8, 4.4), dpi=150, layout="constrained")
axes.plot([0, 1], [0, 1], color="#BBBBBB", lw=1)
for name, (_, colour) in MODELS.items():
    p = np.array(predicted[name])
    sure = p > 0.9
    print(f"{name}: log loss {log_loss(true, p):.2f}; when it says ", end="")
    print(f"{p[sure].mean():.0%}, it comes true in {true[sure].mean():.0%}")
    bins = np.digitize(p, np.linspace(0, 1, 11)[1:-1])
    points = [(p[bins == k].mean(), true[bins == k].mean()) for k in np.unique(bins)]
    axes.plot(*zip(*points, strict=True), "o-", color=colour, label=name)
axes.set(xlabel="predicted probability", ylabel="how often it came true")
axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
axes.legend(frameon=False)
figure.savefig(Path(*sys.argv[1:]) / "examples-probabilities.png")
