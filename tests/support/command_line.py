"""The command line, run in this process, and a table for it."""

import json

import numpy as np

from vrsgmcmc import cli
from vrsgmcmc.run import store

HOSTILE = "<script>alert(1)</script>"
TRAVERSAL = "../../evil"
EVIL = "open('evil.txt', 'w').close()\ndef build(x, y):\n    pass\n"  # leaves a trace
OWN_MODEL = """
from vrsgmcmc.models import logistic

def build(x, y):
    return logistic.posterior(), logistic.initial(x.shape[1]), logistic.predict
"""

ROWS = 60

COMMAND = [  # options for the table below
    *("--target", "=outcome", "--step-size", "0.05"),
    *("--num-chains", "2", "--batch-size", "4", "--anchor-size", "20", "--thin", "2"),
]


def run_command(arguments, capsys):
    """Exit code, stdout and stderr of a command, in this process."""
    capsys.readouterr()
    code = cli.main([str(word) for word in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def table_text(label=HOSTILE):
    """A CSV file with two columns and a label; names and label try to break out of a page."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 2))
    y = x[:, 0] + 0.5 * rng.normal(size=ROWS) > 0
    lines = [f"{a:.4f},{b:.4f},{label if c else 'no'}" for (a, b), c in zip(x, y, strict=True)]
    return "\n".join([f"{HOSTILE},{TRAVERSAL},=outcome", *lines]) + "\n"


def rewrite(path, change):
    """A record that was changed, with a right checksum: as an attacker would write it."""
    record = json.loads((path / "job.json").read_text())
    record.pop("sha256")
    change(record)
    (path / "job.json").write_bytes(store.seal(record))
