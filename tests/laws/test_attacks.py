"""Attacks on run directories, jobs and input files: right numbers, or a refusal in words.

    pytest -m slow tests/laws/test_attacks.py -n 0 -s

prints the tables of docs/reliability.md. Every attack starts from a fresh copy of a small directory,
and is followed by one use of it. The law: the outcome has the right bits, or says what is missing, or
is refused: with `ValueError` in the library (`RunError` is one), with exit code 1 or 2 and a message
on the command line. Nothing hangs, and nothing outside of the directory changes. A forgery with right
sums may be believed, since nothing can tell it from a run; it may not crash, hang or write elsewhere.
"""

import io
import itertools
import os
import shutil
import signal
from collections import Counter
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from support.attacks import (
    CHANGES,
    FORGERIES_OF_A_JOB,
    FORGERIES_OF_A_RUN,
    attacked,
    files_of,
    snapshot,
)
from support.command_line import COMMAND, table_text
from support.crashes import Crash, commit_chunks, crash_after
from support.small_runs import assert_same_run, broken_run, run, whole_run

from vrsgmcmc import cli
from vrsgmcmc.reports import writer as report_writer
from vrsgmcmc.run import store
from vrsgmcmc.run.store import commits, draws

HANG = 120  # seconds; the slowest use takes a few
COMMITS = (commits.CURRENT, commits.PREVIOUS)
RIGHT, SAID, REFUSED, BELIEVED = "right", "said", "refused", "believed"


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patch:
        commit_chunks(patch, 16)
        patch.setattr(draws, "CHUNK_BYTES", 20 * 2 * 2 * 8)
        patch.setattr(
            report_writer, "render", lambda figure, *kinds: {"png": b"p", "svg": b"<svg/>"}
        )
        yield patch


class Arena:
    """A folder with one directory to attack, files outside, and a place to stand."""

    def __init__(self, folder):
        self.folder, self.path, self.outside = folder, folder / "run", folder / "outside"
        (folder / "here").mkdir()

    @contextmanager
    def attack(self, template, other, kind, attack, generator):
        """A fresh copy after one attack; what is outside must not change while it is used."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.rmtree(self.outside, ignore_errors=True)
        self.outside.mkdir()
        (self.outside / "file").write_text("precious")
        shutil.copytree(template, self.path, symlinks=True)
        names = files_of(self.path)
        os.chdir(self.folder / "here")
        with attacked(kind, attack, self.path, other, generator, names):
            self.changed = self.difference(template)
            before = snapshot(self.outside)
            with alarm(HANG):
                yield
            assert snapshot(self.outside) == before
            assert list((self.folder / "here").iterdir()) == []
            others = {"run", "outside", "here"} | {"table.csv", "templates", "new.csv"}
            assert {file.name for file in self.folder.iterdir()} <= others

    def difference(self, template):
        """The files that `verify` covers and that are not as they were."""
        there, here = snapshot(template), snapshot(self.path)
        journals = ("metrics.jsonl", "draws.sha256")  # bytes behind the commit are allowed
        changed = [n for n, (_, content) in there.items() if content and here.get(n) != there[n]]
        grown = [n for n in changed if n.endswith(journals) and starts_with(here.get(n), there[n])]
        current, previous = (
            [v for n, v in here.items() if Path(n).name == name] for name in COMMITS
        )
        if current == previous:  # as a crash between the two can leave them
            changed = [name for name in changed if Path(name).name not in COMMITS]
        return [name for name in changed if name not in grown]


def starts_with(here, there):
    return here is not None and here[1] is not None and here[1].startswith(there[1])


@contextmanager
def alarm(seconds):
    """An error instead of a hang."""

    def end(number, frame):
        raise TimeoutError(f"no answer after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Table(dict):
    """Counts of outcomes for each kind of attack, and what broke the law."""

    def __init__(self):
        self.broken = []

    @contextmanager
    def count(self, kind, what):
        """Count an outcome: the block appends it to a list."""
        outcome = []
        try:
            yield outcome
        except (Exception, Crash) as error:
            self.broken.append((kind, what, f"{type(error).__name__}: {str(error)[:500]}"))
            outcome = ["broken"]
        self.setdefault(kind, Counter())[outcome[0]] += 1

    def show(self, title):
        columns = [RIGHT, SAID, REFUSED, BELIEVED]
        print(f"\n\n| {title} | tried | {' | '.join(columns)} |\n|{' --- |' * 6}")
        total = Counter()
        for kind, counts in self.items():
            total += counts
            print(f"| {kind} | {counts.total()} | {' | '.join(str(counts[c]) for c in columns)} |")
        print(f"| all | {total.total()} | {' | '.join(str(total[c]) for c in columns)} |")
        for line in self.broken:
            print("BROKEN", *line)
        return total


# --- run directories of the library --------------------------------------------------------------


class Runs:
    """Small runs that nobody changes, and what they hold at each commit."""

    def __init__(self, folder, patch):
        self.folder = folder
        run(folder / "finished")
        broken_run(folder / "broken", patch, 5)
        run(folder / "other", key=8)
        self.at = {}
        for name in ("finished", "broken"):
            for which in COMMITS:
                commit = commits.load(store.Folder(folder / name), which)
                opened = store.Run(folder / name, commit)
                self.at[commit["progress"]["steps"]] = opened.averages, opened.metrics


def read_run(runs, path):
    """Draws, averages and metrics: those of one of the two commits."""
    opened = store.open(path)
    averages, metrics = runs.at.get(opened.progress["steps"], (None, None))
    leaf = np.asarray(opened.leaves["x"])
    loaded = opened.draws["posterior"].load()["x"].values
    right = np.array_equal(leaf, whole_run().draws[:, : leaf.shape[1]])
    right = right and np.array_equal(loaded, leaf) and averages is not None
    right = right and np.array_equal(opened.averages["square"], averages["square"])
    right = right and leaf.shape[1] == opened.progress["steps"]
    if opened.metrics == metrics:
        return RIGHT if right else "wrong"
    metrics_said = opened.metrics == [] and any("metrics.jsonl" in note for note in opened.notes)
    return SAID if right and metrics_said else "wrong"


def verify_run(runs, path):
    """Problems where there are any; `REFUSED` stands for damage that is named."""
    return REFUSED if store.verify(path) else RIGHT


def sample_run(runs, path):
    """The same call again: it loads, resumes, or refuses."""
    assert_same_run(run(path), whole_run())
    return RIGHT


LIBRARY = {"open": read_run, "verify": verify_run, "sample": sample_run}


def attack_runs(runs, arena, count, seed):
    """So many attacks of each kind on run directories."""
    table = Table()
    for kind, attack in {**CHANGES, **FORGERIES_OF_A_RUN}.items():
        for number in range(count):
            generator = np.random.default_rng([seed, number, *kind.encode()])
            template = ("finished", "broken")[number % 2]
            use = list(LIBRARY)[number // 2 % 3]
            with (
                table.count(kind, (number, template, use)) as outcome,
                arena.attack(
                    runs.folder / template, runs.folder / "other", kind, attack, generator
                ),
            ):
                try:
                    outcome.append(LIBRARY[use](runs, arena.path))
                except ValueError:
                    outcome.append(REFUSED)
                except AssertionError:
                    outcome.append("wrong")
                if kind not in CHANGES and (
                    outcome[0] == "wrong" or (outcome[0], use) == (RIGHT, "verify")
                ):
                    outcome[0] = BELIEVED
                if use == "verify" and kind in CHANGES and outcome[0] == RIGHT:
                    assert not arena.changed, "verify says that all is well"
                assert outcome[0] != "wrong"
    return table


@pytest.fixture(scope="module")
def runs(tmp_path_factory, patch):
    return Runs(tmp_path_factory.mktemp("runs"), patch)


@pytest.fixture
def arena(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("table.csv", "new.csv"):
        (tmp_path / name).write_text(table_text())
    return Arena(tmp_path)


@pytest.mark.slow
def test_attacks_on_run_directories(runs, arena):
    table = attack_runs(runs, arena, 24, seed=1)
    total = table.show("run directory, library")
    assert table.broken == []
    assert total.total() >= 500


# --- jobs of the command line --------------------------------------------------------------------


def call(words):
    """Exit code and what was printed."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


class Jobs:
    """Small jobs that nobody changes, and what the commands print about them."""

    def __init__(self, arena, patch):
        self.folder = arena.folder / "templates"
        self.sample = ["sample", arena.folder / "table.csv", *COMMAND, "--model", "logistic"]
        self.sample += ["--num-steps", "90", "--out", arena.path]
        self.folder.mkdir()
        for name, more in {"other": ["--seed", "5"], "finished": [], "broken": []}.items():
            with patch.context() as crashes:
                if name == "broken":
                    crash_after(crashes, 5)
                try:
                    assert call([*self.sample, *more])[0] == 4  # too short to be good
                except Crash:
                    assert name == "broken"
            arena.path.rename(self.folder / name)
        self.commands = {
            "verify": ["verify", arena.path],
            "summary": ["summary", arena.path],
            "report": ["report", arena.path],
            "resume": ["resume", arena.path],
            "sample": self.sample,
            "predict": ["predict", arena.path, arena.folder / "new.csv", "--out"],
        }
        self.commands["predict"].append(arena.folder / "predictions.csv")
        self.texts = {
            (template, use): set(self.variants(arena, template, use))
            for template in ("finished", "broken")
            for use in self.commands
        }
        names = ("findings.json", "predictions.csv")
        self.findings = {name: (self.folder / "finished" / name).read_bytes() for name in names}

    def variants(self, arena, template, use):
        """What a command prints: about this commit, the one before, with and without its findings."""
        names = "chains/commit.json", "findings.json", "chains/accuracy.json"
        for chosen in itertools.product((False, True), repeat=3):
            lost = itertools.compress(names, chosen)
            shutil.copytree(self.folder / template, arena.path)
            for name in lost:
                (arena.path / name).unlink(missing_ok=True)
            code, out, _ = self.call(use)
            shutil.rmtree(arena.path)
            if code in (0, 4):
                yield out

    def call(self, use):
        """Exit code, output and messages of a command; predictions of new rows belong to the output."""
        code, out, err = call(self.commands[use])
        file = self.commands["predict"][-1]
        if file.exists():
            out += file.read_text()
            file.unlink()
        return code, out, err


def use_job(jobs, arena, template, use, kind):
    """Run a command; what came out."""
    code, out, err = jobs.call(use)
    text = out + err
    assert "should not happen" not in text, text[-300:]
    assert "Traceback" not in text, text[-300:]
    if code not in (0, 4):  # 4: as right as it is
        forged = kind not in CHANGES  # 3: its chains are not finite
        assert code in (1, 2) or (forged and code == 3), (code, text)
        assert text.strip()
        return REFUSED
    if kind in CHANGES:
        if use == "verify" and "nothing is sampled yet" in out:
            return SAID  # a job whose chains are gone, as before its start
        assert use == "verify" or out in jobs.texts[template, use], out
        if use == "verify":
            assert not arena.changed, (arena.changed, out)
            return RIGHT
        if use in ("report", "resume", "sample"):
            for name, content in jobs.findings.items():
                assert (arena.path / name).read_bytes() == content, name
        return SAID if "vrsgmcmc: " in err else RIGHT
    return RIGHT if out in jobs.texts[template, use] and use != "verify" else BELIEVED


def forge_chains(attack):
    """A forgery of the run inside a job."""

    def forge(path, other, generator, names):
        inside = [name.removeprefix("chains/") for name in names if name.startswith("chains/")]
        attack(path / "chains", other / "chains", generator, inside)

    return forge


def attack_jobs(jobs, arena, count, seed):
    """So many attacks of each kind on jobs."""
    table = Table()
    forged = {f"chains: {kind}": forge_chains(f) for kind, f in FORGERIES_OF_A_RUN.items()}
    for kind, attack in {**CHANGES, **FORGERIES_OF_A_JOB, **forged}.items():
        for number in range(count):
            generator = np.random.default_rng([seed, number, *kind.encode()])
            template = ("finished", "broken")[number // len(jobs.commands) % 2]
            if attack in (
                FORGERIES_OF_A_JOB["scores, signed"],
                FORGERIES_OF_A_JOB["names in the sums"],
            ):
                template = "finished"  # only it has them
            use = list(jobs.commands)[number % len(jobs.commands)]
            with (
                table.count(kind, (number, template, use)) as outcome,
                arena.attack(jobs.folder / template, jobs.folder / "other", kind, attack, generator),
            ):  # fmt: skip
                outcome.append(use_job(jobs, arena, template, use, kind))
    return table


@pytest.mark.slow
def test_attacks_on_jobs(arena, patch):
    jobs = Jobs(arena, patch)
    table = attack_jobs(jobs, arena, 24, seed=2)
    total = table.show("job, command line")
    assert table.broken == []
    assert total.total() >= 500
