"""Redact frames.

A secret that stands in one frame is found and replaced in it. A secret that streams, a few letters a frame, stands in
none. So the texts of each field of each tap are joined and searched. Every frame with a part of a secret is emptied,
and also a frame whose text could still become one: then the event is the truth. Frames are not held back for this. The
end of each text is remembered as far as a secret reaches back.

The frames of a stream hold the texts of its deltas, which were redacted before. So they are not searched if
they contain nothing else that the frames before them did not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from dragoman.gateway.recording.format import StepLine
from dragoman.gateway.recording.lines import FrameLine, Line
from dragoman.gateway.recording.redaction.field_texts import FieldText, FieldTexts, ParsedFrame, Part, TapKey
from dragoman.gateway.recording.redaction.finder import HIDDEN, Finder
from dragoman.gateway.recording.redaction.frame_cleaner import FrameCleaner, Frames, has_credentials, texts_of
from dragoman.gateway.recording.redaction.held_text import BEHIND, BEHIND_MAX
from dragoman.gateway.recording.redaction.shapes import NAME_MAX, ends_as_secret
from dragoman.gateway.recording.redaction.spans import overlapping
from dragoman.gateway.recording.redaction.values import find_in_rows

LARGE = 8192  # characters: more than any delta, and as much as a slow client is given at once

FEW = 12  # frames that are added one by one: enough to learn more of their shape
KNOWN_MAX = 64  # taps whose streams are known
HALVINGS = 5  # until an odd frame among many is found, or it is clear that many are odd

TOKENS_OF_TEXT = ("stream_token", "llm.token")
"""`token` is text in these frames (docs/dialects/smooth.md, section 5; docs/dialects/pando.md, section 4)."""

Singles = dict[TapKey, tuple[list[int], list[str]]]
"""Numbers and texts of the frames of each tap that are no run and no stream."""


class FrameRedactor:
    """Redacts the frames of one recording, in their order. `names` are JSON keys whose values are never kept.

    Frames that are redacted together are numbered from 0, each of a run by itself. With `streams_are_clean` the caller
    has searched the texts of streams for the same secrets.
    """

    def __init__(
        self, finder: Finder, cleaner: FrameCleaner, names: Sequence[str] = (), *, streams_are_clean: bool = False
    ) -> None:
        self._finder = finder
        self._cleaner = cleaner
        self._names = frozenset(names)
        self._fields = FieldTexts()
        self._last = ("", False)  # the last text, and whether `code ` is in it
        self._streams_are_clean = streams_are_clean
        self._known: dict[TapKey, tuple[list[list[str]], list[FieldText]]] = {}  # clean text around streams, and fields

    def redact(self, frames: Sequence[Frames]) -> dict[int, list[Line]]:
        """Map the place of each item with secrets in its frames to its lines without them."""
        singles: Singles = {}
        number = 0
        for frame in frames:
            if isinstance(frame, StepLine):
                for one in frame.frames:
                    self._add_singles(singles, (one.link, one.dir))
                    if not self._skip_stream(frame, one):
                        self._add_stream(number, frame, one)
                    number += len(frame.texts)
                continue
            tap: TapKey = (frame.link, frame.dir)
            if not frame.words:
                numbers, texts = singles.setdefault(tap, ([], []))
                for text in (frame.text,) if frame.text is not None else texts_of(frame):
                    numbers.append(number)
                    texts.append(text)
                number += 1
            else:
                self._add_singles(singles, tap)
                self._add_run(number, frame)
                number += len(frame.words)
        for tap in list(singles):
            self._add_singles(singles, tap)
        self._search_alone(self._fields.take_alone())
        touched = self._fields.take_touched()
        if touched and not self._are_clean(touched):
            for field_text in touched:
                self._search_field(field_text)
        if self._fields.forget_excess():
            self._known.clear()
        return self._cleaner.clean(frames)

    def _add_singles(self, singles: Singles, tap: TapKey) -> None:
        """Add the single frames of a tap that were read so far."""
        before = singles.pop(tap, None)
        if before is not None:
            self._add_frames(tap, *before)

    def _skip_stream(self, stream: StepLine, tap: FrameLine) -> bool:
        """Only remember the texts of a stream, if the rest of its frames is known. Return False if it is not."""
        around, fields = self._known.get((tap.link, tap.dir), ((), ()))
        if around != tap.around or any(field_text.parts for field_text in fields):
            return False
        joined = "".join(stream.texts)
        for field_text in fields:
            field_text.behind = (field_text.behind + joined)[-max(BEHIND, self._finder.reach) :]
        return True

    def _add_run(self, number: int, run: FrameLine) -> None:
        words = self._fields.words_of_run(run.words)
        self._add_alike((run.link, run.dir), number, run.around_at(0), words, run.texts)

    def _add_stream(self, number: int, stream: StepLine, tap: FrameLine) -> None:
        first, *between, last = tap.around_at(stream.rounds[0].at)
        around = [f'{first}"', *(f'"{part}"' for part in between), f'"{last}']
        key = (tap.link, tap.dir)
        fields = self._add_alike(key, number, around, stream.texts, partial(stream.frame_texts, tap))
        if fields and self._streams_are_clean:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = tap.around, fields

    def _add_alike(
        self,
        tap: TapKey,
        number: int,
        around: Sequence[str],
        texts: Sequence[str] | None,
        frames: Callable[[], Iterable[str]],
    ) -> list[FieldText]:
        """Add frames that differ in one of `texts`, at once if they can be; the first frame teaches a new shape.

        Return the fields of the texts, or none if the frames hold anything else to search.
        """
        numbers: Sequence[int] = range(number, number + len(texts)) if texts is not None else ()
        fields = self._fields.add_run(numbers, tap, around, texts) if texts is not None else None
        if fields is not None:
            return fields
        whole = list(frames())
        numbers = range(number, number + len(whole))
        self._add_frames(tap, numbers[:1], whole[:1], 0)
        self._fields.expect_more(tap, whole[0])
        fields = self._fields.add_run(numbers[1:], tap, around, texts[1:]) if texts is not None else None
        if fields is None:
            self._add_frames(tap, numbers[1:], whole[1:])
        return fields or []

    def _add_frames(self, tap: TapKey, numbers: Sequence[int], texts: Sequence[str], halvings: int = HALVINGS) -> None:
        """Add frames at once if they are of one shape; else each half of them, and at last one by one."""
        if len(texts) > 1 and self._fields.add_frames(numbers, tap, "\n".join(texts)):
            return
        if halvings and len(texts) > FEW:
            middle = len(texts) // 2 if self._fields.knows_tap(tap) else FEW  # the first ones teach the shape
            self._add_frames(tap, numbers[:middle], texts[:middle], halvings - 1)
            self._add_frames(tap, numbers[middle:], texts[middle:], halvings - 1)
            return
        for number, text in zip(numbers, texts, strict=True):
            parsed = self._fields.add_frame(number, tap, text)
            if parsed is not None:
                self._judge(number, text, parsed)

    def _judge(self, index: int, text: str, parsed: ParsedFrame) -> None:
        """Judge a frame by its keys. Forget the shape of a frame that may hold a secret by them."""
        credentials = parsed.value is not None and has_credentials(parsed.value)
        if credentials:
            self._cleaner.empty_frame(index, "token")
        named = not self._names.isdisjoint(parsed.keys)
        if named:
            self._cleaner.empty_frame(index, "path")
        secret = {key for key in parsed.keys if ends_as_secret(key[-NAME_MAX:])}  # a hit of its cache is no call
        if secret == {"token"} and any(word in text for word in TOKENS_OF_TEXT):
            secret = set()
        setting = "value" in parsed.keys  # its name stands beside it
        if secret or setting:
            self._cleaner.search_frame(index)
        if credentials or named or secret or setting or not self._finder.is_clean(parsed.fixed):
            self._fields.forget_shape(parsed)
        if parsed.texts:
            for kind in find_in_rows(self._finder, parsed.texts, lambda *_secret: "")[1]:
                self._cleaner.empty_frame(index, kind)

    def _search_alone(self, words: Mapping[str, Sequence[int]]) -> None:
        """Search the words that stand alone, which have the numbers of their frames."""
        if not self._finder.is_clean(words):
            for word, indices in words.items():
                for index in indices:
                    self._remove_secrets(index, word)

    def _are_clean(self, fields: Sequence[FieldText]) -> bool:
        """Search the texts of fields together. Return False, and change nothing, if each must be searched alone."""
        texts: list[str] = []
        for field_text in fields:
            text = field_text.behind
            for _, words in field_text.parts:
                text += words[0] if len(words) == 1 else "".join(words)
                if len(text) > LARGE:
                    return False
            texts.append(text)
        if self._has_code("\n".join(texts)) or not self._finder.is_clean(texts):
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
            self._remove_secrets(numbers[0], words[0])
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
                for span in found:
                    if start <= span.start and span.end <= end:
                        self._cleaner.remove_secret(index, span.kind, text[span.start : span.end])
                    else:
                        self._cleaner.empty_frame(index, span.kind)
                if unfinished is not None and unfinished.start < end and unfinished.end > start:
                    self._cleaner.empty_unfinished(index)
        if self._has_code(text):  # typed as all of an input
            for numbers, words in parts:
                for index, word in zip(numbers, words, strict=True):
                    self._remove_secrets(index, word)
        begin = unfinished.start if unfinished is not None else len(text)
        field_text.behind = text[max(0, begin - max(BEHIND, self._finder.reach), len(text) - BEHIND_MAX) :]

    def _has_code(self, text: str) -> bool:
        """Return True if `code ` stands in the text. The last answer is kept: other taps have the same text."""
        if self._last[0] != text:
            self._last = (text, "code " in text.lower())
        return self._last[1]

    def _remove_secrets(self, index: int, text: str) -> None:
        for span in self._finder.find(text):
            self._cleaner.remove_secret(index, span.kind, text[span.start : span.end])


def _places(parts: Sequence[Part], at: int) -> Iterator[tuple[int, int, int]]:
    """Yield the frame number, start and end of each word."""
    for numbers, words in parts:
        for number, word in zip(numbers, words, strict=True):
            yield number, at, at + len(word)
            at += len(word)
