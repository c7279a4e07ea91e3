"""Progress bars for long work, on stderr and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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

LONG = 8 << 20  # bytes: a smaller file is done before anybody looks


@contextmanager
def progress(what: str, size: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar in bytes; yield the function that sets how many of `size` are done."""
    console = Console(stderr=True)
    if not console.is_terminal or size < LONG:
        yield lambda _done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with _bars(*columns, console=console) as bars:
        task = bars.add_task(what, total=size)
        yield lambda done: bars.update(task, completed=done)


@contextmanager
def steps(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar in steps; yield the function that sets how many of `total` are done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with _bars(*columns, console=console) as bars:
        task = bars.add_task(what, total=total)
        yield lambda done: bars.update(task, completed=done)


def _bars(*columns: ProgressColumn, console: Console) -> Progress:
    """Return the bars; output of the command appears above them if stdout is a terminal too."""
    return Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty())
