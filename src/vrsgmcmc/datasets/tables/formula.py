"""Formulas: `y ~ x + C(z) + x:z + (1 | g)`, as lists of terms.

    sum     = product ("+" | "-") product ...       + joins terms, - removes them
    product = inter "*" inter ...                   a*b is a + b + a:b
    inter   = power ":" power ...                   each term of a with each of b
    power   = primary "**" number                   (a + b)**2 is a + b + a:b
    primary = name | call | "1" | "." | "(" sum ")"

A term is a tuple of factors. Nothing of a formula is run: calls are trees that `expressions` walks.
"""

import difflib
from collections.abc import Collection
from typing import NamedTuple

from .expressions import FUNCTIONS, Expression, Token, parse_expression, quote, refuse, tokens_of

Terms = dict[frozenset[str], tuple[str, ...]]  # terms that differ in order are one
MOST_TERMS = 2000
MOST_DEEP = 50  # parentheses inside each other


class Factor(NamedTuple):
    """A factor of terms: a column, a column as levels, or a call."""

    kind: str  # "column", "levels" or "call"
    names: tuple[str, ...]  # of the columns
    levels: tuple[str, ...] = ()  # the first is the reference; empty: those of the column, in order
    expression: Expression | None = None


class Formula(NamedTuple):
    response: str  # a key of `factors`, or ""
    terms: tuple[tuple[str, ...], ...]
    factors: dict[str, Factor]
    groups: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that the formula needs."""
        every = [name for factor in self.factors.values() for name in factor.names]
        return tuple(dict.fromkeys([*every, *self.groups]))


def names_every_column(formula: str) -> bool:
    """Whether a formula has a dot, which stands for all columns but the target."""
    return Token("operator", ".") in tokens_of(formula)


def parse_formula(formula: str, others: Collection[str] = ()) -> Formula:
    """Read a formula; a dot in it stands for the columns `others`."""
    parser = Parser(tokens_of(formula), others)
    response = ""
    if Token("operator", "~") in parser.tokens and not parser.accept("~"):
        response = parser.factor()
        parser.expect("~")
    terms = parser.sum()
    if parser.place < len(parser.tokens):
        refuse(f"{parser.next.text[:40]!r} is unexpected")
    terms.pop(frozenset(), None)
    if response:
        terms.pop(frozenset([response]), None)
    ordered = sorted(terms.values(), key=len)
    return Formula(response, tuple(ordered), parser.factors, tuple(dict.fromkeys(parser.groups)))


class Parser:
    """Reads tokens from the left; each method reads one part of the grammar."""

    def __init__(self, tokens: list[Token], others: Collection[str]) -> None:
        self.tokens, self.others = tokens, others
        self.place = self.depth = 0
        self.factors: dict[str, Factor] = {}
        self.groups: list[str] = []

    @property
    def next(self) -> Token:
        return self.tokens[self.place] if self.place < len(self.tokens) else Token("end", "")

    def accept(self, text: str) -> bool:
        if self.next != Token("operator", text):
            return False
        self.place += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            refuse(f"{text!r} is missing before {self.next.text[:40]!r}")

    def sum(self) -> Terms:
        terms: Terms = {}
        negative = self.accept("-")
        while True:
            if self.group():
                part: Terms = {}
            elif self.next == Token("number", "0"):
                refuse("models here have an intercept, so 0 is not among its terms")
            else:
                part = self.product()
            if negative and frozenset() in part:
                refuse("models here have an intercept, so -1 is not among its terms")
            terms = {k: t for k, t in terms.items() if k not in part} if negative else terms | part
            self.limit(len(terms))
            negative = self.next == Token("operator", "-")
            if not (self.accept("-") or self.accept("+")):
                return terms

    def product(self) -> Terms:
        terms = self.inter()
        while self.accept("*"):
            right = self.inter()
            terms = terms | right | self.cross(terms, right)
        return terms

    def inter(self) -> Terms:
        terms = self.power()
        while self.accept(":"):
            terms = self.cross(terms, self.power())
        return terms

    def power(self) -> Terms:
        terms = base = self.primary()
        if self.accept("**"):
            kind, text = self.next
            if kind != "number" or text not in ("1", "2", "3", "4", "5"):
                refuse(f"** is followed by {text[:20]!r}, and needs a whole number from 1 to 5")
            self.place += 1
            for _ in range(int(text) - 1):
                terms = terms | self.cross(terms, base)
        return terms

    def primary(self) -> Terms:
        if self.accept("("):
            self.depth += 1
            if self.depth > MOST_DEEP:
                refuse(f"its parentheses are more than {MOST_DEEP} deep")
            terms = self.sum()
            self.depth -= 1
            self.expect(")")
            return terms
        if self.next == Token("number", "1"):
            self.place += 1
            return {frozenset(): ()}
        if self.accept("."):
            self.limit(len(self.others))
            for name in self.others:
                self.factors[quote(name)] = Factor("column", (name,))
            return {frozenset([key]): (key,) for key in map(quote, self.others)}
        key = self.factor()
        return {frozenset([key]): (key,)}

    def cross(self, left: Terms, right: Terms) -> Terms:
        self.limit(len(left) * len(right) // 20)  # many of the products are the same
        terms: Terms = {}
        for a in left.values():
            for b in right.values():
                term = tuple(dict.fromkeys([*a, *b]))
                terms.setdefault(frozenset(term), term)
        self.limit(len(terms))
        return terms

    def limit(self, count: int) -> None:
        if count > MOST_TERMS:
            refuse(f"it has more than {MOST_TERMS} terms")

    def group(self) -> bool:
        """Read `(1 | g)`, if that comes next."""
        bar = next(
            (i for i, t in enumerate(self.tokens[self.place :], self.place) if t.text in "|)"), -1
        )
        if self.next != Token("operator", "(") or bar < 0 or self.tokens[bar].text != "|":
            return False
        inside, after = self.tokens[self.place + 1 : bar], self.tokens[bar + 1 : bar + 3]
        if inside != [Token("number", "1")]:
            refuse("group effects are intercepts, (1 | group); slopes of groups are not offered")
        if len(after) < 2 or after[0].kind != "name" or after[1] != Token("operator", ")"):
            refuse("one column follows the bar in (1 | group)")
        self.groups.append(after[0].text)
        self.place = bar + 3
        return True

    def factor(self) -> str:
        """Read a name or a call; its key in `factors`."""
        kind, text = self.next
        if kind != "name":
            refuse(f"{text[:40]!r} is unexpected" if text else "it ends too early")
        begin = self.place
        self.place += 1
        if not self.accept("("):
            self.factors.setdefault(key := quote(text), Factor("column", (text,)))
            return key
        if text not in FUNCTIONS:
            near = difflib.get_close_matches(text, FUNCTIONS, n=1)
            refuse(
                f"{text[:40]!r} is no function of formulas."
                + (f" Did you mean {near[0]!r}?" if near else "")
            )
        depth = 1
        while depth:
            if self.place == len(self.tokens):
                refuse("a parenthesis is not closed")
            depth += {"(": 1, ")": -1}.get(self.next.text, 0) * (self.next.kind == "operator")
            self.place += 1
        inside = self.tokens[begin : self.place]
        if text == "C":
            key, factor = read_levels(inside[2:-1])
        else:
            expression = parse_expression(inside)
            key, factor = expression.text, Factor("call", expression.names, expression=expression)
        self.factors.setdefault(key, factor)
        return key


def read_levels(tokens: list[Token]) -> tuple[str, Factor]:
    """C(z), or C(z, levels=["b", "a"]), whose first level is the reference."""
    if not tokens or tokens[0].kind != "name":
        refuse("C takes a column, as in C(z)")
    name = tokens[0].text
    if len(tokens) == 1:
        return f"C({quote(name)})", Factor("levels", (name,))
    words = [token.text for token in tokens[1:5]]
    levels = [token for token in tokens[5:-1] if token != Token("operator", ",")]
    good = words[:4] == [",", "levels", "=", "["] and tokens[-1] == Token("operator", "]")
    if not good or not levels or any(token.kind not in ("string", "number") for token in levels):
        refuse('C takes a column and perhaps its levels, as in C(z, levels=["low", "high"])')
    names = tuple(token.text.strip("'\"") for token in levels)
    if len(set(names)) < len(names):
        refuse("C has a level twice")
    listed = ", ".join(repr(each) for each in names)
    return f"C({quote(name)}, levels=[{listed}])", Factor("levels", (name,), names)
