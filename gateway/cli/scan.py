"""`dragoman scan`: report the secrets in recordings."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dragoman.gateway.cli.options import AsJson, RedactConfig
from dragoman.gateway.cli.output import print_json
from dragoman.gateway.cli.recordings import reading
from dragoman.gateway.cli.redact import redaction_rules
from dragoman.gateway.observability import logs
from dragoman.gateway.public_reason import full_reason
from dragoman.gateway.recording import rewriting
from dragoman.gateway.recording.format import RecordingError
from dragoman.gateway.recording.printable import counted
from dragoman.gateway.recording.reader import Reader, open_recording
from dragoman.gateway.recording.redaction.redactor import Finding, Redactor

EXAMPLES = ("dragoman scan recordings/*.jsonl*", "dragoman scan atlas.jsonl --json")


def scan(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="The recordings to scan. If one has several parts, name any part."),
    ],
    config_file: RedactConfig = None,
    as_json: AsJson = False,
) -> None:
    """Look for secrets in recordings; exits 1 if there are any.

    If a file cannot be read, the others are scanned, and the exit code is 2.
    Prints one line for each secret, with the `seq` of the recording's line and the place in it, never the secret.
    With --json, prints an array of {file, seq, kind, place}, and {file, text} for a file that cannot be read.
    """
    compiled, salt = redaction_rules(config_file)
    rows: list[dict[str, object]] = []
    total = 0
    unread = False
    known: set[str] = set()  # parts that were scanned together with another part

    def report(recording: Reader, found: Finding) -> None:
        nonlocal total
        total += 1
        file = recording.parts[recording.part_of(found.seq)].path
        if as_json:
            rows.append({"file": str(file), "seq": found.seq, "kind": found.kind, "place": found.place})
        else:
            typer.echo(f"{file}: seq {found.seq}: {found.kind} in {found.place}")

    for file in files:
        if os.path.realpath(file) in known:
            continue
        try:
            recording = open_recording(file)
        except (RecordingError, OSError) as error:
            unread = True
            text = full_reason(error)
            rows.append({"file": str(file), "text": text})
            logs.write_line(f"error: {logs.escaped(text)}", sys.stderr)
            continue
        known.update(os.path.realpath(part.path) for part in recording.parts)
        with reading(recording):
            rewriting.scan(recording, Redactor(compiled, salt, partial(report, recording)))
    if as_json:
        print_json(rows)
    elif total:
        logs.write_line(f"{counted(total, 'secret')}; `dragoman redact FILE` takes them out", sys.stderr)
    elif not unread:
        typer.echo("no secrets found")
    raise typer.Exit(2 if unread else min(total, 1))
