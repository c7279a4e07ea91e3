"""The facts of a source file that the rules about code need, read in one walk over its statements.

The syntax trees of all files would take 1 GB of memory, and each walk over them many seconds. So a tree is dropped once
its facts are known.
"""

from __future__ import annotations

import ast
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
    """A class: `fields` are those of a struct, and `attributes` those that its methods assign to `self`."""

    name: str
    lines: int
    fields: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)


class FunctionFacts(Struct, frozen=True, kw_only=True):
    """A function or method. `runs` is False for a declaration without statements."""

    name: str
    parameters: int
    runs: bool


class SourceFacts(Struct, kw_only=True):
    """The facts of one file. `assigned` are the attributes that it assigns to objects other than `self` and `cls`."""

    classes: list[ClassFacts] = field(default_factory=list)
    functions: list[FunctionFacts] = field(default_factory=list)
    docstrings: list[tuple[int, str]] = field(default_factory=list)
    imports: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of a module and a name that is imported from it, "" for the module itself."""
    assigned: set[str] = field(default_factory=set)

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
    for statement in _statements(node):
        around = owner
        match statement:
            case ast.ClassDef():
                around = _note_class(facts, statement)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                facts.functions.append(_function(statement))
                _note_docstring(facts, statement)
            case ast.ImportFrom(module=str(module), level=0):
                facts.imports += [(module, alias.name) for alias in statement.names]
            case ast.Import():
                facts.imports += [(alias.name, "") for alias in statement.names]
            case _:
                _note_assigned(facts, statement, owner)
        _walk(statement, facts, around)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    for name in STATEMENTS:
        yield from getattr(node, name, ())


def _note_docstring(facts: SourceFacts, node: Documented) -> None:
    if text := ast.get_docstring(node):
        facts.docstrings.append((getattr(node, "lineno", 0), text))


def _note_class(facts: SourceFacts, node: ast.ClassDef) -> ClassFacts:
    _note_docstring(facts, node)
    is_struct = any(ast.unparse(base).endswith("Struct") for base in node.bases)
    fields = {ast.unparse(s.target) for s in node.body if isinstance(s, ast.AnnAssign)} if is_struct else set[str]()
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    facts.classes.append(ClassFacts(name=node.name, lines=lines, fields=fields))
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
            elif not is_own:
                facts.assigned.add(target.attr)


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
