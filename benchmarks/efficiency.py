"""Error against cost, beside other libraries: `python benchmarks/efficiency.py`.

    python benchmarks/efficiency.py --problems speed-1e5 logistic-scaled --methods auto nuts laplace
        --budgets 20 50 100 200 --seeds 8

For each problem (problems.py, or any posterior with a reference) and method (methods.py): the score

    C = (MSE of means / sd^2 + MSE of variances / (2 sd^4)) / 2

of all chains together, averaged over parameters and seeds (1 / C is worth that many independent
draws), against per-datum gradient evaluations and against CPU seconds of the process. Seconds are
those of calls after the first, which compiles; the column `cold seconds` has those of the first.
BlackJAX's samplers run at the best step size of a grid, whose search is free; NumPyro's NUTS has a
dense mass matrix and three lengths of warm-up. A score near its floor, the reference's own error, may
be lower in truth. Results go to results/efficiency/; rows of problems and methods that are not run
again are kept.
"""

import argparse
import csv
import json
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from methods import Method, score, table
from problems import PROBLEMS, Problem

from vrsgmcmc.reports import figures

TARGETS = (0.01, 0.001)
# what figures show, and how they call it
DRAWN = {
    "auto": "vr.sample",
    "NumPyro NUTS, warm-up 150": "NUTS, warm-up 150",
    "NumPyro NUTS, warm-up 300": "NUTS, warm-up 300",
    "NumPyro NUTS, warm-up 1000": "NUTS, warm-up 1000",
    "BlackJAX SGLD-CV": "BlackJAX SGLD-CV",
}
TITLES = {"speed-1e4": "N = 10,000", "speed-1e5": "N = 100,000", "speed-1e6": "N = 1,000,000"}


def measure(problem: Problem, name: str, method: Method, budgets, seeds: int) -> list[dict]:
    """One row for each point of the curve, averaged over the seeds."""
    rows = []
    for budget in budgets if method.budgeted else [max(budgets)]:
        run = method.prepare(problem, budget)
        try:
            cold = run(0)[-1].seconds
            runs = [run(seed) for seed in range(seeds)]
        except ValueError as error:  # a budget that is too small for the method
            print(f"  {name}, {budget:g} passes: {str(error).splitlines()[0]}", flush=True)
            continue
        for points in zip(*runs, strict=True):
            scores = [score(problem, point.mean, point.variance) for point in points]
            cost = np.mean([point.evaluations for point in points])
            row = {
                "problem": problem.name,
                "method": name,
                "budget": budget if method.budgeted else "",
                "passes": cost / problem.size,
                "evaluations": cost,
                "seconds": np.mean([point.seconds for point in points]),
                "cold seconds": cold,
                "C": np.mean(scores),
                "C standard error": np.std(scores) / np.sqrt(seeds),
                "C floor": problem.reference.floor,
                "seeds": seeds,
            }
            rows.append({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
        print(
            f"  {name:28} {float(row['passes']):9.4g} passes  {float(row['seconds']):8.4g} s "
            f"(cold {cold:.4g})  C = {float(row['C']):.3g}",
            flush=True,
        )
    return rows


def cost_to(rows: list[dict], target: float, cost: str) -> float | None:
    """The cost at which a curve first reaches C = target, between points on logarithmic scales."""
    x, y = (np.log([float(row[name]) for row in rows]) for name in (cost, "C"))
    below = np.flatnonzero(y <= np.log(target))
    if not below.size:
        return None
    i = below[0]
    if i == 0:
        return float(np.exp(x[0]))
    share = (y[i - 1] - np.log(target)) / (y[i - 1] - y[i])
    return float(np.exp(x[i - 1] + share * (x[i] - x[i - 1])))


def curves_of(rows: list[dict]) -> dict[tuple[str, str], list[dict]]:
    curves = {}
    for row in rows:
        curves.setdefault((row["problem"], row["method"]), []).append(row)
    return curves


def draw(curves, names, cost: str, label: str, path: Path):
    """One panel for each problem; Laplace, one point, is a level. A method has one colour in all."""
    panels = []
    for name in names:
        lines = {
            label: tuple(
                np.array([float(row[key]) for row in curves[name, method]]) for key in (cost, "C")
            )
            for method, label in DRAWN.items()
            if (name, method) in curves
        }
        if lines:
            one_point = curves.get((name, "Laplace"))
            level = ("Laplace", float(one_point[0]["C"])) if one_point else None
            title = f"C, {TITLES.get(name, name)}"
            panels.append(figures.Panel(title, lines, log_y=True, level=level))
    if panels:
        figures.save(figures.curves(panels, x_label=label), path)


def read(folder: Path) -> tuple[list[dict], dict]:
    if not (folder / "efficiency.csv").exists():
        return [], {}
    with (folder / "efficiency.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return rows, json.loads((folder / "efficiency.json").read_text())["records"]


def write(folder: Path, rows: list[dict], records: dict):
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "efficiency.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    summary = {
        problem: {
            method: {
                f"{cost} to C = {target}": cost_to(lines, target, cost)
                for cost in ("passes", "seconds")
                for target in TARGETS
            }
            for (p, method), lines in curves_of(rows).items()
            if p == problem
        }
        for problem in {row["problem"]: None for row in rows}
    }
    record = {"records": records, "summary": summary}
    (folder / "efficiency.json").write_text(json.dumps(record, indent=1) + "\n")


def record() -> dict:
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False)
    packages = ("vrsgmcmc", "blackjax", "numpyro", "jax", "numpy")
    return {
        "command": shlex.join(["python", *sys.argv]),
        "commit": commit.stdout.strip(),
        "versions": {name: version(name) for name in packages},
        "python": platform.python_version(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--problems", nargs="+", choices=PROBLEMS, default=["speed-1e4", "speed-1e5"]
    )
    parser.add_argument(
        "--methods", nargs="+", default=[""], help="names, or parts of them; default: all"
    )
    parser.add_argument("--budgets", nargs="+", type=float, default=[20, 50, 100, 200])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--nuts-draws", type=int, default=1500)
    parser.add_argument("--figures", nargs="+", choices=PROBLEMS, help="default: all that were run")
    parser.add_argument("--out", type=Path, default=Path("results/efficiency"))
    arguments = parser.parse_args()
    rows, records = read(arguments.out)
    for name in arguments.problems:
        problem = PROBLEMS[name]()
        print(f"{name}: N = {problem.size:,}, d = {problem.dimension}", flush=True)
        methods = table(arguments.nuts_draws)
        for label, method in methods.items():
            parts = [part for part in arguments.methods if part not in methods]
            if label not in arguments.methods and not any(
                part.lower() in label.lower() for part in parts
            ):
                continue
            if "plain" in label and problem.plain is None:
                continue
            try:
                lines = measure(problem, label, method, arguments.budgets, arguments.seeds)
            except (TypeError, ValueError) as error:
                print(f"  {label}: {str(error).splitlines()[0]}", flush=True)
                continue
            rows = [r for r in rows if (r["problem"], r["method"]) != (name, label)] + lines
            records[f"{name}, {label}"] = record()
            write(arguments.out, rows, records)
    curves = curves_of(rows)
    names = arguments.figures or list(dict.fromkeys(row["problem"] for row in rows))
    draw(curves, names, "passes", "passes over the data", arguments.out / "evaluations")
    draw(curves, names, "seconds", "CPU seconds", arguments.out / "seconds")


if __name__ == "__main__":
    main()
