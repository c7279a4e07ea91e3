"""What a recording lacked, added to it: the turns of a live backend, from the recordings of the sessions that had them.

`dragoman replay --mode record-missing` records its sessions beside the file, with redaction and all, as any session is
recorded. In those recordings only the live backend was asked anything (link UP): each such input, and all that
followed it until the next one, goes to the end of the file, numbered and timed on. A file only ever grows.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import structs

from dragoman.gateway.recording.format import encode_lines, packed
from dragoman.gateway.recording.lines import UP, EventLine, Line
from dragoman.gateway.recording.reader import open_recording
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.errors import ConfigError

__all__ = ["append_missing", "check_appendable", "keep_missing", "missing", "missing_folder"]

PAUSE = 1_000_000  # µs between what was recorded and what is added


def check_appendable(path: Path) -> Path:
    """The file of a recording at whose end something can be added; ConfigError says what to do where there is none."""
    last = open_recording(path).parts[-1]
    if last.compressed:
        raise ConfigError(
            f"{last.path} is compressed, and nothing can be added to it: unpack it, `zstd -d {last.path}`"
        )
    if not os.access(last.path, os.W_OK):
        raise ConfigError(f"{last.path} cannot be written: nothing could be added to it")
    return last.path


def missing_folder(path: Path) -> Path:
    """Where the sessions of a replay are recorded meanwhile. What a killed one left there is added by the next."""
    return path.with_name(f"{path.name}.missing")


def keep_missing(path: Path) -> int:
    """Add what the sessions brought, and take their recordings away; how many turns."""
    folder = missing_folder(path)
    if not folder.is_dir():
        return 0
    made = sorted(folder.glob("*.jsonl"))
    count = append_missing(path, made)
    for other in made:
        other.unlink()
    with contextlib.suppress(OSError):  # somebody else keeps something there
        folder.rmdir()
    return count


def missing(made: Iterable[Line]) -> Iterator[list[Line]]:
    """The turns of a session's recording that a live backend was asked for, each with the client's own words."""
    turn: list[Line] = []
    asked = False
    for line in made:
        command = line.command if isinstance(line, EventLine) else None
        if isinstance(command, SubmitInput) and isinstance(line, EventLine) and line.link != UP:
            if asked:
                yield turn
            turn, asked = [], False
        elif isinstance(command, SubmitInput) and turn:
            asked = True
        if turn or isinstance(command, SubmitInput):
            turn.append(line)
    if asked:
        yield turn


def append_missing(path: Path, made: Iterable[Path]) -> int:
    """Add what a recording lacks from the recordings of sessions; how many turns. OSError if it cannot be written."""
    seq, t, position, dialled = _end(path)
    count = 0
    with path.open("ab+") as file:
        if not _whole(path):
            file.write(b"\n")  # what is torn stays a line of its own, which readers pass over
        for other in sorted(made):
            for turn in missing(open_recording(other).lines()):
                lines = [line for line in turn if dialled or not _of_backend(line)]
                begun = turn[0].t
                added = []
                for line in lines:
                    seq += 1
                    new = structs.replace(line, seq=seq, t=t + PAUSE + line.t - begun)
                    if isinstance(new, EventLine):
                        new = structs.replace(new, cursor=f"1:{position}")
                        position += new.logged
                    added.append(new)
                file.write(encode_lines(packed(added)))
                t = added[-1].t
                count += 1
        file.flush()
        os.fsync(file.fileno())
    return count


def _end(path: Path) -> tuple[int, int, int, bool]:
    """Seq and time of the last line, the next place in the log, and whether what backends were asked is recorded."""
    seq = t = position = 0
    dialled = False
    for line in open_recording(path).lines():
        seq, t = line.seq, line.t
        dialled = dialled or _of_backend(line)
        position += isinstance(line, EventLine) and line.logged
    return seq, t, position, dialled


def _of_backend(line: Line) -> bool:
    return isinstance(line, EventLine) and line.command is not None and line.link == UP


def _whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
