from __future__ import annotations

import pytest

from dragoman.gateway.recording.format import CommandLine, EventLine, FrameLine, Line, Part
from dragoman.gateway.recording.show.wire import BACKEND, CANONICAL, CLIENTS, FOLD_MIN, folded, label_of, wire_rows
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.commands import PauseTurn
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta, TextDone, ToolOutputDelta


def received(seq: int, t: int, text: str = "{}") -> FrameLine:
    return FrameLine(seq=seq, t=t, link="up", dir="receive", dialect="pod", text=text)


def step(seq: int, t: int, event: Event) -> list[Line]:
    """Return a step with one received frame, its event, and the frame sent for it."""
    sent = FrameLine(seq=seq + 2, t=t, link="smooth-1", dir="send", dialect="smooth", text="{}")
    return [received(seq, t), EventLine(seq=seq + 1, t=t, cursor=f"1:{seq}", turn="t", event=event), sent]


def steps(*events: Event) -> list[Line]:
    return [line for number, event in enumerate(events) for line in step(3 * number + 1, number * 9000, event)]


def test_pieces_of_one_text_are_one_row() -> None:
    events: list[Event] = [TextDelta(text="a"), TextDelta(text="b"), TextDone(text="ab"), TextDelta(text="c")]
    assert [[line.seq for line in row.columns[CANONICAL]] for row in wire_rows(steps(*events))] == [[2, 5], [8], [11]]


def test_a_row_takes_no_more_than_so_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.recording.show.wire.ROW_MAX", 3)
    rows = wire_rows(steps(*[TextDelta(text="a")] * 7))
    assert [len(row.columns[CANONICAL]) for row in rows] == [3, 3, 1]


def test_pieces_of_other_texts_begin_another_row() -> None:
    events: list[Event] = [ReasoningDelta(text="a"), TextDelta(text="b"), ToolOutputDelta(call="1", text="c")]
    events += [ToolOutputDelta(call="2", text="d")]
    assert [len(row.columns[BACKEND]) for row in wire_rows(steps(*events))] == [1, 1, 1, 1]


def test_a_missing_frame_has_its_own_row() -> None:
    lines = steps(TextDelta(text="a"), TextDelta(text="b"), TextDelta(text="c"))
    lines[3] = FrameLine(seq=4, t=9000, link="up", dir="receive", dialect="pod", missing="too large")
    assert [len(row.columns[CLIENTS]) for row in wire_rows(lines)] == [1, 1, 1]


def test_all_lines_are_in_the_rows() -> None:
    lines = steps(*[TextDelta(text=str(n)) for n in range(50)])
    (row,) = wire_rows(lines)
    assert sorted(line.seq for column in row.columns for line in column) == [line.seq for line in lines]


def test_many_alike_lines_are_a_fold_and_few_are_not() -> None:
    many = [received(seq, 0, '{"event":"a"}') for seq in range(2, FOLD_MIN + 2)]
    other = received(1, 0, '{"event":"b"}')
    assert folded([other, *many]) == [[other], many]
    assert folded([other, *many[1:]]) == [[other], *([line] for line in many[1:])]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ('{"event":"text_done","data":{}}', "text_done"),
        ('{"type":"stream_token"}', "stream_token"),
        ('{"jsonrpc":"2.0","method":"turn/started"}', "turn/started"),
        ('{"jsonrpc":"2.0","id":1,"result":{}}', "result"),
        ('{"jsonrpc":"2.0","id":1,"error":{}}', "error"),
        ('{"type":7}', ""),
        ("[1]", ""),
        ("garbage", ""),
        ('{"type":"' + "x" * 1000 + '"}', "x" * 60),
    ],
)
def test_a_frame_is_labelled_with_the_type_named_in_it(text: str, label: str) -> None:
    assert label_of(received(1, 0, text)) == label


def test_a_zeromq_message_is_labelled_by_its_last_part_or_its_channel() -> None:
    parts = (Part(text="topic"), Part(text='{"type":"a"}'))
    line = FrameLine(seq=1, t=0, link="up", dir="receive", dialect="pando", channel="sub", parts=parts)
    assert label_of(line) == "a"
    empty = FrameLine(
        seq=1, t=0, link="up", dir="receive", dialect="pando", channel="sub", parts=(Part(base64=b"\xff"),)
    )
    assert label_of(empty) == "sub"


def test_events_and_commands_are_labelled_with_their_type() -> None:
    assert label_of(EventLine(seq=1, t=0, cursor="1:0", event=TextDelta(text="a"))) == "text_delta"
    assert label_of(CommandLine(seq=1, t=0, cursor="1:0", link="up", command=PauseTurn(request="r"))) == "pause_turn"
