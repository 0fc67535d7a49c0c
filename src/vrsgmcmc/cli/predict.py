"""`vrsgmcmc predict`: the rows of another table, with the model and the table's recipe of a run."""

from __future__ import annotations

from pathlib import Path

from vrsgmcmc import datasets

from . import jobs
from .inspect import load_finished
from .options import add_model, say
from .parser import Parser
from .places import check_new_file, write_new_file

SUFFIX = ".csv"


def predict(words: list[str]) -> int:
    parser = Parser(
        "predict",
        "Predict the target of the rows of another table: mean and 90 % interval, or the probability\n"
        "of each class. The table is treated as that of the run was. Its target column is optional:\n"
        "with it the predictions are scored.",
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="the directory of a finished run")
    parser.add_argument("table", metavar="NEW", type=Path, help="a table, such as NEW.csv")
    parser.add_argument(
        "--out", metavar="FILE.csv", type=Path, help="(default: NEW-predictions.csv)"
    )
    add_model(parser)
    options = parser.read(words)
    table = options["table"]
    out = options.get("out", Path(f"{table.name.partition('.')[0]}-predictions{SUFFIX}"))
    if out.suffix.lower() != SUFFIX:
        raise ValueError(
            f"--out {out}: predictions are a CSV file. Name one that ends in {SUFFIX}."
        )
    check_new_file(out)
    if not table.exists():
        datasets.tables.read_frame(table)  # says so
    job, problem, result = load_finished(options)
    predictions = jobs.predict(job, problem, result, table)
    for note in predictions.notes:
        say(f"- {note}")
    for line in predictions.scores:
        print(line)
    written = write_new_file(out, predictions.content)
    what = "wrote" if written else "is there already, with the same"
    count = f"{predictions.count} predictions of {job.target.name}"
    print(f"{what} {count} to {out}" if written else f"{out} {what} {count}")
    return 0
