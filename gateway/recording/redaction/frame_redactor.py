"""Empty the frames that contain a secret or a part of one. Their meaning is then only in the events.

A secret that streams, a few letters a frame, is in no frame as a whole. So the texts of each field of each tap are
joined and searched. A frame whose text could still become a secret is emptied as well. Frames are not held back for
this. The end of each text is remembered, as far back as a secret may begin.

The frames of a stream hold the texts of its deltas, which were redacted before. So they are not searched if
they contain nothing else that the frames before them did not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from operator import attrgetter
from typing import Any

from msgspec import structs

from dragoman.gateway.recording.format import FrameLine, Line, StepLine, packed
from dragoman.gateway.recording.redaction.field_texts import (
    ANY_WORD,
    FieldText,
    FieldTexts,
    ParsedFrame,
    Part,
    TapKey,
)
from dragoman.gateway.recording.redaction.finder import HIDDEN, Finder
from dragoman.gateway.recording.redaction.held_text import BEHIND
from dragoman.gateway.recording.redaction.shapes import NAME_MAX, ends_as_secret
from dragoman.gateway.recording.redaction.spans import Note, overlapping
from dragoman.gateway.recording.redaction.values import find_in_rows

DIRECTION = attrgetter("dir")
"""Sorts the frames of a step: `receive` comes before `send`, as the frames did."""

NEW_PARTS = attrgetter("parts")

LARGE = 8192  # characters: more than any delta, and as much as a slow client is given at once

KNOWN_MAX = 64  # taps whose streams are known

TOKENS_OF_TEXT = ("stream_token", "llm.token")
"""`token` is text in these frames (docs/dialects/smooth.md, section 5; docs/dialects/pando.md, section 4)."""


class FrameRedactor:
    """Redacts the frames of one recording, in their order. `names` are JSON keys whose values are never kept.

    The frames that are redacted together have numbers, from 0. Those of a folded step with several rounds are numbered
    tap by tap. With `streams_are_clean` the caller has searched the texts of streams for the same secrets.
    """

    __slots__ = ("_fields", "_finder", "_known", "_names", "_note", "_streams_are_clean", "_suspects")

    def __init__(self, finder: Finder, note: Note, names: Sequence[str], *, streams_are_clean: bool) -> None:
        self._finder = finder
        self._note = note
        self._suspects: dict[int, dict[str, None]] = {}  # frames to empty, and the kinds of the secrets in them
        self._names = frozenset(names)
        self._fields = FieldTexts()
        self._streams_are_clean = streams_are_clean
        self._known: dict[TapKey, tuple[list[list[str]], list[FieldText]]] = {}  # clean text around streams, and fields

    def redact(self, steps: list[StepLine]) -> list[StepLine]:
        """Return the steps, without the content of frames with secrets."""
        number = 0
        for step in steps:
            if step.rounds:
                number = self._add_streams(number, step)
                continue
            for frame in sorted(step.frames, key=DIRECTION):
                tap: TapKey = (frame.link, frame.dir)
                if frame.redacted:
                    self._fields.begin_anew(tap, number)
                    self._known.pop(tap, None)
                for text in (frame.text,) if frame.text is not None else texts_of(frame):
                    self._add_frame(tap, number, text)
                number += 1
        if self._fields.has_new:
            self._search_new()
        return self._without_suspects(steps) if self._suspects else steps

    def _search_new(self) -> None:
        """Search the words and the fields' new texts together, or one by one if they may hold a secret."""
        alone, fields = self._fields.take()
        if not self._are_clean(alone, fields):
            for word, its_frames in alone.items() if not self._finder.is_clean(alone) else ():
                for found in its_frames:
                    self._search_frame(found, word)
            for field_text in fields:
                self._search_field(field_text)
        if self._fields.forget_excess():
            self._known.clear()

    def _add_streams(self, number: int, stream: StepLine) -> int:
        """Add the frames of a stream, numbered from `number` tap by tap. Return the next number.

        Where the rest of the frames is known, only their texts are remembered.
        """
        texts = stream.events[0].texts
        joined = "".join(texts)
        before = behind = None
        for tap in stream.frames:
            around, fields = self._known.get((tap.link, tap.dir), ((), ()))
            if around == tap.around and not any(map(NEW_PARTS, fields)):
                for field_text in fields:
                    if behind is None or field_text.behind != before:  # fields with one text share it
                        before = field_text.behind
                        behind = (before + joined)[-max(BEHIND, self._finder.reach) :]
                    field_text.behind = behind
            else:
                self._add_stream(range(number, number + len(texts)), stream, tap)
            number += len(texts)
        return number

    def _add_stream(self, numbers: range, stream: StepLine, frame: FrameLine) -> None:
        """Add the frames of a stream: together, or one by one if more than their texts may hold a secret."""
        tap = (frame.link, frame.dir)
        sample = f'"{ANY_WORD}"'.join(frame.around_at(stream.rounds[0].at))
        parsed = self._fields.parse(tap, sample)
        fields = [field_text for field_text, text in parsed.texts if text == ANY_WORD]
        if len(fields) < len(frame.around) - 1 or parsed.rows or any(self._reasons(parsed, sample)):
            for number, text in zip(numbers, stream.frame_texts(frame), strict=True):
                self._add_frame(tap, number, text)
            return
        self._fields.add(parsed, numbers, stream.texts)
        if self._streams_are_clean and len(fields) == len(parsed.texts):  # they hold nothing else to search
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[tap] = frame.around, fields

    def _add_frame(self, tap: TapKey, number: int, text: str) -> None:
        """Add a frame, and empty it if one of its keys requires that."""
        parsed = self._fields.parse(tap, text)
        self._fields.add(parsed, (number,))
        credentials, named, secret = self._reasons(parsed, text)
        if credentials:
            self._suspect(number, "token")
        if named:
            self._suspect(number, "path")
        if secret:
            self._search_frame(number, text)
        if parsed.rows:
            self._suspect(number, *find_in_rows(self._finder, parsed.rows, lambda *_secret: "")[1])

    def _reasons(self, parsed: ParsedFrame, text: str) -> tuple[bool, bool, bool]:
        """Return True for each reason against the keys of a frame: credentials, a configured name, a secret's name."""
        credentials = parsed.value is not None and has_credentials(parsed.value)
        named = not self._names.isdisjoint(parsed.keys)
        secret = "value" in parsed.keys  # of a setting, whose name stands beside it
        for key in parsed.keys:
            if ends_as_secret(key[-NAME_MAX:]):  # a hit of its cache is no call
                secret = secret or key != "token" or not any(map(text.__contains__, TOKENS_OF_TEXT))
        return credentials, named, secret

    def _are_clean(self, alone: Iterable[str], fields: Sequence[FieldText]) -> bool:
        """Search words and fields together. Return False, and change nothing, if each must be searched by itself."""
        texts: list[str] = []
        for field_text in fields:
            text = field_text.behind
            for _, words in field_text.parts:
                text += words[0] if len(words) == 1 else "".join(words)
                if len(text) > LARGE:
                    return False
            texts.append(text)
        if "code " in "\n".join(texts).lower() or not self._finder.is_clean([*alone, *texts]):
            return False
        for text in texts:
            if self._finder.find_open(text) is not None:
                return False
        for field_text, text in zip(fields, texts, strict=True):
            field_text.parts = []
            field_text.behind = text[-max(BEHIND, self._finder.reach) :]
        return True

    def _search_field(self, field_text: FieldText) -> None:
        """Search the text of a field. A large part is searched once by itself, and joined only at its ends."""
        parts, field_text.parts = field_text.parts, []
        if True not in [len(words) == 1 and len(words[0]) >= LARGE for _, words in parts]:
            self._search_joined(field_text, parts)
            return
        before: list[Part] = []
        for numbers, words in parts:
            if len(words) > 1 or len(words[0]) < LARGE:
                before.append((numbers, words))
                continue
            self._search_joined(field_text, [*before, (numbers, (words[0][:LARGE],))], goes_on=False)
            self._search_frame(numbers[0], words[0])
            field_text.behind = ""
            before = [(numbers, (words[0][-LARGE:],))]
        self._search_joined(field_text, before)

    def _search_joined(self, field_text: FieldText, parts: Sequence[Part], *, goes_on: bool = True) -> None:
        text = field_text.behind + "".join(["".join(words) for _, words in parts])
        spans = self._finder.find(text)
        unfinished = self._finder.find_open(text) if goes_on else None
        if unfinished is not None and unfinished.end - unfinished.start < HIDDEN:
            unfinished = None
        if spans or unfinished is not None:
            places = list(_places(parts, len(field_text.behind)))
            inside = overlapping(spans, [(start, end) for _, start, end in places])
            for (index, start, end), found in zip(places, inside, strict=True):
                self._suspect(index, *[span.kind for span in found])
                if unfinished is not None and unfinished.start < end and unfinished.end > start:
                    self._suspects.setdefault(index, {})
        if "code " in text.lower():  # typed as all of an input
            for numbers, words in parts:
                for index, word in zip(numbers, words, strict=True):
                    self._search_frame(index, word)
        begin = len(text)
        if unfinished is not None:
            begin = unfinished.start
            self._fields.note_unfinished(field_text)
        field_text.behind = text[max(0, begin - max(BEHIND, self._finder.reach)) :]

    def _search_frame(self, index: int, text: str) -> None:
        self._suspect(index, *[span.kind for span in self._finder.find(text)])

    def _suspect(self, index: int, *kinds: str) -> None:
        """Mark a frame to be emptied if it has secrets of any of these kinds."""
        if kinds:
            self._suspects.setdefault(index, {}).update(dict.fromkeys(kinds))

    def _without_suspects(self, steps: Sequence[StepLine]) -> list[StepLine]:
        """Return the steps with the suspects among their frames emptied, and forget all suspects."""
        suspects, self._suspects = self._suspects, {}
        clean: list[StepLine] = []
        first = 0
        for step in steps:
            end = first + len(step.frames) * (len(step.texts) if step.rounds else 1)
            if suspects.keys().isdisjoint(range(first, end)):
                clean.append(step)
            else:
                clean += packed(self._emptied(step, first, suspects))
            first = end
        return clean

    def _emptied(self, step: StepLine, first: int, suspects: Mapping[int, Iterable[str]]) -> Iterator[Line]:
        """Yield the lines of a step whose frames are numbered from `first`."""
        following: dict[TapKey | None, Iterator[int]] = {None: count(first)}
        if step.rounds:
            length = len(step.texts)
            following = {(tap.link, tap.dir): count(first + nth * length) for nth, tap in enumerate(step.frames)}
        for line in step.lines():
            if isinstance(line, FrameLine):
                kinds = suspects.get(next(following[(line.link, line.dir) if step.rounds else None]))
                if kinds is not None:
                    for kind in kinds:
                        self._note(kind, f"frame.{line.dialect}.{line.dir}", line.seq)
                    yield structs.replace(line, text=None, base64=None, parts=None, redacted=True)
                    continue
            yield line


def _places(parts: Sequence[Part], at: int) -> Iterator[tuple[int, int, int]]:
    """Yield the frame number, start and end of each word."""
    for numbers, words in parts:
        for number, word in zip(numbers, words, strict=True):
            yield number, at, at + len(word)
            at += len(word)


def has_credentials(value: Any) -> bool:
    """Return True if a smooth client shows its identity in this action (docs/dialects/smooth.md, sections 2 and 4).

    It does so with a token, a signed context or a one-time code.
    """
    if not isinstance(value, dict) or "action" not in value:
        return False
    return "token" in value or "authContext" in value or (value["action"] == "verify_otp" and "code" in value)


def texts_of(frame: FrameLine) -> Iterator[str]:
    """Yield the whole content of a frame of bytes or parts, decoded as text."""
    raw = frame.frame()
    if isinstance(raw, bytes):
        yield raw.decode("latin-1")
    elif raw is not None:
        for part in raw.parts:
            yield part.decode("utf-8", "replace")
