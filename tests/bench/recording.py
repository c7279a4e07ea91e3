"""The time to find a line in the middle of a recording, compared with reading all of it.

A compressed file has an index; in a plain one the reader halves. What recording costs is a part of live.py.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from random import Random

from msgspec import Struct

from dragoman.gateway.recording import index
from dragoman.gateway.recording.format import EventLine, FrameLine, Header, Line, encode, packed
from dragoman.gateway.recording.reader import Reader, open_recording
from dragoman.mappings.canonical.events import TextDelta
from tests.bench.pod_turn import answer

LINES, QUICK_LINES = 400_000, 100_000  # of a recording in which lines are looked for
SEEKS = 20


class Seek(Struct, frozen=True, kw_only=True):
    """Seconds to find a line, and to read the whole file up to its end."""

    plain: float
    compressed: float
    whole: float
    lines: int


def measure(rounds: int, quick: bool) -> list[Seek]:
    """The samples of each round."""
    lines = QUICK_LINES if quick else LINES
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        found = _recordings(Path(folder), lines)
        return [_seek(*found, lines) for _ in range(rounds)]


def _recordings(folder: Path, count: int) -> tuple[Reader, Reader]:
    """A plain and a compressed recording of a long conversation."""
    print("recording: files to look for lines in ...", file=sys.stderr, flush=True)
    words = answer(64).split()
    lines = [encode(Header(session="s")) + b"\n"]
    for seq in range(1, count + 1):
        word = words[seq % len(words)]
        line: Line
        if seq % 2:
            text = f'{{"event":"text_delta","data":{{"text":"{word} "}}}}'
            line = FrameLine(seq=seq, t=seq * 16, link="up", dir="receive", dialect="pod", text=text)
        else:
            line = EventLine(seq=seq, t=seq * 16, cursor=f"1:{seq}", turn="t", at=seq, event=TextDelta(text=f"{word} "))
        lines += [encode(step) + b"\n" for step in packed([line])]
    plain, small = folder / "a.jsonl", folder / "a.jsonl.zst"
    plain.write_bytes(b"".join(lines))
    small.write_bytes(b"".join(index.compressed(lines)))
    return open_recording(plain), open_recording(small)


def _seek(plain: Reader, packed: Reader, lines: int) -> Seek:
    at = Random(1)  # which lines, no secret
    wanted = [16 * at.randrange(1, lines) for _ in range(SEEKS)]
    return Seek(plain=_found(plain, wanted), compressed=_found(packed, wanted), whole=_read(plain), lines=lines)


def _found(recording: Reader, wanted: list[int]) -> float:
    before = time.perf_counter()
    for t in wanted:
        assert next(recording.lines(t=t)).t == t
    return (time.perf_counter() - before) / len(wanted)


def _read(recording: Reader) -> float:
    before = time.perf_counter()
    assert sum(1 for _ in recording.lines()) > 0
    return time.perf_counter() - before
