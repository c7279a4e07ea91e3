"""`dragoman docs`: list the documents that are installed with dragoman, or print one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

import dragoman
from dragoman.gateway.cli.options import AsJson
from dragoman.gateway.cli.output import print_json, print_table
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
    if page and as_json:
        raise ConfigError("--json prints the list of documents: use it without PAGE")
    folder = Path(dragoman.__file__).with_name("docs")
    pages = {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.md"))}
    rows = [{"page": name, "title": _title(path), "path": str(path)} for name, path in pages.items()]
    console = Console()
    if as_json:
        print_json(rows)
    elif not page:
        print_table(("page", "title"), rows)
        typer.echo(f"The files are in {folder}. The tests and other files that they name are in the repository.")
    elif page not in pages:
        raise ConfigError(f"no document {page!r}; {nearest(page, pages)}")
    elif console.is_terminal:
        console.print(Markdown(pages[page].read_text("utf-8")))
    else:
        typer.echo(pages[page].read_text("utf-8"), nl=False)


def _title(path: Path) -> str:
    """Return the first heading of a document."""
    return path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
