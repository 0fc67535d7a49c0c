"""A run directory as a result without its model: what is stored is read, and nothing is rebuilt."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import PyTree

from . import store
from .parts import StoredDraws
from .result import Result, constant
from .totals import Totals

BARE = "carry/state.position"  # the position of parameters that are one array, among a run's arrays


def is_number(value: Any, kinds: tuple[type, ...] = (int,)) -> bool:
    """Whether a value of a commit is a finite number from 0."""
    return type(value) in kinds and 0 <= value < math.inf


def read_totals(run: store.Run) -> Totals:
    """How far a run is, from its commit; `RunError` for values that no run has."""
    try:
        totals = Totals.from_json(run.progress)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise store.RunError(f"{run.path}: the commit has no valid progress ({error!r})") from error
    chains = range(run.config["num_chains"])
    numbers = [totals.steps, totals.visits, totals.search_cost]
    numbers += [number for each in totals.divergences for number in (each.chain, each.step)]
    wrong = not all(map(is_number, numbers)) or not is_number(totals.seconds, (int, float))
    if wrong or any(each.chain not in chains for each in totals.divergences):
        raise store.RunError(f"{run.path}: the commit has no valid progress")
    return totals


def read_result(run: store.Run, rebuild: Callable[[list[Any]], Any] | None = None) -> Result:
    """The committed part of a run, without its model; `rebuild` makes draws of leaves [chain, draw,
    ...], and without it they are a dict by the names of the leaves."""
    totals, config = read_totals(run), run.config
    costs: list[Any] = [run.progress.get(name) for name in ("evaluations", "data_passes")]
    if not all(is_number(cost, (int, float)) for cost in costs):
        raise store.RunError(f"{run.path}: the commit does not say what the run has cost")
    names = list(run.leaves)
    load = StoredDraws(
        run,
        rebuild or (lambda leaves: dict(zip(names, leaves, strict=True))),
        f"{run.path}: the draws",
        "Read them in parts with vrsgmcmc.store.open.",
    )
    diverged = [divergence.chain for divergence in totals.divergences]
    first = config["first_step"] + config["burn_in"]
    return Result(
        load_draws=load if names else partial(constant, None),
        averages=run.averages,
        evaluations=costs[0],
        data_passes=costs[1],
        seconds=totals.seconds,
        state=None,  # type: ignore[arg-type]
        diverged=np.isin(np.arange(config["num_chains"]), diverged),
        divergences=totals.divergences,
        num_steps=totals.steps,
        interrupted=run.status != "finished",
        settings=config,
        draw_steps=first + config["thin"] * np.arange(1, 1 + run.commit["draws"]),
        context=None,  # type: ignore[arg-type]
        run_dir=run.path,
    )


def nested(run: store.Run) -> Callable[[list[Any]], PyTree]:
    """Makes draws of leaves: nested dicts and lists by the names of the leaves, or the one array.

    A run directory names no code, so a module or a named tuple is a dict of its fields.
    """
    names = list(run.leaves)

    def rebuild(leaves: list[Any]) -> PyTree:
        if names == ["x"] and BARE in run.arrays:
            return leaves[0]
        tree: dict[str, Any] = {}
        for name, leaf in zip(names, leaves, strict=True):
            *path, last = name.split(".")
            node = tree
            for key in path:
                node = node.setdefault(key, {})
                if not isinstance(node, dict):  # `a` and `a.b`: names with dots of their own
                    return dict(zip(names, leaves, strict=True))
            if last in node:
                return dict(zip(names, leaves, strict=True))
            node[last] = leaf
        return with_lists(tree)

    return rebuild


def with_lists(tree: Any) -> Any:
    """Dicts whose keys count from 0 become lists."""
    if not isinstance(tree, dict):
        return tree
    parts = {key: with_lists(part) for key, part in tree.items()}
    numbers = [str(number) for number in range(len(parts))]
    return [parts[n] for n in numbers] if parts.keys() == set(numbers) else parts
