"""Progress bars for long work, on stderr and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

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
    """Show a bar with these columns; output of the command appears above it if stdout is a terminal too."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _done: None
        return
    shown = (TextColumn("{task.description}"), BarColumn(), *columns)
    with Progress(*shown, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bars:
        task = bars.add_task(what, total=total)
        yield lambda done: bars.update(task, completed=done)
