"""Recordings as the commands open them: with progress on a terminal, and unreadable parts reported on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from dragoman.gateway.cli.progress import progress
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
    """Show one progress bar for all these recordings; then report what could not be read."""
    done = [0] * len(recordings)

    def told(number: int, bytes_read: int) -> None:
        done[number] = bytes_read
        all_done(sum(done))

    with progress(recordings[0].path.name, sum(recording.size for recording in recordings)) as all_done:
        for number, recording in enumerate(recordings):
            recording.report_progress(partial(told, number))
        yield
    for recording in recordings:
        tell_problems(recording)


def tell_problems(recording: Reader) -> None:
    """Write to stderr what of a recording could not be read."""
    if recording.problems:
        logs.tell(f"{recording.path}: {recording.problems}; the rest was read", sys.stderr)
