"""Deltas are stored as texts together with the frames in which they came and left, and are restored byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import count as count_from

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.gateway.recording.format import UP, EventLine, FrameLine, Line, StepLine
from dragoman.gateway.recording.pending import FramesNote, Note, PendingSteps, TapPoint
from dragoman.mappings.canonical import Batch, Event
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta, TextDone, ToolOutputDelta
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Frame, Missed, Parts
from tests.gateway.recording.lines import Item, count_of, frame_at, items_of, lines_of, raw, read_back

UP_POD = TapPoint(UP, "receive", "pod")
TO_SMOOTH, TO_OTHER = TapPoint("smooth-1", "send", "smooth"), TapPoint("smooth-2", "send", "smooth")
ORIGIN = Origin(link="smooth-1", request="req-1")
WORDS = ["The", " quick", "", ' "Dragon"', "\n", "木", " 🦀", "\\", " text", "token", "1700000000000", "\u2028", '",']


def dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def pod(word: str, at: int = 0) -> bytes:  # a pod tells no time
    return dumps({"event": "text_delta", "data": {"text": word}})


def smooth(word: str, at: int = 0) -> bytes:
    said = {"requestId": "req-1", "token": word}
    return dumps({"type": "stream_token", "timestamp": at // 1_000_000, **said, "data": said})


class Talk:
    """Rounds of one turn: a pod's frames, the deltas, and smooth frames for one or two clients."""

    def __init__(self, kind: Callable[..., Event] = TextDelta, sent: Sequence[TapPoint] = (TO_SMOOTH,)) -> None:
        self.kind = kind
        self.sent = sent
        self.seq = 31
        self.at = 1_700_000_000_000_000_000
        self.steps: list[tuple[int, list[Note]]] = []

    def round(self, *words: str, frame: Callable[[str, int], Frame] = smooth, origin: Origin = ORIGIN) -> Talk:
        """Add one read with this many words."""
        self.at += 7_300_000
        events = [self.kind(text=word) for word in words]
        batch = Batch(session="s", epoch=2, first_seq=self.seq, events=events, turn="t", origin=origin, at=self.at)
        self.seq += len(words)
        notes: list[Note] = [FramesNote(UP_POD, [pod(word) for word in words]), batch]
        notes += [FramesNote(tapped, [frame(word, self.at) for word in words]) for tapped in self.sent]
        return self.step(*notes)

    def step(self, *notes: Note) -> Talk:
        self.steps.append((len(self.steps) * 1000, list(notes)))
        return self

    def lines(self) -> Iterator[Line]:
        """Return the lines one by one, as no recorder groups them."""
        seq = count_from(1)
        for t, step in self.steps:
            for note in step:
                if isinstance(note, FramesNote):
                    yield from (frame_at(next(seq), t, *note.tapped, frame) for frame in note.frames)
                elif isinstance(note, Batch):
                    for place, event in enumerate(note.events, note.first_seq):
                        yield EventLine(
                            seq=next(seq),
                            t=t,
                            cursor=f"{note.epoch}:{place}",
                            event=event,
                            turn=note.turn,
                            origin=note.origin,
                            at=note.at,
                        )

    def stored(self, *, every: int = 1000) -> list[Item]:
        """Return the lines as stored, taken after this many steps each; assert that they stand for the same lines when
        read back.
        """
        notes, stored = PendingSteps(), list[Item]()
        for number, (t, step) in enumerate(self.steps, 1):
            notes.add(t, step)
            if number % every == 0:
                stored += items_of(notes.take()())
        stored += items_of(notes.take()())
        assert lines_of(stored) == list(self.lines())
        assert lines_of(read_back(stored)) == list(self.lines())
        assert [line.seq for line in stored] == [1 + sum(map(count_of, stored[:at])) for at in range(len(stored))]
        return stored


def streams(stored: Sequence[Item]) -> list[StepLine]:
    return [line for line in stored if isinstance(line, StepLine)]


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta, lambda text: ToolOutputDelta(text=text, call="c1")])
@pytest.mark.parametrize("sent", [(), (TO_SMOOTH,), (TO_SMOOTH, TO_OTHER)])
def test_tokens_that_arrive_one_by_one_are_one_line(kind: Callable[..., Event], sent: Sequence[TapPoint]) -> None:
    talk = Talk(kind, sent)
    for word in WORDS:
        talk.round(word)
    (stream,) = talk.stored()
    assert isinstance(stream, StepLine)
    assert stream.texts == WORDS
    assert len(stream.rounds) == len(WORDS)
    assert [(wire.link, wire.dir) for wire in stream.frames] == [(UP, "receive"), *((t.link, "send") for t in sent)]
    assert stream.t == 0


def test_tokens_that_arrive_together_are_one_line_and_many_times_smaller() -> None:
    talk = Talk().round(*WORDS * 100).round(*WORDS * 50)
    (stream,) = talk.stored()
    assert isinstance(stream, StepLine)
    assert [some.count for some in stream.rounds] == [100 * len(WORDS), 50 * len(WORDS)]
    assert stream.frames[1].around == [
        ['{"type":"stream_token","timestamp":', ',"requestId":"req-1","token":'],
        [',"data":{"requestId":"req-1","token":'],
        ["}}"],
    ]
    assert len(raw([stream])) * 15 < len(raw(talk.lines()))


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_text_streams_on_after_some_of_it_was_taken(every: int) -> None:
    talk = Talk()
    for word in WORDS:
        talk.round(word, word)
    stored = talk.stored(every=every)
    assert len(streams(stored)) == len(stored) == -(-len(WORDS) // every)


def test_the_strings_around_a_text_may_change_after_some_of_it_was_taken() -> None:
    talk = Talk()
    for word in WORDS:
        talk.round(word, frame=lambda text, at: smooth(text, at).replace(b"req-1", b"req-2"))
        talk.round(word)
    stored = talk.stored(every=1)
    assert len(streams(stored)) == len(stored) == 2 * len(WORDS)


def test_items_between_two_folded_steps_keep_their_place() -> None:
    talk = Talk().round("a").round("b")
    talk.step(FramesNote(UP_POD, [b'{"event":"usage"}'])).round("c").round("d", origin=Origin(link="smooth-2"))
    kinds = [type(line) for line in talk.stored()]
    assert kinds == [StepLine, FrameLine, StepLine, StepLine]


@pytest.mark.parametrize(
    "odd",
    [
        lambda word, at: smooth(word, at + 1_000_000),
        lambda word, at: smooth(word, at).replace(b'"token"', b'"toke\\u006e"', 1),
        lambda word, at: smooth(word, at) + b" ",
        lambda word, at: b"\xff" + smooth(word, at),
        lambda word, at: smooth(word, at).replace(b",", b",\n", 1),
        lambda word, at: json.dumps(json.loads(smooth(word + "é", at))).encode(),
        lambda _word, _at: b"",
        lambda word, at: Parts("pub", b"", (smooth(word, at),)),
        lambda _word, _at: Missed("pub", 3),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 5, 12])
def test_frames_that_are_not_alike_are_not_folded(odd: Callable[[str, int], Frame], at: int) -> None:
    one_by_one, together = Talk(), Talk()
    for number, word in enumerate(WORDS):
        one_by_one.round(word, frame=odd if number == at else smooth)
    together.round(*WORDS, frame=lambda word, time: odd(word, time) if word == WORDS[at] else smooth(word, time))
    one_by_one.stored()
    assert streams(together.stored()) == []


def test_frames_without_the_text_or_of_another_number_are_not_folded_with_it() -> None:
    talk = Talk(sent=()).round(*WORDS)
    t, step = talk.steps[0]
    talk.steps[0] = t, [*step, FramesNote(TO_SMOOTH, [smooth("".join(WORDS))])]
    assert [type(item) for item in talk.stored()] == [StepLine, FrameLine]
    talk = Talk().round(*WORDS, frame=lambda _word, _at: b'{"type":"keepalive"}')
    assert streams(talk.stored()) == []


@pytest.mark.parametrize(
    "events",
    [
        [TextDelta(text="a"), TextDone(text="a")],
        [TextDelta(text="a", ext={"x": Raw(b"1")})] * 9,
        [TextDelta(text="a"), ReasoningDelta(text="b")] * 9,
        [ToolOutputDelta(text="a", call="1"), ToolOutputDelta(text="b", call="2")] * 9,
        [TextDone(text="a")] * 9,
    ],
)
def test_events_that_differ_in_more_than_their_text_are_not_folded(events: list[Event]) -> None:
    talk = Talk()
    talk.step(Batch(session="s", epoch=2, first_seq=31, events=events, turn="t", origin=ORIGIN, at=5))
    assert set(map(type, talk.stored())) == {EventLine}


@pytest.mark.parametrize("merged", [False, True])
def test_a_text_that_comes_together_with_its_end_is_folded_before_it(merged: bool) -> None:
    talk = Talk(sent=(TO_SMOOTH, TO_OTHER)).round(*WORDS)
    t, [received, batch, sent, other] = talk.steps[0]
    assert isinstance(received, FramesNote)
    assert isinstance(batch, Batch)
    assert isinstance(sent, FramesNote)
    assert isinstance(other, FramesNote)
    received = FramesNote(UP_POD, [*received.frames, b'{"event":"text_done"}'])
    batch.events.append(TextDone(text="".join(WORDS)))
    sent = FramesNote(TO_SMOOTH, [*sent.frames, b'{"type":"done"}'])
    other = FramesNote(TO_OTHER, [smooth("".join(WORDS))]) if merged else other
    talk.steps[0] = t, [received, batch, sent, other]
    notes = PendingSteps()
    notes.add(*talk.steps[0])
    count = notes.count
    stream, *rest = read_back(items_of(notes.take()()))
    assert isinstance(stream, StepLine)
    assert (stream.texts, len(stream.frames)) == (WORDS, 2 if merged else 3)
    assert [line.text for line in rest if isinstance(line, FrameLine)] == [
        '{"event":"text_done"}',
        '{"type":"done"}',
        *([smooth("".join(WORDS)).decode()] if merged else []),
    ]
    (done,) = [line for line in rest if isinstance(line, EventLine)]
    assert (done.cursor, done.event) == (f"2:{31 + len(WORDS)}", batch.events[-1])
    assert [line.seq for line in lines_of([stream, *rest])] == list(range(1, count + 1))
    assert {line.t for line in lines_of([stream, *rest])} == {t}


def test_a_text_whose_frames_are_not_alike_is_not_moved_before_the_end_that_comes_with_it() -> None:
    talk = Talk().round(*WORDS, frame=lambda word, at: smooth(word, at) + b" " * (word == WORDS[3]))
    t, [received, batch, sent] = talk.steps[0]
    assert isinstance(batch, Batch)
    batch.events.append(TextDone(text="x"))
    talk.steps[0] = t, [received, batch, sent]
    assert streams(talk.stored()) == []


def test_a_delta_sent_twice_to_one_link_is_not_folded() -> None:
    talk = Talk(sent=(TO_SMOOTH, TO_SMOOTH))
    for word in WORDS:
        talk.round(word)
    assert streams(talk.stored()) == []


def test_the_output_of_two_calls_is_two_folded_steps() -> None:
    talk = Talk()
    for call in ("", "", "1", "1", "2"):
        talk.kind = lambda text, call=call: ToolOutputDelta(text=text, call=call)
        talk.round("x")
    assert [len(stream.texts) for stream in streams(talk.stored())] == [2, 2, 1]


def test_a_text_that_is_also_a_json_key_is_not_searched_in_frames() -> None:
    talk = Talk().round("text").round("token").round(" x")
    for word in ("text", "token", "a", "b"):
        talk.round(word)
    (stream,) = talk.stored()
    assert isinstance(stream, StepLine)
    for word in ("text", "token", "requestId"):  # where nothing else is there to tell, it is stored as it is
        Talk().round(word).stored()


texts = st.lists(st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=5)


@given(
    st.lists(texts.filter(bool), max_size=8),
    st.integers(1, 4),
    st.integers(0, 2),
    st.lists(st.integers(0, 7), max_size=2),
    st.lists(st.integers(0, 7), max_size=2),
)
def test_any_streamed_text_is_read_back_unchanged(
    rounds: list[list[str]], every: int, clients: int, odd: list[int], between: list[int]
) -> None:
    talk = Talk(sent=(TO_SMOOTH, TO_OTHER)[:clients])
    for number, words in enumerate(rounds):
        if number in between:
            talk.step(FramesNote(UP_POD, [b'{"event":"usage"}']))
        talk.round(*words, frame=(lambda word, at: smooth(word, at) + b" ") if number in odd else smooth)
    talk.stored(every=every)
