"""`dragoman import`: make a recording from a capture of frames."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from dragoman.gateway import registry
from dragoman.gateway.cli.output import open_output
from dragoman.gateway.cli.recordings import progress
from dragoman.gateway.cli.redact import redaction_rules
from dragoman.gateway.observability import logs
from dragoman.gateway.recording.captures import Capture, ImportedCapture
from dragoman.gateway.recording.format import StepLine, packed
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.rewriting import recording_bytes, redacted
from dragoman.mappings.errors import ConfigError

EXAMPLES = ("dragoman import capture.jsonl --dialect smooth -o atlas.jsonl",)

SHOWN = 20  # problems of a capture that are reported one by one


def import_(
    file: Annotated[Path, typer.Argument(metavar="CAPTURE", help="A file of JSON lines with t, dir and frame.")],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="The recording to write; NAME.zst is compressed. Default: CAPTURE.recording.jsonl in this folder.",
        ),
    ] = "",
    dialect: Annotated[
        str, typer.Option("--dialect", metavar="DIALECT", help="The dialect, if the capture does not name it.")
    ] = "",
    session: Annotated[
        str, typer.Option("--session", metavar="ID", help="The session to take; default: the one with the most frames.")
    ] = "",
    redact: Annotated[
        bool, typer.Option("--redact/--no-redact", help="Remove secrets, as the gateway does when it records.")
    ] = True,
) -> None:
    """Make a recording from a capture: the frames of a conversation, stored by another tool.

    A line is {"t": SECONDS, "dir": "c2s" | "s2c" | "pub", "frame": TEXT}. It has "frames": [TEXT...] for ZeroMQ, and
    "conn" if there are several connections. Frames that cannot be decoded are reported on stderr and kept as frames;
    then the exit code is 1.
    """
    capture = Capture(file)
    name = dialect or capture.dialect_name
    if not name:
        raise ConfigError(f"{file} does not say its dialect: add --dialect, for example --dialect smooth")
    target = output or f"{file.name.removesuffix('.jsonl')}.recording.jsonl"
    with progress(file.name, file.stat().st_size) as report, open_output(target) as out:
        capture.report_progress(report)
        lines = ImportedCapture(capture, registry.dialect(name), session)
        steps: Iterable[StepLine] = packed(lines)
        if redact:
            steps = chain.from_iterable(redacted(steps, Redactor(*redaction_rules(None))))
        out.writelines(recording_bytes(lines.header, steps, compressed=target.endswith(".zst")))
    for problem in lines.problems[:SHOWN]:
        logs.write_line(problem, sys.stderr)
    if len(lines.problems) > SHOWN:
        logs.write_line(f"and {len(lines.problems) - SHOWN} more", sys.stderr)
    if lines.others:
        logs.write_line(f"{lines.others} frames of other clients or sessions were left out", sys.stderr)
    logs.write_line(f"written {target}", sys.stderr)
    raise typer.Exit(1 if lines.problems else 0)
