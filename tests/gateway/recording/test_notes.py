from __future__ import annotations

from gateway.recording.format import UP, EventLine, EventRun, FrameLine, FrameRun, lines_of
from gateway.recording.notes import Notes
from mappings.canonical import Batch, Event
from mappings.canonical.commands import PauseTurn
from mappings.canonical.events import TextDelta, TextDone
from mappings.canonical.values import Origin

ORIGIN = Origin(link="a", request="r")


def batch(*events: Event) -> Batch:
    return Batch(session="s", epoch=2, first_seq=7, events=list(events), turn="t", origin=ORIGIN, at=99)


def test_what_happened_has_lines_in_its_order_and_one_count() -> None:
    notes = Notes()
    notes.frames(1, UP, "receive", "pod", [b"a", b"b"])
    notes.batch(2, batch(TextDelta(text="x")))
    notes.line(EventLine(seq=0, t=3, cursor="2:8", command=PauseTurn(), link="a"))
    assert notes.count == 4
    assert [(line.seq, line.t, type(line)) for line in notes.take()] == [
        (1, 1, FrameLine), (2, 1, FrameLine), (3, 2, EventLine), (4, 3, EventLine),
    ]  # fmt: skip
    assert (notes.count, notes.take()) == (0, [])
    notes.frames(4, UP, "send", "pod", [b"c"])
    assert [line.seq for line in notes.take()] == [5]


def test_events_of_one_kind_in_a_row_are_a_run() -> None:
    notes = Notes()
    events: list[Event] = [TextDelta(text="a"), TextDelta(text="b"), TextDone(text="ab"), TextDelta(text="c")]
    notes.batch(2, batch(*events))
    lines = notes.take()
    assert [type(line) for line in lines] == [EventRun, EventLine, EventLine]
    assert list(lines_of(lines)) == [
        EventLine(seq=1 + at, t=2, cursor=f"2:{7 + at}", event=event, turn="t", origin=ORIGIN, at=99)
        for at, event in enumerate(events)
    ]


def test_frames_that_are_alike_are_a_run() -> None:
    notes = Notes()
    notes.frames(1, UP, "receive", "pod", [b'{"text":"%d"}' % at for at in range(20)])
    notes.frames(1, UP, "send", "pod", [b"x"])
    first, last = notes.take()
    assert isinstance(first, FrameRun)
    assert (first.seq, last.seq) == (1, 21)
