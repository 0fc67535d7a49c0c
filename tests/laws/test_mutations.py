"""Coding mistakes known from the field, seeded one at a time: the suite must catch every one.

Each row copies the package, makes one mistake in it, and runs the tests that should notice. The list
with its result is kept in `results/mutations.csv`:

    python tests/laws/test_mutations.py results/mutations.csv
"""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Mutation(NamedTuple):
    mistake: str
    file: str
    right: str
    wrong: str
    tests: str  # arguments for pytest


INTEGRATORS = "core/test_integrators.py core/test_integrator_input.py"
ESTIMATORS = "core/test_estimators.py"
FORMULA = "core/test_estimators.py -k formula"
ALGORITHM = "run/test_sample.py -k 'written_out or own_noise'"

MUTATIONS = [
    Mutation(
        "order 2: the Hessian with the wrong sign",
        "core/estimators/taylor.py",
        "jax.tree.map(jnp.subtract, memory.gradient, bent)",
        "jax.tree.map(jnp.add, memory.gradient, bent)",
        ESTIMATORS,
    ),
    Mutation(
        "order 2: a hot row in the batch counts twice",
        "core/estimators/taylor.py",
        "weights = jnp.where(jnp.isin(batch.index, hot.index), 0, weights)",
        "weights = jnp.where(jnp.isin(batch.index, hot.index), weights, weights)",
        ESTIMATORS,
    ),
    Mutation(
        "blocks: a short last block counts the rows that fill it up",
        "core/estimators/block_saga.py",
        "(block.index < size)",
        "(block.index < 2 * size)",
        "core/test_block_saga.py",
    ),
    Mutation(
        "Leimkuhler-Matthews: a new noise for each step's old one",
        "core/integrators/leimkuhler_matthews.py",
        "return cast(moved, position), xi",
        "return cast(moved, position), dynamics",
        INTEGRATORS,
    ),
    Mutation(
        "BAOAB that never moves",
        "core/integrators/splitting.py",
        "return cast(x, position), Kinetic",
        "return cast(position, position), Kinetic",
        INTEGRATORS,
    ),
    Mutation(
        "BAOAB: a half-update applied twice under one name",
        "core/integrators/splitting.py",
        "x = jax.tree.map(lambda x, p, t=t: x + t * p, x, p)",
        "x = jax.tree.map(lambda x, p, t=t: x + t * p, position, p)",
        INTEGRATORS,
    ),
    Mutation(
        "BAOAB: noise scales with the temperature, not its root",
        "core/integrators/splitting.py",
        "scale = jnp.sqrt(self.temperature * -jnp.expm1(-2 * self.friction * t))",
        "scale = self.temperature * jnp.sqrt(-jnp.expm1(-2 * self.friction * t))",
        INTEGRATORS,
    ),
    Mutation(
        "one normal used twice in the flow U",
        "core/integrators/splitting.py",
        "normal_like(fold(key, 1), x)",
        "normal_like(fold(key, 0), x)",
        INTEGRATORS,
    ),
    Mutation(
        "thermostat driven by |p| instead of |p|^2",
        "core/integrators/sgnht.py",
        "kinetic = tree.square_norm(momentum) / tree.size(position)",
        "kinetic = jnp.sqrt(tree.square_norm(momentum)) / tree.size(position)",
        INTEGRATORS,
    ),
    Mutation(
        "SGHMC: first momentum ignores the temperature",
        "core/integrators/underdamped.py",
        "normal_like(key, params, jnp.sqrt(self.temperature))",
        "normal_like(key, params)",
        INTEGRATORS,
    ),
    Mutation(
        "SGHMC: first momentum with half the variance",
        "core/integrators/underdamped.py",
        "normal_like(key, params, jnp.sqrt(self.temperature))",
        "normal_like(key, params, jnp.sqrt(self.temperature / 2))",
        INTEGRATORS,
    ),
    Mutation(
        "SGHMC: friction noise f sqrt(2 h)",
        "core/integrators/sghmc.py",
        "scale = jnp.sqrt(2 * f * self.temperature * h)",
        "scale = f * jnp.sqrt(2 * self.temperature * h)",
        INTEGRATORS,
    ),
    Mutation(
        "SGLD: noise of standard deviation h",
        "core/integrators/sgld.py",
        "jnp.sqrt(2 * step_size * self.temperature)",
        "step_size * self.temperature",
        INTEGRATORS,
    ),
    Mutation(
        "SGLD: noise sqrt(h) with a full step",
        "core/integrators/sgld.py",
        "jnp.sqrt(2 * step_size * self.temperature)",
        "jnp.sqrt(step_size * self.temperature)",
        INTEGRATORS,
    ),
    Mutation(
        "pSGLD: squared sum instead of squared mean",
        "core/integrators/psgld.py",
        "jnp.square(g / size)",
        "jnp.square(g)",
        INTEGRATORS,
    ),
    Mutation(
        "N/n forgotten",
        "core/estimators/minibatch.py",
        "scale = size / batch.index.shape[0]",
        "scale = 1.0",
        FORMULA,
    ),
    Mutation(
        "prior scaled by N/n",
        "core/estimators/minibatch.py",
        "prior + scale * rows",
        "scale * (prior + rows)",
        FORMULA,
    ),
    Mutation(
        "prior left out",
        "core/estimators/anchored.py",
        "old + prior + scale * (here - there)",
        "old + scale * (here - there)",
        FORMULA,
    ),
    Mutation(
        "anchor and current gradient swapped",
        "core/estimators/anchored.py",
        "scale * (here - there)",
        "scale * (there - here)",
        FORMULA,
    ),
    Mutation(
        "old gradient not scaled by N/n1",
        "core/estimators/anchored.py",
        "scale = size / partial_sum.count.astype(float)",
        "scale = 1.0 + 0.0 * partial_sum.count",
        FORMULA,
    ),
    Mutation(
        "an anchor counted in float32",
        "core/estimators/anchored.py",
        "jnp.zeros((), jnp.int32)",
        "jnp.zeros((), jnp.float32)",
        "core/test_estimators_anchor.py -k counted",
    ),
    Mutation(
        "anchor gets a fresh augmentation at every step",
        "core/estimators/anchored.py",
        'anchor_key = jax.random.wrap_key_data(memory.augment_key, impl="threefry2x32")',
        "anchor_key = augment_key",
        FORMULA,
    ),
    Mutation(
        "SAGA: a datum drawn twice is subtracted twice from the table's sum",
        "core/estimators/tables.py",
        "first = ~jnp.any(earlier, axis=1)",
        "first = jnp.ones_like(index, bool)",
        "core/test_estimators_sums.py -k saga",
    ),
    Mutation(
        "one minibatch kept for a whole trajectory",
        "core/compiled.py",
        "rows(setting.data, index[row])",
        "rows(setting.data, index[0])",
        ALGORITHM,
    ),
    Mutation(
        "a minibatch frozen for the whole chain",
        "core/compiled.py",
        "draw(sampler.order, roots.batch, l, program.size",
        "draw(sampler.order, roots.batch, 0 * l, program.size",
        ALGORITHM,
    ),
    Mutation(
        "all chains on the same key",
        "run/start.py",
        "compiled.make_roots(fold(key, c))",
        "compiled.make_roots(fold(key, 0 * c))",
        ALGORITHM,
    ),
    Mutation(
        "all chains on the same minibatch",
        "run/start.py",
        "compiled.make_roots(fold(key, c))",
        "compiled.make_roots(fold(key, c))._replace(batch=fold(key, 0))",
        ALGORITHM,
    ),
    Mutation(
        "the same noise at every step",
        "core/compiled.py",
        "fold(roots.noise, l)",
        "fold(roots.noise, 0 * l)",
        ALGORITHM,
    ),
    Mutation(
        "SVRG: a full pass at every step",
        "core/estimators/svrg.py",
        "            return -(-size // batch_size)\n        return self.period",
        "            return 1\n        return 1",
        "core/test_estimators_kernel.py -k period",
    ),
    Mutation(
        "memory renewed by a refresh that is not complete",
        "core/compiled.py",
        "memory = select(complete, renewed, state.memory)",
        "memory = renewed",
        "run/test_sample.py run/test_interrupts.py -k 'continued or chunks'",
    ),
    Mutation(
        "indices by modulo",
        "core/rng.py",
        "return multiply(x, bound)[0].astype(jnp.int32)",
        "return (attempt(0) % bound).astype(jnp.int32)",
        "core/test_rng.py -k 'integers or value_keeps'",
    ),
    Mutation(
        "contiguous minibatches that under-sample the first and last rows",
        "core/order.py",
        "    bound = lax.iota(jnp.int32, count) + jnp.int32(size - count + 1)\n"
        "    return floyd(integers(key, bound, (count,), stream=step), size)",
        "    start = integers(key, size - count + 1, (), stream=step)\n"
        "    return start + lax.iota(jnp.int32, count)",
        "core/test_order.py -k 'uniform or pairs'",
    ),
    Mutation(
        "a sweep without its shift",
        "core/order.py",
        "shift = integers(key, size, (), stream=epoch).astype(jnp.uint32)",
        "shift = jnp.uint32(0)",
        "core/test_order.py -k 'shift or dropped or permutations'",
    ),
    Mutation(
        "a symmetric sweep that runs forward twice",
        "core/order.py",
        "block = jnp.minimum(block, jnp.uint32(2 * length - 1) - block)",
        "block = block % jnp.uint32(length)",
        "core/test_order.py",
    ),
    Mutation(
        "burn-in off by one",
        "core/compiled.py",
        "age = l + 1 - setting.burn_in_end",
        "age = l - setting.burn_in_end",
        "run/test_sample.py core/test_averages.py -k 'thin or average'",
    ),
    Mutation(
        "averages ignore the step sizes",
        "core/compiled.py",
        'weight = h if program.weights == "step_size" else jnp.ones_like(h)',
        "weight = jnp.ones_like(h)",
        "core/test_averages.py",
    ),
    Mutation(
        "clipping on the scale of the sum",
        "core/kernel.py",
        "length = jnp.sqrt(square_norm(gradient)) / self.size",
        "length = jnp.sqrt(square_norm(gradient))",
        "run/test_sample.py -k clip",
    ),
    Mutation(
        "sums that lose digits",
        "core/tree.py",
        "return (before - (after - grown)) + (term - grown)",
        "return 0 * grown",
        "core/test_averages.py -k digit",
    ),
    Mutation(
        "a search that believes to be at the mode",
        "run/mode/lbfgs.py",
        "return self.distance < ARRIVED",
        "return True",
        "run/test_mode.py",
    ),
    Mutation(
        "the first rows stand for all where the chains start",
        "run/densities.py",
        "if rows < core.data_size(data):",
        "if False:",
        "run/test_bad_start.py -k finite_density",
    ),
    Mutation(
        "summaries in the dtype of the draws",
        "run/tables.py",
        "np.asarray(leaf)[alive].astype(np.float64)",
        "np.asarray(leaf)[alive]",
        "run/test_result.py -k float64",
    ),
    Mutation(
        "a metric without the prior",
        "run/mode/dense.py",
        "hessian = likelihood + full.prior_hessian(place.x)",
        "hessian = likelihood + 1e-9 * full.prior_hessian(place.x)",
        "run/test_locate.py -k columns_than",
    ),
    Mutation(
        "separable data that pass for a mode",
        "run/mode/refusals.py",
        "(far, -1.0))) < FALL and",
        "(far, -1.0))) < -FALL and",
        "run/test_locate.py -k separable",
    ),
    Mutation(
        "an audit that does not look at the draws",
        "advice/audit/auditor.py",
        "contradiction = find_contradiction(evidence)",
        "contradiction = None",
        "advice/test_audit_evidence.py",
    ),
    Mutation(
        "NUTS that goes on tuning its step size after warm-up",
        "run/nuts.py",
        "during = tuning.step <= self.warm_up",
        "during = tuning.step > 0",
        "run/test_nuts.py -k blackjax",
    ),
    Mutation(
        "NUTS whose search for a step size is not counted",
        "run/nuts.py",
        "count += 1 + jnp.round",
        "count += 0 * jnp.round",
        "run/test_nuts.py -k counted",
    ),
    Mutation(
        "NUTS with a metric whose density is that of z, not of x",
        "core/metric.py",
        "value = gradient(cast(metric.position(z), position))",
        "value = gradient(cast(z, position))",
        "run/test_nuts.py -k moments",
    ),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[m.mistake for m in MUTATIONS])
def test_a_mistake_fits_the_sources(mutation):
    source = (ROOT / "src" / "vrsgmcmc" / mutation.file).read_text()
    assert source.count(mutation.right) == 1


def caught(mutation: Mutation, package: Path) -> bool:
    """Make the mistake in a copy of the package and run the tests on that copy."""
    shutil.copytree(ROOT / "src" / "vrsgmcmc", package / "vrsgmcmc")
    file = package / "vrsgmcmc" / mutation.file
    source = file.read_text()
    file.write_text(source.replace(mutation.right, mutation.wrong))
    command = f"{sys.executable} -m pytest -q -x -n 0 -p no:cacheprovider {mutation.tests}"
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(
        command, shell=True, cwd=ROOT / "tests", env=environment, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stdout[-2000:] + done.stderr[-2000:]
    return done.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[m.mistake for m in MUTATIONS])
def test_a_mistake_is_caught(mutation, tmp_path):
    assert caught(mutation, tmp_path)


def main(out: str) -> None:
    """Run the list and write it down with its result."""
    with open(out, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["mistake", "file", "tests", "caught"])
        for mutation in MUTATIONS:
            with tempfile.TemporaryDirectory() as package:
                found = caught(mutation, Path(package))
            table.writerow(
                [mutation.mistake, mutation.file, mutation.tests, "yes" if found else "NO"]
            )
            file.flush()
            print(f"{'caught' if found else 'MISSED'}: {mutation.mistake}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
