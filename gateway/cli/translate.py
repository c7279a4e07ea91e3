"""`dragoman translate`: translate frames from stdin to stdout, with losses and errors on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from dragoman.adapters.lines import LineSplitter
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.recording.printable import printable_json
from dragoman.gateway.translate import Report
from dragoman.gateway.translate import translate as run_translate
from dragoman.mappings.dialect import Frame

EXAMPLES = (
    "dragoman translate --from pod --to smooth < events.jsonl",
    "dragoman translate --from smooth --to pod --commands < actions.jsonl",
)


def translate(
    source: Annotated[str, typer.Option("--from", metavar="DIALECT", help="The dialect of the lines on stdin.")],
    target: Annotated[str, typer.Option("--to", metavar="DIALECT", help="The dialect of the lines on stdout.")],
    commands: Annotated[
        bool,
        typer.Option(
            "--commands", help="Translate commands (client to backend) instead of events (backend to client)."
        ),
    ] = False,
) -> None:
    """Translate frames from one dialect to another, one frame a line.

    Losses and bad lines are reported as JSON lines on stderr. Translation continues, and the exit code is 1 if a line
    was bad. Equal input gives equal output: missing ids are counted up from zero, and missing times are 0. If both
    dialects are the same, each line is translated by itself.
    """
    reading, writing = registry.dialect(source), registry.dialect(target)
    frames, reports = sys.stdout.buffer, sys.stderr.buffer

    def write_frame(frame: bytes) -> None:
        frames.write(frame + b"\n")

    def write_report(report: Report) -> None:
        frames.flush()  # keeps the order where stdout and stderr are the same file
        reports.write(printable_json(report).encode() + b"\n")
        reports.flush()

    good = run_translate(reading, writing, _lines(), commands=commands, out=write_frame, report=write_report)
    frames.flush()
    raise typer.Exit(0 if good else 1)


def _lines() -> Iterator[tuple[int, Frame]]:
    """Read the frames on stdin, each with the number of its line. Blank lines are counted and skipped."""
    splitter = LineSplitter(Limits().max_message)
    number = 1
    while data := os.read(0, 1 << 16):
        *whole, rest = data.split(b"\n")
        for line in whole:
            for frame in splitter.feed(line + b"\n"):
                yield number, frame
            number += 1
        splitter.feed(rest)
    for frame in splitter.finish():
        yield number, frame
