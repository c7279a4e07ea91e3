"""What becomes of recordings that are closed: compressed, and the oldest deleted past a bound.

Whoever writes a file holds a lock on it, which ends with its process however that ends. So a gateway that starts finds
what one that was killed left behind, and two gateways may share a folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import structlog
from msgspec import Struct

from dragoman.gateway.recording import blocks
from dragoman.gateway.recording.places import OURS, ZST

__all__ = ["Keep", "compress", "left", "lock", "sweep", "sync_file_system", "sync_folder"]

MODE = 0o600

log = structlog.get_logger("dragoman.recording")


class Keep(Struct, frozen=True, kw_only=True):
    """How much of a folder is kept: files, seconds since their last change, bytes of all. None is no bound."""

    count: int | None = None
    age: float | None = None
    bytes: int | None = None


def lock(descriptor: int) -> bool:
    """Hold an open file as its writer, or for a while; False if somebody else does."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def left(folder: Path) -> Iterator[Path]:
    """Plain files that nobody writes any more."""
    for path in sorted(_ours(folder)):
        if path.suffix != ZST and _is_free(path):
            yield path


def compress(path: Path) -> Generator[None, None, None]:
    """Put `path`.zst in the place of `path`, a step at a time; what cannot be compressed stays as it is."""
    packed = path.with_name(path.name + ZST)
    draft = path.with_name(f".{packed.name}.{os.getpid()}")
    try:
        before = path.stat()
        with path.open("rb") as plain, open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, MODE), "wb") as file:
            if not lock(plain.fileno()):
                raise BlockingIOError("somebody writes it")
            for block in blocks.compressed(plain):
                file.write(block)
                yield
            file.flush()
            os.fsync(file.fileno())
        os.utime(draft, ns=(before.st_atime_ns, before.st_mtime_ns))
        draft.rename(packed)
        sync_folder(path.parent)
        path.unlink()
    except OSError as error:
        log.warning("recording not compressed", file=str(path), cause=str(error))
    finally:
        draft.unlink(missing_ok=True)


def sweep(folder: Path, keep: Keep) -> list[Path]:
    """Delete the oldest files that nobody writes until what is left is within `keep`; what was deleted."""
    known = []
    for path in _ours(folder):
        with contextlib.suppress(FileNotFoundError):
            stat = path.stat()
            known.append((stat.st_mtime, path, stat.st_size))
    known.sort()
    count, size, now = len(known), sum(size for _, _, size in known), time.time()
    deleted = []
    for changed, path, own in known:
        too_many = keep.count is not None and count > keep.count
        too_large = keep.bytes is not None and size > keep.bytes
        too_old = keep.age is not None and now - changed > keep.age
        if not (too_many or too_large or too_old):
            continue
        if _is_free(path):
            path.unlink(missing_ok=True)
            deleted.append(path)
            count, size = count - 1, size - own
    if deleted:
        log.info("old recordings deleted", folder=str(folder), count=len(deleted))
    return deleted


def sync_folder(folder: Path) -> None:
    """A new name is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(descriptor: int) -> bool:
    """All that was written on the file system of an open file is on the disk; False where that cannot be asked for."""
    if _SYNCFS is None:
        return False
    return bool(_SYNCFS(descriptor) == 0)


def _syncfs() -> Callable[[int], int] | None:
    """Linux has it, and its C library; Python does not."""
    try:
        return ctypes.CDLL(None).syncfs
    except (OSError, AttributeError):
        return None


_SYNCFS = _syncfs()


def _ours(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if OURS.fullmatch(path.name)]
    except FileNotFoundError:
        return []


def _is_free(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return lock(descriptor)
    finally:
        os.close(descriptor)
