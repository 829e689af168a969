"""Faults: every place in a module where one small change makes another program."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

SOURCE = Path(__file__).parents[2] / "src" / "glasshead"
PACKAGES = "_meters", "_schemes", "_checks", "_linalg.py"

NEGATED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
OTHER_NAME = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}
DROPPED = "abs", "sqrt", "square"  # functions whose argument may stand for itself
MESSAGES = "Evidence", "warn"  # calls that only say something
SHAPES = "axis", "keepdims", "ndmin"  # keywords whose numbers count axes
SHAPED = "reshape", "swapaxes", "transpose", "zeros", "ones", "empty", "expand_dims"  # and functions


@dataclass(frozen=True)
class Mutant:
    """One change in one module: `was` becomes `now` in `line`, which is in `function` or at the top of the module."""

    module: str
    function: str
    was: str
    now: str
    line: str
    again: int = 0  # which of several that read alike

    @property
    def name(self) -> str:
        where = f"{self.module}:{self.function}" if self.function else self.module
        return f"{where}: {self.was} -> {self.now} in {self.line}" + (f" ({self.again + 1})" if self.again else "")

    def drawn(self, seed: int) -> float:
        """A number between 0 and 1 that depends on nothing but the mutant: samples stay as code around them moves."""
        return int.from_bytes(hashlib.sha256(f"{seed} {self.name}".encode()).digest()[:8], "big") / 2**64


@dataclass(frozen=True)
class Place:
    """Where in a tree a mutant is: a field of a node, and what it becomes."""

    parent: ast.AST
    field: str
    index: int | None
    new: ast.AST

    def swap(self, new: ast.AST) -> ast.AST:
        holder = getattr(self.parent, self.field)
        old = holder if self.index is None else holder[self.index]
        if self.index is None:
            setattr(self.parent, self.field, new)
        else:
            holder[self.index] = new
        return old


class Module:
    """A file of the library and its mutants."""

    def __init__(self, name: str, text: str):
        self.name, self.lines = name, text.splitlines()
        self.tree = ast.parse(text)
        self.places: dict[Mutant, Place] = {}
        self._walk(self.tree, "", False)

    def code(self, mutant: Mutant) -> CodeType:
        """The module with this change."""
        place = self.places[mutant]
        old = place.swap(place.new)
        try:
            return compile(ast.fix_missing_locations(self.tree), str(SOURCE / self.name), "exec")
        finally:
            place.swap(old)

    def _walk(self, node: ast.AST, function: str, counts_axes: bool) -> None:
        for field, index, child in children(node):
            for new in changes(child, node, field, counts_axes):
                self._add(child, new, function, Place(node, field, index, new))
            inner = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef) and "<" not in function:
                inner = f"{function}.{child.name}".lstrip(".")
            if isinstance(node, ast.FunctionDef):
                inner = function  # what is inside of a function runs with it
            axes = isinstance(child, ast.Call) and called(child) in SHAPED
            axes |= isinstance(node, ast.Subscript) and field == "slice"
            self._walk(child, inner, axes or (counts_axes and not isinstance(child, ast.Call)))

    def _add(self, old: ast.AST, new: ast.AST, function: str, place: Place) -> None:
        was, now = shown(old), shown(new)
        line = self.lines[old.lineno - 1].strip()  # type: ignore[attr-defined]
        mutant = Mutant(self.name, function, was, now, line)
        while mutant in self.places:
            mutant = Mutant(self.name, function, was, now, line, mutant.again + 1)
        self.places[mutant] = place


def shown(node: ast.AST) -> str:
    """The code of a node, on one line and not too long."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:50]} .. {text[-16:]}"


def called(node: ast.AST) -> str | None:
    """The name of the function that a node calls."""
    if not isinstance(node, ast.Call):
        return None
    return getattr(node.func, "attr", None) or getattr(node.func, "id", None)


def children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    """What of a node may be changed: not what is for readers and type checkers."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params", "bases", "keywords_of_class"):
            continue
        parts: list[tuple[int | None, Any]] = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for index, child in parts:
            if not isinstance(child, ast.AST) or silent(child, node):
                continue
            yield field, index, child


def silent(node: ast.AST, parent: ast.AST) -> bool:
    """What changes nothing but words, or nothing that a program does."""
    if isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(parent, ast.Raise) or called(node) in MESSAGES:
        return True
    if isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "__str__"):
        return True
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    return isinstance(node, ast.keyword) and node.arg in SHAPES


def changes(node: ast.AST, parent: ast.AST, field: str, counts_axes: bool) -> Iterator[ast.AST]:
    """What a node may become."""
    number = value_of(node)
    if number is not None:
        index = isinstance(parent, ast.Slice) or (isinstance(parent, ast.Subscript) and field == "slice")
        if not counts_axes and not index and value_of(parent) is None:
            yield from other_numbers(number, parent)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield ast.Compare(node.left, [NEGATED[type(node.ops[0])]()], node.comparators)  # type: ignore[list-item]
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(SWAPPED[type(node.op)](), node.values)  # type: ignore[arg-type]
        for i in range(len(node.values)):
            rest = node.values[:i] + node.values[i + 1 :]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.BinOp) and not counts_axes:
        if type(node.op) in SWAPPED:
            yield ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)  # type: ignore[arg-type]
            yield node.left
            if isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
                yield node.right
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.If):
        yield ast.If(ast.Constant(False), node.body, node.orelse, lineno=node.lineno)
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield ast.Pass(lineno=node.lineno)
    elif isinstance(node, ast.AugAssign):
        yield ast.Pass(lineno=node.lineno)
        if type(node.op) in SWAPPED:
            yield ast.AugAssign(node.target, SWAPPED[type(node.op)](), node.value)  # type: ignore[arg-type]
    elif isinstance(node, ast.Call):
        yield from other_calls(node)


def value_of(node: ast.AST) -> int | float | None:
    """The number that a node is: a literal, its negative, or a power of literals."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and (inner := value_of(node.operand)) is not None
    ):
        return -inner
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, exponent = value_of(node.left), value_of(node.right)
        if base is not None and exponent is not None:
            return base**exponent
    return None


def other_numbers(number: int | float, parent: ast.AST) -> Iterator[ast.AST]:
    """Ten times as much and a tenth; for a whole number ten times as many and one. Zero and lone ones stay."""
    if number == 0 or (number in (1, -1) and isinstance(number, int) and not isinstance(parent, ast.BinOp)):
        return
    yield ast.Constant(number * 10)
    if isinstance(number, float):
        yield ast.Constant(number / 10)
    elif number > 1:
        yield ast.Constant(1)


def other_calls(node: ast.Call) -> Iterator[ast.AST]:
    """The opposite function; one argument less of a largest or smallest; the argument of a root."""
    name = called(node)
    if name in OTHER_NAME:
        function = ast.Name(OTHER_NAME[name], ast.Load()) if isinstance(node.func, ast.Name) else None
        if isinstance(node.func, ast.Attribute):
            function = ast.Attribute(node.func.value, OTHER_NAME[name], ast.Load())
        yield ast.Call(function, node.args, node.keywords)  # type: ignore[arg-type]
    if name in ("min", "max", "minimum", "maximum", "hypot") and len(node.args) > 1 and not starred(node.args):
        for i in range(len(node.args)):
            rest = node.args[:i] + node.args[i + 1 :]
            yield rest[0] if len(rest) == 1 else ast.Call(node.func, rest, node.keywords)
    if name in DROPPED and len(node.args) == 1:
        yield node.args[0]


def starred(arguments: list[ast.expr]) -> bool:
    return any(isinstance(one, ast.Starred) for one in arguments)


def modules(packages: tuple[str, ...] = PACKAGES) -> list[Module]:
    paths = [path for name in packages for path in sorted((SOURCE / name).rglob("*.py")) or [SOURCE / name]]
    return [Module(str(path.relative_to(SOURCE)), path.read_text()) for path in paths if path.name != "__init__.py"]


@dataclass(frozen=True)
class ByHand:
    """A change of a text that stands in a module once."""

    name: str
    module: str
    was: str
    now: str

    def code(self) -> CodeType:
        path = SOURCE / self.module
        text = path.read_text()
        if text.count(self.was) != 1:
            raise ValueError(f"{self.module} has {self.was!r} {text.count(self.was)} times")
        return compile(text.replace(self.was, self.now), str(path), "exec")


# Those that once survived the tests nearest to them.
BY_HAND = (
    ByHand(
        "a value meter whose error has no rounding term",
        "_meters/value.py",
        "return values.promise(self.oracle, size) + rounding",
        "return values.promise(self.oracle, size)",
    ),
    ByHand(
        "a rank test a thousand times too lax",
        "_schemes/low_rank.py",
        "np.sum(seen > max(noise, enough))",
        "np.sum(seen > max(1000 * noise, enough))",
    ),
    ByHand("an outlier rule ten times too lax", "_meters/reading.py", "OUTLIER = 2.5", "OUTLIER = 25.0"),
    ByHand(
        "one guess instead of six in the plane search",
        "_learners/heads/together/plane.py",
        "GUESSES, GUESSES_APART = 6,",
        "GUESSES, GUESSES_APART = 1,",
    ),
)
