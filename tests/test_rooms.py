"""Who may import whom, as `docs/design.md` says: rooms import rooms, files of a room are ordered."""

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "vrsgmcmc"

EVERYTHING = "everything"
ROOMS = {  # a room -> the rooms it may import
    "core": "",
    "run": "core",
    "theory": "core",
    "advice": "core run theory reports",
    "models": "core",
    "datasets": "",
    "interop": "core run advice models datasets",
    "reports": "core run",
    "experiments": "core run theory advice models datasets reports",
    "cli": EVERYTHING,
}
FACADE = {
    "": ROOMS,
    "store": ["run"],
    "diagnostics": ["advice"],
    "sklearn": ["interop"],
    "__main__": ["cli"],
}
SEPARATE = {("core", "estimators"), ("core", "integrators")}  # files that never import each other
SHARED = {"anchored", "centered", "tables", "taylor", "underdamped"}  # but for what several share

FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(file: Path) -> tuple[str, ...]:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def is_package(module: tuple[str, ...]) -> bool:
    return PACKAGE.joinpath(*module, "__init__.py").is_file()


def exists(module: tuple[str, ...]) -> bool:
    return is_package(module) or PACKAGE.joinpath(*module).with_suffix(".py").is_file()


def imports(source: str, file: Path, types: bool = True) -> set[tuple[tuple[str, ...], str]]:
    """(module of the package, name in it) of every import of ours, wherever in the file it stands;
    with `types`, those that only a type checker follows, too."""
    package = ("vrsgmcmc", *file.relative_to(PACKAGE).parts[:-1])
    tree, found = ast.parse(source), set()
    if not types:
        tree.body = [n for n in tree.body if not ast.unparse(n).startswith("if TYPE_CHECKING:")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [(tuple(alias.name.split(".")), "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            targets = [(base, alias.name) for alias in node.names]
        else:
            continue
        found |= {(module[1:], name) for module, name in targets if module[0] == "vrsgmcmc"}
    rooms = {name for module, name in found if not module and name in ROOMS}
    for node in ast.walk(tree):  # `core.Batch` imports Batch from core
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {((node.value.id,), node.attr)} if node.value.id in rooms else set()
    return found


def allowed(room: str) -> set[str]:
    return set(ROOMS) if ROOMS[room] == EVERYTHING else set(ROOMS[room].split())


def violations(source: str, file: Path) -> list[str]:
    here = module_of(file)
    room = here[0] if here else ""
    if room not in ROOMS and room not in FACADE:
        return [f"{'.'.join(here)} is in no room: give it one here and in docs/design.md"]
    wrong = []
    for module, name in sorted(imports(source, file)):
        target = ".".join([*module, name])
        other = module[0] if module else name
        if other == room:
            apart = here[:2] in SEPARATE and file.name != "__init__.py" and module[:2] == here[:2]
            if apart and not SHARED & {*module[2:], name}:
                wrong.append(f"{'.'.join(here)} imports {target}: its files stay apart")
        elif other not in (FACADE[room] if room in FACADE else allowed(room)):
            wrong.append(f"{'.'.join(here) or '__init__'} may not import {target}")
        elif room in FACADE and name == "*":
            continue  # a promised path
        elif not is_package(module) or (module and not offers(module, name)):
            wrong.append(f"{'.'.join(here)} reaches into {target}: import what a room offers")
    return wrong


def offers(module: tuple[str, ...], name: str) -> bool:
    return name in import_module(".".join(["vrsgmcmc", *module])).__all__


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_every_file_keeps_to_its_room(file):
    assert violations(file.read_text(), file) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_inside_a_room_are_relative(file):
    room = module_of(file)[:1]
    assert not room or f"vrsgmcmc.{room[0]}" not in re.findall(
        r"^\s*(?:from|import) (vrsgmcmc\.\w+)", file.read_text(), flags=re.MULTILINE
    )


def test_two_files_import_blackjax_and_only_when_a_call_needs_it():
    pattern = re.compile(r"^( *)(?:from|import) blackjax", flags=re.MULTILINE)
    lines = {module_of(file): pattern.findall(file.read_text()) for file in FILES}
    importing = [("interop", "blackjax"), ("run", "nuts")]
    assert [module for module, indents in lines.items() if indents] == importing
    assert all(indent for module in importing for indent in lines[module])  # inside a function
    use = "vr.nuts(), vr.sample, vr.to_blackjax, vr.gradient_estimator, vr.to_optax"
    code = f"import sys, vrsgmcmc as vr; {use}; sys.exit('blackjax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_top_level_is_ten_rooms_and_the_facade():
    others = ("__pycache__", "py.typed")
    names = {path.stem for path in PACKAGE.iterdir() if path.name not in others}
    assert names == {*ROOMS, "__init__", *FACADE} - {""}


def test_rooms_and_the_files_of_each_are_ordered():
    """No two import each other, not even through others."""
    graph = {room: allowed(room) - {room} for room in ROOMS}
    list(TopologicalSorter(graph).static_order())
    for room in ROOMS:
        files = {}
        for file in FILES:
            here = module_of(file)
            if here and here[0] == room:
                targets = {
                    (*module, name) if exists((*module, name)) else module
                    for module, name in imports(file.read_text(), file, types=False)
                    if module and module[0] == room
                }
                files[here] = {target for target in targets if target != here}
        try:
            list(TopologicalSorter(files).static_order())
        except CycleError as error:
            pytest.fail(f"{room}: {' -> '.join('.'.join(each) for each in error.args[1])}")


def test_the_design_page_shows_the_same_table():
    page = (ROOT / "docs" / "design.md").read_text()
    rows = re.findall(r"^\| `(\w+)/?` \|.*\| (.*?) \|$", page, flags=re.MULTILINE)
    table = {
        room: EVERYTHING
        if may_import == EVERYTHING
        else " ".join(re.findall(r"`(\w+)`", may_import))
        for room, may_import in rows
    }
    assert table == ROOMS


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("somewhere.py", ""),
        ("core/types.py", "from vrsgmcmc.run import Result"),
        ("core/tree.py", "def late():\n    import vrsgmcmc.run"),
        ("core/kernel.py", "import vrsgmcmc"),
        ("core/kernel.py", "from vrsgmcmc import sgld"),
        ("core/estimators/minibatch.py", "from vrsgmcmc.core.estimators.full import full"),
        ("core/estimators/minibatch.py", "from .full import full"),
        ("core/estimators/minibatch.py", "from . import full"),
        ("core/estimators/minibatch.py", "from vrsgmcmc.core.estimators import full"),
        ("run/sample.py", "from vrsgmcmc.core.tree import named_leaves"),
        ("run/sample.py", "from vrsgmcmc.core import no_such_name"),
        ("run/sample.py", "from ..core.tree import named_leaves"),
        ("run/sample.py", "from vrsgmcmc import core\ncore.no_such_name"),
        ("datasets/mnist.py", "from vrsgmcmc.core import Data"),
        ("reports/run.py", "from vrsgmcmc.advice import Audit"),
        ("__init__.py", "from vrsgmcmc.core.kernel import kernel"),
    ],
)
def test_a_wrong_import_is_found(place, source):
    assert len(violations(source, PACKAGE / place)) == 1


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("core/estimators/__init__.py", "from vrsgmcmc.core.estimators.full import full"),
        ("core/estimators/svrg.py", "from vrsgmcmc.core.estimators.anchored import Anchored"),
        ("theory/exact/affine.py", "from vrsgmcmc.theory.exact.schemes import word"),
        ("run/sample.py", "import numpy as np\nfrom vrsgmcmc.core import kernel"),
        ("run/sample.py", "from vrsgmcmc import core\ncore.Batch"),
        ("run/sample.py", "from vrsgmcmc.core.estimators import practical"),
        ("cli/sample.py", "from vrsgmcmc import datasets"),
        ("__main__.py", "from vrsgmcmc.cli import main"),
    ],
)
def test_a_right_import_passes(place, source):
    assert violations(source, PACKAGE / place) == []
