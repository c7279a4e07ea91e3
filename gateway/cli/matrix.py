"""`dragoman matrix`: print how faithfully each event and command is translated."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from dragoman.gateway import registry
from dragoman.gateway.cli.options import AsJson
from dragoman.gateway.cli.output import print_json
from dragoman.gateway.matrix import markdown, show
from dragoman.mappings import fidelity
from dragoman.mappings.errors import ConfigError

EXAMPLES = ("dragoman matrix --from smooth --to pod", "dragoman matrix --json")


def matrix(
    as_json: AsJson = False,
    source: Annotated[
        str, typer.Option("--from", metavar="DIALECT", help="Show only messages from this dialect.")
    ] = "",
    target: Annotated[str, typer.Option("--to", metavar="DIALECT", help="Show only messages to this dialect.")] = "",
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, as in docs/fidelity.md.")] = False,
) -> None:
    """Show how each kind of event and command is translated between every two dialects.

    With both --from and --to, also show which fields are lost or changed. --json prints one array of cells.
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
        print_json(cells)
    elif as_markdown:
        typer.echo(markdown(cells), nl=False)
    else:
        show(cells, Console())
