"""Checks of a network where its chains ended: calibration, clipped gradients, and an audit."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc.advice import Audit, audit
from vrsgmcmc.core import Batch, State, square_norm, take
from vrsgmcmc.reports import Probabilities, Section, Table, reliability, reliability_figure

from .curves import MethodResult, Results
from .experiment import Subject
from .methods import PAPER

GRADIENTS = 20


def audit_paper_method(subject: Subject, results: Results) -> Audit | None:
    """Audit the last state of the first finite chain of the paper's method."""
    each = results.get(PAPER)
    if each is None or each.trace.state is None or (c := each.trace.first_finite_chain) is None:
        return None
    step = each.step / (subject.size * subject.images_per_datum)
    if subject.task.schedule is not None:
        step *= float(subject.task.schedule(int(each.trace.ends[-1])))
    state = jax.tree.map(lambda leaf: leaf[c : c + 1], each.trace.state)
    sampler = vars(replace(each.sampler, step_size=step))
    options = {n: v for n, v in sampler.items() if n not in ("clip", "metric")}
    return audit(subject.task.posterior, subject.task.data, state, **options)


def first_finite_chains(results: Results) -> dict[str, int]:
    """By the name of the method; without the methods that have none."""
    chains = {name: each.trace.first_finite_chain for name, each in results.items()}
    return {name: c for name, c in chains.items() if c is not None}


def check_clip(subject: Subject, results: Results) -> tuple[dict[str, list[float]], list[Section]]:
    """The lengths of gradients at each first finite chain's end, and a section about them."""
    chains = first_finite_chains(results) if subject.task.clip is not None else {}
    lengths = {name: gradient_lengths(subject, results[name], c) for name, c in chains.items()}
    if not lengths:
        return {}, []
    rows = [
        (name, float(np.median(each)), float(np.mean(np.array(each) > subject.task.clip)))
        for name, each in lengths.items()
    ]
    section = Section(
        "Gradients that are shortened",
        f"Gradients of the mean log-likelihood longer than {subject.task.clip:g} are shortened to "
        "that. Where this happens often the drift has a direction but no size, and the chain does "
        "not sample the posterior. The audit that follows is of gradients as they are.",
        table=Table(("method", "median length", "shortened"), rows, ("", ".3g", ".0%")),
        caption=f"{GRADIENTS} estimates at the end of the first chain.",
    )
    return lengths, [section]


def gradient_lengths(subject: Subject, result: MethodResult, chain: int) -> list[float]:
    """|g| / N of some estimates at the last state of a chain, before the clip."""
    kernel: Any = subject.task.kernel(result.sampler)

    @jax.jit
    def length(key: Any, state: State, data: Any) -> Any:
        draw, move = jax.random.split(key)
        index = jax.random.choice(draw, subject.size, (kernel.sampler.batch_size,), replace=False)
        info = kernel.step(move, state, Batch(index, take(data, index)), 1e-9)[1]
        return jnp.sqrt(square_norm(info.gradient)) / subject.size

    state = jax.tree.map(lambda leaf: jnp.asarray(leaf[chain]), result.trace.state)
    keys = jax.random.split(jax.random.key(7), GRADIENTS)
    return [float(length(key, state, subject.task.data)) for key in keys]


def check_calibration(
    subject: Subject, results: Results
) -> tuple[dict[str, dict[str, float]], list[Section]]:
    """Calibration errors and entropies of the first finite chains, and a section about them."""
    labels = subject.evaluation["test"].labels
    others = [n for n in subject.evaluation if n not in ("validation", "test", "train")]
    chains = first_finite_chains(results)
    if labels is None or not chains:
        return {}, []
    curves = {
        name: reliability(Probabilities(normalise(results[name].last["test"][c]), labels))
        for name, c in chains.items()
    }
    calibration = {
        name: {
            "ECE": curves[name].ece,
            "of a calibrated one": curves[name].calibrated_ece,
            **{f"entropy, {n}": entropy(results[name].last[n][c]) for n in ("test", *others)},
        }
        for name, c in chains.items()
    }
    name = PAPER if PAPER in calibration else next(iter(calibration))
    columns = list(calibration[name])
    section = Section(
        "Calibration",
        "ECE: how far stated probabilities are from frequencies. Entropy: the mean, in nats, of "
        "the predicted distribution over classes"
        + f"; {', '.join(others)}: images of another kind, where it should be high."
        * bool(others),
        figure=partial(reliability_figure, curves[name]),
        caption=f"{name}, average prediction of the first chain on test data.",
        table=Table(
            ("method", *columns),
            [(n, *each.values()) for n, each in calibration.items()],
            ("", ".4f", ".4f", *[".3f"] * (len(columns) - 2)),
        ),
    )
    return calibration, [section]


def normalise(table: np.ndarray) -> np.ndarray:
    """Probabilities that sum to 1 in spite of rounding."""
    return table / table.sum(-1, keepdims=True)


def entropy(table: np.ndarray) -> float:
    table = normalise(table)
    return float(-(table * np.log(np.maximum(table, 1e-30))).sum(-1).mean())
