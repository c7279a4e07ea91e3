"""The thread that writes recordings: one for the app, so that no disk ever makes traffic wait.

The loop hands over bytes of whole lines and goes on; when it says `go` the thread writes all that is there, syncs what
it wrote to, and looks again. So what was handed over is on the disk after one round, a round is as long as the disk
needs, and a burst costs no more syncs than the clock has ticks. Many files are synced by one call for their file
system, where there is one: each fsync costs a commit of its own. What waits is bounded: past `backlog_max` bytes
nothing more is taken, and who wanted to give it stops recording. A file that cannot be made or written is over: its
owner hears of it in the loop and begins another one later.

Between rounds it compresses and deletes what is closed, a step at a time.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import structlog
from msgspec import Struct

from dragoman.gateway.recording.keeping import Keep, compress, left, lock, sweep, sync_file_system, sync_folder
from dragoman.gateway.recording.places import Folder, Place

__all__ = ["File", "Writer"]

BACKLOG_MAX = 64 << 20  # bytes: four of the largest messages, and what half a second of a full stream makes
CLOSE_DEADLINE = 5.0  # seconds that the end waits for the disk, and for what is still to be compressed
BURST = 32 << 10  # bytes: so many are written while the processor still has them at hand
ONE_BY_ONE = 8  # files that are synced each for itself
FILE_MODE, FOLDER_MODE = 0o600, 0o700

log = structlog.get_logger("dragoman.recording")


class File:
    """One file. The thread's own, but for `failed`, which is called in the loop at most once."""

    def __init__(self, names: Callable[[], Iterator[Path]], failed: Callable[[File, OSError], None]) -> None:
        self.names = names
        self.failed = failed
        self.path: Path | None = None
        self.size = 0  # bytes of whole lines that were written
        self.lines = 0
        self.descriptor = -1
        self.over = False


class _Item(Struct):
    """Bytes for a file, None to close it."""

    file: File
    data: bytes | None
    lines: int = 0


class Writer:
    """The thread. `call` runs a function in the loop, from the thread (`loop.call_soon_threadsafe`)."""

    def __init__(
        self,
        place: Place,
        call: Callable[[Callable[[], None]], object],
        *,
        keep: Keep = Keep(),  # noqa: B008  # frozen
        packs: bool = False,
        backlog_max: int = BACKLOG_MAX,
    ) -> None:
        self.place = place
        self._call = call
        self._keep = keep
        self._packs = packs
        self._backlog_max = backlog_max
        self._backlog = 0
        self._items: list[_Item] = []
        self._wake = threading.Condition()
        self._go = False
        self._stopping = False
        self._give_up_at = float("inf")
        self._jobs: deque[Iterator[None]] = deque()
        self._open: set[File] = set()
        self._sweeping = False
        self._written: dict[File, None] = {}  # and not synced
        self._thread = threading.Thread(target=self._run, name="recordings", daemon=True)

    # -- the loop's side -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; what an earlier gateway left is compressed and swept first."""
        self._thread.start()

    def put(self, file: File, data: bytes, lines: int) -> bool:
        """Take so many whole lines; False if too much waits already."""
        with self._wake:
            if self._backlog + len(data) > self._backlog_max:
                return False
            self._backlog += len(data)
            self._items.append(_Item(file, data, lines))
            if len(data) > BURST:
                self._wake.notify()
        return True

    def go(self) -> None:
        """Write what was given."""
        with self._wake:
            self._go = True
            self._wake.notify()

    def finish(self, file: File) -> None:
        """Close a file behind what it was given."""
        with self._wake:
            self._items.append(_Item(file, None))
            self._go = True
            self._wake.notify()

    def close(self) -> bool:
        """Write and close everything, and end; blocks. False if the disk did not take it within the deadline."""
        with self._wake:
            self._stopping = True
            self._give_up_at = time.monotonic() + CLOSE_DEADLINE / 2
            self._wake.notify()
        self._thread.join(CLOSE_DEADLINE)
        return not self._thread.is_alive()

    # -- the thread's side -----------------------------------------------------------------------------

    def _run(self) -> None:
        self._jobs.append(self._tidy())
        while True:
            with self._wake:
                while not (self._go or self._items or self._jobs or self._stopping):
                    self._wake.wait()
                go, self._go = self._go, False
                items, self._items = self._items, []
                stopping = self._stopping
            self._round(items, sync=go or stopping)
            if stopping and not items:
                break
            if not items and self._jobs:
                self._step()
        for file in list(self._open):
            self._end(file)
        while self._jobs and time.monotonic() < self._give_up_at:
            self._step()

    def _round(self, items: list[_Item], *, sync: bool) -> None:
        """Write all of it, then `sync` each file that was written to since the last time, once."""
        written = self._written
        done = 0
        for item in items:
            if item.data is None:
                if item.file in written and not item.file.over:
                    self._sync([item.file])
                self._end(item.file)
                continue
            done += len(item.data)
            if not item.file.over and self._write(item.file, item.data, item.lines):
                written[item.file] = None
        if sync:
            self._written = {}
            self._sync([file for file in written if not file.over])
        with self._wake:
            self._backlog -= done

    def _write(self, file: File, data: bytes, lines: int) -> bool:
        try:
            if file.descriptor < 0:
                self._make(file)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file.descriptor, rest) :]
        except OSError as error:
            self._fail(file, error)
            return False
        file.size += len(data)
        file.lines += lines
        return True

    def _make(self, file: File) -> None:
        """Make the file under the first name that is free."""
        self.place.path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(self.place, Folder):
            self.place.path.mkdir(mode=FOLDER_MODE, exist_ok=True)
        for path in file.names():
            if path.with_name(path.name + ".zst").exists():
                continue
            try:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
                descriptor = os.open(path, flags, FILE_MODE)
            except FileExistsError:
                continue
            if not lock(descriptor):  # another gateway, tidying up, was quicker: it takes the file for a closed one
                os.close(descriptor)
                continue
            file.descriptor = descriptor
            file.path = path
            self._open.add(file)
            sync_folder(path.parent)
            log.info("recording", file=str(path))
            return
        raise FileExistsError("no name is free")

    def _sync(self, files: list[File]) -> None:
        if len(files) > ONE_BY_ONE and sync_file_system(files[0].descriptor):
            return
        for file in files:
            try:
                os.fsync(file.descriptor)
            except OSError as error:
                self._fail(file, error)

    def _fail(self, file: File, error: OSError) -> None:
        """It is over. What was written of its last lines is taken back; a file in which nothing stands is removed."""
        with contextlib.suppress(OSError):
            if file.descriptor >= 0:
                os.ftruncate(file.descriptor, file.size)
                if not file.size and file.path is not None:
                    file.path.unlink()
        self._end(file)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there to hear it
            self._call(partial(file.failed, file, error))

    def _end(self, file: File) -> None:
        file.over = True
        if file.descriptor < 0:
            return
        os.close(file.descriptor)
        file.descriptor = -1
        self._open.discard(file)
        if file.size and file.path is not None and self._packs:
            self._jobs.append(compress(file.path))
        if isinstance(self.place, Folder) and not self._sweeping:
            self._sweeping = True
            self._jobs.append(self._swept(self.place.path))

    # -- closed files ------------------------------------------------------------------------------------

    def _step(self) -> None:
        try:
            next(self._jobs[0])
        except StopIteration:
            self._jobs.popleft()
        except OSError as error:
            self._jobs.popleft()
            log.warning("recordings not tidied", cause=str(error))

    def _tidy(self) -> Iterator[None]:
        """What was left by a gateway that was killed."""
        if isinstance(self.place, Folder):
            if self._packs:
                for path in left(self.place.path):
                    yield from compress(path)
            yield from self._swept(self.place.path)

    def _swept(self, folder: Path) -> Iterator[None]:
        self._sweeping = False
        if self._keep != Keep():
            sweep(folder, self._keep)
        yield
