"""The output of a command: a line of JSON for scripts, a table, or a file that is complete or not there at all.

No command writes over another file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import typer

from dragoman.gateway.observability.logs import escaped
from dragoman.gateway.process.private_files import replacing
from dragoman.gateway.recording.printable import printable_json
from dragoman.mappings.errors import ConfigError

WIDTH = 240  # columns of a table. A terminal wraps longer lines; folded columns would break ids that users copy


def print_json(value: object) -> None:
    """Print a value as one line of JSON."""
    typer.echo(printable_json(value))


def print_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print these columns of the rows on stdout. Control characters are escaped, because peers write titles."""
    from rich.console import Console  # most commands print no table, and start without it
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_shown(row[column])) for column in columns))
    Console(highlight=False, width=WIDTH).print(table)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return escaped(str(value)).replace("\n", " ")


@contextmanager
def open_output(target: str) -> Iterator[BinaryIO]:
    """Open the target for writing; `-` is stdout. Raise ConfigError if it is a file that exists.

    A file appears under its name when it is complete, and only its owner can read it. A pipe or device that exists is
    written to directly.
    """
    path = Path(target)
    if target == "-":
        yield sys.stdout.buffer
        return
    if path.is_file():
        raise ConfigError(f"{target} exists already: name a new file with --output")
    if path.exists():
        with path.open("wb") as file:
            yield file
        return
    path = Path(os.path.realpath(path))  # replace what a link leads to, not the link
    with replacing(path, draft=str(os.getpid())) as draft:
        yield draft
