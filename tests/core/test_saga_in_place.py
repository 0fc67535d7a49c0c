"""SAGA writes the rows of its table in place: a step that copied it would cost O(N)."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.core import compiled


@pytest.mark.parametrize("chains", [1, 3])
def test_no_step_copies_the_table(monkeypatch, chains):
    programs, real = [], compiled.advance

    def spy(program, *arguments, **options):
        lowered = jax.jit(partial(real, program, **options)).lower(*arguments)
        programs.append(lowered.compile().as_text())
        return real(program, *arguments, **options)

    monkeypatch.setattr(compiled, "advance", spy)
    size, d = 60, 5
    x = np.random.default_rng(0).normal(size=(size, d))
    options = {"estimator": vr.saga(), "step_size": 1e-3, "batch_size": 4, "num_steps": 5}
    vr.sample(0, vr.models.gaussian.posterior(), x, jnp.zeros(d), **options, num_chains=chains,
              keep="averages", chain_method="sequential" if chains == 1 else "vmap",
              progress=False)  # fmt: skip
    shape = rf"f64\[{size},{d}\]" if chains == 1 else rf"f64\[{chains},{size},{d}\]"
    for text in programs:
        bodies, entry = text.split("\nENTRY ")
        assert re.search(rf"{shape}\S* (scatter|fusion)\(", bodies)
        assert not re.search(rf"{shape}\S* copy\(", bodies)
        assert len(re.findall(rf"{shape}\S* copy\(", entry)) <= 1  # the argument, once per chunk
