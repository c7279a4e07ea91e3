"""Open recordings for commands: show progress on a terminal, and report unreadable lines on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from dragoman.gateway.observability import logs
from dragoman.gateway.recording.reader import Reader, open_recording

LONG = 8 << 20  # bytes: a smaller file is read too fast for a progress bar


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

    def report(number: int, bytes_read: int) -> None:
        done[number] = bytes_read
        all_done(sum(done))

    with progress(recordings[0].path.name, sum(recording.size for recording in recordings)) as all_done:
        for number, recording in enumerate(recordings):
            recording.report_progress(partial(report, number))
        yield
    for recording in recordings:
        report_problems(recording)


def report_problems(recording: Reader) -> None:
    """Write to stderr which lines of a recording could not be read."""
    if recording.problems:
        logs.write_line(f"{recording.path}: {recording.problems}; the rest was read", sys.stderr)


def progress(what: str, size: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show a progress bar in bytes; yield the function that sets how many of `size` are done."""
    if size < LONG:
        return nullcontext(lambda _done: None)
    return _shown(what, size, DownloadColumn(), TimeRemainingColumn())


def steps(what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show a progress bar in steps; yield the function that sets how many of `total` are done."""
    return _shown(what, total, MofNCompleteColumn())


@contextmanager
def _shown(what: str, total: int, *columns: ProgressColumn) -> Iterator[Callable[[int], None]]:
    """Show a progress bar with these columns.

    If stdout is a terminal, the output of the command appears above the bar.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _done: None
        return
    shown = (TextColumn("{task.description}"), BarColumn(), *columns)
    with Progress(*shown, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bars:
        task = bars.add_task(what, total=total)
        yield lambda done: bars.update(task, completed=done)
