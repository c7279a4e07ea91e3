"""Add the turns of a live backend to the recording that lacks them (`dragoman replay --mode record-missing`).

The command records its sessions into a folder beside the file, redacted like any session. Only the live backend was
asked anything there (link UP). So each input to it, with everything up to the next input, is appended to the file, with
the seq, time and cursor counted on. The lines of a file are never changed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from msgspec import structs

from dragoman.gateway.recording.format import UP, CommandLine, EventLine, FrameLine, Line, encode_lines, packed
from dragoman.gateway.recording.reader import Reader, Report, open_recording, recordings_in
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.errors import ConfigError

PAUSE = 1_000_000  # µs between a recorded turn and an added one


def check_appendable(path: Path) -> Path:
    """Return the last file of a recording, which can be appended to; raise ConfigError if it cannot."""
    last = open_recording(path).parts[-1]
    if last.compressed:
        raise ConfigError(
            f"{last.path} is compressed, and nothing can be added to it: unpack it, `zstd -d {last.path}`"
        )
    if not os.access(last.path, os.W_OK):
        raise ConfigError(f"{last.path} cannot be written: nothing could be added to it")
    return last.path


def missing_folder(path: Path) -> Path:
    """Return the folder for the sessions of a replay.

    If a replay is killed, the next one adds the turns in this folder.
    """
    return path.with_name(f"{path.name}.missing")


def keep_missing(path: Path, report: Report) -> int:
    """Append the live turns of the sessions, and delete the recordings of the sessions; return the number of turns.

    A recording that cannot be read is passed over, and `report` is called with the reason.
    """
    folder = missing_folder(path)
    if not folder.is_dir():
        return 0
    made = list(recordings_in(folder, report))
    count = append_missing(path, made)
    for part in chain.from_iterable(recording.parts for recording in made):
        part.path.unlink()
    with contextlib.suppress(OSError):  # the folder has other files
        folder.rmdir()
    return count


def live_turns(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield the turns of a session's recording that the live backend answered, each from the client's input on."""
    turn: list[Line] = []
    live = False
    for line in lines:
        is_input = isinstance(line, CommandLine) and isinstance(line.command, SubmitInput)
        if is_input and line.link != UP:
            if live:
                yield turn
            turn, live = [], False
        elif is_input and turn:
            live = True
        if turn or is_input:
            turn.append(line)
    if live:
        yield turn


def append_missing(path: Path, made: Iterable[Reader]) -> int:
    """Append the live turns of these recordings; return their number. Raise OSError if the file cannot be written.

    Turns that the file has already are skipped: a replay that was then killed has added them.
    """
    seq, t, position, turns = _end(path)
    count = 0
    with path.open("ab+") as file:
        if not _ends_with_newline(path):
            file.write(b"\n")  # readers pass over a torn line
        for recording in made:
            for turn in live_turns(recording.lines()):
                if not turns.isdisjoint(_turn_ids(turn)):
                    continue
                begun = turn[0].t
                added = []
                for line in turn:
                    seq += 1
                    new = structs.replace(line, seq=seq, t=t + PAUSE + line.t - begun)
                    if not isinstance(new, FrameLine):
                        new = structs.replace(new, cursor=f"1:{position}")
                        position += isinstance(new, EventLine) and new.logged
                    added.append(new)
                file.write(encode_lines(packed(added)))
                t = added[-1].t
                count += 1
        file.flush()
        os.fsync(file.fileno())
    return count


def _end(path: Path) -> tuple[int, int, int, set[str]]:
    """Return the last seq and time, the next place in the log, and the ids of all turns."""
    seq = t = position = 0
    turns = set[str]()
    for line in open_recording(path).lines():
        seq, t = line.seq, line.t
        position += isinstance(line, EventLine) and line.logged
        turns.update(_turn_ids([line]))
    return seq, t, position, turns


def _turn_ids(lines: Iterable[Line]) -> set[str]:
    return {line.turn for line in lines if isinstance(line, EventLine) and line.turn}


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
