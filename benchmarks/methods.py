"""The contestants of efficiency.py: each prepares a problem and returns a function of the seed.

    run = METHODS["laplace"].prepare(problem, budget)      budget in passes over the data, of all chains
    points = run(seed)                                     moments after so many evaluations and seconds

Seconds are CPU seconds of the process, searches and warm-up included; of a first run also compilation.
Who needs a mode gets Newton's method of oracle.py, one pass for each iteration, which is charged.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from oracle import Table, laplace
from problems import Problem, logprior

import vrsgmcmc as vr

CHAINS, BATCH, STEP, FRICTION = 4, 100, 0.2, 2.0
SETTLE = 50  # steps before the first draw of a chain that starts at the mode
# h lambda_max of BlackJAX's grids: without a centre noise asks for smaller steps; 2 is unstable.
STEPS = {True: np.geomspace(0.002, 1.8, 9), False: np.geomspace(1e-5, 1.8, 15)}
STORED = 10_000  # draws of a chain that are stored, evenly spread


class Point(NamedTuple):
    evaluations: float
    seconds: float
    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class Method:
    """`budgeted`: a run is for one budget; else one run gives the points of all."""

    prepare: Callable[[Problem, float], Callable[[int], list[Point]]]
    budgeted: bool = True


def moments(draws) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of draws [chain, draw, ...] of all chains together."""
    flat = np.asarray(draws, np.float64)
    flat = flat.reshape(flat.shape[0] * flat.shape[1], -1)
    return flat.mean(0), flat.var(0)


def batch_size(problem: Problem) -> int:
    return min(BATCH, max(1, problem.size // 10))


def approximate(problem: Problem, budget: float):
    """Laplace: the mode and the inverse Hessian, no sampling."""

    def run(seed):
        began = time.process_time()
        around = laplace(Table.of(problem))
        cost = around.passes * problem.size
        return [Point(cost, time.process_time() - began, around.mode, around.sd**2)]

    return run


def automatic(problem: Problem, budget: float, plain: bool = False):
    """`vr.sample` until its budget is spent: the target of effective draws is out of reach."""
    posterior = problem.plain if plain else problem.posterior
    data = jax.tree.map(jnp.asarray, problem.data)

    def run(seed):
        began = time.process_time()
        options = {"budget": f"{budget:g} passes", "ess": 1e6, "progress": False}
        result = vr.sample(seed, posterior, data, problem.init, **options)
        seconds = time.process_time() - began
        return [Point(result.evaluations, seconds, *moments(result.draws))]

    return run


def preconditioned(problem: Problem, budget: float):
    """Control variate and BAOAB in z, x = mode + L z, by hand."""
    n, data = batch_size(problem), jax.tree.map(jnp.asarray, problem.data)

    def run(seed):
        began = time.process_time()
        around = laplace(Table.of(problem))
        left = (budget - around.passes - CHAINS) * problem.size
        steps = max(20, int(left / (2 * n * CHAINS)))
        mode = jnp.asarray(around.mode, problem.init.dtype).reshape(problem.init.shape)
        result = vr.sample(
            seed,
            problem.posterior,
            data,
            mode,
            estimator=vr.control_variate(mode),
            integrator=vr.splitting("BAOAB", FRICTION),
            step_size=STEP,
            batch_size=n,
            num_steps=steps,
            num_chains=CHAINS,
            burn_in=min(SETTLE, steps // 10),
            thin=max(1, steps // STORED),
            metric=(mode, around.factor.astype(np.float32)),
            progress=False,
        )
        draws = np.asarray(result.draws)
        cost = result.evaluations + around.passes * problem.size
        return [Point(cost, time.process_time() - began, *moments(draws))]

    return run


def blackjax_sgld(problem: Problem, budget: float, centred: bool):
    """BlackJAX's SGLD at the best step of a grid; the search of the step is free."""
    n, size = batch_size(problem), problem.size
    data = jax.tree.map(jnp.asarray, problem.data)
    around = laplace(Table.of(problem))
    passes = around.passes + centred
    steps = max(100, int((budget - passes) * size / (n * (2 if centred else 1))))
    thin = max(1, steps // STORED)
    gradient = blackjax.sgmcmc.gradients.grad_estimator(logprior, problem.loglik, size)

    def chain(key, h, mode, data):
        estimate = gradient
        if centred:
            estimate = blackjax.sgmcmc.gradients.control_variates(gradient, mode, data)
        sgld = blackjax.sgld(estimate)

        def one(key, position):
            pick, move = jax.random.split(key)
            index = jax.random.randint(pick, (n,), 0, size)
            return sgld.step(move, position, jax.tree.map(lambda leaf: leaf[index], data), h)

        def several(position, key):
            keys = jax.random.split(key, thin)
            position = jax.lax.fori_loop(0, thin, lambda i, x: one(keys[i], x), position)
            return position, position

        return jax.lax.scan(several, mode, jax.random.split(key, steps // thin))[1]

    single, many = jax.jit(chain), jax.jit(jax.vmap(chain, (0, 0, None, None)))
    mode = jnp.asarray(around.mode, problem.init.dtype).reshape(problem.init.shape)
    grid = STEPS[centred] * np.min(np.linalg.svd(around.factor, compute_uv=False)) ** 2
    trials = many(jax.random.split(jax.random.key(1000), len(grid)), jnp.asarray(grid), mode, data)
    scores = [score(problem, *moments(draws[None])) for draws in np.asarray(trials)]
    place = int(np.argmin(np.where(np.isfinite(scores), scores, np.inf)))
    best = float(grid[place])
    print(
        f"    step size {place + 1} of {len(grid)}", flush=True
    )  # at an end the grid is too short

    def run(seed):
        began = time.process_time()
        laplace(Table.of(problem))  # for the clock: its mode is known
        draws = np.asarray(single(jax.random.key(seed), best, mode, data))
        cost = passes * size + steps * n * (2 if centred else 1)
        return [Point(cost, time.process_time() - began, *moments(draws[None]))]

    return run


def numpyro_nuts(problem: Problem, budget: float, warmup: int, draws: int):
    """NumPyro's NUTS with a dense mass matrix, one chain; every leapfrog step costs N."""
    data = jax.tree.map(jnp.asarray, problem.data)
    shape = problem.init.shape

    def model(data):
        normal = numpyro.distributions.Normal(0.0, 1.0).expand(shape).to_event(len(shape))
        w = numpyro.sample("w", normal)
        numpyro.factor("data", jax.vmap(problem.loglik, (None, 0))(w, data).sum())

    start = numpyro.infer.init_to_value(values={"w": problem.init})
    kernel = numpyro.infer.NUTS(model, dense_mass=True, init_strategy=start)
    begin = kernel.init(jax.random.key(0), warmup, None, (data,), {})

    # One compiled program for each part: `MCMC.run` would compile them again in every call.
    @partial(jax.jit, static_argnames="count")
    def advance(state, data, count):
        def one(state, _):
            state = kernel.sample(state, (data,), {})
            return state, (state.z["w"], state.num_steps)

        return jax.lax.scan(one, state, length=count)

    def run(seed):
        began = time.process_time()
        state, (_, used) = advance(begin._replace(rng_key=jax.random.key(seed)), data, warmup)
        before = int(np.sum(used))
        warm = time.process_time() - began
        x, used = map(np.asarray, advance(state, data, draws)[1])
        whole = time.process_time() - began
        leapfrogs = np.cumsum(used.astype(np.int64))
        points = []
        for count in np.unique(np.geomspace(20, draws, 12).astype(int)):
            share = leapfrogs[count - 1] / leapfrogs[-1]
            cost = (before + leapfrogs[count - 1]) * problem.size
            seconds = warm + share * (whole - warm)
            points.append(Point(cost, seconds, *moments(x[None, :count])))
        return points

    return run


def score(problem: Problem, mean, variance) -> float:
    """C = (squared error of means / sd^2 + squared error of variances / (2 sd^4)) / 2, averaged."""
    exact, squared = problem.reference.mean, problem.reference.sd**2
    each = (mean - exact) ** 2 / squared + (variance - squared) ** 2 / (2 * squared**2)
    return float(np.mean(each) / 2)


def table(nuts_draws: int) -> dict[str, Method]:
    nuts = {
        f"NumPyro NUTS, warm-up {warmup}": Method(
            partial(numpyro_nuts, warmup=warmup, draws=nuts_draws), budgeted=False
        )
        for warmup in (150, 300, 1000)
    }
    return {
        "auto": Method(automatic),
        "auto, plain": Method(partial(automatic, plain=True)),
        "control variate in z": Method(preconditioned),
        "BlackJAX SGLD": Method(partial(blackjax_sgld, centred=False)),
        "BlackJAX SGLD-CV": Method(partial(blackjax_sgld, centred=True)),
        "Laplace": Method(approximate, budgeted=False),
        **nuts,
    }
