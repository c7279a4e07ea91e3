"""Frames without the secrets in them.

What stands in one frame is found in it and replaced where it stands. A secret that is said a few letters a frame stands
in none of them: so for each wire, and each place in its frames where text can stand, what the frames say there is put
together and looked through, and every frame that has a part of a secret is emptied. A frame whose text at such a place
could still become a secret is emptied too: the event is the truth then. Frames are not held back for this; what they
said is remembered as far as a secret reaches back.

The frames of a stream say what its deltas say, and these were looked through before. So those of a stream that have
nothing else in them than the frames before it are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from dragoman.gateway.recording.lines import FrameLine, Line
from dragoman.gateway.recording.redaction.assignments import NAME_MAX, ends_as_secret
from dragoman.gateway.recording.redaction.blocks import BEHIND, BEHIND_MAX, HIDDEN
from dragoman.gateway.recording.redaction.credentials import Cleaner, has_credentials, texts_of
from dragoman.gateway.recording.redaction.field_texts import FieldText, FieldTexts, ParsedFrame, Part, TapKey
from dragoman.gateway.recording.redaction.finder import Finder
from dragoman.gateway.recording.redaction.rows import across
from dragoman.gateway.recording.redaction.spans import overlapping
from dragoman.gateway.recording.runs import FrameRun, Stream, StreamFrames

__all__ = ["FrameRedactor"]

LARGE = 8192  # characters: more than any delta, and what a slow client is given at once

FEW = 12  # frames that are heard one by one: enough to know more of their shape
KNOWN_MAX = 64  # wires whose streams are known
HALVINGS = 5  # until an odd frame among many has been found, or it is seen that many are odd

TOKENS_OF_TEXT = ("stream_token", "llm.token")
"""Where `token` is a piece of text (docs/dialects/smooth.md, section 5; docs/dialects/pando.md, section 4)."""


Around = list[list[str]]

Fixed = dict[str, list[int]]
"""Words that stand for themselves, with the numbers of the frames in which they do."""


class FrameRedactor:
    """The frames of one recording, in their order. `names` are keys under which nothing is kept.

    Frames have numbers from 0 in what is looked at together, each of a run its own. `streams_are_clean` says that
    whoever hands in a stream has looked for the same things in what its deltas say.
    """

    def __init__(
        self, finder: Finder, cleaner: Cleaner, names: Sequence[str] = (), *, streams_are_clean: bool = False
    ) -> None:
        self._finder = finder
        self._cleaner = cleaner
        self._names = frozenset(names)
        self._sayings = FieldTexts()
        self._last = ("", False)
        self._streams_are_clean = streams_are_clean
        self._known: dict[
            TapKey, tuple[Around, list[FieldText]]
        ] = {}  # around texts of a stream, and clean; where they are

    def redact(self, frames: Sequence[FrameLine | FrameRun | Stream]) -> dict[int, list[Line]]:
        """Those of these that had to change, by their place, with what was taken out of their frames."""
        fixed: Fixed = {}
        singles: dict[TapKey, tuple[list[int], list[str]]] = {}
        number = 0
        for frame in frames:
            if isinstance(frame, Stream):
                for one in frame.wires:
                    self._before(singles, (one.link, one.dir), fixed)
                    if not self._pass_by(frame, one):
                        self._hear_stream(number, frame, one, fixed)
                    number += len(frame.texts)
                continue
            wire: TapKey = (frame.link, frame.dir)
            if isinstance(frame, FrameLine):
                some = singles.get(wire)
                if some is None:
                    some = singles[wire] = ([], [])
                if frame.text is not None:
                    some[0].append(number)
                    some[1].append(frame.text)
                else:
                    for text in texts_of(frame):
                        some[0].append(number)
                        some[1].append(text)
                number += 1
            else:
                self._before(singles, wire, fixed)
                self._hear_run(number, frame, fixed)
                number += len(frame.words)
        for wire, (numbers, texts) in singles.items():
            self._hear(wire, numbers, texts, fixed)
        self._look_at(fixed)
        touched, self._sayings.touched = self._sayings.touched, []
        for saying in touched:
            self._look_through(saying)
        if self._sayings.forget():
            self._known.clear()
        return self._cleaner.clean(frames)

    def _before(self, singles: dict[TapKey, tuple[list[int], list[str]]], wire: TapKey, fixed: Fixed) -> None:
        """Hear the single frames of a wire first."""
        before = singles.pop(wire, None)
        if before is not None:
            self._hear(wire, *before, fixed)

    def _pass_by(self, stream: Stream, wire: StreamFrames) -> bool:
        """Only remember what its frames say, if there is nothing else in them than in those before them."""
        around, sayings = self._known.get((wire.link, wire.dir), ((), ()))
        if around != wire.around or any(saying.parts for saying in sayings):
            return False
        said = "".join(stream.texts)
        for saying in sayings:
            saying.behind = (saying.behind + said)[-max(BEHIND, self._finder.reach) :]
        return True

    def _hear_run(self, number: int, run: FrameRun, fixed: Fixed) -> None:
        texts = self._sayings.meant(run.words)
        self._hear_alike((run.link, run.dir), number, run.around, texts, lambda: run.texts, fixed)

    def _hear_stream(self, number: int, stream: Stream, wire: StreamFrames, fixed: Fixed) -> None:
        first, *between, last = wire.around_at(stream.rounds[0].at)
        around = [f'{first}"', *(f'"{part}"' for part in between), f'"{last}']
        of = (wire.link, wire.dir)
        sayings = self._hear_alike(of, number, around, stream.texts, partial(stream.frames, wire), fixed)
        if sayings and self._streams_are_clean:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[of] = wire.around, sayings

    def _hear_alike(
        self,
        wire: TapKey,
        number: int,
        around: Sequence[str],
        texts: Sequence[str] | None,
        frames: Callable[[], Iterable[str]],
        fixed: Fixed,
    ) -> list[FieldText]:
        """Frames with a word between what is `around` are heard at once, if it is one; the first tells a new shape.

        Where they say it, if there is nothing else to be seen in any of them.
        """
        numbers: Sequence[int] = range(number, number + len(texts)) if texts is not None else ()
        sayings = self._sayings.hear_run(numbers, wire, around, texts) if texts is not None else None
        if sayings is not None:
            return sayings
        whole = list(frames())
        numbers = range(number, number + len(whole))
        self._hear(wire, numbers[:1], whole[:1], fixed, 0)
        self._sayings.expect(wire, whole[0])
        sayings = self._sayings.hear_run(numbers[1:], wire, around, texts[1:]) if texts is not None else None
        if sayings is None:
            self._hear(wire, numbers[1:], whole[1:], fixed)
        return sayings or []

    def _hear(
        self, wire: TapKey, numbers: Sequence[int], texts: Sequence[str], fixed: Fixed, halvings: int = HALVINGS
    ) -> None:
        """Frames are heard all at once if they are of one shape; else each half of them, and at last one by one."""
        if len(texts) > 1 and self._sayings.hear_all(numbers, wire, "\n".join(texts)):
            return
        if halvings and len(texts) > FEW:
            middle = len(texts) // 2 if self._sayings.knows(wire) else FEW  # of the first ones the others are learnt
            self._hear(wire, numbers[:middle], texts[:middle], fixed, halvings - 1)
            self._hear(wire, numbers[middle:], texts[middle:], fixed, halvings - 1)
            return
        for number, text in zip(numbers, texts, strict=True):
            said = self._sayings.hear(number, wire, text)
            if said is not None:
                self._judge(number, text, said)
                for word in said.fixed:
                    fixed.setdefault(word, []).append(number)

    def _judge(self, index: int, text: str, said: ParsedFrame) -> None:
        """What a frame is by its keys; one that may hold a secret by them is looked at each time that it comes."""
        credentials = said.value is not None and has_credentials(said.value)
        if credentials:
            self._cleaner.empty(index, "token")
        named = not self._names.isdisjoint(said.keys)
        if named:
            self._cleaner.empty(index, "path")
        secret = {key for key in said.keys if ends_as_secret(key[-NAME_MAX:])}  # a hit of its cache is no call
        if secret == {"token"} and any(word in text for word in TOKENS_OF_TEXT):
            secret = set()
        setting = "value" in said.keys  # its name stands beside it
        if secret or setting:
            self._cleaner.suspect(index)
        if credentials or named or secret or setting or not self._finder.is_clean(said.fixed):
            self._sayings.distrust(said)
        if said.texts:
            for kind in across(self._finder, said.texts, lambda *_secret: "")[1]:
                self._cleaner.empty(index, kind)

    def _look_at(self, fixed: Fixed) -> None:
        """Words that stand for themselves."""
        if self._finder.is_clean(fixed):
            return
        for word, indices in fixed.items():
            for span in self._finder.find(word):
                for index in indices:
                    self._cleaner.take_out(index, span.kind, word[span.start : span.end])

    def _look_through(self, saying: FieldText) -> None:
        """What was said is put together; of a large text only its ends are: it is looked at as a whole, and once."""
        heard, saying.parts = saying.parts, []
        if True not in [len(some) == 1 and len(some[0]) >= LARGE for _, some in heard]:
            self._put_together(saying, heard)
            return
        before: list[Part] = []
        for numbers, words in heard:
            if len(words) > 1 or len(words[0]) < LARGE:
                before.append((numbers, words))
                continue
            self._put_together(saying, [*before, (numbers, (words[0][:LARGE],))], goes_on=False)
            self._take_out(numbers[0], words[0])
            saying.behind = ""
            before = [(numbers, (words[0][-LARGE:],))]
        self._put_together(saying, before)

    def _put_together(self, saying: FieldText, parts: Sequence[Part], *, goes_on: bool = True) -> None:
        text = saying.behind + "".join(["".join(words) for _, words in parts])
        spans = self._finder.find(text)
        unfinished = self._finder.open(text) if goes_on else None
        if unfinished is not None and unfinished.end - unfinished.start < HIDDEN:
            unfinished = None
        if spans or unfinished is not None:
            places = list(_places(parts, len(saying.behind)))
            inside = overlapping(spans, [(start, end) for _, start, end in places])
            for (index, start, end), some in zip(places, inside, strict=True):
                for span in some:
                    if start <= span.start and span.end <= end:
                        self._cleaner.take_out(index, span.kind, text[span.start : span.end])
                    else:
                        self._cleaner.empty(index, span.kind)
                if unfinished is not None and unfinished.start < end and unfinished.end > start:
                    self._cleaner.doubt(index)
        if self._has_code(text):  # typed as all of an input
            for numbers, words in parts:
                for index, word in zip(numbers, words, strict=True):
                    self._take_out(index, word)
        begin = unfinished.start if unfinished is not None else len(text)
        saying.behind = text[max(0, begin - max(BEHIND, self._finder.reach), len(text) - BEHIND_MAX) :]

    def _has_code(self, text: str) -> bool:
        """Whether `code ` is said in it; what is said on one side of the gateway is said on the other."""
        if self._last[0] != text:
            self._last = (text, "code " in text.lower())
        return self._last[1]

    def _take_out(self, index: int, text: str) -> None:
        for span in self._finder.find(text):
            self._cleaner.take_out(index, span.kind, text[span.start : span.end])


def _places(parts: Sequence[Part], at: int) -> Iterator[tuple[int, int, int]]:
    for numbers, words in parts:
        for number, word in zip(numbers, words, strict=True):
            yield number, at, at + len(word)
            at += len(word)
