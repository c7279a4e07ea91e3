"""The thread that writes recordings: one for the app, so that a slow disk never delays traffic.

The event loop queues bytes of whole lines. When it calls `flush`, the thread writes all that is queued, syncs the files
that it wrote to, and looks at the queue again. So queued bytes are on the disk after one round, and a burst costs few
syncs. Many files are synced by one call for their file system, where there is one, because each fsync costs a commit of
its own. The queue is bounded: past `backlog_max` bytes nothing more is taken, and the recorder stops recording. A file
that cannot be created or written is closed; its recorder is called in the loop, and begins another file later.

Between rounds the thread lets the Keeper compress and delete closed files, a step at a time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import structlog

from dragoman.gateway.config.model import Recording
from dragoman.gateway.process.private_files import make_folder
from dragoman.gateway.process.runtime import run_in_background
from dragoman.gateway.recording.keeping import Keeper, lock, sync_file_system, sync_folder
from dragoman.gateway.recording.places import Place

BACKLOG_MAX = 64 << 20  # bytes: four of the largest messages, and half a second of a stream at full speed
CLOSE_DEADLINE = 5.0  # seconds that `close` waits for the disk, and for files that are still to be compressed
BURST = 32 << 10  # bytes: written at once, while they are in the processor's cache
ONE_BY_ONE = 8  # files that are synced one by one
FILE_MODE = 0o600

log = structlog.get_logger("dragoman.recording")


class OutputFile:
    """A file that is being written. Only the thread uses it; `failed` is called in the loop, at most once.

    A recording and its file refer to each other until the file is closed.
    """

    __slots__ = ("descriptor", "failed", "lines", "names", "over", "path", "size")

    def __init__(self, names: Callable[[], Iterator[Path]], failed: Callable[[OutputFile, OSError], None]) -> None:
        self.names = names
        self.failed = failed
        self.path: Path | None = None
        self.size = 0  # bytes of whole lines that were written
        self.lines = 0
        self.descriptor = -1
        self.over = False


QueuedBytes = tuple[OutputFile, bytes | OSError | None, int]
"""Bytes for a file with so many whole lines, the reason why the file fails, or None to close it."""


class Writer:
    """The thread. `call` runs a function in the loop, from the thread (`loop.call_soon_threadsafe`)."""

    def __init__(
        self,
        place: Place,
        call: Callable[[Callable[[], None]], object],
        wanted: Recording,
        *,
        backlog_max: int = BACKLOG_MAX,
    ) -> None:
        self.place = place
        self.rotate_bytes = wanted.rotate_bytes
        """A file of so many bytes is followed by a further part; 0 means never."""
        self._call = call
        self._keeper = Keeper(place, wanted)
        self._backlog_max = backlog_max
        self.backlog = 0
        """Bytes that are queued and not yet written."""
        self.bytes_written = 0
        self.failure: tuple[str, float] | None = None
        """The reason why a file could not be written last, and the time (seconds of `time.monotonic`)."""
        self._queue: list[QueuedBytes] = []
        self._wake = threading.Condition()
        self._flush = False
        self._stopping = False
        self._give_up_at = float("inf")
        self._open: set[OutputFile] = set()
        self._unsynced: dict[OutputFile, None] = {}
        self._new_in: Path | None = None
        """The folder with new names that are not synced yet."""
        self._thread = threading.Thread(target=self._run, name="recordings", daemon=True)

    # -- called in the loop ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread. It first compresses and sweeps what an earlier gateway left."""
        self._thread.start()

    def put(self, file: OutputFile, data: bytes, lines: int) -> bool:
        """Queue bytes of whole lines. Return False if too many bytes wait already."""
        with self._wake:
            if self.backlog + len(data) > self._backlog_max:
                return False
            self.backlog += len(data)
            self._queue.append((file, data, lines))
            if len(data) > BURST:
                self._wake.notify()
        return True

    def discard(self) -> None:
        """Drop the queued bytes to free memory. Their files fail, and the recorders count the lost items."""
        failure = OSError(errno.ENOMEM, "memory is short (`memory`)")
        with self._wake:
            queue, self._queue = self._queue, []
            failed = dict.fromkeys(file for file, data, _ in queue if isinstance(data, bytes))
            self.backlog -= sum(len(data) for _, data, _ in queue if isinstance(data, bytes))
            self._queue += [(file, failure, 0) for file in failed]
            self._queue += [one for one in queue if not isinstance(one[1], bytes)]
            self._wake.notify()

    def flush(self) -> None:
        """Let the thread write and sync what is queued."""
        with self._wake:
            self._flush = True
            self._wake.notify()

    def finish(self, file: OutputFile) -> None:
        """Close a file after the bytes that are queued for it."""
        with self._wake:
            self._queue.append((file, None, 0))
            self._flush = True
            self._wake.notify()

    def close(self) -> bool:
        """Write and close everything, and end the thread; blocks. Return False if the disk took longer than allowed."""
        with self._wake:
            self._stopping = True
            self._give_up_at = time.monotonic() + CLOSE_DEADLINE / 2
            self._wake.notify()
        self._thread.join(CLOSE_DEADLINE)
        return not self._thread.is_alive()

    # -- the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        run_in_background()
        keeper = self._keeper
        while True:
            with self._wake:
                while not (self._flush or self._queue or keeper.busy or self._stopping):
                    self._wake.wait(keeper.idle_seconds)
                flush, self._flush = self._flush, False
                queue, self._queue = self._queue, []
                stopping = self._stopping
            self._round(queue, sync=flush or stopping)
            if stopping and not queue:
                break
            if not queue and keeper.busy:
                keeper.step()
        for file in list(self._open):
            self._end(file)
        while keeper.busy and time.monotonic() < self._give_up_at:
            keeper.step()

    def _round(self, queue: list[QueuedBytes], *, sync: bool) -> None:
        """Write all queued bytes. With `sync`, then sync each file that was written since the last sync."""
        unsynced = self._unsynced
        done = 0
        for file, data, lines in queue:
            if data is None:
                if file in unsynced and not file.over:
                    self._sync([file])
                self._end(file)
                continue
            if isinstance(data, OSError):
                if not file.over:
                    self._fail(file, data)
                continue
            done += len(data)
            if not file.over and self._write(file, data, lines):
                unsynced[file] = None
        if sync:
            self._unsynced = {}
            self._sync([file for file in unsynced if not file.over])
        with self._wake:
            self.backlog -= done

    def _write(self, file: OutputFile, data: bytes, lines: int) -> bool:
        try:
            if file.descriptor < 0:
                self._create(file)
            else:
                _check_kept(file)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file.descriptor, rest) :]
        except OSError as error:
            self._fail(file, error)
            return False
        file.size += len(data)
        file.lines += lines
        self.bytes_written += len(data)
        return True

    def _create(self, file: OutputFile) -> None:
        """Create the file under the first name that is free."""
        make_folder(self.place.folder)
        for path in file.names():
            if path.with_name(path.name + ".zst").exists():
                continue
            try:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
                descriptor = os.open(path, flags, FILE_MODE)
            except FileExistsError:
                continue
            if not lock(descriptor):  # another gateway's Keeper locked it first, and takes it for a closed file
                os.close(descriptor)
                continue
            file.descriptor = descriptor
            file.path = path
            self._open.add(file)
            self._new_in = path.parent
            log.info("recording", file=str(path))
            return
        raise FileExistsError("no name is free")

    def _sync(self, files: list[OutputFile]) -> None:
        """Flush files to the disk, and the folder if it has new names."""
        new_in, self._new_in = self._new_in, None
        if len(files) > ONE_BY_ONE and sync_file_system(files[0].descriptor):
            return
        for file in files:
            try:
                if new_in is not None:
                    sync_folder(new_in)
                    new_in = None
                os.fsync(file.descriptor)
            except OSError as error:
                self._fail(file, error)

    def _fail(self, file: OutputFile, error: OSError) -> None:
        """Close a file that cannot be written. Remove the torn end of it, or the file if it is empty."""
        self.failure = error.strerror or str(error), time.monotonic()
        with contextlib.suppress(OSError):
            if file.descriptor >= 0:
                os.ftruncate(file.descriptor, file.size)
                if not file.size and file.path is not None:
                    file.path.unlink()
        failed = file.failed
        self._end(file)
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the recorder with it
            self._call(partial(failed, file, error))

    def _end(self, file: OutputFile) -> None:
        if file.over:
            return
        file.over = True
        del file.names, file.failed
        if file.descriptor < 0:
            return
        with contextlib.suppress(OSError):  # an error of NFS: synced data is kept, and the descriptor is closed
            os.close(file.descriptor)
        file.descriptor = -1
        self._open.discard(file)
        self._keeper.add_closed(file.path if file.size else None)


def _check_kept(file: OutputFile) -> None:
    """Raise OSError if the open file was deleted, or cut, as logrotate does with `copytruncate`.

    What is written to a deleted file would be lost without an error.
    """
    kept = os.fstat(file.descriptor)
    if not kept.st_nlink:
        raise OSError(errno.ENOENT, "the file was deleted while it was written")
    if kept.st_size < file.size:
        file.size = kept.st_size
        raise OSError(errno.EIO, "the file was cut while it was written")
