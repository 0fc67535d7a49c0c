"""When does minibatch noise spoil a posterior? Exact laws, and runs that obey them.

Small steps are slow, large steps make the posterior too wide, the more the noisier the gradients. For
a linear regression `vr.theory.stationary` computes the law of the chain exactly: how wide each method's
posterior becomes at each step size. Circles are runs of `vr.sample` with these step sizes.

    python examples/noise.py [folder]    writes examples-noise.png there
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import vrsgmcmc as vr

METHODS = {  # each takes 30 gradients a step, the last one 1,000
    "minibatch of 30": (vr.minibatch(), 30, "#D55E00"),
    "SVRG, 10 + anchor": (vr.svrg(), 10, "#0072B2"),
    "full gradient": (vr.full(), 1000, "#777777"),
}

rng = np.random.default_rng(0)
x = rng.normal(size=(1000, 2))
y = x @ [1.0, -1.0] + rng.normal(size=1000)
posterior, data = vr.models.linear.posterior(), (jnp.asarray(x), jnp.asarray(y))
problem = vr.theory.linear_regression(x, y)
mean, covariance = problem.posterior()
sd = np.sqrt(np.diag(covariance)).mean()

figure, axes = plt.subplots(figsize=(4.8, 4), dpi=150, layout="constrained")
steps = np.geomspace(3e-6, 1e-3, 25)
for name, (estimator, batch, colour) in METHODS.items():
    method = dict(estimator=estimator, integrator=vr.sgld(), batch_size=batch)

    def law_sd(h, method=method):
        law = vr.theory.stationary(problem, step_size=h, **method)
        return np.sqrt(np.diag(law.covariance)).mean()

    widths = np.array([law_sd(h) for h in steps]) / sd
    axes.plot(steps, widths, color=colour, label=name)
    for h in (1e-5, 1e-4, 5e-4):
        lengths = dict(num_steps=20_000, burn_in=int(3e-3 / h) + 200, num_chains=4)
        run = vr.sample(0, posterior, data, jnp.asarray(mean), step_size=h, **lengths, **method)
        width = run.draws.std((0, 1)).mean() / sd
        print(f"{name}, step {h:g}: {width:.2f} posterior sds wide, law {law_sd(h) / sd:.2f}")
        axes.plot(h, width, "o", color=colour, mfc="white")
axes.set(xscale="log", xlabel="step size", ylim=(0.8, 6.5))
axes.set_ylabel("sd of the draws / sd of the posterior")
axes.legend(frameon=False)
figure.savefig(Path(*sys.argv[1:]) / "examples-noise.png")
