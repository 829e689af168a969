"""Which functions of the package ask questions, told from its source: what `tests.test_house` holds names against.

A question is a call of a box: of a value whose class is one of `BOXES`, or is called to ask one. Who calls a function
that asks, asks as well, and so does who hands a box, or a function that asks, to one that calls what it is given. What
a name stands for is followed as far as annotations, assignments and imports say it; a method of what is not known asks
if all methods of that name do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

VERBS = "ask", "check", "find", "learn", "look", "read", "recover"
BOXES = "Oracle", "Homogeneous"  # with what is derived from them, and arguments whose name begins with a verb
MODELS = "_models"  # what a model asks when it is called is the user's box, and counted by the model


@dataclass(eq=False)
class Class:
    """What it is derived from, its fields with their classes, and its methods."""

    name: str
    bases: list[str]
    fields: dict[str, str] = field(default_factory=dict)
    methods: dict[str, Function] = field(default_factory=dict)


@dataclass(eq=False)
class Function:
    """A function or a method; those inside it, `inner`, are functions of their own."""

    module: str
    node: ast.FunctionDef
    owner: Class | None
    outer: Function | None
    inner: dict[str, Function] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.node.name

    def __str__(self) -> str:
        around = self.outer or self.owner
        return f"{self.module}:{f'{around.name}.' if around else ''}{self.name}"

    @property
    def result(self) -> str:
        return class_named(self.node.returns)

    @property
    def is_property(self) -> bool:
        return bool({"property", "cached_property"} & {class_named(part) for part in self.node.decorator_list})

    @cached_property
    def arguments(self) -> list[ast.arg]:
        given = self.node.args
        return [*given.posonlyargs, *given.args, *given.kwonlyargs]

    @cached_property
    def parts(self) -> list[ast.AST]:
        """All of its body but functions inside it; lambdas are its own."""
        return [part for statement in self.node.body for part in without_functions(statement)]

    @cached_property
    def calls(self) -> list[ast.Call]:
        return [part for part in self.parts if isinstance(part, ast.Call)]

    @cached_property
    def assigned(self) -> dict[str, ast.expr]:
        """What names, and fields of `self`, are assigned last, where it is to one alone."""
        plain = [part for part in self.parts if isinstance(part, ast.Assign)]
        pairs = [(target, part.value) for part in plain for target in part.targets]
        for target, value in list(pairs):
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs += zip(target.elts, value.elts, strict=False)
        return {ast.unparse(target): value for target, value in pairs if isinstance(target, ast.Name | ast.Attribute)}

    @cached_property
    def names(self) -> set[str]:
        """All names in it, also of fields and methods."""
        plain = {part.id for part in self.parts if isinstance(part, ast.Name)}
        return plain | {part.attr for part in self.parts if isinstance(part, ast.Attribute)}

    @cached_property
    def called(self) -> set[str]:
        """Its arguments that are called, here or inside."""
        functions, names = [self], set[str]()
        while functions:
            function = functions.pop()
            functions += function.inner.values()
            names |= {call.func.id for call in function.calls if isinstance(call.func, ast.Name)}
        return names & {argument.arg for argument in self.arguments}


def without_functions(part: ast.AST) -> Iterator[ast.AST]:
    if not isinstance(part, ast.FunctionDef | ast.ClassDef):
        yield part
        for child in ast.iter_child_nodes(part):
            yield from without_functions(child)


def class_named(annotation: ast.expr | None) -> str:
    """The class that an annotation names: of `A | None` it is A."""
    if isinstance(annotation, ast.BinOp):
        return class_named(annotation.left)
    return annotation.id if isinstance(annotation, ast.Name) else ""


def says_so(name: str) -> bool:
    """Whether a name says that a call asks."""
    return name.lstrip("_").partition("_")[0] in VERBS


Meaning = Function | Class | str | None  # a function, a class, or the name of the class of a value


class Package:
    """All modules below a folder, and which functions ask."""

    def __init__(self, source: Path) -> None:
        self.functions: list[Function] = []
        self.classes: dict[str, Class] = {}
        self.homes: dict[tuple[str, str], Function] = {}  # of functions, by module and name
        self.imports: dict[tuple[str, str], tuple[str, str]] = {}
        self.names: dict[tuple[Function, str], Meaning] = {}
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            self.read(path, parts[:-1] if path.stem == "__init__" else parts)
        self.methods: dict[str, list[Function]] = {}
        for each in self.classes.values():
            for name, method in each.methods.items():
                self.methods.setdefault(name, []).append(method)
        self.asking = self.closed()

    def read(self, path: Path, parts: tuple[str, ...]) -> None:
        module, tree = ".".join(parts), ast.parse(path.read_text())
        package = parts if path.stem == "__init__" else parts[:-1]
        for part in ast.walk(tree):
            if isinstance(part, ast.ImportFrom) and part.level:
                home = ".".join([*package[: len(package) - part.level + 1], *filter(None, [part.module])])
                self.imports |= {(module, alias.asname or alias.name): (home, alias.name) for alias in part.names}
        self.define(tree.body, module, None, None)

    def define(self, body: list[ast.stmt], module: str, owner: Class | None, outer: Function | None) -> None:
        for part in body:
            if isinstance(part, ast.FunctionDef):
                self.functions.append(function := Function(module, part, owner, outer))
                if outer is not None:
                    outer.inner[part.name] = function
                elif owner is not None:
                    owner.methods[part.name] = function
                else:
                    self.homes[module, part.name] = function
                self.define(part.body, module, owner, function)
            elif isinstance(part, ast.ClassDef):
                each = self.classes[part.name] = Class(part.name, [class_named(base) for base in part.bases])
                for own in part.body:
                    if isinstance(own, ast.AnnAssign) and isinstance(own.target, ast.Name):
                        each.fields[own.target.id] = class_named(own.annotation)
                self.define(part.body, module, each, None)
            else:
                for within in ("body", "orelse", "finalbody", "handlers"):
                    self.define(getattr(part, within, []), module, owner, outer)

    def is_box(self, name: str) -> bool:
        known = self.classes.get(name)
        return name in BOXES or (known is not None and any(map(self.is_box, known.bases)))

    def member(self, owner: str, name: str) -> Function | str | None:
        """The method of a class, or the class of its field."""
        if (known := self.classes.get(owner)) is None:
            return None
        own = known.methods.get(name) or known.fields.get(name) or self.set_by_itself(known, name)
        return own or next(filter(None, (self.member(base, name) for base in known.bases)), None)

    def set_by_itself(self, owner: Class, name: str) -> str | None:
        """The class of what `__init__` sets as a field."""
        if (maker := owner.methods.get("__init__")) is None or f"self.{name}" not in maker.assigned:
            return None
        kind = self.meaning(maker.assigned[f"self.{name}"], maker)
        return kind if isinstance(kind, str) else None

    def overridden(self, method: Function) -> Iterator[Function]:
        """The methods that may be called in its place."""
        for each in self.classes.values():
            if method.owner and method.name in each.methods and self.derived(each, method.owner.name):
                yield each.methods[method.name]

    def derived(self, each: Class, base: str) -> bool:
        return each.name == base or any(self.derived(self.classes[x], base) for x in each.bases if x in self.classes)

    def seen(self, module: str, name: str) -> Meaning:
        """What a name at the top of a module stands for."""
        if (home := self.imports.get((module, name), (module, name))) != (module, name):
            return self.seen(*home)
        return self.homes.get((module, name)) or self.classes.get(name)

    def meaning(self, part: ast.AST, function: Function) -> Meaning:
        if isinstance(part, ast.Name):
            return self.named(part.id, function)
        if isinstance(part, ast.Attribute):
            owner = self.meaning(part.value, function)
            found = self.member(owner, part.attr) if isinstance(owner, str) else None
            return found.result if isinstance(found, Function) and found.is_property else found
        if isinstance(part, ast.IfExp):
            return self.meaning(part.body, function) or self.meaning(part.orelse, function)
        if isinstance(part, ast.Call):
            called = self.meaning(part.func, function)
            return called.name if isinstance(called, Class) else called.result if isinstance(called, Function) else None
        return None

    def named(self, name: str, function: Function) -> Meaning:
        if (function, name) not in self.names:
            self.names[function, name] = None  # what is assigned may be made of what it was
            self.names[function, name] = self.looked_up(name, function)
        return self.names[function, name]

    def looked_up(self, name: str, function: Function) -> Meaning:
        if name in function.inner:
            return function.inner[name]
        for argument in function.arguments:
            if argument.arg == name:
                own = BOXES[0] if says_so(name) else function.owner.name if name == "self" and function.owner else ""
                return own or class_named(argument.annotation)
        if name in function.assigned:
            return self.meaning(function.assigned[name], function)
        return self.named(name, function.outer) if function.outer else self.seen(function.module, name)

    def closed(self) -> set[Function]:
        """All functions that ask: more of them, until there are no more."""
        asking = set[Function]()
        mine = [function for function in self.functions if function.module.partition(".")[0] != MODELS]
        while True:
            more = {one for one in mine if one not in asking and self.asks(one, asking)}
            if not more:
                return asking
            asking |= more

    def asks(self, function: Function, asking: set[Function]) -> bool:
        return any(self.is_question(call, function, asking) for call in function.calls)

    def is_question(self, call: ast.Call, function: Function, asking: set[Function]) -> bool:
        called = self.meaning(call.func, function)
        if self.would_ask(called, asking):
            return True
        if not called and isinstance(call.func, ast.Attribute):
            same = self.methods.get(call.func.attr, [])
            if same and all(method in asking for method in same):
                return True
        if not isinstance(called, Function):  # as `map` and `partial` do, it may call what it is given
            return any(
                isinstance(self.meaning(x, function), Function) and self.meaning(x, function) in asking
                for x in call.args
            )
        names = [argument.arg for argument in called.arguments if argument.arg not in ("self", "cls")]
        given = [*zip(names, call.args, strict=False), *((word.arg, word.value) for word in call.keywords)]
        return any(self.would_ask(self.meaning(x, function), asking) for name, x in given if name in called.called)

    def would_ask(self, called: Meaning, asking: set[Function]) -> bool:
        """Whether a call of it asks."""
        if isinstance(called, str):
            return self.is_box(called) or self.member(called, "__call__") in asking
        if isinstance(called, Function) and called.owner and not called.outer:
            return called in asking or any(method in asking for method in self.overridden(called))
        return called in asking
