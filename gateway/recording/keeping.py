"""Compress closed recordings, and delete the oldest ones above a limit.

The writer of a file holds a lock on it, which ends with its process however that ends. So a gateway that starts finds
what a killed one left behind, and two gateways may share a folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import math
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import structlog

from dragoman.gateway.config.model import Recording
from dragoman.gateway.process.private_files import replacing
from dragoman.gateway.public_reason import full_reason
from dragoman.gateway.recording import index
from dragoman.gateway.recording.format import LINE_MAX
from dragoman.gateway.recording.places import OURS, ZST, Folder, Place

SWEEP_INTERVAL = 600.0  # seconds between two checks for files that are too old: a folder may have thousands

log = structlog.get_logger("dragoman.recording")


class Keeper:
    """Compresses and deletes closed recordings by the options `wanted`, in steps between which the thread can write.

    With `keep_age` it also checks at intervals, because files become too old while none is closed.
    """

    def __init__(self, place: Place, wanted: Recording) -> None:
        self._folder = place.folder if isinstance(place, Folder) else None
        self._wanted = wanted
        self._jobs: deque[Iterator[None]] = deque()
        self._will_sweep = False
        self._sweep_at = math.inf
        if self._folder is not None and wanted.compress:
            self._jobs.append(compress_left_files(self._folder))
        self.add_closed(None)

    @property
    def busy(self) -> bool:
        """Return True if there is a step to do."""
        return bool(self._jobs) or time.monotonic() >= self._sweep_at

    @property
    def idle_seconds(self) -> float | None:
        """Return the seconds until there is a step to do, None if nothing is planned."""
        return None if self._sweep_at == math.inf else self._sweep_at - time.monotonic()

    def add_closed(self, path: Path | None) -> None:
        """Compress a closed file, then delete the oldest recordings above the limits. Without `path` only delete."""
        if path is not None and self._wanted.compress:
            self._jobs.append(compress(path))
        if self._folder is not None and not self._will_sweep:
            self._will_sweep = True
            self._jobs.append(self._sweep(self._folder))

    def step(self) -> None:
        """Do one step of the oldest job: compress a piece of a file, or delete files."""
        if not self._jobs:
            self.add_closed(None)
        try:
            next(self._jobs[0])
        except StopIteration:
            self._jobs.popleft()
        except OSError as error:
            self._jobs.popleft()
            log.warning("cannot compress or delete old recordings", cause=full_reason(error))

    def _sweep(self, folder: Path) -> Iterator[None]:
        self._will_sweep = False
        wanted = self._wanted
        if wanted.keep_age is not None:
            self._sweep_at = time.monotonic() + min(wanted.keep_age, SWEEP_INTERVAL)
        if (wanted.keep_count, wanted.keep_age, wanted.keep_bytes) != (None, None, None):
            sweep(folder, wanted)
        yield


def lock(descriptor: int) -> bool:
    """Lock an open file. Return False if another process has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def left_files(folder: Path) -> Iterator[Path]:
    """Return the plain recordings that no process writes any more."""
    for path in sorted(_recordings_in(folder)):
        try:
            is_left = path.suffix != ZST and _is_free(path)
        except OSError:
            is_left = True  # `compress` reports the error
        if is_left:
            yield path


def compress_left_files(folder: Path) -> Iterator[None]:
    """Compress the files that a killed gateway left. Yield after each step."""
    for path in left_files(folder):
        yield from compress(path)


def compress(path: Path) -> Generator[None, None, None]:
    """Replace `path` by `path`.zst, and yield after each step. A file that cannot be compressed is not changed.

    A reload may give a folder two keepers for a time. The one that locks the file compresses it.
    """
    try:
        with path.open("rb") as plain:
            if lock(plain.fileno()):
                yield from _compress_locked(path, plain)
    except FileNotFoundError:
        log.debug("the recording was deleted before it was compressed", file=str(path))  # by the limits, or by hand
    except OSError as error:
        log.warning("cannot compress the recording", file=str(path), cause=full_reason(error))


def _compress_locked(path: Path, plain: BinaryIO) -> Generator[None, None, None]:
    before = path.stat()
    packed = path.with_name(path.name + ZST)
    with replacing(packed) as file:
        for block in index.compressed(iter(partial(plain.readline, LINE_MAX), b"")):
            file.write(block)
            yield
        sync_file(file, before)
    sync_folder(path.parent)
    try:
        path.unlink()
    except OSError:  # it cannot be deleted, or was deleted meanwhile: it must not exist twice, nor come back
        packed.unlink(missing_ok=True)
        raise


def sweep(folder: Path, wanted: Recording) -> list[Path]:
    """Delete the oldest closed recordings until the rest is within the limits. Return what was deleted.

    The limits are a number of files, seconds since their last change, and bytes of all of them.
    """
    known = []
    for path in _recordings_in(folder):
        with contextlib.suppress(FileNotFoundError):
            stat = path.stat()
            known.append((stat.st_mtime, path, stat.st_size))
    known.sort()
    count, size, now = len(known), sum(size for _, _, size in known), time.time()
    deleted: list[Path] = []
    refused: list[OSError] = []
    for changed, path, own in known:
        too_many = wanted.keep_count is not None and count > wanted.keep_count
        too_large = wanted.keep_bytes is not None and size > wanted.keep_bytes
        too_old = wanted.keep_age is not None and now - changed > wanted.keep_age
        if not (too_many or too_large or too_old):
            continue
        try:
            if _is_free(path):
                path.unlink(missing_ok=True)
                deleted.append(path)
                count, size = count - 1, size - own
        except FileNotFoundError:
            continue  # another keeper has deleted it meanwhile
        except OSError as error:  # another user's file, or one that cannot be changed
            refused.append(error)
    if refused:
        log.warning("cannot delete old recordings", count=len(refused), cause=full_reason(refused[0]))
    if deleted:
        log.info("old recordings deleted", folder=str(folder), count=len(deleted))
    return deleted


def sync_file(file: BinaryIO, before: os.stat_result) -> None:
    """Flush a new file to the disk, with the times of the file that it replaces: the oldest files are deleted first."""
    file.flush()
    os.fsync(file.fileno())
    os.utime(file.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))


def sync_folder(folder: Path) -> None:
    """Flush a folder to the disk, so that a new name in it survives a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(descriptor: int) -> bool:
    """Flush the file system of an open file to the disk. Return False where the system has no such call."""
    return _SYNCFS is not None and _SYNCFS(descriptor) == 0


def _syncfs() -> Callable[[int], int] | None:
    """Return syncfs of the C library. Linux has it, Python does not."""
    try:
        return ctypes.CDLL(None).syncfs
    except (OSError, AttributeError):
        return None


_SYNCFS = _syncfs()


def _recordings_in(folder: Path) -> list[Path]:
    """Return the regular files with names of recordings.

    A named pipe would block the thread that writes all recordings.
    """
    try:
        return [path for path in folder.iterdir() if OURS.fullmatch(path.name) and path.is_file()]
    except FileNotFoundError:
        return []


def _is_free(path: Path) -> bool:
    """Return True if no process writes a file; raise OSError if it cannot be read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return lock(descriptor)
    finally:
        os.close(descriptor)
