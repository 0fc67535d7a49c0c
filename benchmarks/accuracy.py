"""Is the four-argument call right, and does it know? `python benchmarks/accuracy.py`.

    python benchmarks/accuracy.py --problems pima poisson --forms glm plain --seeds 10
    python benchmarks/accuracy.py --budget 200            passes over the data, everything included;
                                                          the run lasts until they are spent

For each problem of the table (problems.py), form (`vr.glm`, or a plain `vr.Posterior` where d <= 50)
and seed: `vr.sample(key, posterior, data, init)`, its errors against the reference, and the bounds of
`result.accuracy()`. A run is right if every mean is within 0.1 sd and every sd within 10 %. A bound
covers if the error is below it. The record says what was measured, not what was hoped for. Rows go to
results/accuracy/accuracy.csv, where those of the same problem, form, budget and seed are replaced; the
table of all runs is printed at the end.
"""

import argparse
import csv
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from efficiency import record
from methods import moments, score
from problems import TABLE, Problem

import vrsgmcmc as vr

MEAN, SD = 0.1, 0.1  # the largest errors that count as right, in sd
KEY = ("problem", "form", "budget", "seed")


def measure(problem: Problem, form: str, budget: float | None, seed: int) -> dict:
    """One run and its errors."""
    posterior = problem.posterior if form == "glm" else problem.plain
    data = jax.tree.map(jnp.asarray, problem.data)
    options = {} if budget is None else {"budget": f"{budget:g} passes", "ess": 1e6}
    began = time.process_time()
    result = vr.sample(
        jax.random.key(seed), posterior, data, problem.init, progress=False, **options
    )
    seconds = time.process_time() - began
    mean, variance = moments(result.draws)
    exact, accuracy = problem.reference, result.accuracy()
    means = np.abs(mean - exact.mean) / exact.sd
    sds = np.abs(np.sqrt(variance) / exact.sd - 1)
    errors = np.concatenate([means, sds])
    bounds = np.concatenate([accuracy.mean, accuracy.sd])
    right = bool(means.max() <= MEAN and sds.max() <= SD)
    row = {
        "problem": problem.name,
        "form": form,
        "budget": "" if budget is None else f"{budget:g}",
        "seed": seed,
        "right": right,
        "good": accuracy.good,
        "diverged": bool(np.any(result.diverged)),
        "mean error": means.max(),
        "sd error": sds.max(),
        "C": score(problem, mean, variance),
        "mean bound": accuracy.worst[0],
        "sd bound": accuracy.worst[1],
        "coverage": np.mean(errors <= bounds),
        "sharpness": np.median(bounds) / np.sqrt(np.mean(errors**2)),
        "passes": result.total_passes,
        "decision passes": result.decision.evaluations / problem.size,
        "accuracy passes": accuracy.evaluations / problem.size,
        "ess": accuracy.ess,
        "seconds": seconds,
        "sampler": str(result.decision).splitlines()[0],
        "notes": "; ".join([*result.decision.notes, *accuracy.problems]),
    }
    return {name: f"{v:.4g}" if isinstance(v, float) else v for name, v in row.items()}


def summarise(rows: list[dict]) -> list[str]:
    """One line of a table for each problem, form and budget."""
    lines = [
        "| problem | form | budget | right | said so | misses flagged | worst mean, sd | C "
        "| coverage | median bound / rms error | passes | CPU s |",
        "| --- " * 12 + "|",
    ]
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in KEY[:3]), []).append(row)
    for (problem, form, budget), some in sorted(groups.items()):

        def number(name, some=some):
            return np.array([float(row[name]) for row in some])

        right = np.array([str(row["right"]) == "True" for row in some])
        good = np.array([str(row["good"]) == "True" for row in some])
        misses = f"{np.sum(~right & ~good)} of {np.sum(~right)}" if not right.all() else "-"
        lines.append(
            f"| {problem} | {form} | {budget or '-'} | {right.sum()} of {len(some)} "
            f"| {np.sum(right & good)} | {misses} "
            f"| {number('mean error').max():.3f}, {number('sd error').max():.3f} "
            f"| {number('C').mean():.2g} | {number('coverage').mean():.0%} "
            f"| {np.median(number('sharpness')):.1f} | {np.median(number('passes')):,.0f} "
            f"| {np.median(number('seconds')):.1f} |"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=TABLE, default=list(TABLE))
    parser.add_argument("--forms", nargs="+", choices=("glm", "plain"), default=["glm", "plain"])
    parser.add_argument("--budget", type=float, help="passes; default: until 2,500 effective draws")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only-table", action="store_true", help="print what is recorded")
    parser.add_argument("--out", type=Path, default=Path("results/accuracy"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if not arguments.only_table:
        for name in arguments.problems:
            problem = TABLE[name]()
            for form in arguments.forms:
                if form == "plain" and problem.plain is None:
                    continue
                for seed in range(arguments.seeds):
                    row = measure(problem, form, arguments.budget, seed)
                    keep(arguments.out, row)
                    print(", ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    print("\n".join(summarise(read(arguments.out / "accuracy.csv"))))


def read(path: Path) -> list[dict]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def keep(folder: Path, row: dict):
    """The file with this row in the place of an earlier one."""
    path, key = folder / "accuracy.csv", [str(row[name]) for name in KEY]
    rows = [each for each in read(path) if [each[name] for name in KEY] != key] + [row]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerows(rows)
    records = folder / "accuracy.json"
    known = json.loads(records.read_text()) if records.exists() else {}
    known[", ".join(key[:3])] = record()
    records.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
