"""Ctrl-C ends each process with 130 and without a word, also while it imports modules and while it exits."""

from __future__ import annotations

import subprocess
import sys

import pytest

DEADLINE = 40.0  # seconds for one command on a busy machine
INTERRUPTED_IMPORT = """
import signal, sys
class Interrupter:
    def find_spec(self, name, *_):
        if name == {module!r}:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("as Python makes it of any error in some imports")
sys.meta_path.insert(0, Interrupter())
"""
INTERRUPTED_EXIT = """
import atexit, signal
atexit.register(signal.raise_signal, signal.SIGINT)
"""
RUN = """
from dragoman.gateway import entry
entry.{entry}()
"""


@pytest.mark.parametrize(
    ("entry", "arguments", "module"),
    [
        ("main", ["--version"], "dragoman.gateway.process"),
        ("main", ["--version"], "typer"),
        ("main", ["serve"], "structlog"),
        ("main", ["import"], "msgspec"),
        ("pod", ["--pod", "atlas"], "dragoman.gateway.process"),
        ("pod", ["--pod", "atlas"], "uvloop"),
        ("codewhale", ["app-server", "--stdio"], "argparse"),
        ("codewhale", ["app-server", "--stdio"], "structlog"),
    ],
)
def test_an_interrupt_during_an_import_exits_130_without_a_word(entry: str, arguments: list[str], module: str) -> None:
    program = INTERRUPTED_IMPORT.format(module=module) + RUN.format(entry=entry)
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize(("entry", "arguments"), [("main", ["--version"]), ("codewhale", ["--help"])])
def test_an_interrupt_while_the_process_exits_ends_it_without_a_word(entry: str, arguments: list[str]) -> None:
    command = [sys.executable, "-c", INTERRUPTED_EXIT + RUN.format(entry=entry), *arguments]
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stderr) == (130, b"")
