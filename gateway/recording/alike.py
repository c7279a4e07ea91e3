"""Frames that came or went together, and differ in one word: stored as that word of each, and once what stands around.

A stream is long rows of such frames. What of them has to be looked through, encoded and written is then a tenth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from dragoman.gateway.recording.lines import FrameLine, frame_line
from dragoman.gateway.recording.runs import FrameRun
from dragoman.mappings.dialect import Frame

__all__ = ["frame_lines"]

FEW = 8  # frames of which no run is looked for among others
HALVINGS = 5  # until an odd frame among many has been found, or it is seen that many are odd

Direction = Literal["receive", "send"]


class _Alike(Struct, gc=False):
    """Each frame is its word, joined by what stands around it."""

    around: list[str]
    words: list[str]


def frame_lines(
    seq: int, t: int, link: str, dir: Direction, dialect: str, frames: Sequence[Frame]
) -> Iterator[FrameLine | FrameRun]:  # fmt: skip
    """The lines of frames that came or went together, as an adapter gave or takes them; the first has this seq."""
    for some in _stretches(frames, HALVINGS):
        if isinstance(some, _Alike):
            yield FrameRun(seq=seq, t=t, link=link, dir=dir, dialect=dialect, around=some.around, words=some.words)
            seq += len(some.words)
            continue
        for frame in some:
            yield frame_line(seq, t, link, dir, dialect, frame)
            seq += 1


def _stretches(frames: Sequence[Frame], halvings: int) -> Iterator[_Alike | Sequence[Frame]]:
    """These frames, as many at once as are alike."""
    alike = _alike(frames) if len(frames) > FEW else None
    if alike is not None:
        yield alike
    elif halvings and len(frames) > FEW:
        middle = len(frames) // 2
        yield from _stretches(frames[:middle], halvings - 1)
        yield from _stretches(frames[middle:], halvings - 1)
    else:
        yield frames


def _alike(frames: Sequence[Frame]) -> _Alike | None:
    first = frames[0]
    other = frames[1] if frames[1] != first else frames[-1]
    if not isinstance(first, bytes) or not isinstance(other, bytes):
        return None
    around = _around(first.split(b'"'), other.split(b'"'))
    if around is None:
        return None
    try:
        words = _words(frames, around)  # type: ignore[arg-type]  # what is no bytes is seen there
        return _Alike(_texts(around), _texts(words)) if words is not None else None
    except (TypeError, ValueError):
        return None


def _words(frames: Sequence[bytes], around: Sequence[bytes]) -> Sequence[bytes] | None:
    """The word of each frame, if that is all in which they differ; TypeError if one is no bytes."""
    start, times, fixed = len(around[0]), len(around) - 1, sum(map(len, around))
    if times > 1:
        words = [frame[start : start + (len(frame) - fixed) // times] for frame in frames]
        return words if [word.join(around) for word in words] == list(frames) else None
    before, after = around  # which are found faster in all of the frames at once
    text = b"\n".join(frames)
    if not (text.startswith(before) and text.endswith(after)):
        return None
    words = text[start : len(text) - len(after)].split(after + b"\n" + before)
    return words if len(words) == len(frames) == text.count(b"\n") + 1 else None


def _around(one: list[bytes], other: list[bytes]) -> list[bytes] | None:
    """What two frames, split at their quotes, have in common around the one word that differs, said once or more."""
    if len(one) != len(other):
        return None
    slots = [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
    if not slots or len({one[at] for at in slots}) > 1:
        return None
    starts, ends = [0, *(at + 1 for at in slots)], [*slots, len(one)]
    parts = [b'"'.join(one[start:end]) for start, end in zip(starts, ends, strict=True)]
    last = len(parts) - 1
    return [(b'"' if at else b"") + part + (b'"' if at < last else b"") for at, part in enumerate(parts)]


def _texts(parts: Sequence[bytes]) -> list[str]:
    """Each as text; ValueError if one has a newline in it, or is no UTF-8."""
    texts = b"\n".join(parts).decode().split("\n")
    if len(texts) != len(parts):
        raise ValueError("a newline")
    return texts
