"""`dragoman matrix`: print how faithfully each event and command is translated."""

from __future__ import annotations

from itertools import product
from typing import Annotated

import typer
from msgspec import structs

from dragoman.gateway import registry
from dragoman.gateway.cli.options import AsJson
from dragoman.gateway.cli.output import print_json, print_table
from dragoman.mappings import fidelity

EXAMPLES = ("dragoman matrix --from smooth --to pod", "dragoman matrix --json")


def matrix(
    as_json: AsJson = False,
    source: Annotated[
        str, typer.Option("--from", metavar="DIALECT", help="Show only messages from this dialect.")
    ] = "",
    target: Annotated[str, typer.Option("--to", metavar="DIALECT", help="Show only messages to this dialect.")] = "",
) -> None:
    """Show how each kind of event and command is translated between every two dialects.

    Events go from a backend to its clients, commands from a client to its backend. `exact`: all fields arrive
    unchanged. `lossy`: some fields are lost. `emulated`: the meaning arrives in another form. `none`: the other dialect
    cannot express the event or command. With both --from and --to, the table also shows which fields are lost or
    changed. --json prints one array of cells.
    """
    for name in filter(None, (source, target)):
        registry.dialect(name)
    cells = [
        cell
        for cell in fidelity.matrix(list(registry.dialects().values()))
        if source in ("", cell.source) and target in ("", cell.target)
    ]
    if as_json:
        print_json(cells)
        return
    if source and target:
        print_table(("direction", "canonical", "kind", "detail"), list(map(structs.asdict, cells)))
        return
    senders = dict.fromkeys(cell.source for cell in cells)
    for direction, sender in product(dict.fromkeys(cell.direction for cell in cells), senders):
        own = [cell for cell in cells if (cell.direction, cell.source) == (direction, sender)]
        title = f"{direction} of {sender}"
        rows: dict[str, dict[str, str]] = {}
        for cell in own:
            rows.setdefault(cell.canonical, {title: cell.canonical})[f"to {cell.target}"] = cell.kind
        print_table((title, *dict.fromkeys(f"to {cell.target}" for cell in own)), list(rows.values()))
        typer.echo()
