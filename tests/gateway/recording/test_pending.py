from __future__ import annotations

import pytest

from dragoman.gateway.recording.format import UP, EventLine, FrameLine, decode_line, encode_lines
from dragoman.gateway.recording.pending import (
    LINES_MAX,
    SIZE_MAX,
    FramesNote,
    PendingSteps,
    TapPoint,
    TextRun,
)
from dragoman.mappings.alike import Around
from dragoman.mappings.canonical import Batch, Event
from dragoman.mappings.canonical.events import TextDelta, TextDone
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Parts

ORIGIN = Origin(link="a", request="r")
RECEIVED, SENT = TapPoint(UP, "receive", "pod"), TapPoint(UP, "send", "pod")


def batch(*events: Event) -> Batch:
    return Batch(session="s", epoch=2, first_seq=7, events=list(events), turn="t", origin=ORIGIN, at=99)


def test_a_message_of_several_parts_after_a_folded_frame_of_its_tap_is_kept() -> None:
    notes = PendingSteps()
    written = []
    for frame in (b'{"text":"ab"}', Parts("pub", b"", (b'{"text":"ab"}', b"x"))):
        notes.add(1, [FramesNote(RECEIVED, [frame]), batch(TextDelta(text="ab"))])
        written += notes.take()()
    assert [line.frames[0].around for line in written] == [[['{"text":'], ["}"]], []]
    assert written[1].frames[0].frame() == Parts("pub", b"", (b'{"text":"ab"}', b"x"))


def test_frames_that_are_too_large_for_readers_are_left_out_of_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.recording.format.UNFOLDED_MAX", 1_000_000)
    notes = PendingSteps()
    frames = [b'{"id":"%s","text":"%s"}' % (b"i" * 20_000, letter) for letter in (b"x", b"y")]
    sent = [FramesNote(TapPoint(f"smooth-{link}", "send", "smooth"), frames) for link in range(100)]
    notes.add(2, [batch(TextDelta(text="x"), TextDelta(text="y")), *sent])
    following = notes.count + 1
    notes.add(3, [batch(TextDone(text="end"))])
    lines = [decode_line(line) for line in encode_lines(notes.take()()).splitlines()]
    assert [entry.missing for line in lines for entry in line.frames] == ["over 1000000 characters"] * 100
    events = [entry.event for line in lines for entry in line.lines() if isinstance(entry, EventLine)]
    assert events == [TextDelta(text="x"), TextDelta(text="y"), TextDone(text="end")]
    assert lines[-1].seq == following


@pytest.mark.parametrize("ending", [b"}", b" }"])
def test_frames_that_were_kept_between_others_are_compared(ending: bytes) -> None:
    notes, to_client = PendingSteps(), TapPoint("smooth-1", "send", "smooth")

    def piece(t: int, position: int, *texts: bytes, ending: bytes = b"}") -> None:
        events: list[Event] = [TextDelta(text=text.decode()) for text in texts]
        batch = Batch(session="s", epoch=2, first_seq=position, events=events, turn="t", origin=ORIGIN, at=99)
        read = FramesNote(RECEIVED, [b'{"text":"%b"}' % text for text in texts])
        notes.add(t, [read, batch, FramesNote(to_client, [b'{"token":"%b"%b' % (text, ending) for text in texts])])

    piece(1, 7, b"a")
    assert notes.common is not None
    around: dict[TapPoint, Around] = {to_client: [[b'{"token":'], [b"}"]]}
    notes.add_texts(TextRun(notes.common, [2, 8, 99, "b", b'{"text":"b"}', None], around), 12)
    piece(3, 9, b"c", b"d", ending=ending)
    steps = notes.take()()
    assert len(steps) == 1 or ending != b"}"
    lines = [line for step in steps for line in step.lines()]
    assert [line.seq for line in lines] == [*range(1, 13)]
    sent = [line.text for line in lines if isinstance(line, FrameLine) and line.link == "smooth-1"]
    end = ending.decode()
    assert sent == ['{"token":"a"}', '{"token":"b"}', f'{{"token":"c"{end}', f'{{"token":"d"{end}']


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
