"""What a wheel holds: `python tests/support/wheel_files.py FILE.whl` lists what should not be in it."""

import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "vrsgmcmc"
IGNORED = {"__pycache__"}


def package_files() -> set[str]:
    """The files of the package, as a wheel names them."""
    files = (file for file in PACKAGE.rglob("*") if file.is_file())
    return {str(file.relative_to(ROOT / "src")) for file in files if not IGNORED & set(file.parts)}


def differences(names: Iterable[str]) -> list[str]:
    """What a wheel with these files lacks, and what it should not hold."""
    ours = {name for name in names if ".dist-info/" not in name}
    return [f"lacks {name}" for name in sorted(package_files() - ours)] + [
        f"holds {name}" for name in sorted(ours - package_files())
    ]


if __name__ == "__main__":
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        wrong = differences(wheel.namelist())
    sys.exit("\n".join(["The wheel:", *wrong]) if wrong else 0)
