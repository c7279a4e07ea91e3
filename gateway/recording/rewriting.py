"""Recordings that exist already: what secrets are in them, and the same recordings without.

A file is read and written line by line, in their order, through the redactor that live recordings go through. The new
one takes the place of the old at once when it is whole; what of the old could not be read is not in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from msgspec import structs

from gateway.recording import blocks
from gateway.recording.format import VERSION, Line, encode, encode_lines
from gateway.recording.keeping import ZST, lock, sync_folder
from gateway.recording.reader import Recording
from gateway.recording.redaction import Entry, Redactor
from mappings.errors import ConfigError

__all__ = ["redact", "redacted", "scan"]

AT_ONCE = 1024  # lines
MODE = 0o600


def scan(recording: Recording, redactor: Redactor) -> list[Entry]:
    """What secrets are in a recording; `redactor` tells each by itself. Nothing is written."""
    for _ in redacted(recording.lines(), redactor):
        pass
    return redactor.ledger.entries()


def redact(recording: Recording, redactor: Redactor, out: Path | None = None) -> list[Entry]:
    """Write a recording without its secrets, to a new file `out` or in its own place; what was taken out.

    It is compressed as the old one is, `out` by its name. ConfigError if the old one is still being written, or `out`
    exists; OSError if it cannot be written, and then the old one is as it was.
    """
    source = recording.path.resolve()  # what a link leads to is replaced, not the link
    target = source if out is None else out
    if out is not None and out.exists():
        raise ConfigError(f"{out} exists already, and a recording overwrites nothing: name a new file")
    packs = recording.compressed if out is None else out.suffix == ZST
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    with source.open("rb") as held:
        if not lock(held.fileno()):
            raise ConfigError(f"{recording.path} is still being recorded: redact it when its session is over")
        before = os.fstat(held.fileno())
        try:
            with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, MODE), "wb") as file:
                lines = _written(recording, redactor)
                file.writelines(blocks.compressed(lines) if packs else lines)
                file.flush()
                os.fsync(file.fileno())
            os.utime(draft, ns=(before.st_atime_ns, before.st_mtime_ns))  # by which the oldest are swept
            draft.rename(target)
            sync_folder(target.parent)
        finally:
            draft.unlink(missing_ok=True)
    return redactor.ledger.entries()


def _written(recording: Recording, redactor: Redactor) -> Iterator[bytes]:
    """The lines of the new file, each with its newline."""
    yield encode(structs.replace(recording.header, version=VERSION)) + b"\n"
    for lines in redacted(recording.lines(), redactor):
        yield from encode_lines(lines).splitlines(keepends=True)


def redacted(lines: Iterable[Line], redactor: Redactor) -> Iterator[list[Line]]:
    """Lines without their secrets, some at a time."""
    source = iter(lines)
    while some := list(islice(source, AT_ONCE)):
        yield redactor.feed(some)
    yield redactor.finish()
