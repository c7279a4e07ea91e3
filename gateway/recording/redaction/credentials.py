"""What no recording ever holds, with redaction or without: tokens in frames, and one-time codes.

And how frames get rid of anything: in place where all of it can be seen in them, else with all of their text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from dragoman.gateway.recording.lines import FrameLine, Line
from dragoman.gateway.recording.redaction.escapes import layers
from dragoman.gateway.recording.redaction.finder import Finder
from dragoman.gateway.recording.redaction.ledger import NoteLine
from dragoman.gateway.recording.redaction.spans import Mark, replaced
from dragoman.gateway.recording.runs import FrameRun, Stream

__all__ = ["Cleaner", "Credentials", "has_credentials", "texts_of"]


SECRETS_MAX = 64  # different secrets of one frame that are looked for in what is left of it; with more it is emptied

CODES = tuple(map("".join, product(*zip("code ", "CODE ", strict=True))))[::2]
"""`code ` in whatever case: looked for one by one they are found several times as fast as by a pattern."""


class _Case(Struct):
    """What is wrong with a frame: it has a part of a secret of that kind, or perhaps has, or has all of some."""

    part_of: str = ""
    doubtful: bool = False
    secrets: list[tuple[str, str]] = field(default_factory=list)


class Cleaner:
    """Gathers what is wrong with some frames, then cleans them."""

    def __init__(self, finder: Finder, mark: Mark, note: NoteLine) -> None:
        self._finder = finder
        self._mark = mark
        self._note = note
        self._cases: dict[int, _Case] = {}

    def suspect(self, index: int) -> None:
        """This frame may hold a secret, which can be seen in it then."""
        self._case(index)

    def take_out(self, index: int, kind: str, secret: str) -> None:
        """This frame holds this one."""
        self._case(index).secrets.append((kind, secret))

    def empty(self, index: int, kind: str) -> None:
        """A part of a secret of this kind stands in this frame."""
        self._case(index).part_of = kind

    def doubt(self, index: int) -> None:
        """What stands in this frame may become one, and would be a part of it then."""
        self._case(index).doubtful = True

    def clean(self, frames: Sequence[FrameLine | FrameRun | Stream]) -> dict[int, list[Line]]:
        """Those of these that have to change, by their place, as they are then; this one forgets all about them.

        What it was told counts every frame of a run, and those of a stream wire by wire.
        """
        if not self._cases:
            return {}
        cases, self._cases = self._cases, {}
        clean: dict[int, list[Line]] = {}
        first = 0
        for place, stored in enumerate(frames):
            numbers = range(first, first := first + _frames_of(stored))
            if cases.keys().isdisjoint(numbers):
                continue
            clean[place] = [
                self._clean(line, cases[number]) if isinstance(line, FrameLine) and number in cases else line
                for number, line in _numbered(stored, numbers)
            ]
        return clean

    def _case(self, index: int) -> _Case:
        return self._cases.setdefault(index, _Case())

    def _clean(self, frame: FrameLine, case: _Case) -> FrameLine:
        place = f"frame.{frame.dialect}.{frame.dir}"
        kinds = [case.part_of] if case.part_of else [s.kind for t in texts_of(frame) for s in self._finder.find(t)]
        kinds = kinds or [kind for kind, _ in case.secrets]
        for kind in kinds:
            self._note(kind, place, frame.seq)
        if not kinds and not case.doubtful:
            return frame
        if not case.part_of and not case.doubtful and frame.text is not None:
            new = replaced(frame.text, self._finder.find(frame.text), self._mark)
            spoilt = _json(frame.text) is not None and _json(new) is None  # it had a part of a key, or of a document
            if not spoilt and not _any_left({secret for _, secret in case.secrets}, new):
                return structs.replace(frame, text=new, redacted=True)
        return structs.replace(frame, text=None, base64=None, parts=None, redacted=True)


class Credentials:
    """Frames without what no recording ever holds, and with everything else."""

    def __init__(self, finder: Finder, cleaner: Cleaner) -> None:
        self._finder = finder
        self._cleaner = cleaner

    def redact(self, frames: Sequence[FrameLine | FrameRun | Stream]) -> dict[int, list[Line]]:
        """Those of these in whose frames something was, by their place, without it."""
        texts = [text for frame in frames for text in _quick_texts(frame)]
        if "" not in texts and not _may_hold_any(texts):
            return {}
        for index, said in enumerate(chain.from_iterable(map(_texts_of_each, frames))):
            for text in said:
                if "action" in text and has_credentials(_json(text)):
                    self._cleaner.empty(index, "token")
                elif ("=" in text or "code " in text.lower()) and self._finder.find(text):
                    self._cleaner.suspect(index)
        return self._cleaner.clean(frames)


def _frames_of(stored: FrameLine | FrameRun | Stream) -> int:
    if isinstance(stored, Stream):
        return len(stored.texts) * len(stored.wires)
    return len(stored.words) if isinstance(stored, FrameRun) else 1


def _numbered(stored: FrameLine | FrameRun | Stream, numbers: range) -> Iterator[tuple[int, Line]]:
    """The lines, frames with their numbers."""
    if isinstance(stored, FrameLine):
        yield numbers[0], stored
    elif isinstance(stored, FrameRun):
        yield from zip(numbers, stored.lines(), strict=True)
    else:
        size = len(stored.texts)
        own = {(wire.link, wire.dir): iter(numbers[n * size :]) for n, wire in enumerate(stored.wires)}
        for line in stored.lines():
            yield (next(own[line.link, line.dir]) if isinstance(line, FrameLine) else -1), line


def _texts_of_each(stored: FrameLine | FrameRun | Stream) -> Iterator[Iterable[str]]:
    """All that stands in each frame, as text."""
    if isinstance(stored, FrameLine):
        yield texts_of(stored)
    elif isinstance(stored, FrameRun):
        yield from ((text,) for text in stored.texts)
    else:
        yield from ((text,) for wire in stored.wires for text in stored.frames(wire))


def _quick_texts(frame: FrameLine | FrameRun | Stream) -> Sequence[str]:
    """Enough of a frame, or of all frames of a run, to see whether anything can be in them; "" if that cannot be seen.

    What is said in the words and around them is seen in each of them: no anchor goes over a quote.
    """
    if isinstance(frame, FrameLine):
        return (frame.text or "",)
    if isinstance(frame, FrameRun):
        return ("\n".join(frame.words), *frame.around)
    return ("\n".join(frame.texts), *(part for wire in frame.wires for part in wire.around_at(frame.rounds[0].at)))


def _may_hold_any(texts: list[str]) -> bool:
    """What the common frame is asked, together with all that come with it."""
    text = "\n".join(texts)
    return "action" in text or "=" in text or any(map(text.__contains__, CODES))


def has_credentials(value: Any) -> bool:
    """Whether a smooth client shows its identity in this action (docs/dialects/smooth.md, sections 2 and 4).

    It does so with a token, a signed context or a one-time code.
    """
    if not isinstance(value, dict) or "action" not in value:
        return False
    return "token" in value or "authContext" in value or (value["action"] == "verify_otp" and "code" in value)


def texts_of(frame: FrameLine) -> Iterator[str]:
    """All that stands in a frame, as text."""
    if frame.text is not None:
        yield frame.text
        return
    raw = frame.frame()
    if isinstance(raw, bytes):
        yield raw.decode("latin-1")
    elif raw is not None:
        for part in raw.parts:
            yield part.decode("utf-8", "replace")


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _any_left(secrets: set[str], text: str) -> bool:
    """Return True if one of the secrets may still stand in the text, in whatever layer of escapes.

    Each secret costs a search of the whole text, so too many of them count as not gone.
    """
    if len(secrets) > SECRETS_MAX:
        return True
    wanted = {form for secret in secrets for form in (secret, [*layers(secret)][-1].text)}
    return any(form in layer.text for layer in layers(text) for form in wanted)
