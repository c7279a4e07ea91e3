"""Commands that show what there is: dialects, matrix, schema."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from dragoman.gateway import registry
from dragoman.gateway.cli.running import AsJson
from dragoman.gateway.config.model import ConfigFile
from dragoman.gateway.matrix import markdown, show
from dragoman.mappings import fidelity
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.errors import ConfigError

__all__ = ["dialects", "matrix", "schema"]


def schema(
    what: Annotated[
        str, typer.Argument(metavar="events|config", help="The canonical model, or the configuration file.")
    ] = "events",
) -> None:
    """Print a JSON Schema: of the canonical events and commands, or of the configuration file."""
    if what == "config":
        document = msgspec.json.schema(ConfigFile)
    elif what == "events":
        (events, commands), components = msgspec.json.schema_components((Event, Command), ref_template="#/$defs/{name}")
        document = {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "dragoman canonical model",
            "anyOf": [{"title": "Event", **events}, {"title": "Command", **commands}], "$defs": components,
        }  # fmt: skip
    else:
        raise ConfigError(f"schema {what!r}: write events or config")
    typer.echo(msgspec.json.format(msgspec.json.encode(document)).decode())


def dialects(as_json: AsJson = False) -> None:
    """List the dialects and how each can be reached."""
    rows = [
        {
            "dialect": d.name, "generations": list(d.generations),
            "listen": registry.forms(d.name, listen=True),
            "connect": registry.forms(d.name, listen=False),
        }
        for d in registry.dialects().values()
    ]  # fmt: skip
    if as_json:
        typer.echo(msgspec.json.encode(rows).decode())
        return
    table = Table("dialect", "generations", "clients connect to", "backends are dialled at")
    for row in rows:
        table.add_row(
            str(row["dialect"]), *(", ".join(row[key]) or "-" for key in ("generations", "listen", "connect"))
        )
    Console().print(table)


def matrix(
    as_json: AsJson = False,
    source: Annotated[str, typer.Option("--from", metavar="DIALECT", help="Only what this dialect says.")] = "",
    target: Annotated[str, typer.Option("--to", metavar="DIALECT", help="Only what is said to this one.")] = "",
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As docs/fidelity.md.")] = False,
) -> None:
    """Show what becomes of each kind of event and command between every two dialects.

    With --from and --to both, also what gets lost, or how it arrives. --json is one array of cells.
    """
    if as_json and as_markdown:
        raise ConfigError("--json and --markdown exclude each other: write one of them")
    for name in filter(None, (source, target)):
        registry.dialect(name)
    cells = [
        cell
        for cell in fidelity.matrix(list(registry.dialects().values()))
        if source in ("", cell.source) and target in ("", cell.target)
    ]
    if as_json:
        typer.echo(msgspec.json.encode(cells).decode())
    elif as_markdown:
        typer.echo(markdown(cells), nl=False)
    else:
        show(cells, Console())
