"""Every method once more, datum by datum: what the exact laws are tested against.

`advance` and `renew` know nothing of matrices. They are affine given the minibatch and the noise, so
`Enumeration` reads their matrices off by probing them with unit vectors; all minibatches or
permutations of a few data then give the stationary law by brute force. `simulate` runs them.
"""

import math
from itertools import combinations, permutations, product
from types import SimpleNamespace

import numpy as np

from vrsgmcmc.core import Estimator, Integrator
from vrsgmcmc.theory import gaussian_mean, linear_regression

INDEPENDENT = ("with_replacement", "without_replacement")


class Description(SimpleNamespace, Estimator, Integrator):
    """A name and options: all that the exact laws read of a method."""


def describe(name, **options):
    return Description(name=name, **options)


def splitting(word, friction=1.3, temperature=1.0):
    return describe("splitting", word=word, friction=friction, temperature=temperature)


def practical(anchor_size, period, average=1):
    return describe("practical", anchor_size=anchor_size, period=period, average=average)


def sgld(temperature=1.0):
    return describe("sgld", temperature=temperature)


FULL, MINIBATCH, SAGA = describe("full"), describe("minibatch"), describe("saga")
SVRG = describe("svrg", period=3)
SHORT_SVRG = describe("svrg", period=2)
SGHMC = describe("sghmc", friction=1.3, temperature=0.7)

INTEGRATORS = [sgld(0.7), SGHMC, *map(splitting, ("BAOAB", "ABOBA", "OBABO", "UBU"))]
INTEGRATORS += [describe("leimkuhler_matthews", temperature=0.7)]


def label(description):
    return getattr(description, "word", getattr(description, "name", None))


def name_of(value):
    return f"cold-{label(value)}" if getattr(value, "temperature", 1) == 0 else label(value)


def regression(size, dimension, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(size, dimension)) + 0.5
    targets = features @ np.arange(1.0, dimension + 1) + rng.normal(size=size)
    return linear_regression(features, targets, noise_variance=1.5, prior_variance=2.0)


THOUSAND = np.random.default_rng(0).normal(size=1000) + 1.0
TWELVE = gaussian_mean(np.random.default_rng(7).normal(0.5, 1.0, 12))


def start(problem, estimator, integrator, chains):
    """The state of many chains, all zero: x, and p and the memory where the method has them."""
    size, dimension = problem.features.shape
    anchor = dimension * (estimator.name in ("practical", "svrg"))
    return {
        "x": np.zeros((chains, dimension)),
        "p": np.zeros((chains, dimension * (integrator.name != "sgld"))),
        "anchor": np.zeros((chains, anchor)),
        "old": np.zeros((chains, anchor)),
        "past": np.zeros((chains, getattr(estimator, "average", 1) - 1, dimension)),
        "table": np.zeros((chains, size * (estimator.name == "saga"), dimension)),
        "one": np.ones((chains, 1)),
    }


def datum_gradients(problem, x, one, index):
    """Of the log-likelihoods of the data `index` [chains, n] at x: [chains, n, d]."""
    features, targets = problem.features[index], problem.targets[index]
    error = targets * one - np.einsum("cnd,cd->cn", features, x)
    return features * error[:, :, None] / problem.noise_variance


def renew(problem, estimator, state, index):
    """A refresh at the mean of the present and the past positions."""
    size = len(problem.targets)
    anchor = np.concatenate([state["x"][:, None], state["past"]], axis=1).mean(1)
    gradients = datum_gradients(problem, anchor, state["one"], index)
    return state | {"anchor": anchor, "old": size * gradients.mean(1)}


def estimate(problem, estimator, state, index):
    """The gradient estimate at state["x"], and the new table."""
    size, (count, draws) = len(problem.targets), index.shape
    x, one, table = state["x"], state["one"], state["table"]
    everything = np.broadcast_to(np.arange(size), (count, size))
    here = datum_gradients(problem, x, one, index)
    if estimator.name == "full":
        total = datum_gradients(problem, x, one, everything).sum(1)
    elif estimator.name == "minibatch":
        total = size / draws * here.sum(1)
    elif estimator.name in ("practical", "svrg"):
        there = datum_gradients(problem, state["anchor"], one, index)
        total = state["old"] + size / draws * (here - there).sum(1)
    elif estimator.name == "control_variate":
        center = np.asarray(estimator.center) * one
        there = datum_gradients(problem, center, one, index)
        total = datum_gradients(problem, center, one, everything).sum(1)
        total = total + size / draws * (here - there).sum(1)
    else:
        chains = np.arange(count)[:, None]
        stored = table[chains, index]
        total = table.sum(1) + size / draws * (here - stored).sum(1)
        table = table.copy()
        table[chains, index] = here
    return total - x / problem.prior_variance, table


def advance(problem, estimator, integrator, h, state, index, normal):
    """One step. `normal()` gives [chains, d] standard normals."""
    past = np.concatenate([state["x"][:, None], state["past"]], axis=1)[:, :-1]
    x, p = state["x"], state["p"]
    state = state | {"past": past}
    T = integrator.temperature
    if integrator.name == "sgld":
        g, table = estimate(problem, estimator, state, index)
        return state | {"x": x + h * g + math.sqrt(2 * h * T) * normal(), "table": table}
    if integrator.name == "leimkuhler_matthews":  # p is the old noise, times the root of T
        g, table = estimate(problem, estimator, state, index)
        new = math.sqrt(T) * normal()
        return state | {"x": x + h * g + math.sqrt(h / 2) * (p + new), "p": new, "table": table}
    f = integrator.friction
    if integrator.name == "sghmc":
        g, table = estimate(problem, estimator, state, index)
        p = (1 - h * f) * p + h * g + math.sqrt(2 * f * T * h) * normal()
        return state | {"x": x + h * p, "p": p, "table": table}

    word = integrator.word
    last = max(k for k, letter in enumerate(word) if letter in "AU")
    g, table = None, state["table"]
    for letter in word[last + 1 :] + word[: last + 1]:
        t = h / word.count(letter)
        keep = math.exp(-f * t)
        if letter == "A":
            x = x + t * p
        elif letter == "B":
            if g is None:
                g, table = estimate(problem, estimator, state | {"x": x}, index)
            p = p + t * g
        elif letter == "O":
            p = keep * p + math.sqrt(T * (1 - keep**2)) * normal()
        else:
            # The exact flow of A and O together: dx = p dt, dp = -f p dt + sqrt(2 f T) dW.
            spread = T * (1 - keep**2)
            shared = T * (1 - keep) ** 2 / f
            travelled = T * (2 * f * t - 3 + 4 * keep - keep**2) / f**2
            first, second = math.sqrt(spread) * normal(), normal()
            rest = math.sqrt(max(travelled - (shared**2 / spread if spread else 0.0), 0.0))
            along = shared / spread * first if spread else 0.0
            x = x + (1 - keep) / f * p + along + rest * second
            p = keep * p + first
    return state | {"x": x, "p": p, "table": table}


def subsets(size, count, order):
    if order == "with_replacement":
        return list(product(range(size), repeat=count))
    return list(combinations(range(size), count))


def sweeps(size, count, order):
    """All sweeps: for each permutation the blocks in the order in which they are visited."""
    result = []
    for line in permutations(range(size)):
        blocks = [line[k : k + count] for k in range(0, size - count + 1, count)]
        result.append(blocks + blocks[::-1] if order == "symmetric" else blocks)
    return result


def pack(state):
    return np.concatenate([part.reshape(len(part), -1) for part in state.values()], axis=1)


def unpack(vectors, like):
    parts, place = {}, 0
    for name, part in like.items():
        width = math.prod(part.shape[1:])
        parts[name] = vectors[:, place : place + width].reshape(len(vectors), *part.shape[1:])
        place += width
    return parts


class Enumeration:
    """Matrices of second moments, M' = operator M, read off the second implementation."""

    def __init__(self, problem, estimator, integrator, h):
        self.arguments = problem, estimator, integrator, h
        self.like = start(problem, estimator, integrator, 1)
        self.width = pack(self.like).shape[1]
        self.dimension = problem.features.shape[1]
        self.normals = 8  # more than any step asks for

    def operator(self, function):
        """E over the noise of kron(A, A), for one choice of minibatch."""
        width, count = self.width, self.normals * self.dimension
        vectors = np.concatenate([np.eye(width), np.zeros((count, width))])
        units = np.concatenate([np.zeros((width, count)), np.eye(count)])
        units = iter(np.moveaxis(units.reshape(-1, self.normals, self.dimension), 1, 0))
        image = pack(function(unpack(vectors, self.like), len(vectors), lambda: next(units)))
        matrix, noise = image[:width].T, image[width:].T
        result = np.kron(matrix, matrix)
        result[:, -1] += (noise @ noise.T).ravel()  # the last coordinate is 1
        return result

    def step(self, batch):
        problem, estimator, integrator, h = self.arguments
        return self.operator(
            lambda state, chains, normal: advance(
                problem, estimator, integrator, h, state, np.tile(batch, (chains, 1)), normal
            )
        )

    def refresh(self, batch):
        problem, estimator, _, _ = self.arguments
        return self.operator(
            lambda state, chains, _: renew(problem, estimator, state, np.tile(batch, (chains, 1)))
        )

    def law(self, *, batch_size, order, anchor_order="without_replacement"):
        """Means and covariances of the position at each phase of the cycle."""
        problem, estimator, _, _ = self.arguments
        size = len(problem.targets)
        anchored = estimator.name in ("practical", "svrg")
        period = estimator.period if anchored else 1
        anchor_size = estimator.anchor_size if estimator.name == "practical" else size
        if estimator.name == "svrg":
            anchor_order = "without_replacement"

        if order in INDEPENDENT:
            mean = np.mean([self.step(b) for b in subsets(size, batch_size, order)], axis=0)
            steps = [[mean]]
        else:
            steps = [[self.step(b) for b in s] for s in sweeps(size, batch_size, order)]
        refreshes = [[np.eye(self.width**2)]]
        if anchored and anchor_order in INDEPENDENT:
            draws = subsets(size, anchor_size, anchor_order)
            refreshes = [[np.mean([self.refresh(b) for b in draws], axis=0)]]
        elif anchored:
            refreshes = [
                [self.refresh(b) for b in s] for s in sweeps(size, anchor_size, anchor_order)
            ]
        length = math.lcm(len(steps[0]), period * len(refreshes[0]))
        # One sweep of either stream per cycle: a second would be another, independent permutation.
        assert len(steps) == 1 or len(steps[0]) == length
        assert len(refreshes) == 1 or period * len(refreshes[0]) == length

        phases = np.zeros((length, self.width**2, self.width**2))
        for s, r in product(steps, refreshes):
            so_far = np.eye(self.width**2)
            for l in range(length):
                if l % period == 0:
                    so_far = r[l // period % len(r)] @ so_far
                so_far = s[l % len(s)] @ so_far
                phases[l] += so_far / (len(steps) * len(refreshes))

        cycle = np.eye(self.width**2) - phases[-1]
        moment = np.append(np.linalg.solve(cycle[:-1, :-1], -cycle[:-1, -1]), 1.0)
        moments = (phases @ moment).reshape(length, self.width, self.width)
        x = slice(0, self.dimension)
        means = moments[:, x, -1]
        return means, moments[:, x, x] - means[:, :, None] * means[:, None, :]


def simulate(problem, estimator, integrator, h, *, batch_size, steps, order, seed, chains=20_000):
    """Final positions of independent chains, with minibatches as a sampler draws them."""
    rng = np.random.default_rng(seed)
    size, dimension = problem.features.shape
    everything = np.tile(np.arange(size), (chains, 1))
    anchored = estimator.name in ("practical", "svrg")
    anchor_size = getattr(estimator, "anchor_size", size)
    state = start(problem, estimator, integrator, chains)
    state["x"] += problem.posterior()[0]

    def normal():
        return rng.normal(size=(chains, dimension))

    for l in range(steps):
        if anchored and l % estimator.period == 0:
            index = rng.permuted(everything, axis=1)[:, :anchor_size]
            state = renew(problem, estimator, state, index)
        if order == "with_replacement":
            index = rng.integers(size, size=(chains, batch_size))
        elif order == "without_replacement":
            index = rng.permuted(everything, axis=1)[:, :batch_size]
        else:
            blocks = size // batch_size
            block = l % (2 * blocks if order == "symmetric" else blocks)
            if block == 0:
                sweep = rng.permuted(everything, axis=1)
            block = 2 * blocks - 1 - block if block >= blocks else block
            index = sweep[:, block * batch_size : (block + 1) * batch_size]
        state = advance(problem, estimator, integrator, h, state, index, normal)
    return state["x"]
