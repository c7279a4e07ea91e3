"""What no recording ever holds, with redaction or without: tokens in frames, and one-time codes.

And how frames get rid of anything: in place where all of it can be seen in them, else with all of their text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from gateway.recording.format import FrameLine
from gateway.recording.redaction.escapes import layers
from gateway.recording.redaction.finder import Finder
from gateway.recording.redaction.ledger import NoteLine
from gateway.recording.redaction.spans import Mark, replaced

__all__ = ["Cleaner", "Credentials", "has_credentials", "texts_of"]


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

    def clean(self, frames: Sequence[FrameLine]) -> list[FrameLine]:
        """The frames without all that; this one forgets it."""
        clean = list(frames)
        for index, case in self._cases.items():
            clean[index] = self._clean(frames[index], case)
        self._cases = {}
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
            if not spoilt and not any(_stands_in(secret, new) for _, secret in case.secrets):
                return structs.replace(frame, text=new, redacted=True)
        return structs.replace(frame, text=None, base64=None, parts=None, redacted=True)


class Credentials:
    """Frames without what no recording ever holds, and with everything else."""

    def __init__(self, finder: Finder, cleaner: Cleaner) -> None:
        self._finder = finder
        self._cleaner = cleaner

    def redact(self, frames: Sequence[FrameLine]) -> list[FrameLine]:
        """These frames, with what was taken out of them."""
        texts = [frame.text for frame in frames if frame.text is not None]
        if len(texts) == len(frames) and not _may_hold_any(texts):
            return list(frames)
        for index, frame in enumerate(frames):
            for text in texts_of(frame):
                if "action" in text and has_credentials(_json(text)):
                    self._cleaner.empty(index, "token")
                elif ("=" in text or "code " in text.lower()) and self._finder.find(text):
                    self._cleaner.suspect(index)
        return self._cleaner.clean(frames)


def _may_hold_any(texts: list[str]) -> bool:
    """What the common frame is asked, together with all that come with it.

    Those of ASCII alone, for among others they would take several times as long.
    """
    joined = "\n".join(text for text in texts if text.isascii())
    others = (text for text in texts if not text.isascii())
    return any("action" in text or "=" in text or "code " in text.lower() for text in (joined, *others))


def has_credentials(value: Any) -> bool:
    """Whether a smooth client shows its identity in this action (smooth sheet, sections 2 and 4).

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


def _stands_in(secret: str, text: str) -> bool:
    """Whether it is still there, in whatever layer."""
    *_, innermost = layers(secret)
    return any(innermost.text in layer.text or secret in layer.text for layer in layers(text))
