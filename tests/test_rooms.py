"""The import graph: who may import whom, as `docs/design.md` says."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "vrsgmcmc"

ABOVE = "everything above"
ROOMS = {  # a room -> the rooms it may import; a room may only import what stands above it
    "arguments": "",
    "types": "",
    "tree": "",
    "noise": "types tree",
    "posterior": "types tree",
    "order": "types noise arguments",
    "estimators": "types tree posterior arguments",
    "integrators": "types tree noise arguments",
    "kernels": "types tree noise posterior arguments",
    "folds": "types tree arguments",
    "door": "types tree posterior",
    "steps": "",
    "search": "types tree posterior",
    "chain": "types tree noise posterior order kernels folds",
    "progress": "",
    "result": "types tree",
    "fits": "types tree door",
    "prepare": ABOVE,
    "gather": ABOVE,
    "store": "tree",
    "identity": ABOVE,
    "line": "",
    "pace": "",
    "signals": "",
    "kept": ABOVE,
    "driver": ABOVE,
    "theory": "types tree posterior arguments",
    "figures": "",
    "diagnostics": "types tree posterior theory",
    "audits": ABOVE,
    "plans": ABOVE,
    "reports": ABOVE,
    "models": "types tree posterior arguments",
    "datasets": "",
    "__init__": ABOVE,
    "experiments": ABOVE,
    "configs": "",
    "tables": "door datasets",
    "jobs": ABOVE,
    "cli": ABOVE,
    "__main__": "cli",
}
SEPARATE = {"estimators", "integrators"}  # their files meet in `__init__.py` and nowhere else

FILES = sorted(PACKAGE.rglob("*.py"))


def allowed(room: str) -> set[str]:
    names = list(ROOMS)
    return set(names[: names.index(room)]) if ROOMS[room] == ABOVE else set(ROOMS[room].split())


def room_of(module: tuple[str, ...]) -> str:
    """The first part of a module's path inside the package: ("theory", "affine") -> "theory"."""
    return module[0] if module else "__init__"


def module_of(file: Path) -> tuple[str, ...]:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def exists(module: tuple[str, ...]) -> bool:
    path = PACKAGE.joinpath(*module)
    return path.is_dir() or (bool(module) and path.with_suffix(".py").is_file())


def imports(source: str, file: Path) -> set[tuple[str, ...]]:
    """Every module of the package that a file imports, wherever in the file it does so."""
    package = ("vrsgmcmc", *file.relative_to(PACKAGE).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            targets = [(*base, alias.name) for alias in node.names]
        else:
            continue
        for root, *module in targets:
            if root == "vrsgmcmc":
                # `from vrsgmcmc.tree import add` names a function of the module `tree`.
                found.add(tuple(module) if exists(tuple(module)) else tuple(module[:-1]))
    return found


def violations(source: str, file: Path) -> list[str]:
    here = module_of(file)
    room = room_of(here)
    if room not in ROOMS:
        return [f"{'.'.join(here)} is in no room: give it one here and in docs/design.md"]
    wrong = []
    for module in sorted(imports(source, file)):
        other = room_of(module)
        if other == room:
            fine = room not in SEPARATE or file.name == "__init__.py"
        else:
            fine = other in allowed(room)
        if not fine:
            wrong.append(f"{'.'.join(here) or '__init__'} imports {'.'.join(module) or '__init__'}")
    return wrong


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_every_file_keeps_to_its_room(file):
    assert violations(file.read_text(), file) == []


def test_rooms_only_import_rooms_above_them():
    names = list(ROOMS)
    for place, room in enumerate(names):
        assert allowed(room) <= set(names[:place]), room


def test_the_design_page_shows_the_same_table():
    page = (ROOT / "docs" / "design.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|.*\| (.*?) \|$", page, flags=re.MULTILINE)
    shown = {}
    for rooms, may_import in rows:
        for room in re.findall(r"`(\w+)", rooms):
            names = re.findall(r"`(\w+)", may_import)
            shown[room] = ABOVE if may_import == ABOVE else " ".join(names)
    assert shown == ROOMS
    assert list(shown) == list(ROOMS)


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("somewhere.py", ""),
        ("types.py", "from vrsgmcmc.tree import add"),
        ("types.py", "from . import tree"),
        ("tree.py", "def late():\n    import vrsgmcmc.types"),
        ("kernels.py", "import vrsgmcmc"),
        ("kernels.py", "from vrsgmcmc import sgld"),
        ("estimators/minibatch.py", "from vrsgmcmc.estimators.full import full"),
        ("estimators/minibatch.py", "from .full import full"),
        ("estimators/minibatch.py", "from . import full"),
        ("estimators/minibatch.py", "from vrsgmcmc.estimators import ESTIMATORS"),
        ("integrators/__init__.py", "from ..estimators import ESTIMATORS"),
        ("__init__.py", "from vrsgmcmc.cli import main"),
    ],
)
def test_a_wrong_import_is_found(place, source):
    assert len(violations(source, PACKAGE / place)) == 1


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("estimators/__init__.py", "from vrsgmcmc.estimators.full import full"),
        ("theory/affine.py", "from vrsgmcmc.theory.schemes import word"),
        ("driver.py", "import numpy as np\nfrom vrsgmcmc.kernels import kernel"),
        ("cli.py", "import vrsgmcmc as vr"),
        ("__main__.py", "from vrsgmcmc.cli import main"),
    ],
)
def test_a_right_import_passes(place, source):
    assert violations(source, PACKAGE / place) == []
