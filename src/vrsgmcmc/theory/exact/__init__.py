"""The exact law of stochastic gradient MCMC on linear-Gaussian problems.

Given its minibatches a step is affine, so mean and covariance of the position solve a linear
equation. Nothing is approximated, and no code is shared with the samplers: tests compare the two.
The parts, each from its own equations:

    problems.py   linear regression with known noise; the Gaussian mean model
    draws.py      sizes and orders of the draws
    schemes.py    integrators as affine maps of (x, p)
    affine.py     second moments of random affine maps, and their fixed point
    sweeps.py     maps of independent draws and of blocks of a permutation
    chains.py     the estimators; one cycle of refreshes and steps
    laws.py       the stationary law and its autocovariances
    averages.py   the error of an average over a run: `mse`
    closure.py    the same for squares, as if all positions were jointly Gaussian
    moments.py    the same for squares, exactly: fourth moments of the Gaussian mean model
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
