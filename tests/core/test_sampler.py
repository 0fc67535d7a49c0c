"""The record of how to run: its costs, and its one form as JSON."""

import itertools
import json

import jax
import numpy as np
import pytest

import vrsgmcmc as vr
from vrsgmcmc.core import Sampler

SIZE = 100
ESTIMATORS = [vr.full(), vr.minibatch(), vr.practical(20, 4, 2), vr.svrg(), vr.svrg(7), vr.saga()]
ESTIMATORS += [vr.block_saga(5), vr.control_variate(), vr.control_variate(order=2)]
INTEGRATORS = [vr.sgld(0.5), vr.psgld(), vr.sghmc(2.0), vr.sgnht(3.0), vr.splitting("UBU", 1.5)]
INTEGRATORS += [vr.leimkuhler_matthews(0.5)]


@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda each: each.name)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_json_and_back(estimator, integrator):
    sampler = Sampler(estimator, integrator, 1e-3, 5, "shuffled", "symmetric", 0.5)
    record = json.loads(json.dumps(sampler.to_json()))
    assert Sampler.from_json(record) == sampler
    assert Sampler.from_json({**record, "num_steps": 10}) == sampler  # a record may say more


def test_no_two_methods_have_the_same_structure():
    """JAX would run the program of one for the other."""
    methods = [*ESTIMATORS, *INTEGRATORS]
    structures = [jax.tree.structure(method) for method in methods]
    for one, other in itertools.combinations(range(len(methods)), 2):
        same = type(methods[one]) is type(methods[other])
        assert structures[one] != structures[other] or same, (methods[one], methods[other])


def test_a_record_holds_neither_a_centre_nor_code():
    center = np.arange(3.0)
    record = Sampler(vr.control_variate(center), vr.sgld()).to_json()
    assert Sampler.from_json(record, center=center).estimator == vr.control_variate(center)
    with pytest.raises(ValueError, match="does not hold the centre"):
        Sampler.from_json(record)
    hot = vr.Batch(np.array([3]), np.ones(1))
    second = vr.control_variate(center, 2, hot, np.eye(3), linear=True)
    record = json.loads(json.dumps(Sampler(second, vr.sgld()).to_json()))
    for parts, lacks in (({}, "Hessian"), ({"hessian": np.eye(3)}, "hot rows")):
        with pytest.raises(ValueError, match=f"does not hold the {lacks}"):
            Sampler.from_json(record, center, **parts)
    assert Sampler.from_json(record, center, hessian=np.eye(3), hot=hot).estimator == second
    schedule = Sampler(vr.saga(), vr.sgld(), lambda l: 1e-3 / (1 + l)).to_json()
    with pytest.raises(ValueError, match="does not hold the schedule"):
        Sampler.from_json(schedule)
    ito = Sampler(vr.saga(), vr.ito(lambda x, g: g(x), lambda x: 1.0)).to_json()
    with pytest.raises(ValueError, match="drift must be a function"):
        Sampler.from_json(ito)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("allowance", [0, 99, 100, 101, 523.5, 4000])
def test_affordable_steps_are_the_most_that_an_allowance_pays(estimator, allowance):
    sampler = Sampler(estimator, vr.sgld(), batch_size=5)
    steps = sampler.affordable_steps(SIZE, allowance)
    assert steps == 0 or sampler.evaluations(SIZE, steps) <= allowance
    assert sampler.evaluations(SIZE, steps + 1) > allowance
