"""Notice changes of the configuration file: a save in place, a save by rename, and the swap of a symbolic link.

    /etc/dragoman/config.toml -> ..data/config.toml      Kubernetes mounts a ConfigMap like this, and
    /etc/dragoman/..data      -> ..2026_11_22            renames a new link over `..data`

A watch on the file itself ends when an editor renames another file over it. So the folders are watched whose entries
decide which file the path names: the folder of the file, and that of each symbolic link on the way to it. An event says
only that something in a folder has changed: the stamp of the file decides.

The library watchfiles (`dragoman[watch]`) reports the events. WATCHFILES_FORCE_POLLING=1 makes it compare folders
instead, for file systems without events.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path

import structlog

from dragoman.mappings.errors import ConfigError

QUIET = 200  # ms without another event before the file is looked at: an editor or the kubelet takes several steps
RECHECK = 5000  # ms without any event: a change just before the watch began, or on a disk that reports no events
RETRY = 5.0  # seconds between two attempts to watch, if the kernel refuses it or a folder vanishes
MAX_LINKS = 40  # symbolic links on one path: the kernel's own limit

log = structlog.get_logger("dragoman")


def check_library() -> None:
    """Raise ConfigError if the library that reports changes is not installed."""
    if find_spec("watchfiles") is None:
        install = f"{sys.executable} -m pip install 'dragoman[watch]'"
        raise ConfigError(f"--watch needs the library watchfiles; install it: {install}")


async def watch_file(file: Path, on_change: Callable[[], None]) -> None:
    """Call `on_change` whenever the content of a file may have changed; runs until cancelled."""
    from watchfiles import awatch

    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it logs each event of a folder
    seen, told = _stamp(file), ""

    def compare() -> None:
        nonlocal seen
        if (now := _stamp(file)) != seen:
            seen = now
            on_change()

    while True:
        folders = _identify(find_folders(file))
        events = awatch(
            *folders, watch_filter=None, step=QUIET, rust_timeout=RECHECK, yield_on_timeout=True, recursive=False
        )
        try:
            async with aclosing(events):
                async for _events in events:
                    compare()
                    if _identify(find_folders(file)) != folders:
                        break
        except (OSError, RuntimeError) as error:  # no inotify instance is left, or a folder has vanished meanwhile
            if told != (told := str(error)):
                log.warning(
                    "cannot watch the configuration file, checking it at intervals",
                    file=str(file),
                    seconds=RETRY,
                    cause=told,
                )
            await asyncio.sleep(RETRY)
            compare()


def find_folders(file: Path) -> set[Path]:
    """Return the folders whose entries decide which file a path names. For a missing folder, return its parent."""
    folders, links = set[Path](), 0
    root, *names = (Path.cwd() / file).parts
    folder, pending = Path(root), names[::-1]
    while True:
        entry = folder / pending.pop()
        target = _read_link(entry) if links < MAX_LINKS else None
        if target is not None:
            links += 1
            folders.add(folder)
            pending += target.parts[::-1]
        elif pending and entry.is_dir():
            folder = Path(os.path.normpath(entry))
        else:
            return folders | {folder}


def _read_link(path: Path) -> Path | None:
    try:
        return path.readlink()
    except OSError:
        return None


def _identify(folders: set[Path]) -> dict[Path, int]:
    """Return the inodes of folders: a folder that was renamed to the place of another has events of its own."""
    return {folder: folder.stat().st_ino for folder in folders if folder.is_dir()}


def _stamp(file: Path) -> tuple[int, ...]:
    """Return a value that changes with the content of a file, () if the file is missing for a moment."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
