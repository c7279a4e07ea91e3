from __future__ import annotations

from dragoman.gateway.recording.format import UP, EventLine, FrameLine
from dragoman.gateway.recording.pending import LINES_MAX, SIZE_MAX, FramesNote, PendingSteps, TapPoint
from dragoman.mappings.canonical import Batch, Event
from dragoman.mappings.canonical.commands import PauseTurn
from dragoman.mappings.canonical.events import TextDelta, TextDone
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Parts
from tests.gateway.recording.lines import items_of, lines_of

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
