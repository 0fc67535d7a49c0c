"""Help, version and the start of the program."""

import os
import re
import resource
import subprocess
import sys
from importlib.metadata import version

import pytest
from support.command_line import run_command

from vrsgmcmc.cli import COMMANDS
from vrsgmcmc.experiments import EXPERIMENTS


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_the_commands_and_the_exit_codes(arguments, capsys):
    code, out, err = run_command(arguments, capsys)
    assert (code, err) == (0, "")
    for name, (_, help) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(help)}$", out, flags=re.MULTILINE)
    for text in ("2 bad input", "3 all chains diverged", "130 or 143"):
        assert text in out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(name, capsys):
    code, out, err = run_command([name, "--help"], capsys)
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: vrsgmcmc {name}")


def test_version(capsys):
    assert run_command(["--version"], capsys) == (0, f"vrsgmcmc {version('vrsgmcmc')}\n", "")


def test_list_shows_every_experiment_with_a_line_about_it(capsys):
    code, out, err = run_command(["reproduce", "--list"], capsys)
    assert (code, err) == (0, "")
    lines = dict(line.split("  ", 1) for line in out.splitlines())
    assert {name.strip(): text.strip() for name, text in lines.items()} == EXPERIMENTS


def test_every_key_of_a_configuration_is_a_flag(capsys):
    _, out, _ = run_command(["sample", "--help"], capsys)
    for text in (
        "--step-size",
        "--num-chains",
        "--formula",
        "practical|minibatch",
        "--set KEY",
    ):
        assert text in out


HEAVY = {"jax", "jaxlib", "matplotlib", "numpy", "pandas", "pydantic", "scipy", "xarray", "zarr"}


def test_help_is_quick_because_nothing_heavy_is_imported():
    program = f"""
import sys
from vrsgmcmc.cli import main
for words in [["--help"], ["--version"], ["reproduce", "--list"], ["reproduce", "pimma"], ["walk"],
              ["sample", "a.csv", "--tarjet", "y"], *([name, "--help"] for name in {list(COMMANDS)!r})]:
    main(words)
print(sorted({HEAVY!r} & set(sys.modules)))
"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process.stdout.splitlines()[-1] == "[]"
    assert (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.6
    )  # for all of them


def test_python_m_runs_the_same_program_and_returns_its_exit_code(tmp_path):
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    for arguments, code in ((["--version"], 0), (["walk"], 2)):
        command = [sys.executable, "-m", "vrsgmcmc", *arguments]
        process = subprocess.run(
            command, capture_output=True, cwd=tmp_path, env=environment, timeout=60
        )
        assert process.returncode == code
