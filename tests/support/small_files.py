"""Small files and short commands that would eat memory or time, each with the words of its refusal.

    python tests/support/small_files.py FOLDER

writes the files into FOLDER, runs every command in a process of its own with a limit on memory, and
prints a line of JSON for each: exit code, message, seconds, and bytes at the peak beyond the start.
"""

import io
import json
import os
import resource
import signal
import sys
import time
import zipfile
from contextlib import redirect_stderr
from pathlib import Path

import numpy as np

GIGABYTE = 2**30
SECONDS = 120  # a guard against a hang
TABLE = "a,b,y\n" + "".join(f"{i},{i % 7},{'no' if i % 3 else 'yes'}\n" for i in range(40))
CONFIG = 'data = "good.csv"\ntarget = "y"\nmodel = "mlp"\n'
GOOD = ["sample", "good.csv", "--target", "y"]
MLP, SETS = [*GOOD, "--model", "mlp"], [*GOOD, "--model", "mlp", "--set"]

REFUSED = {  # name -> words of the command, the message
    "a dotted key of 60 KB": (["sample", "dotted.toml"], "a key has several parts"),
    "a dotted key in quotes": (["sample", "quoted.toml"], "a key has several parts"),
    "a dotted key in a value": ([*SETS, f"seed={{{'a.' * 30_000}a=1}}"], "seed: must be a whole"),
    "an integer of 5,000 digits in a file": (["sample", "digits.toml"], "too many digits"),
    "an integer of 6,000 hexadecimal digits": (["sample", "hex.toml"], "thousands of digits"),
    "an integer of 5,000 digits in a flag": ([*MLP, "--seed", "1" * 5000], "seed: must be a whole"),
    "100,000 features": (["sample", "features.toml"], "'f0' is given twice"),
    "2**30 chains": ([*MLP, "--num-chains", str(2**30)], "num_chains: must be less than or equal"),
    "2**30 hidden units": ([*MLP, "--hidden", str(2**30)], "hidden: must be less than or equal"),
    "2**16 hidden units on wide rows": (
        ["sample", "wide.npy", "--target", "0", "--model", "mlp", "--hidden", str(2**16)],
        "more than 10,000,000. Choose fewer columns",
    ),
    "50,000 columns, none the target": (
        ["sample", "columns.csv", "--target", "c5000x", "--model", "mlp"],
        "has no column 'c5000x'.",
    ),
    "50,000 columns and a constant target": (
        ["sample", "columns.csv", "--target", "c0", "--model", "mlp"],
        "target 'c0' is 1 in every row",
    ),
    "200,000 columns": (["sample", "more.csv", "--target", "c0", "--model", "mlp"], "200,000 columns"),
    "a first line of 20 MB": (["sample", "line.csv", "--target", "a", "--model", "mlp"], "first line"),
    "names of 130,000 characters": (
        ["sample", "names.csv", "--target", "y", "--model", "mlp"],
        "the name of column 1 has 130000 characters",
    ),
    "one class of 100,000 characters": (
        ["sample", "label.csv", "--target", "y", "--model", "softmax"],
        "a class has at most 100 characters, got 100000",
    ),
    "50,000 classes": (
        ["sample", "classes.csv", "--target", "y", "--model", "softmax"],
        "has 50000 different values in 100000 rows: these are no classes",
    ),
    "an array of shape (0, 1e9)": (
        ["sample", "empty.npy", "--target", "0", "--model", "mlp"],
        "1,000,000,000 columns",
    ),
    "an array that claims 1e12 rows": (
        ["sample", "claims.npy", "--target", "0", "--model", "mlp"],
        "its array needs 16,000,000,000,000 bytes",
    ),
    "an archive of 2.4 GB without its target": (
        ["sample", "bomb.npz", "--target", "y", "--model", "mlp"],
        "has no column 'y'",
    ),
    "an archive of text": (
        ["sample", "text.npz", "--target", "y", "--model", "mlp"],
        "has no column to predict 'y' from",
    ),
}  # fmt: skip


def write_files(folder: Path) -> None:
    """Write the files of all commands; the largest has 20 MB."""
    names = [f"c{i}" for i in range(50_000)]
    rows = ["1," * 49_999 + ("x" if i == 29 else "2") for i in range(30)]
    features = json.dumps([*(f"f{i}" for i in range(100_000)), "f0"])
    texts = {
        "good.csv": TABLE,
        "dotted.toml": CONFIG + "a" + ".a" * 30_000 + " = 1\n",
        "quoted.toml": CONFIG + '"a"' + ".'a'" * 15_000 + " = 1\n",
        "digits.toml": CONFIG + f"seed = {'1' * 5000}\n",
        "hex.toml": CONFIG + f"seed = 0x{'f' * 6000}\n",
        "features.toml": CONFIG + f"features = {features}\n",
        "columns.csv": "\n".join([",".join(names), *rows]) + "\n",
        "more.csv": ",".join(f"c{i}" for i in range(200_000)) + "\n",
        "line.csv": "a" * 20_000_000,
        "names.csv": ",".join([letter * 130_000 for letter in "abc"]) + "\n1,2,3\n",
        "label.csv": f"a,y\n1,{'z' * 100_000}\n" + "1,u\n2,v\n" * 50_000,
        "classes.csv": "a,y\n" + "".join(f"{i},k{i // 2}\n" for i in range(100_000)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    np.save(folder / "wide.npy", np.random.default_rng(0).normal(size=(30, 1000)))
    for name, shape in {"empty.npy": (0, 10**9), "claims.npy": (10**12, 2)}.items():
        with (folder / name).open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header("<f8", shape))
    write_archive(folder / "bomb.npz", "<f8", (10**5, 3000))
    write_archive(folder / "text.npz", "<U50", (10**5,), y=True)


def header(dtype: str, shape: tuple[int, ...]) -> dict:
    return {"descr": dtype, "fortran_order": False, "shape": shape}


def write_archive(path: Path, dtype: str, shape: tuple[int, ...], y: bool = False) -> None:
    """An archive whose array x unpacks to zeros of this shape."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, header(dtype, shape))
            left, zeros = int(np.prod(shape)) * np.dtype(dtype).itemsize, bytes(2**22)
            while left:
                left -= file.write(zeros[:left])
        if y:
            with archive.open("y.npy", "w") as file:
                np.lib.format.write_array(file, np.zeros(shape[0], np.int8))


def run_limited(words: list[str]) -> dict:
    """The result of a command in a fork of this process, which may take one gigabyte more."""
    reader, writer = os.pipe()
    began = time.monotonic()
    if not (child := os.fork()):
        signal.alarm(SECONDS)
        status = dict(
            line.split(":") for line in Path("/proc/self/status").read_text().splitlines()
        )
        now = 1024 * int(status["VmData"].split()[0])
        resource.setrlimit(resource.RLIMIT_DATA, (now + GIGABYTE,) * 2)
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with redirect_stderr(io.StringIO()) as errors:
            code = cli.main(words)
        peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident)
        os.write(writer, json.dumps([code, errors.getvalue()[-800:], peak]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    code, message, peak = json.loads(content) if content else (None, "killed", None)
    seconds = round(time.monotonic() - began, 2)
    return {"code": code, "message": message, "seconds": seconds, "peak": peak}


if __name__ == "__main__":
    from vrsgmcmc import cli
    from vrsgmcmc.cli import configuration, jobs, sample  # noqa: F401 - imported before the fork

    os.chdir(sys.argv[1])
    write_files(Path())
    jobs.choose, jobs.find, jobs.build_problem  # noqa: B018 - loads what is lazy
    for name, (words, _) in REFUSED.items():
        print(json.dumps({"name": name, **run_limited(words)}), flush=True)
