"""The facts of a source file that the rules about code need, read in one walk over its statements.

The syntax trees of all files would take 1 GB of memory, and each walk over them many seconds. So a tree is dropped once
its facts are known.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct, field

STATEMENTS = ("body", "orelse", "finalbody", "handlers", "cases")
CREATE_TASK = re.compile(r"([\w.]+(?:\(\))?)\.create_task\(")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


class ClassFacts(Struct, kw_only=True):
    """A class: its bases, and the `attributes` that it declares or that its methods assign to `self`."""

    name: str
    lines: int
    bases: frozenset[str] = frozenset()
    attributes: set[str] = field(default_factory=set)


class FunctionFacts(Struct, frozen=True, kw_only=True):
    """A function or method. `runs` is False for a declaration without statements."""

    name: str
    parameters: int
    runs: bool


class SourceFacts(Struct, kw_only=True):
    """The facts of one file.

    `assigned` are the attributes that it assigns to objects other than `self` and `cls`, each with the name of the
    object. `types` are the words in the annotations of each name, and in the expressions that are assigned to it.
    """

    classes: list[ClassFacts] = field(default_factory=list)
    functions: list[FunctionFacts] = field(default_factory=list)
    docstrings: list[tuple[int, str]] = field(default_factory=list)
    """Pairs of a line and the docstring there: of the module (line 0), a class, a function or an attribute."""
    imports: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of a module and a name that is imported from it, "" for the module itself."""
    assigned: set[tuple[str, str]] = field(default_factory=set)
    types: dict[str, set[str]] = field(default_factory=dict)

    @property
    def docstring(self) -> str:
        """The docstring of the module."""
        return next((text for line, text in self.docstrings if line == 0), "")


@cache
def facts_of(path: Path) -> SourceFacts:
    """Return the facts of a file, which is read once."""
    return read_facts(path.read_text("utf-8"))


def read_facts(text: str) -> SourceFacts:
    """Return the facts of a module's text."""
    tree = ast.parse(text)
    facts = SourceFacts()
    _note_docstring(facts, tree)
    _walk(tree, facts, None)
    return facts


def _walk(node: ast.AST, facts: SourceFacts, owner: ClassFacts | None) -> None:
    """Note the statements below a node; `owner` is the class around them."""
    previous: ast.AST | None = None
    for statement in _statements(node):
        around = owner
        match statement:
            case ast.Expr(value=ast.Constant(value=str(text))) if isinstance(previous, ast.Assign | ast.AnnAssign):
                facts.docstrings.append((statement.lineno, inspect.cleandoc(text)))
            case ast.ClassDef():
                around = _note_class(facts, statement)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                facts.functions.append(_function(statement))
                _note_docstring(facts, statement)
                _note_types(facts, statement)
            case ast.ImportFrom(module=str(module), level=0):
                facts.imports += [(module, alias.name) for alias in statement.names]
            case ast.Import():
                facts.imports += [(alias.name, "") for alias in statement.names]
            case _:
                _note_assigned(facts, statement, owner)
        _walk(statement, facts, around)
        previous = statement


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    for name in STATEMENTS:
        yield from getattr(node, name, ())


def _note_docstring(facts: SourceFacts, node: Documented) -> None:
    if text := ast.get_docstring(node):
        facts.docstrings.append((getattr(node, "lineno", 0), text))


def _note_class(facts: SourceFacts, node: ast.ClassDef) -> ClassFacts:
    _note_docstring(facts, node)
    bases = frozenset(_last_name(base) for base in node.bases)
    declared = {ast.unparse(s.target) for s in node.body if isinstance(s, ast.AnnAssign)}
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    facts.classes.append(ClassFacts(name=node.name, lines=lines, bases=bases, attributes=declared))
    return facts.classes[-1]


def _function(node: Function) -> FunctionFacts:
    arguments = node.args
    packed = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters = [argument for argument in named if argument.arg not in ("self", "cls")] + packed
    runs = any(
        not (isinstance(s, ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)))
        for s in node.body
    )
    return FunctionFacts(name=node.name, parameters=len(parameters), runs=runs)


def _note_assigned(facts: SourceFacts, statement: ast.AST, owner: ClassFacts | None) -> None:
    """Note the attributes that a statement assigns: to `self` in a class, or to another object."""
    for target in _targets(statement):
        if isinstance(target, ast.Attribute):
            is_own = isinstance(target.value, ast.Name) and target.value.id in ("self", "cls")
            if is_own and owner is not None:
                owner.attributes.add(target.attr)
            elif not is_own and not target.attr.startswith("_"):  # ruff finds those
                facts.assigned.add((_last_name(target.value), target.attr))
    match statement:
        case ast.AnnAssign(target=target, annotation=annotation):
            _note_type(facts, target, annotation)
        case ast.Assign(targets=[target], value=value):
            _note_type(facts, target, value)
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            _note_type(facts, target, value)


def _note_types(facts: SourceFacts, function: Function) -> None:
    """Note the types of a function's parameters, and of its result under its own name."""
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.annotation is not None:
            _note_type(facts, ast.Name(argument.arg), argument.annotation)
    if function.returns is not None:
        _note_type(facts, ast.Name(function.name), function.returns)


def _note_type(facts: SourceFacts, target: ast.AST, annotation: ast.AST) -> None:
    words = set(_words(annotation))
    names = [_last_name(part) for part in target.elts] if isinstance(target, ast.Tuple) else [_last_name(target)]
    for name in names:
        facts.types.setdefault(name, set()).update(words)


def _words(node: ast.AST) -> Iterator[str]:
    """Yield the names in an annotation or expression, without keys, conditions and the arguments of calls."""
    match node:
        case ast.Subscript(value=ast.Name(id="dict" | "Mapping"), slice=ast.Tuple(elts=[_, value])):
            parts: list[ast.AST] = [value]
        case ast.Call(func=made):
            parts = [made]
        case ast.comprehension(iter=items):
            parts = [items]
        case ast.IfExp(body=body, orelse=other):
            parts = [body, other]
        case _:
            parts = [*ast.iter_child_nodes(node)]
    if isinstance(node, ast.Name | ast.Attribute):
        yield _last_name(node)
    for part in parts:
        yield from _words(part)


def _last_name(node: ast.AST) -> str:
    """Return the last name of an expression, without leading underscores: `state` for `self._session.state`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.lstrip("_")
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _last_name(inner)
        case _:
            return ""


def _targets(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a statement assigns; the parts of a tuple one by one."""
    match node:
        case ast.Assign(targets=targets) | ast.Tuple(elts=targets) | ast.List(elts=targets):
            for target in targets:
                yield from _targets(target)
        case ast.AnnAssign(target=one) | ast.AugAssign(target=one) | ast.For(target=one) | ast.AsyncFor(target=one):
            yield from _targets(one)
        case ast.Starred(value=value):
            yield from _targets(value)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                yield from _targets(item.optional_vars) if item.optional_vars is not None else ()
        case ast.Attribute():
            yield node


def calls_of_create_task(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the owner of each call of `create_task` in the text of a module."""
    for number, line in enumerate(text.split("\n"), 1):
        if "create_task" in line:
            yield from ((number, found[1]) for found in CREATE_TASK.finditer(line))
