"""Find and remove the secrets of recordings that exist already.

A recording is read and written step by step, in order, through the redactor of live recordings. The new files replace
the old ones when all of them are complete. Lines that could not be read are not in the new files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, groupby, islice
from math import inf
from pathlib import Path

from dragoman.gateway.process.private_files import replacing
from dragoman.gateway.recording import index
from dragoman.gateway.recording.format import Header, StepLine, encode
from dragoman.gateway.recording.keeping import lock, sync_file, sync_folder
from dragoman.gateway.recording.places import ZST, part_names
from dragoman.gateway.recording.reader import Reader
from dragoman.gateway.recording.redaction.redactor import FindingCount, Redactor
from dragoman.mappings.errors import ConfigError

AT_ONCE = 1024  # steps
NOTHING: tuple[float, Iterable[StepLine]] = (inf, ())


def scan(recording: Reader, redactor: Redactor) -> list[FindingCount]:
    """Return how many secrets of which kind a recording has. The `redactor` reports each one. Nothing is written."""
    for _ in redacted(recording.steps(), redactor):
        pass
    return redactor.ledger.entries()


def redact(recording: Reader, redactor: Redactor, out: Path | None = None) -> list[FindingCount]:
    """Write a recording without its secrets, to a new file `out` or in place. Return the counts of removed secrets.

    In place, it is compressed if it was before; otherwise if the name `out` ends in .zst. Further parts stand beside
    `out`. Raise ConfigError if the old one is still being written, or `out` exists. Raise OSError if the new one cannot
    be written; the old one is unchanged then.
    """
    if out is not None and not out.name:
        raise ConfigError(f"{out} is a folder: name a new file")
    # The target of a symbolic link is replaced, not the link.
    sources = [Path(os.path.realpath(part.path)) for part in recording.parts]
    targets = sources if out is None else list(part_names(out, [part.header.part for part in recording.parts]))
    for target in targets if out is not None else ():
        if target.exists():
            raise ConfigError(f"{target} exists already and is not overwritten: name a new file")
    with ExitStack() as stack:
        held = [stack.enter_context(source.open("rb")) for source in sources]
        if not all(lock(file.fileno()) for file in held):
            raise ConfigError(f"{recording.path} is still being recorded: redact it when its session is over")
        files = [stack.enter_context(replacing(target, draft=str(os.getpid()))) for target in targets]
        steps = _by_part(recording, chain.from_iterable(redacted(recording.steps(), redactor)))
        for file, part, old, some in zip(files, recording.parts, held, steps, strict=True):
            packed = part.compressed if out is None else out.suffix == ZST
            file.writelines(recording_bytes(part.header, some, compressed=packed))
            sync_file(file, os.fstat(old.fileno()))
    sync_folder(targets[0].parent)
    return redactor.ledger.entries()


def _by_part(recording: Reader, steps: Iterable[StepLine]) -> Iterator[Iterable[StepLine]]:
    """Yield the steps of each part: one redactor sees all steps, and each step stays in its part."""
    groups = groupby(steps, key=lambda step: recording.part_of(step.seq))
    first, some = next(groups, NOTHING)
    for number in range(len(recording.parts)):
        if number < first:
            yield ()
        else:
            yield some
            first, some = next(groups, NOTHING)


def recording_bytes(header: Header, steps: Iterable[StepLine], *, compressed: bool) -> Iterator[bytes]:
    """Yield the bytes of a file with these steps."""
    lines = (encode(line) + b"\n" for line in chain[Header | StepLine]([header], steps))
    return index.compressed(lines) if compressed else lines


def redacted(steps: Iterable[StepLine], redactor: Redactor) -> Iterator[list[StepLine]]:
    """Yield the steps without their secrets, in lists."""
    source = iter(steps)
    while some := list(islice(source, AT_ONCE)):
        yield redactor.feed(some)
    yield redactor.finish()
