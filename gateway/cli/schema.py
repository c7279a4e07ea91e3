"""`dragoman schema`: print the JSON Schema of the canonical model or of the configuration file."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from dragoman.gateway.config.model import ConfigFile
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.errors import ConfigError

__all__ = ["EXAMPLES", "schema"]

EXAMPLES = ("dragoman schema events > events.schema.json", "dragoman schema config > config.schema.json")


def schema(
    what: Annotated[
        str, typer.Argument(metavar="events|config", help="The canonical model, or the configuration file.")
    ] = "events",
) -> None:
    """Print the JSON Schema of the canonical events and commands, or of the configuration file."""
    if what == "config":
        document = msgspec.json.schema(ConfigFile)
    elif what == "events":
        (events, commands), components = msgspec.json.schema_components((Event, Command), ref_template="#/$defs/{name}")
        document = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "dragoman canonical model",
            "anyOf": [{"title": "Event", **events}, {"title": "Command", **commands}],
            "$defs": components,
        }
    else:
        raise ConfigError(f"schema {what!r}: write events or config")
    typer.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
