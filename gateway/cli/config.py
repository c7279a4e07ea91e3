"""`dragoman config`: print the example of a configuration file, or a configuration as dragoman reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import dragoman
from dragoman.gateway.cli.options import AsJson
from dragoman.gateway.cli.output import print_json
from dragoman.mappings.errors import ConfigError

EXAMPLES = ("dragoman config example > config.toml", "dragoman config show config.toml")


def config(
    what: Annotated[
        Literal["example", "show"],
        typer.Argument(metavar="example|show", help="The example, or the configuration that FILE results in."),
    ],
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The configuration file (TOML), to show.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the example of a configuration file, or a configuration with all defaults.

    `config show FILE` prints every key with the value in force: references are replaced, relative paths are resolved,
    secrets are masked and defaults are marked. --json prints {file, config, defaults}.
    """
    if what == "show":
        if file is None:
            raise ConfigError("config show needs a file, for example: dragoman config show config.toml")
        _show(file, as_json)
        return
    if file is not None or as_json:
        raise ConfigError("config example takes neither a file nor --json")
    example = Path(dragoman.__file__).with_name("config.example.toml")
    typer.echo(example.read_text("utf-8"), nl=False)


def _show(file: Path, as_json: bool) -> None:
    from dragoman.gateway.config.check import load  # not needed for the example
    from dragoman.gateway.config.display import list_defaults, masked_table, to_toml

    config = load(file, listens=False)
    if as_json:
        row = {"file": str(file), "config": masked_table(config), "defaults": list_defaults(config)}
        print_json(row)
    else:
        typer.echo("\n".join(to_toml(config)), nl=False)
