"""Pima Indians Diabetes, the data set that comes with the package.

768 women of Pima heritage, eight measurements, and whether diabetes was diagnosed within five years
(268 of them). National Institute of Diabetes and Digestive and Kidney Diseases, donated by V.
Sigillito, 1990.
"""

import os
from importlib import resources
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from .checksums import check_sum

PIMA_COLUMNS = (
    *("pregnancies", "glucose", "blood_pressure", "skin_fold"),
    *("insulin", "body_mass_index", "pedigree", "age"),
)
PIMA_SHA256 = "6bfe5d0f379d17a0e0819b996407e3c09bf80febd4287f2ed212190dfff154af"


def pima(
    data_dir: str | os.PathLike[str] | None = None,
) -> tuple[Float[np.ndarray, "768 8"], Int[np.ndarray, " 768"]]:
    """Measurements x [768, 8], columns as in `PIMA_COLUMNS`, and labels y [768] (1: diabetes).

    Zeros stand for missing values in glucose, blood pressure, skin fold, insulin and body-mass
    index; they are returned unchanged. `data_dir`: read `pima/pima-indians-diabetes.csv` there
    instead of the copy in the package.
    """
    name = "pima-indians-diabetes.csv"
    if data_dir is None:
        file = resources.files("vrsgmcmc.datasets") / "files" / name
    else:
        file = Path(data_dir) / "pima" / name
        if not file.is_file():
            raise FileNotFoundError(
                f"no file {file}. Put it there, or leave data_dir out to read the package's copy."
            )
    content = file.read_bytes()
    repair = "Restore the file (or install the package again)."
    check_sum(PIMA_SHA256, content, f"{file} is not the Pima data", repair)
    table = np.loadtxt(content.decode("ascii").splitlines(), delimiter=",")
    return table[:, :8], table[:, 8].astype(int)
