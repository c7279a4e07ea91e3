"""Notice changes of the configuration file: a save in place, a save by rename, and the swap of a symbolic link.

    /etc/dragoman/config.toml -> ..data/config.toml      Kubernetes mounts a ConfigMap like this, and
    /etc/dragoman/..data      -> ..2026_11_22            renames a new link over `..data`

The file is checked through all links on its path, twice a second. So all these changes look the same, and are noticed
on every file system, also on one that reports no events. An editor or the kubelet takes several steps, so a change
counts once two checks in a row have found the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

LOOK = 0.5  # seconds between two looks; each takes 0.1 ms, in a thread, because a file system may be slow


async def watch_file(file: Path, on_change: Callable[[], None]) -> None:
    """Call `on_change` whenever the content of a file may have changed; runs until cancelled."""
    known = last = await asyncio.to_thread(_stamp, file)
    while True:
        await asyncio.sleep(LOOK)
        before, last = last, await asyncio.to_thread(_stamp, file)
        if last == before != known:
            known = last
            on_change()


def _stamp(file: Path) -> tuple[int, ...]:
    """Return a value that changes with the content of a file, () if the file is missing for a moment."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
