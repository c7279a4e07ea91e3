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


def print_json(value: object) -> None:
    """Print a value as one line of JSON."""
    typer.echo(printable_json(value))


def print_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print these columns of the rows on stdout, one line for each row, which a narrow terminal wraps.

    Folded columns would break ids, which users copy. Control characters are escaped, because peers write titles.
    """
    from rich.cells import cell_len, set_cell_size  # most commands print no table, and start without it

    lines = [columns, *([_shown(row[column]) for column in columns] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        # Without spaces at its end, which a narrow terminal would show as empty lines.
        text = "  ".join(map(set_cell_size, line, widths)).rstrip()
        typer.echo(text if number else typer.style(text, bold=True))


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
