"""`dragoman redact`: replace the secrets in a recording by placeholders."""

from __future__ import annotations

from pathlib import Path
from secrets import token_bytes
from typing import Annotated

import typer
from msgspec import structs

from dragoman.gateway.cli.options import AsJson, RecordingFile, RedactConfig
from dragoman.gateway.cli.output import print_json, print_table
from dragoman.gateway.cli.recordings import opened
from dragoman.gateway.config.check import load
from dragoman.gateway.config.model import Redact
from dragoman.gateway.recording import rewriting
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction.rules import EVER, RedactionRules, rules

EXAMPLES = ("dragoman redact atlas.jsonl", "dragoman redact atlas.jsonl.zst -o clean.jsonl --config config.toml")

WINDOW = 1 << 20  # characters of a text that are searched at once: unlike a live client, a command can wait


def redact(
    file: RecordingFile,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="Write a new file instead of replacing FILE.")
    ] = None,
    config_file: RedactConfig = None,
    as_json: AsJson = False,
) -> None:
    """Remove the secrets from a recording.

    Secrets become placeholders, as if the gateway had redacted while it recorded. FILE is replaced when the new file is
    complete. Prints what was found where, never the secret itself. --json prints an array of {kind, place, count}.
    """
    compiled, salt = redaction_rules(config_file)
    with opened(file) as recording:
        entries = rewriting.redact(recording, Redactor(compiled, salt), out)
    if as_json:
        print_json(entries)
    elif entries:
        print_table(("kind", "place", "count"), list(map(structs.asdict, entries)))
    else:
        typer.echo("no secrets found")


def redaction_rules(config_file: Path | None) -> tuple[RedactionRules, bytes]:
    """Return the rules for finding secrets, and the salt of the placeholders; without a file, the default ones."""
    wanted = Redact()
    if config_file is not None:
        recording = load(config_file, starts=False).recording
        wanted = recording.redact if recording is not None else wanted
    compiled = rules(wanted.patterns, wanted.paths, window_bytes=WINDOW, window_micros=EVER)
    return compiled, wanted.salt.encode() or token_bytes(16)
