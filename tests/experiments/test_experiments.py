"""Runs in segments, their checkpoints and progress; Gaussian and Pima."""

import io
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import vrsgmcmc as vr
from vrsgmcmc.core import Sampler
from vrsgmcmc.experiments import Settings, gaussian, pima, segments
from vrsgmcmc.experiments.checkpoints import FOLDER, Checkpoints
from vrsgmcmc.experiments.curves import MethodResult
from vrsgmcmc.experiments.methods import ANCHORED
from vrsgmcmc.experiments.progress import ExperimentProgress
from vrsgmcmc.experiments.record import facts
from vrsgmcmc.experiments.segments import (
    Task,
    Trace,
    cuts,
    describe,
    median_pace,
    run_segments,
    stops,
)
from vrsgmcmc.run import run_chains

DATA = np.random.default_rng(0).normal(size=20)
SAMPLER = Sampler(vr.practical(8, 5), vr.sgld(), batch_size=2)
STEPS = np.array([1e-3, 2e-3])
ENDS = np.array([4, 10, 25])


def square(theta):
    return jnp.square(theta)


TASK = Task(vr.models.gaussian.posterior(), DATA, jnp.zeros(()), {"square": square})


@pytest.fixture(scope="module")
def unbroken():
    return run_segments(3, TASK, SAMPLER, STEPS, ENDS)


def test_segments_make_one_run(unbroken):
    whole = vr.sample(
        3,
        *TASK[:3],
        estimator=SAMPLER.estimator,
        step_size=STEPS.astype(np.float32),
        batch_size=2,
        num_steps=25,
        num_chains=2,
        observables=TASK.observables,
        progress=False,
    )
    values = np.square(whole.draws)
    np.testing.assert_allclose(unbroken.average("square", 0, 2), values.mean(1), rtol=1e-12)
    np.testing.assert_allclose(unbroken.average("square", 0, 1), values[:, :10].mean(1), rtol=1e-12)
    # a fifth of 25 steps lies inside the second segment, so the third alone counts
    np.testing.assert_allclose(
        unbroken.late_average("square", 2), values[:, 10:].mean(1), rtol=1e-12
    )
    np.testing.assert_allclose(
        unbroken.late_average("square", 1), values[:, 4:10].mean(1), rtol=1e-12
    )
    np.testing.assert_allclose(
        unbroken.late_average("square", 0), values[:, :4].mean(1), rtol=1e-12
    )
    late = [unbroken.late_average("square", point) for point in range(3)]
    np.testing.assert_array_equal(unbroken.late_averages("square"), late)
    assert np.all(np.diff(unbroken.seconds) > 0)
    assert not unbroken.diverged.any()


def test_a_record_contains_the_compiler_flags(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_prefer_vector_width=512")
    assert facts("a command")["xla_flags"] == "--xla_cpu_prefer_vector_width=512"
    monkeypatch.delenv("XLA_FLAGS")
    assert "xla_flags" not in facts("a command")


def test_a_pace_is_that_of_most_steps():
    steps = np.array([10, 20, 30, 40])
    assert median_pace(np.array([100.0, 2, 3, 4]), steps) == 0.1  # the first one compiles
    assert median_pace(np.array([1.0, 2, 3, 400]), steps) == 0.1  # the last one was held up
    assert median_pace(np.array([7.0]), np.array([70])) == 0.1


def test_a_step_size_that_is_too_large_is_silent(caplog):
    task = TASK._replace(observables={"square": vr.observable(square, every=2)})
    trace = run_segments(3, task, SAMPLER, np.array([1e-3, 1e3]), np.array([100, 2000]))
    assert trace.diverged.tolist() == [False, True]
    assert np.isfinite(trace.averages["square"][:, 0]).all()
    assert not caplog.records


def test_cuts():
    np.testing.assert_array_equal(cuts(1000, 4), [1, 10, 100, 1000])
    np.testing.assert_array_equal(cuts(995, 3, least=100, multiple=10), [100, 310, 990])
    np.testing.assert_array_equal(cuts(5, 40), [1, 2, 3, 4, 5])


def interrupted_after(monkeypatch, calls, error):
    """`sample`, until it was called so many times."""
    left = iter(range(calls))

    def run(*arguments, **options):
        if next(left, None) is None:
            raise error
        return run_chains(*arguments, **options)

    monkeypatch.setattr(segments, "run_chains", run)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)])
def test_an_interrupted_run_goes_on_where_it_stopped(unbroken, tmp_path, monkeypatch, error):
    interrupted_after(monkeypatch, 2, error)  # two segments are done
    with pytest.raises(type(error)):
        run_segments(3, TASK, SAMPLER, STEPS, ENDS, checkpoints=Checkpoints(tmp_path))
    interrupted_after(monkeypatch, 1, AssertionError("too much is done again"))
    assert Checkpoints(tmp_path).exist
    check_same(
        run_segments(3, TASK, SAMPLER, STEPS, ENDS, checkpoints=Checkpoints(tmp_path)), unbroken
    )
    interrupted_after(monkeypatch, 0, AssertionError("it is finished"))
    check_same(
        run_segments(3, TASK, SAMPLER, STEPS, ENDS, checkpoints=Checkpoints(tmp_path)), unbroken
    )
    Checkpoints(tmp_path).delete()
    assert list(tmp_path.iterdir()) == []


def test_stops_lie_between_the_cuts():
    every = stops(np.array([4, 10, 40]), 5, 2, after=0)
    np.testing.assert_array_equal(every, [4, 10, 18, 26, 34, 40])
    np.testing.assert_array_equal(stops(np.array([4, 10, 40]), 5, 2, after=18), [26, 34, 40])
    np.testing.assert_array_equal(stops(np.array([4, 10, 40]), 1, 2, after=0), [4, 10, 40])


def test_a_large_network_goes_on_inside_a_segment(tmp_path, monkeypatch):
    ends = np.array([4, 10, 24])
    look = {"position": np.asarray}
    watched = {"square": vr.observable(square, every=2)}
    task = TASK._replace(observables=watched, snapshots=look, chain_method="sequential")
    monkeypatch.setattr(segments, "PIECES", 1)
    whole = run_segments(3, task, SAMPLER, STEPS, ends)
    monkeypatch.setattr(segments, "PIECES", 6)  # stops after 4, 8, 10, 14, 18, 22 and 24 steps
    cut = run_segments(3, task, SAMPLER, STEPS, ends)
    np.testing.assert_allclose(cut.averages["square"], whole.averages["square"], rtol=1e-14)
    np.testing.assert_array_equal(cut.snapshots["position"], whole.snapshots["position"])
    assert cut.snapshots["position"].shape == (3, 2)

    interrupted_after(monkeypatch, 5, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_segments(3, task, SAMPLER, STEPS, ends, checkpoints=Checkpoints(tmp_path))
    interrupted_after(monkeypatch, 2, AssertionError("too much is done again"))
    again = run_segments(3, task, SAMPLER, STEPS, ends, checkpoints=Checkpoints(tmp_path))
    check_same(again, cut)
    np.testing.assert_array_equal(again.snapshots["position"], cut.snapshots["position"])


@pytest.mark.parametrize("looks", range(6))  # two chains at each of three cuts
def test_an_interrupted_snapshot_is_not_lost(tmp_path, looks):
    left = iter(range(looks))

    def look(position):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return np.asarray(position)

    task = TASK._replace(snapshots={"position": np.asarray})
    impatient = TASK._replace(snapshots={"position": look})
    whole = run_segments(3, task, SAMPLER, STEPS, ENDS)
    with pytest.raises(KeyboardInterrupt):
        run_segments(3, impatient, SAMPLER, STEPS, ENDS, checkpoints=Checkpoints(tmp_path))
    again = run_segments(3, task, SAMPLER, STEPS, ENDS, checkpoints=Checkpoints(tmp_path))
    check_same(again, whole)
    np.testing.assert_array_equal(again.snapshots["position"], whole.snapshots["position"])


def check_same(trace: Trace, other: Trace):
    np.testing.assert_array_equal(trace.averages["square"], other.averages["square"])
    np.testing.assert_array_equal(trace.ends, other.ends)
    np.testing.assert_array_equal(trace.diverged, other.diverged)


def test_a_segment_that_ctrl_c_interrupted_runs_again(unbroken, tmp_path, monkeypatch):
    """`run_chains` returns what is finished of a segment; half a segment is none."""
    real = iter([False, False, True])

    def run(*arguments, **options):
        result = run_chains(*arguments, **options)
        object.__setattr__(result, "interrupted", next(real))
        return result

    monkeypatch.setattr(segments, "run_chains", run)
    with pytest.raises(KeyboardInterrupt):
        run_segments(3, TASK, SAMPLER, STEPS, ENDS, checkpoints=Checkpoints(tmp_path))
    monkeypatch.setattr(segments, "run_chains", run_chains)
    check_same(
        run_segments(3, TASK, SAMPLER, STEPS, ENDS, checkpoints=Checkpoints(tmp_path)), unbroken
    )


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:40] + b"?" + b[41:], lambda b: b""]
)
def test_a_damaged_checkpoint_counts_as_missing(tmp_path, damage):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save("one", {"x": np.arange(5)})
    (file,) = (tmp_path / FOLDER).iterdir()
    np.testing.assert_array_equal(checkpoints.load("one")["x"], np.arange(5))
    assert checkpoints.load("two") is None
    file.write_bytes(damage(file.read_bytes()))
    assert checkpoints.load("one") is None


def test_the_description_contains_all_that_a_trace_depends_on():
    other_data = TASK._replace(data=DATA + 1)
    other_prior = TASK._replace(posterior=vr.models.gaussian.posterior(prior_variance=2.0))
    seldom = TASK._replace(observables={"square": vr.observable(square, every=2)})
    named = {
        describe(*arguments)
        for arguments in [
            (3, TASK, SAMPLER, STEPS, ENDS),
            (4, TASK, SAMPLER, STEPS, ENDS),
            (3, other_data, SAMPLER, STEPS, ENDS),
            (3, other_prior, SAMPLER, STEPS, ENDS),
            (3, seldom, SAMPLER, STEPS, ENDS),
            (3, TASK._replace(init=jnp.ones(())), SAMPLER, STEPS, ENDS),
            (3, TASK._replace(schedule=lambda step: 1 / (1 + step)), SAMPLER, STEPS[:1], ENDS),
            (3, TASK, SAMPLER, STEPS[:1], ENDS),
            (3, TASK, replace(SAMPLER, batch_size=3), STEPS, ENDS),
            (3, TASK, SAMPLER, 2 * STEPS, ENDS),
            (3, TASK, SAMPLER, STEPS, ENDS[:2]),
        ]
    }
    assert len(named) == 11
    assert describe(3, TASK, SAMPLER, STEPS, ENDS) in named


# progress


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("vrsgmcmc.experiments.progress.time.monotonic", clock)
    return clock


def test_lines_off_a_terminal(clock):
    out = io.StringIO()
    with ExperimentProgress(["a [b]", "c"], Console(file=out, width=200)) as progress:
        with progress.method("a [b]", parts=(1, 3)) as line:
            clock.now += 4
            progress.update(0.5)
            clock.now += 8
            progress.update(1.0)
            clock.now += 12
            line.text = "good"
        with progress.method("c") as line:
            clock.now += 6
            progress.update(0.25)
            clock.now += 6
            progress.update(0.5)
            progress.update(1.0)
            line.text = "better"
    assert out.getvalue().splitlines() == [
        "a [b]: 25%, about 0:36 left",
        "a [b]: good, 0:24, about 0:24 left",
        "c: 50%, about 0:12 left",
        "c: better, 0:12",
    ]


def test_work_of_a_checkpoint_takes_no_time(clock):
    out = io.StringIO()
    progress = ExperimentProgress(["a", "b"], Console(file=out, width=200))
    with progress, progress.method("a", parts=(1, 1)) as line:
        progress.update(1.0, loaded=True)
        progress.update(0.5, loaded=True)
        clock.now += 12
        progress.update(0.75)
        clock.now += 6
        line.text = "good"
    assert out.getvalue().splitlines() == [
        "a: 88%, about 0:12 left",
        "a: good, 0:18, about 1:12 left",
    ]


def test_lines_on_a_terminal(clock):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    with ExperimentProgress(["a [b]", "c"], console) as progress:
        with progress.method("a [b]") as line:
            clock.now += 10
            line.text = "good [x]"
        progress.current = progress.methods["c"]
        progress.methods["c"].start = clock.now
        clock.now += 5
        progress.update(0.5)
        progress.live.refresh()
    text = out.getvalue()
    assert "good [x]" in text
    assert "a [b]" in text
    assert "0:05 left" in text


# the Gaussian experiment


def test_the_gaussian_step_size_has_the_lowest_exact_error():
    outcome = gaussian.run(Settings(size="smoke", seeds=2), Checkpoints(None))
    data = np.random.default_rng(0).normal(0.7, 1.0, gaussian.N).astype(np.float32)
    problem, count = vr.theory.gaussian_mean(data), 4 * gaussian.N // 10
    expected = [
        vr.theory.mse(
            problem,
            vr.minibatch(),
            vr.sgld(),
            num_steps=count,
            start=0.0,
            observable="square",
            step_size=step / (gaussian.N + 1),
            batch_size=10,
        ).mse.item()
        for step in gaussian.STEP_SIZES
    ]
    np.testing.assert_allclose(outcome.record["tuning"]["SGLD, n = 10"], expected, rtol=1e-12)
    rows = [row for row in outcome.tables["curves"] if row["method"] == "SGLD, n = 10"]
    assert rows[-1]["steps"] == count
    assert {row["step"] for row in rows} == {gaussian.STEP_SIZES[np.argmin(expected)]}
    assert rows[-1]["exact_mse"] == pytest.approx(min(expected), rel=1e-12)


def gaussian_rows(ends):
    """Two points of each method, ten times as dear and ten times as good."""
    return [
        {"method": f"SGLD, n = {n}", **dict.fromkeys(gaussian.AXES, cost), "exact_mse": mse / cost}
        for n, mse in zip((1, 10, 100), ends, strict=True)
        for cost in (1.0, 10.0)
    ]


def test_claims_about_the_gaussian():
    def answer(*ends):
        (claim,) = gaussian.gaussian_claims(gaussian_rows(ends))
        return claim.answer

    assert answer(1.0, 2.0, 3.0) == "yes"
    assert answer(1.04, 1.0, 3.0) == "in part"
    assert answer(2.0, 1.0, 3.0) == "no"
    rows = gaussian_rows((1.2, 1.0, 3.0))
    rows[0]["seconds_all_chains"], rows[1]["seconds_all_chains"] = 0.5, 5.0  # half the time
    (claim,) = gaussian.gaussian_claims(rows)
    assert claim.answer == "in part"
    assert "at equal time n = 1: 1.20e-01, n = 10: 2.00e-01" in claim.evidence


# Pima


def best(losses, error):
    points = len(losses)
    nll = np.asarray(losses, float)[:, None] + np.array([-1e-4, 1e-4])
    trace = Trace(10 * np.arange(1, points + 1), np.arange(1.0, points + 1), {}, np.zeros(2, bool))
    scores = {"test": {"nll": nll}, "posterior": {"error": np.full((points, 2), error)}}
    return MethodResult(SAMPLER, 100, 0.1, {}, trace, scores, {})  # all methods at one cost


def test_claims_about_pima_look_at_the_curves():
    high, low = best((0.9, 0.8, 0.7), 0.1), best((0.6, 0.5, 0.4), 0.05)

    def answers(**curves):
        names = {
            "sgld": pima.SGLD,
            "paper": pima.PAPER,
            "svrg": "SVRG-LD",
            "fifty": f"{ANCHORED}50",
        }
        runs = {names[name]: curve for name, curve in curves.items()}
        claims = pima.pima_claims(dict.fromkeys(pima.QUESTIONS, runs))
        return [claim.answer for claim in claims]

    late = best((0.9, 0.8, 0.3), 0.1)
    assert answers(sgld=high, paper=low, svrg=late, fifty=low) == ["yes", "yes", "yes", "yes"]
    assert answers(sgld=low, paper=high, svrg=high, fifty=low) == ["no", "no", "no", "no"]
    assert answers(sgld=high, paper=late)[0] == "in part"
    assert answers(sgld=high) == []
