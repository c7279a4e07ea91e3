from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.recording.format import UP, EventLine, FrameLine, decode_line, encode_lines, in_steps
from dragoman.gateway.recording.pending import (
    LINES_MAX,
    RUN_MIN,
    SIZE_MAX,
    FramesNote,
    PendingSteps,
    TapPoint,
    frame_lines,
)
from dragoman.mappings.canonical import Batch, Event
from dragoman.mappings.canonical.commands import PauseTurn
from dragoman.mappings.canonical.events import TextDelta, TextDone
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Frame, Oversize, Parts
from tests.gateway.recording.lines import frame_at, items_of, lines_of, raw, read_back

ORIGIN = Origin(link="a", request="r")
RECEIVED, SENT = TapPoint(UP, "receive", "pod"), TapPoint(UP, "send", "pod")


def batch(*events: Event) -> Batch:
    return Batch(session="s", epoch=2, first_seq=7, events=list(events), turn="t", origin=ORIGIN, at=99)


def test_pending_items_are_in_order_and_numbered_together() -> None:
    notes = PendingSteps()
    command = EventLine(cursor="2:8", command=PauseTurn(), link="a")
    notes.add(3, [FramesNote(RECEIVED, [b"a", b"b"]), batch(TextDelta(text="x"), TextDone(text="x")), command])
    assert notes.count == 5
    assert [(line.seq, line.t, type(line)) for line in items_of(notes.take()())] == [
        (1, 3, FrameLine),
        (2, 3, FrameLine),
        (3, 3, EventLine),
        (4, 3, EventLine),
        (5, 3, EventLine),
    ]
    assert (notes.count, notes.take()()) == (0, [])
    notes.add(4, [FramesNote(SENT, [b"c"])])
    assert [(line.seq, line.t) for line in items_of(notes.take()())] == [(6, 4)]


@pytest.mark.parametrize("said", [[TextDelta(text="x"), TextDelta(text="y")], []], ids=["rounds", "words"])
def test_frames_that_are_too_large_for_readers_are_left_out_of_a_line(
    said: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.recording.format.UNFOLDED_MAX", 1_000_000)
    notes = PendingSteps()
    frames = [b'{"id":"%s","text":"%s"}' % (b"i" * 20_000, letter) for letter in (b"x", b"y") * (1 if said else 5)]
    sent = [FramesNote(TapPoint(f"smooth-{link}", "send", "smooth"), frames) for link in range(100)]
    notes.add(2, [*([batch(*said)] if said else []), *sent])
    following = notes.count + 1
    notes.add(3, [batch(TextDone(text="end"))])
    lines = [decode_line(line) for line in encode_lines(notes.take()()).splitlines()]
    assert [entry.missing for line in lines for entry in line.frames] == ["over 1000000 characters"] * 100
    assert [event.count for line in lines for event in line.events] == [len(said), 1][not said :]
    assert lines[-1].seq == following


def test_deltas_among_other_events_are_folded() -> None:
    notes = PendingSteps()
    deltas = [TextDelta(text=text) for text in "abcd"]
    events: list[Event] = [*deltas, TextDone(text="abcd"), TextDelta(text="e")]
    notes.add(2, [batch(*events)])
    lines = items_of(notes.take()())
    assert [line.count for line in lines] == [4, 1, 1]
    assert lines_of(lines) == [
        EventLine(seq=1 + at, t=2, cursor=f"2:{7 + at}", event=event, turn="t", origin=ORIGIN, at=99)
        for at, event in enumerate(events)
    ]


def test_alike_frames_are_folded() -> None:
    notes = PendingSteps()
    notes.add(1, [FramesNote(RECEIVED, [b'{"text":"%d"}' % at for at in range(20)]), FramesNote(SENT, [b"x"])])
    first, last = items_of(notes.take()())
    assert isinstance(first, FrameLine)
    assert first.count == 20
    assert (first.seq, last.seq) == (1, 21)


def test_many_items_or_large_frames_should_be_taken_now() -> None:
    notes = PendingSteps()
    assert [notes.add(1, [FramesNote(SENT, [b"x"])]) for _ in range(LINES_MAX)] == [*[False] * (LINES_MAX - 1), True]
    notes.take()
    assert not notes.add(1, [FramesNote(SENT, [b"x" * (SIZE_MAX - 1)])])
    assert notes.add(1, [FramesNote(RECEIVED, [Parts("rpc", b"", (b"", b"x"))])])
    notes.take()
    assert not notes.add(1, [FramesNote(SENT, [b"x"])])


def test_large_texts_should_be_taken_now() -> None:
    notes, seq = PendingSteps(), 7
    for texts, much in ((["x" * (SIZE_MAX - 1)], False), (["x"], True), (["x" * SIZE_MAX, "y"], True)):
        deltas: list[Event] = [TextDelta(text=text) for text in texts]
        assert notes.add(1, [Batch(session="s", epoch=2, first_seq=seq, events=deltas)]) is much
        seq += len(texts)
        if much:
            notes.take()


def test_large_frames_around_short_texts_should_be_taken_now() -> None:
    frame = b'{"event":"text_delta","data":{"text":"a","more":"' + b"x" * (SIZE_MAX // 3) + b'"}}'
    for many in (1, 2):
        notes = PendingSteps()
        for position in range(4):
            events: list[Event] = [TextDelta(text="a")] * many
            batch = Batch(session="s", epoch=1, first_seq=many * position, events=events)
            much = notes.add(1, [FramesNote(TapPoint(UP, "receive", "pod"), [frame] * many), batch])
            assert much is ((position + 1) * many > 2)


# -- alike frames of one step --------------------------------------------------------------------------------


WORDS = ["The", " quick", "", ' "Dragon"', "\n", "木", " 🦀", "\\", " over", " the", " lazy", "dog"]


def pod(word: str) -> bytes:
    data = {"event": "text_delta", "data": {"text": word}}
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def smooth(word: str, at: int = 5) -> bytes:
    said = {"requestId": "r", "timestamp": at, "token": word}
    return json.dumps({"type": "stream_token", **said, "data": said}, ensure_ascii=False).encode()


def stored(frames: Sequence[Frame]) -> list[FrameLine]:
    steps = in_steps(1, 2, frame_lines(UP, "receive", "pod", frames))
    return [entry for step in steps for entry in step.entries() if isinstance(entry, FrameLine)]


def as_they_were(frames: Sequence[Frame]) -> list[FrameLine]:
    """Return the stored lines; assert that they stand for exactly these frames, also after reading them back."""
    lines = stored(frames)
    again = read_back(lines)
    expected = [frame_at(seq, 2, UP, "receive", "pod", frame) for seq, frame in enumerate(frames, 1)]
    assert lines_of(lines) == lines_of(again) == expected
    assert [line.seq for line in lines] == [1 + sum(line.count for line in lines[:at]) for at in range(len(lines))]
    return lines


@pytest.mark.parametrize("frames", [[*map(pod, WORDS)], [*map(smooth, WORDS)], tuple(map(pod, WORDS))])
def test_frames_that_differ_in_one_word_are_one_line(frames: Sequence[bytes]) -> None:
    (run,) = as_they_were(frames)
    assert run.words[1:4] == [" quick", "", r" \"Dragon\""]
    assert len(raw([run])) < len(b"".join(frames))


def test_fewer_frames_than_the_minimum_are_not_folded() -> None:
    assert len(as_they_were([pod(word) for word in WORDS[:RUN_MIN]])) == RUN_MIN
    assert as_they_were([]) == []


@pytest.mark.parametrize("at", [0, 1, 17, 98, 99])
def test_an_odd_frame_among_many_costs_few_lines(at: int) -> None:
    frames: list[Frame] = [pod(f"w{n}") for n in range(100)]
    frames[at] = b'{"event":"text_done"}'
    assert len(as_they_were(frames)) < 30


def test_equal_frames_and_frames_of_two_kinds_are_not_folded() -> None:
    assert len(as_they_were([pod("x")] * 20)) == 20
    assert len(as_they_were([pod("x"), smooth("x")] * 20)) == 40
    assert len(as_they_were([smooth(f"w{at}", at) for at in range(20)])) == 20, "their clocks differ too"


@pytest.mark.parametrize(
    "odd",
    [
        b"\xff",
        b"",
        b'{"event":"text_delta","data":{"text":"\xff"}}',
        pod("x") + b"\n",
        b"\n",
        b'"',
        Oversize(9, 8),
        Parts("sub", b"", (b"a", b"b")),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 5, -1])
def test_odd_frames_are_read_back_unchanged(odd: Frame, at: int) -> None:
    frames: list[Frame] = [pod(f"w{n}") for n in range(12)]
    frames[at] = odd
    as_they_were(frames)
    as_they_were([odd] * 12)


@given(
    st.lists(
        st.sampled_from([b'{"a":"x"}', b'{"a":"y"}', b'"', b'"x"', b"x", b'{"a":"x","b":"x"}', b'\\"', b"\n"]),
        max_size=40,
    )
)
def test_any_frames_are_read_back_unchanged(frames: list[bytes]) -> None:
    as_they_were(frames)


@given(st.lists(st.binary(max_size=6), max_size=30), st.binary(max_size=6), st.binary(max_size=6))
def test_any_text_around_words_is_read_back_unchanged(words: list[bytes], before: bytes, behind: bytes) -> None:
    as_they_were([before + b'"' + word + b'"' + behind for word in words])
