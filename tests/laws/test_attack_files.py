"""Crafted tables, configurations, models and directories, given to the command line.

    pytest -m slow tests/laws/test_attack_files.py -n 0 -s

prints a line of docs/reliability.md for each kind of file. All of them are refused with exit code 2 and
a message; nothing is executed, and nothing is written.
"""

import io
import json
import struct
import warnings
import zipfile
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from support.attacks import signed
from support.command_line import EVIL

from vrsgmcmc import cli

ROWS = "".join(f"{i % 7},{i % 5},{'no' if i % 3 else 'yes'}\n" for i in range(30))
GOOD = "a,b,y\n" + ROWS
CONFIG = 'data = "good.csv"\ntarget = "y"\nmodel = "logistic"\n'
TARGET = ["--target", "y", "--model", "logistic"]
FIRST = ["--target", "0", "--model", "linear"]


def npy(descr, shape, body=b"", order=False, version=b"\x01\x00"):
    """A file of one array whose header is written by hand."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + body


def archive(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as writer, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns of a name that comes twice
        for name, content in members:
            writer.writestr(name, content)
    return file.getvalue()


def saved(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


COLUMN = saved(np.arange(30.0))
EIGHT = bytes(8 * 60)

TABLES = {  # CSV
    "empty": b"",
    "only a name": b"a,b,y\n",
    "only ends of lines": b"\n\r\n\r" * 50,
    "zero bytes": bytes(5000),
    "zero in a cell": GOOD.replace("2,2", "2\0,2").encode(),
    "half of UTF-16": GOOD.encode("utf-16")[:-1],
    "no target": GOOD.replace("y\n", "z\n", 1).encode(),
    "names twice": GOOD.replace("a,b", "a,a", 1).encode(),
    "a short line": (GOOD + "1\n").encode(),
    "a long line": (GOOD + "1,2,yes,4\n").encode(),
    "an open quotation": (GOOD + '1,2,"yes\n').encode(),
    "infinity": (GOOD + "inf,2,yes\n").encode(),
    "overflow": (GOOD + "1e999,2,yes\n").encode(),
    "one class": b"a,b,y\n" + b"1,2,yes\n" * 30,
    "three classes": (GOOD + "1,2,maybe\n").encode(),
    "a number of 10,000 digits": (GOOD + "1" * 10_000 + ",2,yes\n").encode(),
    "a program": EVIL.encode(),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10,
}
TEXT = {  # cells that make a column of levels, and are no numbers in the rows for `predict`
    "not UTF-8": b"a,b,y\n\xff\xfe,1,yes\n",
    "a hexadecimal": (GOOD + "0x10,2,yes\n").encode(),
    "digits of another script, and a bad one": (GOOD + "\u0663x,2,yes\n").encode(),
    "a formula": (GOOD + "=1+1,2,yes\n").encode(),
    "a class that is none": (GOOD + "1,2,maybe\n").encode(),
    "a column of the model is missing": GOOD.replace("a,b", "a,c", 1).encode(),
    "a link to a device": Path("/dev/zero"),
    "a link to nothing": Path("nothing.csv"),
}
NEW = {n: c for n, c in TABLES.items() if n not in ("no target", "one class")} | TEXT
ARRAYS = {  # NPY
    "no body": npy("'<f8'", "(20, 3)"),
    "half a body": npy("'<f8'", "(20, 3)", EIGHT[:100]),
    "objects": saved(np.array([[1, "x"]] * 30, dtype=object), allow_pickle=True),
    "code in the header": npy("__import__('os').system('touch evil.txt')", "(2,)"),
    "a deep header": npy("(" * 9000 + ")" * 9000, "(2,)"),
    "a negative shape": npy("'<f8'", "(-20, 3)", EIGHT),
    "a shape that overflows": npy("'<f8'", f"({2**40}, {2**40})", EIGHT),
    "a shape of text": npy("'<f8'", "('x', 3)", EIGHT),
    "no axes": npy("'<f8'", "()", EIGHT),
    "four axes": npy("'<f8'", "(5, 2, 2, 3)", EIGHT),
    "a dtype of no bytes": npy("'|V0'", "(20, 3)"),
    "complex": saved(np.ones((30, 3), complex)),
    "dates": saved(np.zeros((30, 3), "M8[s]")),
    "NaN": saved(np.full((30, 3), np.nan)),
    "an unknown version": npy("'<f8'", "(20, 3)", EIGHT, version=b"\x09\x00"),
    "a structure": saved(np.zeros(30, [("a", "f8"), ("y", "f8")])),
}
ARCHIVES = {  # NPZ
    "not an archive": b"PK\x03\x04" + bytes(100),
    "cut": archive([("x.npy", COLUMN), ("y.npy", COLUMN)])[:-30],
    "no members": archive([]),
    "a path that climbs": archive([("../../evil.txt", COLUMN), ("y.npy", COLUMN)]),
    "names twice": archive([("y.npy", COLUMN), ("x.npy", COLUMN), ("x.npy", COLUMN)]),
    "lengths that differ": archive([("y.npy", COLUMN), ("x.npy", saved(np.ones(3)))]),
    "a member that is text": archive([("y.npy", COLUMN), ("x.npy", b"hello")]),
    "a member of objects": archive(
        [("y.npy", COLUMN), ("x.npy", saved(np.array(["a", 1] * 15, object), allow_pickle=True))]
    ),
}
SETTINGS = {  # TOML
    "no TOML": b"data = = 1",
    "not UTF-8": CONFIG.encode() + b"word = '\xff'\n",
    "a model that is code": b'data = "good.csv"\ntarget = "y"\nmodel = "evil.py:build"\n',
    "an unknown key": (CONFIG + "__class__ = 1\n").encode(),
    "a key twice": (CONFIG + 'target = "a"\n').encode(),
    "a table for a number": (CONFIG + "[seed]\nx = 1\n").encode(),
    "brackets": (CONFIG + "features = " + "[" * 50_000).encode(),
    "NaN for a step size": (CONFIG + "step_size = nan\n").encode(),
    "infinitely many steps": (CONFIG + "num_steps = inf\n").encode(),
    "a data set that is a device": CONFIG.replace("good.csv", "/dev/zero").encode(),
    "a data set that is a folder": CONFIG.replace("good.csv", ".").encode(),
    "a zero in a path": CONFIG.replace("good.csv", "good\\u0000.csv").encode(),
    "itself as data": CONFIG.replace("good.csv", "0.toml").encode(),
    "an output that is a file": (CONFIG + 'out = "good.csv"\n').encode(),
    "a date for a seed": (CONFIG + "seed = 2020-01-01\n").encode(),
}
MODELS = {  # of --model; files that are there: evil.py, open.py, exit.py
    "no file": "none.py:build",
    "no function": "evil.py:other",
    "a folder": ".:build",
    "a module": "os:system",
    "a path that climbs to nothing": "../../../none.py:build",
    "no name": "evil.py:",
    "a dunder": "evil.py:__builtins__",
    "a table": "good.csv:build",
    "an error of syntax": "open.py:build",
    "a zero": "evil\0.py:build",
}
RECORDS = {  # a directory with this job.json, given to `report`
    "empty": b"",
    "brackets": b"[" * 10**5,
    "a list": b"[]",
    "no sum": json.dumps({"format": "vrsgmcmc job 1"}).encode(),
    "nothing but a format": signed({"format": "vrsgmcmc job 1"}),
    "a file outside": signed({"format": "vrsgmcmc job 1", "files": {"../good.csv": [1, "0"]}}),
    "files that are a list": signed({"format": "vrsgmcmc job 1", "files": [1]}),
    "a recipe that is a list": signed({"format": "vrsgmcmc job 2", "files": {}, "recipe": []}),
    "no recipe": signed({"format": "vrsgmcmc job 2", "files": {}}),
    "a format of tomorrow": signed({"format": "vrsgmcmc job 3"}),
    "a huge header of arrays": signed(
        {"format": "vrsgmcmc job 1", "files": {"data.safetensors": [8, "0"]}}
    ),
    "NaN": b'{"format": NaN}',
}

KINDS = {  # kind -> ending, files, words behind the file
    "CSV": ("csv", TABLES, TARGET),
    "NPY": ("npy", ARRAYS, FIRST),
    "NPZ": ("npz", ARCHIVES, TARGET),
    "TOML": ("toml", SETTINGS, []),
}


def commands():
    """Name, kind, the file with its content, and the words of every command."""
    for kind, (ending, files, words) in KINDS.items():
        for number, (name, content) in enumerate(files.items()):
            command = ("sample", "check", "plan")[number % 3]
            budget = ["--budget", "300 passes"] if command == "plan" else []
            file = f"0.{ending}"
            yield kind, name, file, content, [command, file, *words, *budget]
    for name, content in NEW.items():
        words = ["predict", "run", "new.csv", "--out", "predictions.csv"]
        yield "NEW.csv of `predict`", name, "new.csv", content, words
    for name, model in MODELS.items():
        yield (
            "model",
            name,
            "0.csv",
            GOOD.encode(),
            ["sample", "0.csv", *TARGET[:2], "--model", model],
        )
    for name, content in RECORDS.items():
        yield "job.json", name, "job/job.json", content, ["report", "job"]
    for name, (ending, files, _) in KINDS.items():
        yield (
            "file for a run",
            name,
            f"0.{ending}",
            next(iter(files.values())),
            ["report", f"0.{ending}"],
        )


CASES = list(commands())


def refuse(file, content, words):
    """Run a command on a crafted file: it is refused in words and leaves nothing behind."""
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).unlink(missing_ok=True)
    if isinstance(content, Path):
        Path(file).symlink_to(content)
    else:
        Path(file).write_bytes(content)
    before = sorted(map(str, Path().rglob("*")))
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.main(words)
    message = err.getvalue()
    assert code == 2, (code, out.getvalue(), message)
    assert "vrsgmcmc: " in message
    assert "should not happen" not in message
    assert "Traceback" not in message
    assert sorted(map(str, Path().rglob("*"))) == before
    return message


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    Path("good.csv").write_text(GOOD)
    Path("evil.py").write_text("def build(x, y):\n    pass\n")
    Path("open.py").write_text("def build(:\n")
    short = ["--step-size", "0.01", "--num-steps", "40", "--num-chains", "2", "--out", "run"]
    assert cli.main(["sample", "good.csv", *TARGET, *short]) == 4  # too short to be good
    return tmp_path


@pytest.mark.slow
def test_crafted_files_are_refused(folder):
    counts, broken = Counter(), []
    for kind, name, file, content, words in CASES:
        counts[kind] += 1
        try:
            refuse(file, content, words)
        except Exception as error:
            broken.append((kind, name, f"{type(error).__name__}: {str(error)[:400]}"))
    print("\n\n| crafted file | tried | refused |\n| --- | --- | --- |")
    for kind, count in counts.items():
        print(f"| {kind} | {count} | {count - sum(line[0] == kind for line in broken)} |")
    for line in broken:
        print("BROKEN", *line)
    assert broken == []
    assert counts.total() >= 50
