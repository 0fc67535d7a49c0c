"""What a notebook shows of advice: the verdict first, and every text escaped."""

import re

import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.advice import Decision
from vrsgmcmc.advice.audit import Block
from vrsgmcmc.advice.auto.decision import StoredDecision
from vrsgmcmc.core import Sampler

HOSTILE = "<img src=x onerror=alert(1)>"
DECISION = Decision(
    sampler=Sampler(vr.practical(), vr.sgld(), 1e-3, 10),
    starts=None,
    num_chains=4,
    burn_in=0,
    thin=1,
    steps=(1000,),
    ess=np.inf,
    evaluations=1000,
    allowance=np.inf,
    why=HOSTILE,
    considered=("nuts",),
    seconds=1.0,
)
ACCURACY = vr.Accuracy(
    mean=np.array([0.01, *[0.02] * 10, 0.03]),
    sd=np.full(12, 0.01),
    names=("first", *"abcdefghij", HOSTILE),
    subject="parameter",
    ess=2500.0,
    r_hat=1.001,
    bias=0.01,
    virial=1.0,
    virial_error=0.01,
    laplace_mean=None,
    laplace_sd=None,
    evaluations=10,
    notes=(HOSTILE,),
)
AUDIT = vr.Audit(
    estimator="practical",
    helps=True,
    verdict=f"gain: {HOSTILE}",
    inflation=0.1,
    plain_inflation=0.2,
    full_inflation=0.0,
    drift=0.0,
    cost=20.0,
    plain_batch_size=20,
    blocks=(Block(HOSTILE, 3, 0.1, 0.2, 0.3, 0.4),),
    options=(),
    variances=None,
    evaluations=10,
)
PLAN = vr.Plan(DECISION, None, 1000)
JSON = {name: getattr(DECISION, name) for name in ("why", "modes", "notes", "considered")}
STORED = StoredDecision(
    DECISION.sampler.to_json(), JSON | {"seconds": 1.0, "evaluations": DECISION.evaluations}
)


@pytest.mark.parametrize(
    ("value", "first"),
    [
        (ACCURACY, "Good: every parameter"),
        (AUDIT, "gain: "),
        (DECISION, "Practical("),
        (STORED, "practical, 10 rows a step, sgld, step size 0.001"),
        (PLAN, "Practical("),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_verdict_comes_first_and_text_is_escaped(value, first):
    page = value._repr_html_()
    assert "<img" not in page
    assert "&lt;img" in page
    assert page.startswith(f"<div><p><b>{first}")


def test_the_worst_bounds_come_first():
    page = ACCURACY._repr_html_()
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    assert "0.030" in rows[1]
    assert len(rows) == 11
    assert "The worst 10 of 12." in page


def test_a_plan_lists_the_arguments_of_sample():
    page = PLAN._repr_html_()
    for name in PLAN.keys():  # noqa: SIM118 (a Plan is a mapping for ** alone)
        assert f">{name}</td>" in page
