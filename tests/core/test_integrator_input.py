"""Words of `splitting`, numbers out of range, and integrators that take another number of gradients."""

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.quadratic import BATCH, POSTERIOR, SIZE, START, TREE, F, gradient, refused, start, step

import vrsgmcmc as vr

# ---------------------------------------------------------------- words


def gradients_per_step(word):
    """By running the word many times: B that see the same position share a gradient."""
    repeats, position, seen = 50, 0, set()
    for letter in word * repeats:
        position += letter in "AU"
        if letter == "B":
            seen.add(position)
    return round(len(seen) / repeats)


def test_words_with_one_gradient():
    """Of all words up to six letters, those with all flows and one gradient are accepted."""
    words = ["".join(w) for n in range(1, 7) for w in product("ABO", repeat=n)]
    words += ["".join(w) for n in range(1, 7) for w in product("BU", repeat=n)]
    accepted = 0
    for word in words:
        complete = set(word) in ({"A", "B", "O"}, {"B", "U"})
        if complete and gradients_per_step(word) == 1:
            vr.splitting(word, F)
            accepted += 1
        else:
            with pytest.raises(ValueError, match="Words that work: BAOAB"):
                vr.splitting(word, F)
    assert accepted > 100


KNOWN = ("BAOAB", "ABOBA", "OBABO", "BAOA", "UBU")
LETTERS = "a word consists of A, B, O and U."
BESIDE = "U is A and O together, so it cannot stand beside them."
COUNT = (
    "this word needs {0} gradients per step, because its B see {0} positions; "
    "only one gradient per step is offered."
)
BAD_WORDS = {
    "BABAO": COUNT.format(2),
    "BABABOA": COUNT.format(3),
    "UBUB": COUNT.format(2),
    "BAXAB": LETTERS,
    "baoab": LETTERS,
    "": LETTERS,
    "BAB": "O is missing.",
    "B": "A and O are missing.",
    "UU": "B is missing.",
    "OUBUO": BESIDE,
    "UBA": BESIDE,
}


@pytest.mark.parametrize(("word", "message"), BAD_WORDS.items())
def test_bad_words(word, message):
    with refused(f"splitting(word={word!r}): {message} Words that work: {', '.join(KNOWN)}."):
        vr.splitting(word, F)
    assert all(vr.splitting(each, F).word == each for each in KNOWN)


NAN, INFINITE = float("nan"), float("inf")
BAD_NUMBERS = [
    (vr.sghmc, dict(friction=0.0), "friction must be positive."),
    (vr.sghmc, dict(friction=INFINITE), "friction must be a finite number."),
    (vr.sghmc, dict(friction="high"), "friction must be a finite number."),
    (vr.sgnht, dict(friction=-1.0), "friction must be positive."),
    (vr.sgnht, dict(friction=NAN), "friction must be a finite number."),
    (partial(vr.splitting, "UBU"), dict(friction=0.0), "friction must be positive."),
    (partial(vr.splitting, "UBU"), dict(friction=NAN), "friction must be a finite number."),
    (vr.psgld, dict(decay=1.0), "decay must be at least 0 and below 1."),
    (vr.psgld, dict(decay=-0.1), "decay must be at least 0 and below 1."),
    (vr.psgld, dict(decay=NAN), "decay must be a finite number."),
    (vr.psgld, dict(eps=0.0), "eps must be positive."),
    (vr.ito, dict(drift=1.0, diffusion=abs), "drift must be a function of x."),
    (partial(vr.ito, abs), dict(diffusion=2.0), "diffusion must be a function of x."),
    (
        partial(vr.ito, abs, abs),
        dict(auxiliary=3),
        "auxiliary must be a function of (key, params), or None.",
    ),
]
KINETIC = (partial(vr.sghmc, F), partial(vr.sgnht, F), partial(vr.splitting, "UBU", F))
for make in (vr.sgld, vr.psgld, *KINETIC):
    BAD_NUMBERS += [
        (make, dict(temperature=-0.5), "temperature must be 0 or more."),
        (make, dict(temperature=NAN), "temperature must be a finite number."),
    ]


@pytest.mark.parametrize(("make", "argument", "message"), BAD_NUMBERS)
def test_bad_numbers(make, argument, message):
    (name, value), *_ = argument.items()
    function = getattr(make, "func", make).__name__
    with refused(f"{function}({name}={value!r}): {message}"):
        make(**argument)


# ---------------------------------------------------------------- one gradient per step


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["calls"])
@dataclass(frozen=True)
class Ascent:
    """Somebody's own integrator, which asks for the gradient `calls` times."""

    name: ClassVar[str] = "ascent"
    calls: int

    def init(self, key, params):
        return ()

    def step(self, key, position, dynamics, gradient, step_size, size):
        for _ in range(self.calls):
            position = jax.tree.map(lambda x, g: x + step_size * g, position, gradient(position))
        return position, dynamics


def sample_with(integrator):
    return vr.sample(
        0,
        POSTERIOR,
        BATCH.items,
        jnp.asarray(START),
        estimator=vr.full(),
        integrator=integrator,
        step_size=0.01,
        batch_size=SIZE,
        num_steps=3,
        num_chains=2,
        progress=False,
    )


@pytest.mark.parametrize("calls", [0, 2])
def test_one_gradient_per_step(calls):
    message = (
        "ascent: an integrator calls gradient(x) exactly once per step; this one called it "
        f"{calls} times."
    )
    state = start(Ascent(calls), jax.random.key(0), TREE)
    with refused(message):
        step(Ascent(calls), jax.random.key(0), state, 0.1)
    with refused(message):
        sample_with(Ascent(calls))


def test_an_integrator_of_ones_own():
    x = START
    for _ in range(3):
        x = x + 0.01 * gradient(x)
    draws = sample_with(Ascent(1)).draws
    np.testing.assert_allclose(draws[:, -1], np.stack([x, x]), rtol=1e-12)
