"""Expressions of a formula: arithmetic and a few functions of columns, computed without running
Python.

An expression is a name, or a call of one of FUNCTIONS with arithmetic inside. Its syntax tree is
walked here, and a node that is not listed is an error. `center`, `scale`, `poly` and `bs` learn
numbers from the training rows (their state), and use the same numbers for new rows.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .columnar import require

PLAIN = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "exp": np.exp, "sqrt": np.sqrt, "I": lambda x: x,
}  # fmt: skip
STATEFUL = ("center", "scale", "poly", "bs")
FUNCTIONS = (*PLAIN, *STATEFUL, "C")
OPERATORS = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
KEYWORDS = {
    "poly": {"degree": 20, "raw": 1},
    "bs": {"df": 100, "degree": 10},
}  # and their largest values
LONGEST = 4000  # characters of a formula
NAME = r"[^\W\d]\w*(?:\.\w+)*"
TOKEN = re.compile(
    rf"\s*(?:(?P<quoted>`[^`]+`)|(?P<string>'[^'\\]*'|\"[^\"\\]*\")|(?P<name>{NAME})"
    r"|(?P<number>[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+)|(?P<operator>\*\*|[-+*/:~()|,=\[\].]))"
)


class Token(NamedTuple):
    kind: str
    text: str  # of a name in backquotes: what is between them


def tokens_of(text: str) -> list[Token]:
    """The tokens of a formula; ValueError at the first character that no formula has."""
    if len(text) > LONGEST:
        refuse(f"it has {len(text):,} characters, and at most {LONGEST:,} are allowed")
    tokens, place, text = [], 0, text.rstrip()
    while place < len(text):
        match = TOKEN.match(text, place)
        if not match:
            refuse(f"it has {text[place : place + 20].strip()!r}, which no formula has")
        kind = str(match.lastgroup)
        word = match[kind]
        tokens.append(Token("name", word[1:-1]) if kind == "quoted" else Token(kind, word))
        place = match.end()
    return tokens


def refuse(why: str) -> NoReturn:
    raise ValueError(
        f"formula: {why}. A formula has names, numbers, + - : * ** ( ), (1 | group) and the functions "
        f"{', '.join(FUNCTIONS)}."
    )


def quote(name: str) -> str:
    """A name as formulas write it."""
    return name if re.fullmatch(NAME, name) and name not in FUNCTIONS else f"`{name}`"


class Expression(NamedTuple):
    """A syntax tree in which `v0_`, `v1_`, ... stand for columns."""

    tree: ast.expr
    names: tuple[str, ...]
    text: str


def parse_expression(tokens: list[Token]) -> Expression:
    """The tree of a call, after a look at each of its nodes."""
    names: dict[str, str] = {}
    words = []
    for number, (kind, text) in enumerate(tokens):
        call = tokens[number + 1 : number + 2] == [Token("operator", "(")]
        keyword = tokens[number + 1 : number + 2] == [Token("operator", "=")]
        constant = kind == "name" and text in ("True", "False")
        if kind == "name" and not (keyword or constant or (call and text in FUNCTIONS)):
            if call:
                refuse(f"{text[:40]!r} is no function of formulas")
            words.append(names.setdefault(text, f"v{len(names)}_"))
        else:
            words.append(text)
    try:
        tree = ast.parse(" ".join(words), mode="eval").body
        check(tree, True)
        plain = ast.unparse(tree)
    except (SyntaxError, RecursionError, MemoryError, OverflowError):
        refuse(f"{' '.join(token.text for token in tokens)[:60]!r} cannot be read")
    back = {word: quote(name) for name, word in names.items()}
    text = re.sub(r"\bv[0-9]+_\b", lambda match: back[match[0]], plain)
    return Expression(tree, tuple(names), text)


def check(node: ast.AST, outermost: bool = False) -> None:
    """Refuse every kind of node that is not arithmetic or a call of a listed function."""
    match node:
        case ast.Constant(value=(bool() | int() | float()) as value):
            float(value)  # an integer can be too large for that
        case ast.Name(id=name) if re.fullmatch(r"v[0-9]+_", name):
            pass
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            check(operand)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            check(left)
            check(right)
        case ast.Call(func=ast.Name(id=name), args=[first], keywords=[]) if name in (
            *PLAIN,
            *STATEFUL,
        ):
            check_outermost(name, outermost)
            check(first)
        case ast.Call(func=ast.Name(id=("poly" | "bs") as name), args=[first, *rest]):
            check_outermost(name, outermost)
            check(first)
            options(node)
            if len(rest) > 1:
                refuse(f"{name} takes a column and one number")
        case _:
            refuse(f"{ast.unparse(node)[:40]!r} is not allowed in it")


def check_outermost(name: str, outermost: bool) -> None:
    if name in KEYWORDS and not outermost:
        refuse(f"{name} has several columns, so nothing is computed from it")


def options(call: ast.Call) -> dict[str, int]:
    """The options of `poly` or `bs`: small whole numbers."""
    limits = KEYWORDS[call.func.id]  # type: ignore[attr-defined]
    first = next(iter(limits))
    pairs = [
        *((first, value) for value in call.args[1:]),
        *((k.arg, k.value) for k in call.keywords),
    ]
    chosen = {}
    for name, node in pairs:
        value = node.value if isinstance(node, ast.Constant) else None
        if name not in limits or not isinstance(value, int) or not 0 <= value <= limits[name]:
            refuse(f"{ast.unparse(call)[:40]!r}: its options are whole numbers, at most {limits}")
        chosen[name] = value
    return chosen


State = tuple[tuple[float, ...], ...]


def evaluate(
    expression: Expression, values: Mapping[str, np.ndarray], state: State | None
) -> tuple[np.ndarray, State]:
    """The columns [n, k] of an expression, and what its functions learned, or `state` once more."""
    columns = {f"v{number}_": values[name] for number, name in enumerate(expression.names)}
    learned: list[tuple[float, ...]] = []
    stored = None if state is None else iter(state)

    def compute(node: Any) -> Any:
        match node:
            case ast.Constant(value=value):
                return np.float64(value)  # type: ignore[arg-type] - checked to be a number
            case ast.Name(id=name):
                return columns[name]
            case ast.UnaryOp(op=operator, operand=operand):
                return -compute(operand) if isinstance(operator, ast.USub) else compute(operand)
            case ast.BinOp(left=left, op=operator, right=right):
                return OPERATORS[type(operator)](compute(left), compute(right))
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in PLAIN:
                return PLAIN[name](compute(first))
            case ast.Call(func=ast.Name(id=name), args=[first, *_]):
                result, numbers = learn(name, compute(first), node, stored)
                learned.append(numbers)
                return result
        raise AssertionError(node)

    with np.errstate(all="ignore"):
        result = np.asarray(compute(expression.tree), np.float64)
    length = len(next(iter(columns.values()), ()))
    if result.ndim < 2:
        result = np.broadcast_to(result, length)[:, None]
    return result, tuple(learned)


def learn(
    name: str, x: np.ndarray, call: ast.Call, stored: Iterator[tuple[float, ...]] | None
) -> tuple[np.ndarray, tuple[float, ...]]:
    """The result of a function that learns, and the numbers that it learned."""
    numbers: Any = None if stored is None else next(stored, ())
    if name in ("center", "scale"):
        if numbers is None:
            numbers = (float(x.mean()), float(x.std(ddof=1)) if name == "scale" else 1.0)
        center, scale = numbers[0], numbers[1]
        return (x - center) / scale, numbers
    transforms = require("formulaic.transforms")
    chosen = options(call)
    if name == "poly":
        degree, raw = chosen.get("degree", 1), bool(chosen.get("raw", 0))
        memory = {} if numbers is None else poly_state(degree, numbers)
        result = np.asarray(transforms.poly(x, degree, raw, _state=memory))
        parts = [memory.get(part, {}) for part in ("alpha", "norms2")]
        return result, tuple(float(v) for part in parts for _, v in sorted(part.items()))
    memory = {}
    if numbers is not None:
        memory = {"lower_bound": numbers[0], "upper_bound": numbers[1], "knots": list(numbers[2:])}
    columns = transforms.basis_spline(x, **chosen, extrapolation="extend", _state=memory)
    result = np.stack([np.broadcast_to(column, len(x)) for column in columns.values()], 1)
    return result, (memory["lower_bound"], memory["upper_bound"], *memory["knots"])


def poly_state(degree: int, numbers: tuple[float, ...]) -> dict[str, dict[int, float]]:
    return {"alpha": dict(enumerate(numbers[:degree])), "norms2": dict(enumerate(numbers[degree:]))}
