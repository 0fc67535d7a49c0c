"""A report whose names are attacks: scripts, tags, formulas, control characters."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

import vrsgmcmc as vr
from vrsgmcmc.advice.audit import Audit, Block
from vrsgmcmc.advice.audit.verdict import Option
from vrsgmcmc.reports import (
    Answer,
    Claim,
    Effect,
    Predictions,
    PredictiveCheck,
    Section,
    Table,
    figures,
    of_result,
)
from vrsgmcmc.run.result import Divergence

SCRIPT, IMAGE = "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'
FORMULA = "$\\frac{1$ -->\x00\u202eevil\ud800 日本"
HOSTILE = (SCRIPT, IMAGE, FORMULA, "'; </style></title><b>", "javascript:alert(1)", "{{ 7 * 7 }}")
CHAINS, STEPS = 4, 120
X = np.random.default_rng(0).normal(size=(20, 3))


def logprior(params):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def loglik(params, x):
    return -0.5 * jnp.sum((x - params[SCRIPT] - params[FORMULA]) ** 2)


def average(params):
    return params[SCRIPT]


def sample_hostile():
    return vr.sample(
        0,
        vr.Posterior(logprior, loglik),
        X,
        {SCRIPT: jnp.zeros(3), IMAGE: jnp.zeros((20, 30)), FORMULA: jnp.zeros(())},
        estimator=vr.practical(10, 5),
        step_size=0.01,
        batch_size=3,
        num_steps=STEPS,
        burn_in=20,
        num_chains=CHAINS,
        observables={IMAGE: average},
        progress=False,
    )


AUDIT = Audit(
    estimator="practical",
    helps=False,
    verdict=f"no gain: {SCRIPT} {FORMULA}",
    inflation=0.3,
    plain_inflation=0.2,
    full_inflation=0.1,
    drift=0.5,
    cost=8.0,
    plain_batch_size=8,
    blocks=(Block(SCRIPT, 3, 0.1, 0.2, 0.3, 0.4), Block(FORMULA, 1, 0.1, 0.2, 0.3, np.nan)),
    options=(Option(IMAGE, 0.1, 0.2, 3.0),),
    variances=None,
    evaluations=0,
)


def hostile_answer():
    """Two groups of effects, one of them clear."""
    rng = np.random.default_rng(2)
    effects = [
        Effect.of_draws(name, rng.normal(k, 1, 200), ratio=True, unit=name, group=group)
        for k, name in enumerate(HOSTILE)
        for group in (SCRIPT, FORMULA)
    ]
    return Answer(
        IMAGE, SCRIPT, "odds ratio", effects, 1.0, {IMAGE: 1.0}, {IMAGE: 2.0}, HOSTILE, IMAGE
    )


def hostile(result):
    """A report with every part, and hostile names in all of them."""
    rng = np.random.default_rng(1)
    whole = of_result(
        replace(
            result,
            diverged=np.arange(CHAINS) == 1,
            divergences=(Divergence(1, 17, np.inf, 0.01, 0.005),),
        ),
        title=SCRIPT,
        audit=AUDIT,
        predictive=Predictions(rng.normal(size=(50, 40)), rng.normal(size=40)),
        answer=hostile_answer(),
        check=PredictiveCheck(np.arange(40) % 6, rng.integers(0, 6, (50, 40)), HOSTILE),
        command=f"vrsgmcmc sample {IMAGE}",
        facts={name: name for name in HOSTILE},
    )
    table = Table(HOSTILE, [HOSTILE, ["x" * 500, None, np.nan, -np.inf, 1234, -0.5]])
    lines = {name: (np.arange(1, 9.0), np.arange(1, 9.0) + k) for k, name in enumerate(HOSTILE)}
    panel = figures.Panel(IMAGE, lines, level=(SCRIPT, 3.0))
    extra = [
        Section(name, name, figures.curves([panel], x_label="steps"), name, table, alt=name)
        for name in HOSTILE[:2]
    ]
    claims = [Claim(name, "in part", name) for name in (*HOSTILE, "y" * 400)]
    return whole._replace(
        lead="\n\n".join(HOSTILE), sections=[*whole.sections, *extra], claims=claims
    )
