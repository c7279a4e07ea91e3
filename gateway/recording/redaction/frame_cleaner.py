"""Remove secrets from frames, and remove what no recording ever holds: tokens in frames, and one-time codes.

A frame is redacted in place if all of a secret can be seen in it, else it loses all of its text. What no recording
ever holds is removed with redaction on or off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from dragoman.gateway.recording.format import StepLine
from dragoman.gateway.recording.lines import FrameLine, Line
from dragoman.gateway.recording.redaction.escapes import layers
from dragoman.gateway.recording.redaction.finder import Finder
from dragoman.gateway.recording.redaction.spans import Mark, Note, replaced

Frames = FrameLine | StepLine

SECRETS_MAX = 64  # different secrets of one frame that are looked for in the rest of it; with more it is emptied

CODES = tuple(map("".join, product(*zip("code ", "CODE ", strict=True))))[::2]
"""`code ` in every case: one search for each is several times as fast as a pattern."""


class _Suspect(Struct):
    """The reasons against a frame: it has a part of a secret of that kind, or perhaps one, or whole secrets."""

    part_of: str = ""
    doubtful: bool = False
    secrets: list[tuple[str, str]] = field(default_factory=list)


class FrameCleaner:
    """Gathers the reasons against some frames, then cleans these frames."""

    def __init__(self, finder: Finder, mark: Mark, note: Note) -> None:
        self._finder = finder
        self._mark = mark
        self._note = note
        self._suspects: dict[int, _Suspect] = {}

    def search_frame(self, index: int) -> None:
        """Have a frame searched: it may hold a secret that can be seen in it."""
        self._suspect(index)

    def remove_secret(self, index: int, kind: str, secret: str) -> None:
        """Have a whole secret removed from a frame."""
        self._suspect(index).secrets.append((kind, secret))

    def empty_frame(self, index: int, kind: str) -> None:
        """Have a frame emptied that holds a part of a secret of this kind."""
        self._suspect(index).part_of = kind

    def empty_unfinished(self, index: int) -> None:
        """Have a frame emptied whose text may become a part of a secret."""
        self._suspect(index).doubtful = True

    def clean(self, frames: Sequence[Frames]) -> dict[int, list[Line]]:
        """Map the place of each changed item to its lines as they are now, and forget all suspects.

        The indices of suspects count every frame of a run, and the frames of a stream wire by wire.
        """
        if not self._suspects:
            return {}
        suspects, self._suspects = self._suspects, {}
        clean: dict[int, list[Line]] = {}
        first = 0
        for place, item in enumerate(frames):
            numbers = range(first, first := first + _count_of(item))
            if not suspects.keys().isdisjoint(numbers):
                clean[place] = [
                    self._clean(line, suspects[number]) if isinstance(line, FrameLine) and number in suspects else line
                    for number, line in _numbered(item, numbers)
                ]
        return clean

    def _suspect(self, index: int) -> _Suspect:
        return self._suspects.setdefault(index, _Suspect())

    def _clean(self, frame: FrameLine, suspect: _Suspect) -> FrameLine:
        place = f"frame.{frame.dialect}.{frame.dir}"
        kinds = [suspect.part_of]
        if not suspect.part_of:
            kinds = [s.kind for t in texts_of(frame) for s in self._finder.find(t)]
        kinds = kinds or [kind for kind, _ in suspect.secrets]
        for kind in kinds:
            self._note(kind, place, frame.seq)
        if not kinds and not suspect.doubtful:
            return frame
        if not suspect.part_of and not suspect.doubtful and frame.text is not None:
            new = replaced(frame.text, self._finder.find(frame.text), self._mark)
            broken = _json(frame.text) is not None and _json(new) is None  # it lost a part of a key, or of a document
            if not broken and not _any_left({secret for _, secret in suspect.secrets}, new):
                return structs.replace(frame, text=new, redacted=True)
        return structs.replace(frame, text=None, base64=None, parts=None, redacted=True)

    def remove_credentials(self, frames: Sequence[Frames]) -> dict[int, list[Line]]:
        """Map the place of each item that has what no recording ever holds to its lines without it."""
        texts = [text for frame in frames for text in _quick_texts(frame)]
        if "" not in texts and not _may_hold_any(texts):
            return {}
        for index, frame_texts in enumerate(chain.from_iterable(map(_texts_of_each, frames))):
            for text in frame_texts:
                if "action" in text and has_credentials(_json(text)):
                    self.empty_frame(index, "token")
                elif ("=" in text or "code " in text.lower()) and self._finder.find(text):
                    self.search_frame(index)
        return self.clean(frames)


def _count_of(item: Frames) -> int:
    return len(item.texts) * len(item.frames) if isinstance(item, StepLine) else item.count


def _numbered(item: Frames, numbers: range) -> Iterator[tuple[int, Line]]:
    """Yield the lines of an item; a frame with its number, an event with -1."""
    if isinstance(item, FrameLine):
        yield from zip(numbers, item.lines(), strict=True)
    else:
        size = len(item.texts)
        own = {(wire.link, wire.dir): iter(numbers[n * size :]) for n, wire in enumerate(item.frames)}
        for line in item.lines():
            yield (next(own[line.link, line.dir]) if isinstance(line, FrameLine) else -1), line


def _texts_of_each(item: Frames) -> Iterator[Iterable[str]]:
    """Yield the texts of each frame of an item."""
    if isinstance(item, StepLine):
        yield from ((text,) for wire in item.frames for text in item.frame_texts(wire))
    else:
        yield from map(texts_of, item.lines())


def _quick_texts(item: Frames) -> Sequence[str]:
    """Return enough of the frames of an item to see whether they may hold credentials; "" if that cannot be seen.

    Words and the text around them are returned separately, because no anchor goes over a quote.
    """
    if isinstance(item, StepLine):
        around = (part for wire in item.frames for part in wire.around_at(item.rounds[0].at))
        return ("\n".join(item.texts), *around)
    return ("\n".join(item.words), *item.around_at(0)) if item.words else (item.text or "",)


def _may_hold_any(texts: list[str]) -> bool:
    """Return True if one of the texts may hold credentials: a quick search of all of them together."""
    text = "\n".join(texts)
    return "action" in text or "=" in text or any(map(text.__contains__, CODES))


def has_credentials(value: Any) -> bool:
    """Return True if a smooth client shows its identity in this action (docs/dialects/smooth.md, sections 2 and 4).

    It does so with a token, a signed context or a one-time code.
    """
    if not isinstance(value, dict) or "action" not in value:
        return False
    return "token" in value or "authContext" in value or (value["action"] == "verify_otp" and "code" in value)


def texts_of(frame: FrameLine) -> Iterator[str]:
    """Yield the whole content of a frame as text."""
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
    """Return True if one of the secrets may still stand in the text, in any layer of escapes.

    Each secret costs a search of the whole text, so more than SECRETS_MAX of them count as left.
    """
    if len(secrets) > SECRETS_MAX:
        return True
    wanted = {form for secret in secrets for form in (secret, layers(secret)[-1].text)}
    return any(form in layer.text for layer in layers(text) for form in wanted)
