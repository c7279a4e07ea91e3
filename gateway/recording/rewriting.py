"""Find and remove the secrets of recordings that exist already.

A recording is read and written step by step, in order, through the redactor of live recordings. The new files replace
the old ones when all of them are complete. Lines that could not be read are not in the new files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby, islice
from pathlib import Path

from dragoman.gateway.recording import index
from dragoman.gateway.recording.format import StepLine, encode, encode_lines
from dragoman.gateway.recording.keeping import lock, new_file, sync_folder
from dragoman.gateway.recording.places import ZST, part_names
from dragoman.gateway.recording.reader import Reader
from dragoman.gateway.recording.redaction.redactor import FindingCount, Redactor
from dragoman.mappings.errors import ConfigError

AT_ONCE = 1024  # steps


def scan(recording: Reader, redactor: Redactor) -> list[FindingCount]:
    """Return how many secrets of which kind a recording has. The `redactor` reports each one. Nothing is written."""
    for _ in redacted(recording.steps(), redactor):
        pass
    return redactor.ledger.entries()


def redact(recording: Reader, redactor: Redactor, out: Path | None = None) -> list[FindingCount]:
    """Write a recording without its secrets, to a new file `out` or in its own place. Return what was removed.

    In its own place it is compressed if it was, else if the name `out` says so. Further parts stand beside `out`. Raise
    ConfigError if the old one is still being written, or `out` exists. Raise OSError if the new one cannot be written;
    the old one is unchanged then.
    """
    # The target of a symbolic link is replaced, not the link.
    sources = [Path(os.path.realpath(part.path)) for part in recording.parts]
    targets = sources if out is None else list(part_names(out, [part.header.part for part in recording.parts]))
    drafts = [target.with_name(f".{target.name}.{os.getpid()}") for target in targets]
    for target in targets if out is not None else ():
        if target.exists():
            raise ConfigError(f"{target} exists already and is not overwritten: name a new file")
    with ExitStack() as stack:
        held = [stack.enter_context(source.open("rb")) for source in sources]
        if not all(lock(file.fileno()) for file in held):
            raise ConfigError(f"{recording.path} is still being recorded: redact it when its session is over")
        try:
            _write_drafts(recording, redactor, drafts)
            for draft, part in zip(drafts, recording.parts, strict=True):
                if part.compressed if out is None else out.suffix == ZST:
                    _compress_draft(draft)
            for draft, target, old in zip(drafts, targets, held, strict=True):
                before = os.fstat(old.fileno())
                os.utime(draft, ns=(before.st_atime_ns, before.st_mtime_ns))  # by this time the oldest are deleted
                draft.rename(target)
            sync_folder(targets[0].parent)
        finally:
            for draft in drafts:
                draft.unlink(missing_ok=True)
    return redactor.ledger.entries()


def _write_drafts(recording: Reader, redactor: Redactor, drafts: Sequence[Path]) -> None:
    """Write each part of the recording, plain. One redactor sees all steps, and each step stays in its part."""
    with ExitStack() as stack:
        files = [stack.enter_context(new_file(draft)) for draft in drafts]
        for file, part in zip(files, recording.parts, strict=True):
            file.write(encode(part.header) + b"\n")
        for steps in redacted(recording.steps(), redactor):
            for number, some in groupby(steps, key=lambda step: recording.part_of(step.seq)):
                files[number].write(encode_lines(some))


def _compress_draft(draft: Path) -> None:
    plain = draft.with_name(f"{draft.name}.plain")
    draft.rename(plain)
    try:
        with plain.open("rb") as lines, new_file(draft) as file:
            file.writelines(index.compressed(lines))
    finally:
        plain.unlink()


def redacted(steps: Iterable[StepLine], redactor: Redactor) -> Iterator[list[StepLine]]:
    """Return steps without their secrets, some at a time."""
    source = iter(steps)
    while some := list(islice(source, AT_ONCE)):
        yield redactor.feed(some)
    yield redactor.finish()
