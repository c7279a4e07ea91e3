"""Frames without the secrets in them.

What stands in one frame is found in it and replaced where it stands. A secret that is said a few letters a frame stands
in none of them: so for each wire, and each place in its frames where text can stand, what the frames say there is put
together and looked through, and every frame that has a part of a secret is emptied. A frame whose text at such a place
could still become a secret is emptied too: the event is the truth then. Frames are not held back for this; what they
said is remembered as far as a secret reaches back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.recording.format import FrameLine
from gateway.recording.redaction.assignments import is_secret_name
from gateway.recording.redaction.blocks import BEHIND, BEHIND_MAX, HIDDEN
from gateway.recording.redaction.credentials import Cleaner, has_credentials, texts_of
from gateway.recording.redaction.finder import Finder
from gateway.recording.redaction.rows import across
from gateway.recording.redaction.sayings import Said, Saying, Sayings

__all__ = ["Wires"]

LARGE = 8192  # characters: more than any delta, and what a slow client is given at once

TOKENS_OF_TEXT = ("stream_token", "llm.token")
"""Where `token` is a piece of text (smooth sheet, section 5; pando sheet, section 4)."""


class Wires:
    """The frames of one recording, in their order. `names` are keys under which nothing is kept."""

    def __init__(self, finder: Finder, cleaner: Cleaner, names: Sequence[str] = ()) -> None:
        self._finder = finder
        self._cleaner = cleaner
        self._names = frozenset(names)
        self._sayings = Sayings()

    def redact(self, frames: Sequence[FrameLine]) -> list[FrameLine]:
        """These frames, with what was taken out of them."""
        fixed: dict[str, list[int]] = {}
        for index, frame in enumerate(frames):
            for text in (frame.text,) if frame.text is not None else texts_of(frame):
                said = self._sayings.hear(index, (frame.link, frame.dir), text)
                if said is not None:
                    self._judge(index, text, said)
                    for word in said.fixed:
                        fixed.setdefault(word, []).append(index)
        self._look_at(fixed)
        touched, self._sayings.touched = self._sayings.touched, []
        for saying in touched:
            self._look_through(saying)
        self._sayings.forget()
        return self._cleaner.clean(frames)

    def _judge(self, index: int, text: str, said: Said) -> None:
        """What a frame is by its keys."""
        if said.value is not None and has_credentials(said.value):
            self._cleaner.empty(index, "token")
        if not self._names.isdisjoint(said.keys):
            self._cleaner.empty(index, "path")
        secret = {key for key in said.keys if is_secret_name(key)}
        if secret - {"token"} or (secret and not any(word in text for word in TOKENS_OF_TEXT)):
            self._cleaner.suspect(index)
        if said.texts:
            for kind in across(self._finder, said.texts, lambda *_secret: "")[1]:
                self._cleaner.empty(index, kind)
        if "value" in said.keys:
            self._cleaner.suspect(index)  # a setting: its name stands beside it

    def _look_at(self, fixed: dict[str, list[int]]) -> None:
        """Words that stand for themselves."""
        if not fixed or not self._finder.find("\n".join(fixed)):
            return
        for word, indices in fixed.items():
            for span in self._finder.find(word):
                for index in indices:
                    self._cleaner.take_out(index, span.kind, word[span.start : span.end])

    def _look_through(self, saying: Saying) -> None:
        """What was said is put together; of a large text only its ends are: it is looked at as a whole, and once."""
        parts, saying.parts = saying.parts, []
        some: list[tuple[int, str]] = []
        for index, part in parts:
            if len(part) < LARGE:
                some.append((index, part))
                continue
            self._put_together(saying, [*some, (index, part[:LARGE])], goes_on=False)
            self._take_out(index, part)
            saying.behind = ""
            some = [(index, part[-LARGE:])]
        self._put_together(saying, some)

    def _put_together(self, saying: Saying, parts: Sequence[tuple[int, str]], *, goes_on: bool = True) -> None:
        text = saying.behind + "".join([part for _, part in parts])
        spans = self._finder.find(text)
        unfinished = self._finder.open(text) if goes_on else None
        if unfinished is not None and unfinished.end - unfinished.start < HIDDEN:
            unfinished = None
        if spans or unfinished is not None:
            for index, start, end in _places(parts, len(saying.behind)):
                for span in spans:
                    if start <= span.start and span.end <= end:
                        self._cleaner.take_out(index, span.kind, text[span.start : span.end])
                    elif span.start < end and span.end > start:
                        self._cleaner.empty(index, span.kind)
                if unfinished is not None and unfinished.start < end and unfinished.end > start:
                    self._cleaner.doubt(index)
        if "code " in text.lower():  # typed as all of an input
            for index, part in parts:
                self._take_out(index, part)
        begin = unfinished.start if unfinished is not None else len(text)
        saying.behind = text[max(0, begin - max(BEHIND, self._finder.reach), len(text) - BEHIND_MAX) :]

    def _take_out(self, index: int, text: str) -> None:
        for span in self._finder.find(text):
            self._cleaner.take_out(index, span.kind, text[span.start : span.end])


def _places(parts: Sequence[tuple[int, str]], at: int) -> Iterator[tuple[int, int, int]]:
    for index, part in parts:
        yield index, at, at + len(part)
        at += len(part)
