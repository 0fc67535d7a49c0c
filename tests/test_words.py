"""Names say what a thing is: no bare participle names a module, a class, a function or a parameter."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "vrsgmcmc"
PARTICIPLES = {"found", "told", "given", "known", "seen", "shown", "kept", "held", "made"}
LINES = 3  # that a local variable with such a name may live

FILES = sorted(PACKAGE.rglob("*.py"))


def names_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every class, function, parameter and field."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.lineno, node.name.lower()
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    yield line.lineno, line.target.id
        elif isinstance(node, ast.FunctionDef | ast.Lambda):
            arguments = node.args
            if isinstance(node, ast.FunctionDef):
                yield node.lineno, node.name
            for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                yield node.lineno, each.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.value.lineno, node.arg


def long_lived(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Local variables that are participles and live for more than a few lines."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        lines: dict[str, list[int]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in PARTICIPLES:
                lines.setdefault(node.id, []).append(node.lineno)
        for name, where in lines.items():
            if max(where) - min(where) >= LINES:
                yield min(where), name


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_participle_is_a_name(file):
    tree = ast.parse(file.read_text())
    wrong = [(line, name) for line, name in names_of(tree) if name in PARTICIPLES]
    assert file.stem not in PARTICIPLES
    assert wrong + list(long_lived(tree)) == []


def test_a_participle_is_noticed():
    source = "def f(known, x=1):\n    found = g(held=2)\n    y = 1\n    z = 2\n    return found\n"
    tree = ast.parse(source)
    assert {name for _, name in names_of(tree)} & PARTICIPLES == {"known", "held"}
    assert list(long_lived(tree)) == [(2, "found")]
