"""`dragoman docs`: list the documents that are installed with dragoman, or print one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

import dragoman
from dragoman.gateway.cli.options import AsJson
from dragoman.gateway.cli.output import print_json
from dragoman.gateway.config.shape import nearest
from dragoman.mappings.errors import ConfigError

EXAMPLES = ("dragoman docs", "dragoman docs translation", "dragoman docs dialects/pod | less")


def docs(
    page: Annotated[str, typer.Argument(metavar="PAGE", help="The document to print; without it, list all.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the documents that are installed with dragoman, or print one.

    --json prints the list, also with the path of each file.
    """
    folder = Path(dragoman.__file__).with_name("docs")
    pages = {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.md"))}
    console = Console()
    if as_json:
        rows = [{"page": name, "title": _title(path), "path": str(path)} for name, path in pages.items()]
        print_json(rows)
    elif not page:
        table = Table("page", "title", caption=f"The files are in {folder}")
        for name, path in pages.items():
            table.add_row(name, _title(path))
        console.print(table)
    elif page not in pages:
        raise ConfigError(f"no document {page!r}; {nearest(page, pages)}")
    elif console.is_terminal:
        console.print(Markdown(pages[page].read_text("utf-8")))
    else:
        typer.echo(pages[page].read_text("utf-8"), nl=False)


def _title(path: Path) -> str:
    """Return the first heading of a document."""
    return path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
