"""Commands for the secrets in recordings: redact, scan."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from secrets import token_bytes
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from dragoman.gateway import logs
from dragoman.gateway.cli.recordings import FILE, opened
from dragoman.gateway.cli.running import AsJson
from dragoman.gateway.config.check import load
from dragoman.gateway.config.model import Redact
from dragoman.gateway.recording import rewriting
from dragoman.gateway.recording.reader import Recording
from dragoman.gateway.recording.redaction import EVER, Entry, Found, Redactor, Rules, rules

__all__ = ["default_redactor", "redact", "scan"]

WINDOW = 1 << 20  # characters of a text that are looked through at once: nobody waits for them

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Also what the \\[recording.redact] of this configuration names."),
]


def redact(
    file: Annotated[Path, FILE],
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="A new file, instead of replacing the old one.")
    ] = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Take the secrets out of a recording.

    What a gateway that redacts would never have recorded is replaced by placeholders, and the file when the new one is
    whole. Prints what was found where, never the secret itself. --json is an array of {kind, place, count}.
    """
    compiled, salt = _rules(config_file)
    with opened(file) as recording:
        entries = rewriting.redact(recording, Redactor(compiled, salt), out)
    if as_json:
        typer.echo(msgspec.json.encode(entries).decode())
    elif entries:
        _print(entries)
    else:
        typer.echo("no secrets found")


def scan(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Recordings: of one in several parts any of them.")
    ],
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Look for secrets in recordings; exits 1 if there are any.

    A line for each, with the `seq` of the recording's line and the place in it, never the secret itself. --json is an
    array of {file, seq, kind, place}.
    """
    compiled, salt = _rules(config_file)
    rows: list[dict[str, object]] = []
    total = 0
    known: set[Path] = set()  # of parts that were scanned with another one

    def hear(recording: Recording, found: Found) -> None:
        nonlocal total
        total += 1
        file = recording.parts[recording.part_of(found.seq)].path
        if as_json:
            rows.append({"file": str(file), "seq": found.seq, "kind": found.kind, "place": found.place})
        else:
            typer.echo(f"{file}: seq {found.seq}: {found.kind} in {found.place}")

    for file in files:
        if file.resolve() in known:
            continue
        with opened(file) as recording:
            known.update(part.path.resolve() for part in recording.parts)
            rewriting.scan(recording, Redactor(compiled, salt, partial(hear, recording)))
    if as_json:
        typer.echo(msgspec.json.encode(rows).decode())
    elif total:
        logs.tell(f"{total} secrets; `dragoman redact FILE` takes them out", sys.stderr)
    else:
        typer.echo("no secrets found")
    raise typer.Exit(1 if total else 0)


def default_redactor() -> Redactor:
    """What finds the common shapes, under a salt of its own."""
    return Redactor(*_rules(None))


def _rules(config_file: Path | None) -> tuple[Rules, bytes]:
    """What is looked for, and the salt of placeholders."""
    wanted = Redact()
    if config_file is not None:
        recording = load(config_file).recording
        wanted = recording.redact if recording is not None else wanted
    compiled = rules(wanted.patterns, wanted.paths, window_bytes=WINDOW, window_micros=EVER)
    return compiled, wanted.salt.encode() or token_bytes(16)


def _print(entries: list[Entry]) -> None:
    table = Table("kind", "place", "count")
    for entry in entries:
        table.add_row(entry.kind, entry.place, str(entry.count))
    Console().print(table)
