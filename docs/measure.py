"""Prints the numbers of the documents: `python docs/measure.py`, or with the names of parts.

    gaussian    docs/variance-reduction.md, README.md: excess variance at a step size, exactly (seconds)
    steps       docs/variance-reduction.md: the step size that 10 % of excess allows, at equal cost
    pima        docs/choosing.md, README.md: what 200 data passes are worth, for each estimator
    saga        docs/choosing.md: what the order does to SAGA
    scales      docs/choosing.md: psgld on features of different scales, and SGLD on standardised ones
    mnist       docs/experiments.md: what noise costs the MNIST network, step for step
    cnn4        docs/experiments.md: the same for CNN-4
    ptb         docs/experiments.md: the same for the LSTM on Penn Treebank, with and without its clip
    readings    docs/experiments.md: the MNIST network if the paper counts, starts or cools differently
    next-best   docs/experiments.md: the MNIST network at the second-best step size of each method
    resnet      docs/experiments.md: vrSG-MCMC on ResNet-20 with batch-norm, at the step size of SGLD
    statistics  docs/experiments.md: what batch-norm predicts by statistics of few and of all images
    beyond      docs/experiments.md: step sizes outside of the grids of the dear networks
    claims      docs/experiments.md: answers to the paper's claims, from results/*/run.json (at once)
    ends        docs/experiments.md: where the networks ended, from results/*/curves.csv (at once)
    anchors     docs/experiments.md: the size of the anchor, step for step, from the same (at once)

Those between the first and the last three sample the Pima regression or a network, for some minutes,
`cnn4`, `ptb`, `readings`, `next-best` and `resnet` for an hour or less, `beyond` for hours.
"""

import csv
import json
import sys
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.optimize import brentq
from scipy.special import log_expit

import vrsgmcmc as vr
from vrsgmcmc.core import Sampler
from vrsgmcmc.experiments import (
    EXPERIMENTS,
    Settings,
    cnn4_cifar10,
    lstm_ptb,
    lstm_wikitext2,
    mlp_mnist,
    networks,
)
from vrsgmcmc.experiments import resnet20_cifar10 as resnet20
from vrsgmcmc.experiments.checkpoints import Checkpoints
from vrsgmcmc.experiments.claims import OF_SAMPLES
from vrsgmcmc.experiments.combined_page import curve, wider_gap
from vrsgmcmc.experiments.curves import three_digits
from vrsgmcmc.experiments.methods import PAPER, SGLD
from vrsgmcmc.experiments.progress import ExperimentProgress
from vrsgmcmc.run import find_mode

RESULTS = Path(__file__).parents[1] / "results"
SIZE = 1000  # data of the Gaussian mean model
EQUAL_COST = {  # 30 gradients per step, except for the last one; SVRG's m is N/n
    "SGLD, n = 30": dict(estimator=vr.minibatch(), batch_size=30),
    "SGLD, n = 30, shuffled": dict(estimator=vr.minibatch(), batch_size=30, order="shuffled"),
    "practical 100/10/10": dict(estimator=vr.practical(), batch_size=10),
    "practical, shuffled anchors": dict(
        estimator=vr.practical(), batch_size=10, anchor_order="shuffled"
    ),
    "SVRG, n = 10": dict(estimator=vr.svrg(), batch_size=10),
    "control variate, n = 15": dict(estimator=vr.control_variate(), batch_size=15),
    "SAGA, n = 30": dict(estimator=vr.saga(), batch_size=30),
    "full gradient": dict(estimator=vr.full(), batch_size=1),
}
PLAIN, SHUFFLED_ANCHORS = EQUAL_COST["SGLD, n = 30"], "practical, shuffled anchors"
PASSES, CHAINS, SCOUTS = 200, 128, 16
STEPS, MNIST_STEPS = 20_000, (0.5, 1.0, 2.0)  # of the MNIST network: number, h N
LSTM_STEPS, LSTM_STEP = 400, 1.0  # of the LSTM: number, h N
STEP_FOR_STEP = {
    "SGLD, n = 10": Sampler(vr.minibatch(), vr.sgld()),
    "SGLD, n = 30": Sampler(vr.minibatch(), vr.sgld(), batch_size=30),
    "vrSG-MCMC, m = 10": Sampler(vr.practical(100, 10), vr.sgld()),
    "vrSG-MCMC, an anchor for every step": Sampler(vr.practical(100, 1), vr.sgld()),
    "SGLD, n = 100": Sampler(vr.minibatch(), vr.sgld(), batch_size=100),
}
READ_STEPS = (0.25, 0.5, 1.0, 2.0)  # h N, the paper's first
BEYOND = {  # h N
    "lstm-ptb": (lstm_ptb.EXPERIMENT, (2.0, 4.0)),
    "lstm-wikitext2": (lstm_wikitext2.EXPERIMENT, (2.0, 4.0)),
    "resnet20-cifar10, group-norm": (resnet20.EXPERIMENTS["group-norm"], (0.1, 0.3)),
}
NEXT_BEST = {"SGLD, n = 10": 0.5, "SGLD, n = 30": 1.0, PAPER: 1.0}  # h N
ENDS = ["method", "h N", "test NLL", "test error"]
GRID = np.array([0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0])  # h N


class Gaussian:
    """The paper's model, x_i ~ N(theta, 1) and theta ~ N(0, 1), with S2 = 0.95."""

    def __init__(self):
        x = np.random.default_rng(0).normal(size=SIZE)
        self.problem = vr.theory.gaussian_mean(x * np.sqrt(0.95) / x.std(ddof=1))

    def excess(self, method, steps):
        """Stationary variance / posterior variance - 1 at step sizes in units of 1 / (N + 1)."""
        laws = [
            vr.theory.stationary(
                self.problem, integrator=vr.sgld(), step_size=a / (SIZE + 1), **method
            )
            for a in steps
        ]
        variances = np.array([law.covariance[0, 0] for law in laws])
        return variances / self.problem.posterior()[1][0, 0] - 1


class Pima:
    """Logistic regression, 768 rows and 9 weights."""

    def __init__(self):
        x, y = vr.datasets.pima()
        (x,) = vr.datasets.standardise(x)
        self.data = vr.datasets.with_intercept(x).astype(np.float32), y
        self.posterior, self.size = vr.models.logistic.posterior(), len(y)
        self.mode = find_mode(
            self.posterior, tuple(map(jnp.asarray, self.data)), jnp.zeros(9)
        ).params
        self.model = vr.theory.local(self.posterior, self.data, self.mode)

    def excess(self, method, steps):
        """The forecast, averaged over the weights, in units of 1 / the largest curvature."""
        sizes = np.asarray(steps) / self.model.curvature.max()
        there = vr.theory.forecast(self.model, integrator=vr.sgld(), step_sizes=sizes, **method)
        return there.inflation.mean(1)

    @cached_property
    def moments(self):
        """Posterior means and variances by importance sampling, from a t distribution at the mode."""
        rng, (x, y), draws, freedom = np.random.default_rng(1), self.data, 200_000, 20
        z = rng.normal(size=(draws, 9)) / np.sqrt(rng.chisquare(freedom, (draws, 1)) / freedom)
        w = self.model.center + (z / np.sqrt(self.model.curvature)) @ self.model.directions.T
        signed = (x * (2 * y - 1)[:, None]).T
        height = np.concatenate([log_expit(part @ signed).sum(1) for part in np.split(w, 100)])
        weight = (
            height - 0.5 * (w**2).sum(1) + (freedom + 9) / 2 * np.log1p((z**2).sum(1) / freedom)
        )
        weight = np.exp(weight - weight.max())
        weight /= weight.sum()
        return weight @ w, weight @ (w - weight @ w) ** 2

    def run(self, seed, step_size, num_chains, **settings):
        """From the mode: averages of w - mode and of its square over all steps, [chain, 9] each."""
        observables = {
            "first": vr.observable(lambda w, mode: w - mode, data=self.mode),
            "second": vr.observable(lambda w, mode: jnp.square(w - mode), data=self.mode),
        }
        result = vr.sample(
            seed,
            self.posterior,
            self.data,
            self.mode,
            step_size=step_size,
            num_chains=num_chains,
            keep="averages",
            observables=observables,
            progress=False,
            **settings,
        )
        return [np.asarray(result.averages[name], float) for name in observables]

    def excess_sampled(self, step_size, num_chains, **settings):
        """Variance of the draws of all chains together / posterior variance - 1, over the weights."""
        first, second = self.run(0, step_size, num_chains, **settings)
        return np.mean((second.mean(0) - first.mean(0) ** 2) / self.moments[1]) - 1

    def error(self, seed, step_size, num_chains, **method):
        """C of every chain after 200 data passes."""
        estimator, n, size = method["estimator"], method["batch_size"], self.size
        each, period, anchor = (
            estimator.cost(size, n),
            estimator.refresh_period(size, n),
            estimator.refresh_size(size),
        )
        once, each = (0, each + anchor / period) if period else (anchor, each)
        count = int((PASSES * size - once) / each)
        first, second = self.run(seed, step_size, num_chains, num_steps=count, **method)
        mean, variance = self.moments
        spread = second - first**2
        off = first - (mean - np.asarray(self.mode, float))
        return (off**2 / variance + (spread - variance) ** 2 / (2 * variance**2)).mean(1) / 2


def show(columns, rows):
    print(f"\n| {' | '.join(columns)} |\n{'| --- ' * len(columns)}|")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def gaussian():
    model = Gaussian()
    methods = {
        "SGLD, n = 10": dict(estimator=vr.minibatch(), batch_size=10),
        "SGLD, n = 10, shuffled": dict(estimator=vr.minibatch(), batch_size=10, order="shuffled"),
        **dict(list(EQUAL_COST.items())[:4]),
        "full gradient": EQUAL_COST["full gradient"],
    }
    steps = (0.002, 0.01, 0.05, 0.2, 0.5)
    columns = [[f"{v:.2g}" for v in model.excess(method, steps)] for method in methods.values()]
    show(["h (N + 1)", *methods], zip(map(str, steps), *columns, strict=True))

    print()
    for name, between in (("practical 100/10/10", (0.1, 0.9)), (SHUFFLED_ANCHORS, (0.002, 0.05))):

        def more(a, name=name):
            return model.excess(EQUAL_COST[name], [a])[0] - model.excess(PLAIN, [a])[0]

        a = brentq(more, *between)
        excess = model.excess(PLAIN, [a])[0]
        print(f"{name} and SGLD, n = 30: equal at h (N + 1) = {a:.2g}, excess {excess:.2g}")


def steps():
    pima, plain = Pima(), None
    least, *_, largest = pima.model.curvature
    rows = []
    for name, method in EQUAL_COST.items():

        def beyond(log_a, method=method):
            return pima.excess(method, [np.exp(log_a)])[0] - 0.1

        a = np.exp(brentq(beyond, -9.0, -0.1))
        plain = plain or a
        slow = a * least / largest
        excess = pima.excess_sampled(
            a / largest, 512, burn_in=int(10 / slow), num_steps=int(70 / slow), **method
        )
        rows.append([name, f"{a:.2g}", f"{a / plain:.2g}", f"{excess:.3f}"])
    show(["method", "h λ_max", "against SGLD", "excess sampled there"], rows)


def pima():
    problem, ten = Pima(), dict(batch_size=10)
    methods = {
        "practical 100/10/10, independent anchors": dict(estimator=vr.practical(), **ten),
        "SGLD n = 10": dict(estimator=vr.minibatch(), **ten),
        "SGLD n = 30": dict(estimator=vr.minibatch(), batch_size=30),
        "practical 100/10/10, shuffled anchors": dict(
            estimator=vr.practical(), anchor_order="shuffled", **ten
        ),
        "SGLD n = 10, symmetric": dict(estimator=vr.minibatch(), order="symmetric", **ten),
        "SGLD n = 10, shuffled": dict(estimator=vr.minibatch(), order="shuffled", **ten),
        "SVRG-LD": dict(estimator=vr.svrg(), **ten),
        "SAGA-LD": dict(estimator=vr.saga(), **ten),
        "control variate at the mode (the search not counted)": dict(
            estimator=vr.control_variate(problem.mode), **ten
        ),
    }
    rows = []
    for name, method in methods.items():
        errors = problem.error(
            0, np.repeat(GRID, SCOUTS) / problem.size, SCOUTS * len(GRID), **method
        )
        best = GRID[np.argmin(errors.reshape(len(GRID), SCOUTS).mean(1))]
        each = problem.error(1, best / problem.size, CHAINS, **method)
        worth = 1 / (each.mean() + each.std() / np.sqrt(CHAINS) * np.array([0, 2, -2]))
        low_to_high = f"{worth[1]:.0f} to {worth[2]:.0f}"
        rows.append([name, f"{worth[0]:.0f}", low_to_high, f"{best:g}"])
    show(["method", "worth", "two standard errors", "best step h N"], rows)


def saga():
    problem = Pima()
    print()
    for order in ("without_replacement", "shuffled"):
        excess = problem.excess_sampled(
            0.1 / problem.size,
            64,
            estimator=vr.saga(),
            batch_size=10,
            order=order,
            burn_in=2_000,
            num_steps=32_000,
        )
        print(f"SAGA, {order}, h N = 0.1: variances {1 + excess:.2f} times the posterior's")


def scales():
    rng, scale = np.random.default_rng(0), np.array([1.0, 10.0, 100.0, 1000.0])
    x, noise = rng.normal(size=(1000, 4)), rng.normal(size=1000)

    def loglik(w, datum):
        return -0.5 * (datum[1] - datum[0] @ w) ** 2

    posterior = vr.Posterior(lambda w: -0.5 * jnp.sum(w**2), loglik)
    rows = []
    for name, features, estimator, integrator, step_size in (
        ("psgld", x * scale, vr.minibatch(), vr.psgld(), 1e-4),
        ("psgld", x * scale, vr.minibatch(), vr.psgld(), 1e-6),
        ("psgld with svrg", x * scale, vr.svrg(), vr.psgld(), 1e-4),
        ("sgld with svrg, standardised", x, vr.svrg(), vr.sgld(), 1e-4),
    ):
        targets = features @ (1 / features.std(0)) + noise
        covariance = np.linalg.inv(features.T @ features + np.eye(4))
        mode = jnp.asarray(covariance @ features.T @ targets, jnp.float32)
        data = (features.astype(np.float32), targets.astype(np.float32))
        result = vr.sample(
            0,
            posterior,
            data,
            mode,
            estimator=estimator,
            integrator=integrator,
            step_size=step_size,
            num_steps=40_000,
            burn_in=4_000,
        )
        draws = np.asarray(result.draws, float).reshape(-1, 4)
        ratios = draws.std(0) / np.sqrt(np.diag(covariance))
        rows.append([name, f"{step_size:g}", *(f"{ratio:.3g}" for ratio in ratios)])
    show(["method", "h", *(f"sd / exact, scale {s:g}" for s in scale)], rows)


def score(subject, method, step, count, chains=2, every=400):
    """NLL or perplexity of the average prediction of test data over the last four fifths."""
    test = subject.evaluation["test"]
    result = vr.sample(
        0,
        subject.task.posterior,
        subject.task.data,
        subject.task.init,
        estimator=method.estimator,
        integrator=method.integrator,
        batch_size=method.batch_size,
        step_size=step / subject.size,
        num_steps=count,
        burn_in=count // 5,
        num_chains=chains,
        chain_method=subject.task.chain_method,
        clip=subject.task.clip,
        keep="averages",
        observables={"test": vr.observable(test.predict, data=test.data, every=every)},
        progress=False,
    )
    return test.scores(result.averages["test"])


def nll(*args):
    return score(*args)["nll"].mean()


def step_for_step(subject, methods, step_sizes, count, *chains):
    """The loss after the same number of steps of the same size, whatever they cost."""
    rows = []
    for name, method in methods.items():
        losses = [nll(subject, method, step, count, *chains) for step in step_sizes]
        price = method.evaluations(subject.size, count) / count
        rows.append([name, f"{price:g}", *(f"{each:.4f}" for each in losses)])
    show(["", "gradients per step", *(f"h N = {step}" for step in step_sizes)], rows)


def mnist():
    step_for_step(mlp_mnist.load(Settings()), STEP_FOR_STEP, MNIST_STEPS, STEPS)


def cnn4():
    """The same for CNN-4, also with anchors of 1000 data, where the noise of the pairs dominates."""
    methods = STEP_FOR_STEP | {
        "vrSG-MCMC, n1 = 1000, m = 10": Sampler(vr.practical(1000, 10), vr.sgld())
    }
    step_for_step(cnn4_cifar10.load(Settings()), methods, (0.02, 0.05), 2000, 1)


def ptb():
    """The perplexity after the same number of steps, one chain."""
    clipped = lstm_ptb.EXPERIMENT.load(Settings())
    subjects = clipped, clipped._replace(task=clipped.task._replace(clip=None))
    rows = []
    for name, method in list(STEP_FOR_STEP.items())[:-1]:
        scores = [score(each, method, LSTM_STEP, LSTM_STEPS, 1, 100) for each in subjects]
        price = method.evaluations(clipped.size, LSTM_STEPS) / LSTM_STEPS
        rows.append([name, f"{price:g}", *(f"{each['perplexity'][0]:.3g}" for each in scores)])
    show(["", "gradients per step", "clip 5", "no clip"], rows)


def readings():
    """The loss after ten passes, counted in four ways, at the paper's step and at the best one."""
    subject = mlp_mnist.load(Settings())
    usual = subject.task.init

    def from_prior(key):
        flat, unflat = ravel_pytree(usual(key))
        return unflat(jax.random.normal(key, flat.shape))

    worlds = {
        "as in the experiment": (usual, vr.sgld()),
        "a start from the prior": (from_prior, vr.sgld()),
        "temperature 0.01": (usual, vr.sgld(temperature=0.01)),
        "no injected noise": (usual, vr.sgld(temperature=0.0)),
    }
    plain, anchored = STEP_FOR_STEP["SGLD, n = 10"], STEP_FOR_STEP["vrSG-MCMC, m = 10"]
    counts = {  # a method, and the gradients that a step counts
        "SGLD, n = 10": (plain, 10),
        "vrSG-MCMC, a pair counts two": (anchored, 30),
        "a pair counts one": (anchored, 20),
        "the anchor counts nothing": (anchored, 10),
    }
    rows = []
    for world, (init, integrator) in worlds.items():
        there, cells = subject._replace(task=subject.task._replace(init=init)), []
        for method, price in counts.values():
            moved, steps = replace(method, integrator=integrator), 10 * subject.size // price
            losses = {step: nll(there, moved, step, steps) for step in READ_STEPS}
            best = min(losses, key=losses.__getitem__)
            cells.append(f"{losses[READ_STEPS[0]]:.4f}; {losses[best]:.4f} at {best:g}")
        rows.append([world, *cells])
    show(["", *counts], rows)


def next_best():
    """The MNIST network at the second-best step size of each method."""
    show(ENDS, [at_step(mlp_mnist.EXPERIMENT, name, step) for name, step in NEXT_BEST.items()])


def resnet():
    """vrSG-MCMC on ResNet-20 with batch-norm, at the step size that SGLD chose."""
    experiment = resnet20.EXPERIMENTS["batch-norm"]
    show(ENDS, [at_step(experiment, PAPER, 1.0, passes=8)])


def statistics():
    """Scores of one sample after a pass, with the statistics of few and of all images."""
    experiment = resnet20.EXPERIMENTS["batch-norm"]
    subject = networks.to_device(experiment.load(Settings(size="paper")))
    test, (groups, _) = subject.evaluation["test"], subject.task.data
    with ExperimentProgress([SGLD]) as progress, progress.method(SGLD):
        work = networks.Work(subject, experiment.methods[SGLD], progress, Checkpoints(None))
        trace = work.trace(1, [1.0], passes=1, points=1, predictions=1, evaluation={})
    net, rows = jax.tree.map(itemgetter(0), trace.state.position), []
    for count in (resnet20.STATISTICS, len(groups)):
        by = vr.models.resnet.statistics(net, groups[:count])
        predicted = np.asarray(vr.models.resnet.predict(net, test.data[0], by))
        scores = test.scores(predicted)
        images = f"{count * resnet20.GROUP:,}"
        rows.append([images, f"{scores['nll']:.4f}", f"{scores['error']:.2%}"])
    show(["images", *ENDS[2:]], rows)


def at_step(experiment, name, step, **changed):
    """The final scores of a method with this step size: means and standard errors."""
    size = experiment.sizes["paper"]._replace(**changed)
    subject = networks.to_device(experiment.load(Settings(size="paper")))
    with ExperimentProgress([name]) as progress, progress.method(name) as line:
        work = networks.Work(subject, experiment.methods[name], progress, Checkpoints(None))
        only = experiment._replace(step_sizes=(step,))
        result = networks.run_method(work, only, size, size.seeds, line)
    (nll, error), (wrong, _) = (result.final(measure) for measure in ("nll", "error"))
    return [name, f"{step:g}", give_or_take(nll, error), f"{wrong:.2%}"]


def beyond():
    """The validation loss at the end of tuning runs with step sizes outside of the grid."""
    rows = []
    for name, (experiment, steps) in BEYOND.items():
        wider = experiment._replace(step_sizes=steps)
        subject = networks.to_device(experiment.load(Settings(size="paper")))
        with ExperimentProgress(list(experiment.methods)) as progress:
            for label, method in experiment.methods.items():
                work = networks.Work(subject, method, progress, Checkpoints(None))
                with progress.method(
                    label, parts=[1] * len(networks.step_size_groups(wider, subject))
                ):
                    tuning = networks.tune(work, wider, experiment.sizes["paper"])
                rows += [
                    [name, label, f"{h:g}", f"{scores['validation_nll'][-1]:.3f}"]
                    for h, scores in tuning.items()
                ]
    show(["experiment", "method", "h N", "validation NLL"], rows)


def curves():
    """Experiment -> the rows of its curves."""
    paths = {name: RESULTS / name / "curves.csv" for name in EXPERIMENTS}
    tables = {name: path.read_text() for name, path in paths.items() if path.exists()}
    return {name: list(csv.DictReader(text.splitlines())) for name, text in tables.items()}


def record_of(name):
    return json.loads((RESULTS / name / "run.json").read_text())


def claims():
    """The experiments that answer each claim of the paper with yes, in part, or no."""
    tables, answers = curves(), {}
    for name in tables:
        for claim in record_of(name)["claims"]:
            norm, _, text = claim["text"].rpartition("-norm: ")
            label = f"{name} ({norm}-norm)" if norm else name
            label += reading_of_samples(claim["answer"], claim["evidence"])
            answers.setdefault(text, []).append((claim["answer"], label))
    for claim in wider_gap(tables):
        label = "all networks on CIFAR-10" + reading_of_samples(claim.answer, claim.evidence)
        answers[claim.text] = [(claim.answer, label)]
    columns = ["yes", "in part", "no"]
    rows = [
        [text, *(", ".join(label for a, label in each if a == answer) for answer in columns)]
        for text, each in answers.items()
    ]
    show(["the paper says", *columns], rows)


def reading_of_samples(answer, evidence):
    """The answer by the losses of samples, if it is another one."""
    _, separator, rest = evidence.partition(OF_SAMPLES)
    other = rest.partition(".")[0]
    return f" [samples: {other}]" if separator and other != answer else ""


def ends():
    rows = []
    for name, table in curves().items():
        if "test_sample_nll" not in table[0]:
            continue
        measure = "test_error" if "test_error" in table[0] else "test_perplexity"
        record = record_of(name)
        chains = {(each.get("norm", ""), each["method"], each["seed"]): each for each in table}
        methods = dict.fromkeys(chain[:2] for chain in chains)
        for norm, method in methods:
            last = [each for chain, each in chains.items() if chain[:2] == (norm, method)]
            calibrated = record.get(norm, record)["calibration"].get(method)
            (passes, pace, score, trained, loss, of_sample), (*_, error, deviation) = average(
                [float(each["data_passes"]) for each in last],
                [float(each["seconds"]) / float(each["data_passes"]) for each in last],
                [float(each[measure]) for each in last],
                [float(each["train_nll"]) for each in last],
                [float(each["test_nll"]) for each in last],
                [float(each["test_sample_nll"]) for each in last],
            )
            rows.append(
                [
                    f"{name}, {norm}" if norm else name,
                    method,
                    f"{float(last[0]['step']):g}",
                    f"{passes:.3g}",
                    f"{score:.2%}" if measure == "test_error" else f"{score:.1f}",
                    give_or_take(loss, error),
                    give_or_take(of_sample, deviation),
                    f"{trained:.3f}",
                    "" if calibrated is None else f"{calibrated['ECE']:.3f}",
                    three_digits(pace),
                ]
            )
    names = ["h N", "data passes", "test error or perplexity", "test NLL"]
    names += ["test NLL of the sample", "training NLL", "ECE"]
    show(["experiment", "method", *names, "s per pass"], rows)


def anchors():
    """The loss after the same number of steps, for anchors and minibatches of each size."""
    name, at = "n1-sensitivity", (10_000, 20_000)
    table, size = curves()[name], record_of(name)["data"]
    rows = []
    for method in dict.fromkeys(each["method"] for each in table):
        steps, losses = curve(table, method, "steps")
        passes = curve(table, method, "data_passes")[0]
        price = passes[-1] * size / steps[-1]
        between = np.interp(np.log(at), np.log(steps), losses)
        rows.append([method, f"{price:.0f}", *(f"{each:.4f}" for each in between)])
    show(["", "gradients per step", *(f"{steps:,} steps" for steps in at)], rows)


def give_or_take(value, error):
    """The value, with its standard error if there are several seeds."""
    return f"{value:.4f} ± {error:.4f}" if error > 0 else f"{value:.4f}"


def average(*columns):
    """Means over seeds, and their standard errors."""
    values = np.array(columns)
    return values.mean(1), values.std(1) / max(1, values.shape[1] - 1) ** 0.5


PARTS = {
    "gaussian": gaussian,
    "steps": steps,
    "pima": pima,
    "saga": saga,
    "scales": scales,
    "mnist": mnist,
    "cnn4": cnn4,
    "ptb": ptb,
    "readings": readings,
    "next-best": next_best,
    "resnet": resnet,
    "statistics": statistics,
    "beyond": beyond,
    "claims": claims,
    "ends": ends,
    "anchors": anchors,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
