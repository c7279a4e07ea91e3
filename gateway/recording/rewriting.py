"""Recordings that exist already: what secrets are in them, and the same recordings without.

A recording is read and written line by line, in their order, through the redactor that live recordings go through. The
new files take the places of the old when all of them are whole; what of the old could not be read is not in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path

from dragoman.gateway.recording import index
from dragoman.gateway.recording.format import Header, Item, encode, packed
from dragoman.gateway.recording.keeping import lock, sync_folder
from dragoman.gateway.recording.places import ZST, part_names
from dragoman.gateway.recording.reader import Reader
from dragoman.gateway.recording.redaction import FindingCount, Redactor
from dragoman.mappings.errors import ConfigError

__all__ = ["redact", "redacted", "scan"]

AT_ONCE = 1024  # lines
MODE = 0o600


def scan(recording: Reader, redactor: Redactor) -> list[FindingCount]:
    """What secrets are in a recording; `redactor` tells each by itself. Nothing is written."""
    for _ in redacted(recording.items(), redactor):
        pass
    return redactor.ledger.entries()


def redact(recording: Reader, redactor: Redactor, out: Path | None = None) -> list[FindingCount]:
    """Write a recording without its secrets, to a new file `out` or in its own place; what was taken out.

    It is compressed as the old one is, `out` by its name; further parts of it stand beside `out`. ConfigError if the
    old one is still being written, or `out` exists; OSError if it cannot be written, and then the old one is as it was.
    """
    sources = [part.path.resolve() for part in recording.parts]  # what a link leads to is replaced, not the link
    targets = sources if out is None else list(part_names(out, [part.header.part for part in recording.parts]))
    drafts = [target.with_name(f".{target.name}.{os.getpid()}") for target in targets]
    for target in targets if out is not None else ():
        if target.exists():
            raise ConfigError(f"{target} exists already, and a recording overwrites nothing: name a new file")
    with ExitStack() as stack:
        held = [stack.enter_context(source.open("rb")) for source in sources]
        if not all(lock(file.fileno()) for file in held):
            raise ConfigError(f"{recording.path} is still being recorded: redact it when its session is over")
        try:
            for draft, packs, lines in zip(drafts, _packs(recording, out), _written(recording, redactor), strict=True):
                with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, MODE), "wb") as file:
                    file.writelines(index.compressed(lines) if packs else lines)
                    file.flush()
                    os.fsync(file.fileno())
            for draft, target, old in zip(drafts, targets, held, strict=True):
                before = os.fstat(old.fileno())
                os.utime(draft, ns=(before.st_atime_ns, before.st_mtime_ns))  # by which the oldest are swept
                draft.rename(target)
            sync_folder(targets[0].parent)
        finally:
            for draft in drafts:
                draft.unlink(missing_ok=True)
    return redactor.ledger.entries()


def _packs(recording: Reader, out: Path | None) -> list[bool]:
    """Which of the new files are compressed."""
    return [part.compressed if out is None else out.suffix == ZST for part in recording.parts]


def _written(recording: Reader, redactor: Redactor) -> Iterator[Iterator[bytes]]:
    """The lines of each new file, each with its newline: one redactor sees them all, and each stays in its part."""
    pieces = groupby(_pieces(recording, redactor), key=itemgetter(0))
    number, some = next(pieces, (-1, iter(())))
    for place, part in enumerate(recording.parts):
        mine = some if number == place else iter(())
        yield _file(part.header, mine)
        if number == place:
            number, some = next(pieces, (-1, iter(())))


def _file(header: Header, pieces: Iterable[tuple[int, list[Item]]]) -> Iterator[bytes]:
    yield encode(header) + b"\n"
    for _, items in pieces:
        for step in packed(items):
            yield encode(step) + b"\n"


def _pieces(recording: Reader, redactor: Redactor) -> Iterator[tuple[int, list[Item]]]:
    """Some lines at a time, with the number of the part in which they stand."""
    for lines in redacted(recording.items(), redactor):
        for number, some in groupby(lines, key=lambda line: recording.part_of(line.seq)):
            yield number, list(some)


def redacted(lines: Iterable[Item], redactor: Redactor) -> Iterator[list[Item]]:
    """Lines without their secrets, some at a time."""
    source = iter(lines)
    while some := list(islice(source, AT_ONCE)):
        yield redactor.feed(some)
    yield redactor.finish()
