"""`dragoman schema`: print the JSON Schema of the canonical model or of the configuration file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

import dragoman
from dragoman.gateway.config.model import ConfigFile
from dragoman.mappings.canonical import Command, Event

HEADING = re.compile(r"\[+([\w.]+)\]+")
COMMENTED_KEY = re.compile(r"(\w+) = .*?\s# (.+)")
EXAMPLES = ("dragoman schema events > events.schema.json", "dragoman schema config > config.schema.json")


def schema(
    what: Annotated[
        Literal["events", "config"],
        typer.Argument(metavar="events|config", help="The canonical model, or the configuration file."),
    ] = "events",
) -> None:
    """Print the JSON Schema of the canonical events and commands, or of the configuration file."""
    if what == "config":
        document = _schema_of_config()
    else:
        (events, commands), components = msgspec.json.schema_components((Event, Command), ref_template="#/$defs/{name}")
        document = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "dragoman canonical model",
            "anyOf": [{"title": "Event", **events}, {"title": "Command", **commands}],
            "$defs": components,
        }
    typer.echo(msgspec.json.format(msgspec.json.encode(document)).decode())


def _schema_of_config() -> dict[str, Any]:
    """Return the schema of the configuration file; its descriptions are the comments of the example."""
    document = msgspec.json.schema(ConfigFile)
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = "dragoman configuration"
    table: dict[str, Any] = {}
    for line in Path(dragoman.__file__).with_name("config.example.toml").read_text("utf-8").splitlines():
        if heading := HEADING.match(line):
            table = _find_table(document, heading[1])
        elif (key := COMMENTED_KEY.match(line)) and key[1] in table.get("properties", {}):
            table["properties"][key[1]].setdefault("description", key[2])
    return document


def _find_table(document: dict[str, Any], heading: str) -> dict[str, Any]:
    """Return the type of a table of a configuration file, as the schema describes it; {} if its keys are names."""
    types: dict[str, Any] = document["$defs"]
    table: dict[str, Any] = types["ConfigFile"]
    for key in heading.split("."):
        shape = table.get("properties", {}).get(key, {})
        shape = shape.get("items", shape)
        named = (one["$ref"] for one in (shape, *shape.get("anyOf", ())) if "$ref" in one)
        table = types.get(next(named, "").rpartition("/")[2], {})
    return table
