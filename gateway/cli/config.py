"""`dragoman config example`: print the configuration file with every key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import dragoman

__all__ = ["EXAMPLES", "config"]

EXAMPLES = ("dragoman config example > config.toml",)


def config(
    _what: Annotated[Literal["example"], typer.Argument(metavar="example", help="The only choice.")],
) -> None:
    """Print an example of the configuration file, which has every key with its default value."""
    example = Path(dragoman.__file__).with_name("config.example.toml")
    typer.echo(example.read_text("utf-8"), nl=False)
