"""What does a network not know? The posterior of its last layer, beside the trained fit.

A small network of Flax fits a curve whose data have a gap. The trained weights give one line, which
looks as sure in the gap as anywhere. The posterior of the last layer, a regression on the 50 features
that the network has learned, opens where there are no data.

    pip install 'vrsgmcmc[flax]'
    python examples/network.py [folder]    writes examples-network.png there
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import nnx

import vrsgmcmc as vr


class Net(nnx.Module):
    def __init__(self, rngs):
        spread = nnx.initializers.normal(1.5)  # bends everywhere, not only at zero
        self.hidden = nnx.Linear(1, 50, bias_init=spread, rngs=rngs)
        self.last = nnx.Linear(50, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(jnp.tanh(self.hidden(x)))[..., 0]


@nnx.jit
def train_step(net, optimiser):
    optimiser.update(net, nnx.grad(lambda net: jnp.mean((net(x) - y) ** 2))(net))


rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(-3, -0.5, 50), rng.uniform(1.5, 3, 50)])[:, None]
y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 0] + rng.normal(0, 0.2, 100)
net = Net(nnx.Rngs(0))
optimiser = nnx.Optimizer(net, optax.adam(1e-2), wrt=nnx.Param)
for _ in range(1000):
    train_step(net, optimiser)

last_layer = vr.from_flax(net, (x, y), "normal", scale=0.2, sample_only=lambda path: "last" in path)
result = vr.sample(0, *last_layer)
print(result.accuracy())
grid = np.linspace(-4, 4, 201)[:, None]
low, high = np.quantile(last_layer.outputs(result, grid), [0.05, 0.95], axis=0)
print(f"90 % interval: {high[50] - low[50]:.1f} wide at x = -2, {high[112] - low[112]:.1f} at 0.5")
figure, axes = plt.subplots(figsize=(4.8, 3.8), dpi=150, layout="constrained")
axes.fill_between(grid[:, 0], low, high, color="#9DBFD9", lw=0, label="90 % of the posterior")
axes.plot(grid, net(grid), color="#0072B2", label="trained network")
axes.plot(grid, np.sin(2 * grid) + 0.3 * grid, "--", color="#D55E00", label="the truth")
axes.plot(x, y, ".", color="black", ms=3)
axes.legend(frameon=False)
figure.savefig(Path(*sys.argv[1:]) / "examples-network.png")
