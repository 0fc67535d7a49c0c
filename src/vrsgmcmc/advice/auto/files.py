"""A decision in a run directory: what was asked for and what was chosen, apart from each other.

    decision.json          the request, the decision in words and numbers, and the sum of its arrays
    decision.safetensors   metric, centre, Hessian, hot rows, starts

The identity of such a run is the request. The decision is read, never made again.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vrsgmcmc import core, run
from vrsgmcmc.core.estimators import control_variate
from vrsgmcmc.run import store

from ..accuracy.record import Accuracy
from .decision import Decision
from .request import Request

RECORD, ARRAYS = store.DECISION
TREES = ("starts", "mode", "laplace_mean", "laplace_sd")
PLAIN = (
    *("num_chains", "burn_in", "thin", "steps", "ess", "evaluations", "allowance"),
    *("chain_method", "modes", "network", "why", "notes", "considered", "seconds"),
)


def describe_request(
    key: Any, posterior: core.Posterior, data: core.Data, init: Any, request: Request
) -> dict[str, Any]:
    """The request as plain values; functions by the programs that they are."""
    values = {name: plain(getattr(request, name)) for name in vars(request)}
    params = run.as_params(init(key) if run.is_function(init) else init)
    return values | {
        "key": [int(word) for word in np.ravel(jax.random.key_data(key))],
        "data": core.tree_sum(data),
        "init": run.start_sum(init),
        "model": run.model_sum(posterior, data, params),
        "versions": {name: version(name) for name in ("vrsgmcmc", "jax")},
    }


def plain(value: Any) -> Any:
    """A value that JSON has: infinity as text."""
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    value = core.to_json(value)
    return repr(value) if isinstance(value, float) and not np.isfinite(value) else value


def save_decision(run_dir: Any, decision: Decision, *context: Any) -> None:
    """Write a decision before its run begins."""
    folder, sampler = store.check_directory(Path(os.path.realpath(run_dir))), decision.sampler
    folder.make()
    trees: dict[str, Any] = {name: getattr(decision, name) for name in TREES}
    parts = ("center", "gradient", "hessian", "hot")
    trees |= {name: getattr(sampler.estimator, name, None) for name in parts}
    trees["metric"] = sampler.metric
    arrays = store.trees.to_bytes(
        {
            name: leaf
            for tree, value in trees.items()
            if value is not None
            for name, leaf in store.named(tree, jax.tree.map(np.asarray, value)).items()
        }
    )
    record = {
        "request": describe_request(*context),
        "decision": {name: plain(getattr(decision, name)) for name in PLAIN},
        "sampler": sampler.to_json(),
        "trees": [name for name, value in trees.items() if value is not None],
        "arrays": store.record(arrays),
    }
    folder.replace(ARRAYS, arrays)
    folder.replace(RECORD, store.seal(record))


def load_request(run_dir: Any) -> dict[str, Any] | None:
    """What was asked for in a run directory, as plain values; None: nothing was left to the library."""
    folder = store.Folder(run_dir)
    if not folder.path.is_dir() or not folder.exists(RECORD):
        return None
    return read_record(folder)["request"]


def read_record(folder: store.Folder) -> dict[str, Any]:
    try:
        record = store.unseal(folder.read(RECORD))
        return {
            name: record[name] for name in ("request", "decision", "sampler", "trees", "arrays")
        }
    except (KeyError, ValueError) as error:
        raise damaged(folder, error) from error


def damaged(folder: store.Folder, error: Exception) -> store.RunError:
    return store.RunError(
        f"{folder.path / RECORD} is damaged ({error}). Put it back from a copy, or sample again in "
        "another directory."
    )


def load_decision(
    run_dir: Any,
    key: Any,
    posterior: core.Posterior,
    data: core.Data,
    init: Any,
    request: Request,
) -> Decision | None:
    """The decision of a run that has begun; None: there is none. `RunError` for another request."""
    folder = store.Folder(run_dir)
    if not folder.path.is_dir() or not folder.exists(RECORD):
        return None
    record = read_record(folder)
    try:
        content = folder.read(ARRAYS)
        if list(store.record(content)) != record["arrays"]:
            raise ValueError(f"{ARRAYS} is not as it was written")
        arrays = store.trees.from_bytes(content)
        ours = json.loads(store.as_json(describe_request(key, posterior, data, init, request)))
        differences = [text for _, text in store.differences(record["request"], ours)]
        values = dict(record["decision"])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(folder, error) from error
    if differences:
        raise store.RunError(
            f"run_dir={str(folder.path)!r} holds the run of another call:\n  "
            + "\n  ".join(differences)
            + "\nMake these equal to resume it, or name another directory."
        )
    params = run.as_params(init(key) if run.is_function(init) else init)
    values |= {name: tuple(values[name]) for name in ("steps", "notes", "considered")}
    values |= {name: float(values[name]) for name in ("ess", "allowance")}

    def tree(name: str, like: Any) -> Any:
        return read_tree(name, arrays, like) if name in record["trees"] else None

    def stacked(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct((values["num_chains"], *leaf.shape), leaf.dtype)

    return Decision(
        sampler=read_sampler(record["sampler"], arrays, request, params, data),
        starts=tree("starts", jax.tree.map(stacked, params)),
        mode=tree("mode", params),
        laplace_mean=arrays.get("laplace_mean/x"),
        laplace_sd=arrays.get("laplace_sd/x"),
        **values,
    )


def read_tree(name: str, arrays: dict[str, np.ndarray], like: Any) -> Any:
    return jax.tree.map(jnp.asarray, store.rebuilt(name, arrays, like))


def read_sampler(
    record: dict[str, Any],
    arrays: dict[str, np.ndarray],
    request: Request,
    params: core.Params,
    data: core.Data,
) -> core.Sampler:
    """The sampler of a decision: methods that the caller named, or the library's own."""
    metric = None
    if record["metric"] is not None:
        kind = {"Dense": core.Dense, "Diagonal": core.Diagonal, "LowRank": core.LowRank}
        cls = kind[record["metric"]["name"]]
        metric = cls(*(jnp.asarray(arrays[f"metric/{each.name}"]) for each in fields(cls)))
    estimator, integrator = request.estimator, request.integrator
    if record["estimator"]["name"] == "control_variate" or not request.names("estimator"):
        estimator = read_estimator(record["estimator"], arrays, params, data)
    if not request.names("integrator"):
        options = dict(record["integrator"])
        name = options.pop("name")
        integrator = run.nuts(**options) if name == "nuts" else core.INTEGRATORS[name](**options)
    own = {
        name: record[name] for name in ("step_size", "batch_size", "order", "anchor_order", "clip")
    }
    return core.Sampler(estimator, integrator, metric=metric, **own)


def read_estimator(
    record: dict[str, Any], arrays: dict[str, np.ndarray], params: core.Params, data: core.Data
) -> core.Estimator:
    """An estimator that the library chose, from its options and its arrays."""
    if record["name"] != "control_variate":
        return core.ESTIMATORS[record["name"]]()
    options: dict[str, Any] = {n: record[n] for n in ("order", "linear", "guard") if n in record}
    for name in ("center", "gradient"):
        if record.get(name) is not None:
            options[name] = read_tree(name, arrays, params)
    options["hessian"] = arrays.get("hessian/x")
    if record.get("hot") is not None:
        index = jnp.asarray(arrays["hot/index"])

        def rows(leaf: Any) -> Any:
            return jax.ShapeDtypeStruct((len(index), *leaf.shape[1:]), leaf.dtype)

        options["hot"] = read_tree("hot", arrays, core.Batch(index, jax.tree.map(rows, data)))
    return control_variate(**options)


def save_accuracy(run_dir: Any, record: Accuracy) -> None:
    """Keep a record beside the last commit of its run, which it names."""
    folder = store.Folder(run_dir)
    value = {"accuracy": plain(record.to_json()), "commit": store.commit_sum(folder)}
    folder.replace(store.ACCURACY, store.seal(value))


def load_accuracy(run_dir: Any) -> Accuracy | None:
    """How right a run is, if that was measured; None also for a file that is not as it was written."""
    folder = store.Folder(run_dir)
    if not folder.exists(store.ACCURACY):
        return None
    try:
        value = store.unseal(folder.read(store.ACCURACY))
        if value["commit"] != store.commit_sum(folder):
            return None  # of another run
        return Accuracy.from_json(value["accuracy"])
    except (OSError, KeyError, TypeError, ValueError):
        return None  # measured again
