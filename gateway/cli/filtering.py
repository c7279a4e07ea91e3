"""`dragoman translate`: standard input to standard output, and what was lost to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Annotated, BinaryIO, TextIO

import msgspec
import typer

from dragoman.adapters.lines import LineSplitter
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.translate import Report
from dragoman.gateway.translate import translate as run_translate
from dragoman.mappings.dialect import Frame

__all__ = ["translate"]


def translate(
    source: Annotated[str, typer.Option("--from", metavar="DIALECT", help="The dialect of the lines on stdin.")],
    target: Annotated[str, typer.Option("--to", metavar="DIALECT", help="The dialect of the lines on stdout.")],
    commands: Annotated[
        bool, typer.Option("--commands", help="Client to backend; without it backend to client.")
    ] = False,
) -> None:
    """Translate frames, one a line, as a filter.

    Losses and bad lines come as JSON lines on stderr; the rest goes on, and the exit code is 1 if any line was bad.
    Equal input gives equal output: ids that the input does not bring are counted up from zero, times it does not bring
    are 0. To the same dialect each line stands alone.
    """
    reading, writing = registry.dialect(source), registry.dialect(target)
    encoder = msgspec.json.Encoder()
    frames, reports = _Pipe(sys.stdout), _Pipe(sys.stderr)

    def said(report: Report) -> None:
        frames.flush()  # so that whoever sees both in one place sees them in their order
        reports.write(encoder.encode(report))
        reports.flush()

    good = run_translate(reading, writing, _lines(), commands=commands, out=frames.write, said=said)
    frames.flush()
    raise typer.Exit(0 if good else 1)


class _Pipe:
    """Lines to whoever reads a standard stream; BrokenPipeError when nobody does, also when it was closed before."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream: BinaryIO | None = stream.buffer if stream is not None else None

    def write(self, line: bytes) -> None:
        if self._stream is None:
            raise BrokenPipeError
        self._stream.write(line + b"\n")

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.flush()


def _lines() -> Iterator[tuple[int, Frame]]:
    """The frames on stdin, each with the number of its line: blank ones count and are no frames."""
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
