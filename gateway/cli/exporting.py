"""Commands that make something else of a recording, or a recording of something else: export, import."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import typer

from dragoman.gateway import logs, registry
from dragoman.gateway.cli.progress import progress
from dragoman.gateway.cli.recordings import FILE, opened
from dragoman.gateway.cli.redacting import default_redactor
from dragoman.gateway.recording import blocks
from dragoman.gateway.recording.captures import Capture, read_capture
from dragoman.gateway.recording.cloudevents import cloud_events
from dragoman.gateway.recording.format import Header, RecordingError, encode
from dragoman.gateway.recording.page import page
from dragoman.gateway.recording.part_file import open_part
from dragoman.gateway.recording.reader import Recording
from dragoman.gateway.recording.rewriting import redacted
from dragoman.gateway.recording.runs import Stored
from dragoman.mappings.errors import ConfigError

__all__ = ["export", "import_"]

Format = Literal["html", "cloudevents"]

SHOWN = 20  # problems of a capture that are told one by one


def export(
    file: Annotated[Path, FILE],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="OUT", help="Where to; - is stdout. By default beside FILE.")
    ] = "",
    format: Annotated[Format, typer.Option("--format", help="One self-contained page, or CloudEvents.")] = "html",
    frames: Annotated[bool, typer.Option("--frames", help="CloudEvents: of the frames too.")] = False,
) -> None:
    """Make one HTML page of a recording, or CloudEvents as JSON lines.

    The page holds the transcript and the wire, with nothing from elsewhere and no script: it can be mailed and opened
    as a file. Whatever the recording holds is in it, so look at `dragoman scan` first.
    """
    if frames and format == "html":
        raise ConfigError("--frames goes with --format cloudevents: the page shows the frames as it is")
    suffix = ".html" if format == "html" else ".cloudevents.jsonl"
    with opened(file) as recording:
        stem = recording.path.name.removesuffix(".zst").removesuffix(".jsonl")
        target = output or str(recording.path.with_name(stem + suffix))
        _refuse_recording(Path(target))
        _export(recording, target, format, frames=frames)
    if target != "-":
        logs.tell(f"written {target}", sys.stderr)


def _export(recording: Recording, target: str, format: Format, *, frames: bool) -> None:
    with _written(target) as out:
        if format == "html":
            for piece in page(recording):
                out.write(piece.encode())
        else:
            for line in cloud_events(recording.header, recording.lines(), frames=frames):
                out.write(line + b"\n")


def import_(
    file: Annotated[Path, typer.Argument(metavar="CAPTURE", help="JSON lines with t, dir and frame.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="OUT", help="The recording; NAME.zst is compressed.")
    ] = "",
    dialect: Annotated[
        str, typer.Option("--dialect", metavar="DIALECT", help="What is spoken, where the capture does not say.")
    ] = "",
    session: Annotated[
        str, typer.Option("--session", metavar="ID", help="Which session, of several; by default the one told most.")
    ] = "",
    redact: Annotated[
        bool, typer.Option("--redact/--no-redact", help="Take secrets out, as a gateway does that records.")
    ] = True,
) -> None:
    """Make a recording of a capture, the frames of a conversation that another tool wrote down.

    A line is {"t": SECONDS, "dir": "c2s" | "s2c" | "pub", "frame": TEXT}, with "frames": [TEXT...] for ZeroMQ and
    "conn" where there are several connections. Frames that cannot be read are told on stderr and kept as frames; the
    exit code is 1 then.
    """
    capture = Capture(file)
    name = dialect or capture.dialect_name
    if not name:
        raise ConfigError(f"{file} does not say its dialect: add --dialect, for example --dialect smooth")
    target = output or f"{file.name.removesuffix('.jsonl')}.recording.jsonl"
    if Path(target).is_file():
        raise ConfigError(f"{target} exists already, and a recording overwrites nothing: name a new file")
    with progress(file.name, file.stat().st_size) as capture.progress, _written(target) as out:
        header, lines = read_capture(capture, registry.dialect(name), session=session)
        kept = chain.from_iterable(redacted(lines, default_redactor())) if redact else lines
        for chunk in _recording(header, kept, packed=target.endswith(".zst")):
            out.write(chunk)
    for problem in lines.problems[:SHOWN]:
        logs.tell(problem, sys.stderr)
    if len(lines.problems) > SHOWN:
        logs.tell(f"and {len(lines.problems) - SHOWN} more", sys.stderr)
    if lines.others:
        logs.tell(f"{lines.others} frames of other clients or sessions were left out", sys.stderr)
    logs.tell(f"written {target}", sys.stderr)
    raise typer.Exit(1 if lines.problems else 0)


def _recording(header: Header, lines: Iterable[Stored], *, packed: bool) -> Iterator[bytes]:
    def encoded() -> Iterator[bytes]:
        yield encode(header) + b"\n"
        for line in lines:
            yield encode(line) + b"\n"

    return blocks.compressed(encoded()) if packed else encoded()


def _refuse_recording(target: Path) -> None:
    if not target.is_file():
        return
    try:
        open_part(target)
    except (RecordingError, OSError):
        return
    raise ConfigError(f"{target} is a recording, which nothing overwrites: name another file")


@contextmanager
def _written(target: str) -> Iterator[BinaryIO]:
    """A file that is there once it is whole, its owner's alone as a recording is; `-` is stdout. What is there and is
    no file, a pipe or a device, is written to.
    """
    path = Path(target)
    if target == "-":
        yield sys.stdout.buffer
        return
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()  # what a link leads to is replaced, not the link
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}") from error
    try:
        with open(descriptor, "wb") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
