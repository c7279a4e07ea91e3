"""`dragoman export`: make one HTML page or CloudEvents of a recording."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from dragoman.gateway.cli.options import RecordingFile
from dragoman.gateway.cli.output import open_output
from dragoman.gateway.cli.recordings import opened
from dragoman.gateway.observability import logs
from dragoman.gateway.recording.reader import Reader
from dragoman.gateway.recording.show.cloudevents import cloud_events
from dragoman.gateway.recording.show.page import page
from dragoman.mappings.errors import ConfigError

EXAMPLES = ("dragoman export atlas.jsonl", "dragoman export atlas.jsonl --format cloudevents -o - | head")

Format = Literal["html", "cloudevents"]


def export(
    file: RecordingFile,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="OUT", help="The file to write; - is stdout. Default: beside FILE.")
    ] = "",
    format: Annotated[Format, typer.Option("--format", help="Write one self-contained page, or CloudEvents.")] = "html",
    frames: Annotated[bool, typer.Option("--frames", help="Write CloudEvents for frames too.")] = False,
) -> None:
    """Make one HTML page of a recording, or CloudEvents as JSON lines.

    The page shows the turns, the transcript and the frames; press ? in it for its keys. It loads nothing from
    elsewhere, so it can be mailed and opened as a file. It contains everything that the recording contains: run
    `dragoman scan` first. No file is overwritten.
    """
    if frames and format == "html":
        raise ConfigError("--frames needs --format cloudevents: the HTML page always shows the frames")
    suffix = ".html" if format == "html" else ".cloudevents.jsonl"
    with opened(file) as recording:
        stem = recording.path.name.removesuffix(".zst").removesuffix(".jsonl")
        target = output or str(recording.path.with_name(stem + suffix))
        _export(recording, target, format, frames=frames)
    if target != "-":
        logs.write_line(f"written {target}", sys.stderr)


def _export(recording: Reader, target: str, format: Format, *, frames: bool) -> None:
    with open_output(target) as out:
        if format == "html":
            for piece in page(recording):
                out.write(piece.encode())
        else:
            for line in cloud_events(recording.header, recording.lines(), frames=frames):
                out.write(line + b"\n")
