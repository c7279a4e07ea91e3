"""`serve` has everything in memory that its functions import: its package may be replaced or removed while it runs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dragoman

PACKAGE = Path(dragoman.__file__).parent

OTHER_PROGRAMS = ("backend_client", "cli", "demo", "entry.py", "launched", "ops/client.py")
"""Parts of the gateway that do not run in `serve`, or that run once at its start."""

AT_THE_START = ("dragoman.gateway.observability", "opentelemetry", "uvloop", "watchfiles")
"""Imported by `serve` before it listens, if they are used at all."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
OF_AN_EXTRA = {"dragoman.gateway.identity.json_web_tokens"}


def imports_of_functions() -> Iterator[str]:
    """Yield the modules that functions of the package import."""
    others = tuple(str(PACKAGE / "gateway" / name) for name in OTHER_PROGRAMS)
    for layer in ("adapters", "gateway", "mappings"):
        for path in (PACKAGE / layer).rglob("*.py"):
            if str(path).startswith(others):
                continue
            functions = (one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, FUNCTIONS))
            for node in (inner for one in functions for inner in ast.walk(one)):
                if isinstance(node, ast.ImportFrom):
                    yield str(node.module)
                elif isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)


def test_every_module_that_a_function_imports_is_imported_at_the_start_of_serve() -> None:
    wanted = {name for name in imports_of_functions() if not name.startswith(AT_THE_START)} - OF_AN_EXTRA
    assert "dragoman.gateway.ops.metrics" in wanted
    program = f"""
import sys
from dragoman.gateway.cli import late_modules, serve
late_modules.import_late_modules()
print(*({wanted} - sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
