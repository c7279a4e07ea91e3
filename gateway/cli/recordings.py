"""Recordings as the commands open them, with unreadable parts reported on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.gateway.observability import logs
from dragoman.gateway.recording.reader import Reader, open_recording


@contextmanager
def opened(file: Path) -> Iterator[Reader]:
    """Open a recording to be read in the block; then report on stderr what could not be read."""
    recording = open_recording(file)
    with reading(recording):
        yield recording


@contextmanager
def reading(*recordings: Reader) -> Iterator[None]:
    """Report on stderr what of these recordings could not be read in the block."""
    yield
    for recording in recordings:
        tell_problems(recording)


def tell_problems(recording: Reader) -> None:
    """Write to stderr what of a recording could not be read."""
    if recording.problems:
        logs.tell(f"{recording.path}: {recording.problems}; the rest was read", sys.stderr)
