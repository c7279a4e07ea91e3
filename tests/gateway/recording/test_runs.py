from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.gateway.recording.format import LineError, decode_line, encode
from dragoman.gateway.recording.lines import UP, EventLine, FrameLine
from dragoman.gateway.recording.runs import EventRun, FrameRun, Round, Stream, Wire, count, lines_of
from dragoman.mappings.canonical.events import TextDelta, ToolOutputDelta
from dragoman.mappings.canonical.unmapped import Unmapped
from dragoman.mappings.canonical.values import Origin

FRAMES = FrameRun(
    seq=4, t=9, link=UP, dir="receive", dialect="pod", around=['{"a":"', '","b":"', '"}'], words=["", "x", r"\"\u0041"]
)


EVENTS = EventRun(
    seq=7, t=9, cursor="2:31", events=[TextDelta(text="x"), Unmapped(dialect="pod", tag="x", raw="{}")], turn="t",
    origin=Origin(link="a", request="r"), at=8,
)  # fmt: skip


STREAM = Stream(
    seq=9, cursor="2:31", event=ToolOutputDelta(text="", call="c"), texts=["x", '"\n', "é"],
    rounds=[Round(1, 9, 1_700_000_000_001_000_000), Round(2, 12, 1_700_000_000_002_500_000)],
    wires=[
        Wire(link=UP, dir="receive", dialect="pod", around=[['{"a":'], ["}"]]),
        Wire(link="c1", dir="send", dialect="smooth", around=[['{"t":', ',"a":'], [',"b":'], ["}"]]),
    ],
    turn="t", origin=Origin(link="a", request="r"),
)  # fmt: skip


def test_a_stream_comes_back_and_each_of_its_lines_stands_for_itself() -> None:
    assert decode_line(encode(STREAM)) == STREAM
    lines = list(STREAM.lines())
    assert count(STREAM) == len(lines) == 9
    assert [line.seq for line in lines] == list(range(9, 18))
    assert [line.t for line in lines] == [9] * 3 + [12] * 6
    assert [line.text for line in lines if isinstance(line, FrameLine)] == [
        '{"a":"x"}', '{"t":1700000000001,"a":"x","b":"x"}', r'{"a":"\"\n"}', '{"a":"é"}',
        r'{"t":1700000000002,"a":"\"\n","b":"\"\n"}', '{"t":1700000000002,"a":"é","b":"é"}',
    ]  # fmt: skip
    assert [line for line in lines if isinstance(line, EventLine)] == [
        EventLine(
            seq=seq, t=t, cursor=f"2:{31 + at}", event=ToolOutputDelta(text=STREAM.texts[at], call="c"), turn="t",
            origin=STREAM.origin, at=time,
        )
        for at, (seq, t, time) in enumerate(
            [(10, 9, STREAM.rounds[0].at), (14, 12, STREAM.rounds[1].at), (15, 12, STREAM.rounds[1].at)]
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"texts": []}, {"texts": ["x"]}, {"rounds": []}, {"rounds": [[3, 9]]}, {"rounds": [[0, 9, 1], [3, 9, 1]]},
        {"cursor": "x"}, {"event": {"type": "text_done", "text": "x"}},
        {"event": {"type": "text_delta", "text": "x"}},
        {"wires": [{"link": "up", "dir": "receive", "dialect": "pod", "around": [["x"], ["y"]]}] * 2},
        {"event": {"type": "text_delta", "text": "", "ext": {"x": 1}}},
        {"wires": [{"link": "up", "dir": "receive", "dialect": "pod", "around": [["x"]]}]},
        {"wires": [{"link": "up", "dir": "receive", "dialect": "pod", "around": [[], ["x"]]}]},
    ],
)  # fmt: skip
def test_a_stream_whose_columns_do_not_fit_is_no_line(changed: dict[str, Any]) -> None:
    with pytest.raises(LineError) as caught:
        decode_line(json.dumps({**json.loads(encode(STREAM)), **changed}).encode())
    assert caught.value.unknown == ""


def test_a_run_comes_back_and_each_of_its_lines_stands_for_itself() -> None:
    for run, number in ((FRAMES, 3), (EVENTS, 2)):
        assert decode_line(encode(run)) == run
        assert count(run) == number
        assert [count(line) for line in run.lines()] == [1] * number
    assert [(line.seq, line.t, line.link, line.dir, line.dialect, line.text) for line in FRAMES.lines()] == [
        (4, 9, UP, "receive", "pod", '{"a":"","b":""}'),
        (5, 9, UP, "receive", "pod", '{"a":"x","b":"x"}'),
        (6, 9, UP, "receive", "pod", r'{"a":"\"\u0041","b":"\"\u0041"}'),
    ]
    assert EVENTS.lines() == [
        EventLine(seq=7 + at, t=9, cursor=f"2:{31 + at}", event=event, turn="t", origin=EVENTS.origin, at=8)
        for at, event in enumerate(EVENTS.events)
    ]
    assert list(lines_of([FRAMES, EVENTS])) == [*FRAMES.lines(), *EVENTS.lines()]


@pytest.mark.parametrize(
    "changed",
    [{"around": []}, {"around": ["x"]}, {"words": []}, {"cursor": "x"}, {"cursor": "1:-1"}, {"events": []}],
)
def test_a_run_of_nothing_or_from_nowhere_is_no_line(changed: dict[str, Any]) -> None:
    run = FRAMES if changed.keys() & {"around", "words"} else EVENTS
    with pytest.raises(LineError) as caught:
        decode_line(json.dumps({**json.loads(encode(run)), **changed}).encode())
    assert caught.value.unknown == ""
