"""The output of a command: a line of JSON for scripts, or a file that is complete or not there at all.

No command writes over another file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
import typer

from dragoman.mappings.errors import ConfigError


def print_json(value: object) -> None:
    """Print a value as one line of JSON."""
    typer.echo(msgspec.json.encode(value))


def check_is_new(target: str) -> None:
    """Raise ConfigError if the target is a file that exists: no command overwrites one."""
    if target != "-" and Path(target).is_file():
        raise ConfigError(f"{target} exists already: name a new file with --output")


@contextmanager
def open_output(target: str) -> Iterator[BinaryIO]:
    """Open the target for writing; `-` is stdout.

    A file appears under its name when it is complete, and only its owner can read it. A pipe or device that exists is
    written to directly.
    """
    path = Path(target)
    if target == "-":
        yield sys.stdout.buffer
        return
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = Path(os.path.realpath(path))  # replace what a link leads to, not the link
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}") from error
    try:
        with open(descriptor, "wb") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
