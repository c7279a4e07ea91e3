from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.gateway.recording.format import UP, EventLine, FrameLine, LineError, Round, StepLine, decode_line
from dragoman.mappings.canonical.events import ToolOutputDelta
from dragoman.mappings.canonical.values import Origin
from tests.gateway.recording.lines import lines_of, raw, read_back

FRAMES = FrameLine(
    seq=4,
    t=9,
    link=UP,
    dir="receive",
    dialect="pod",
    around=[['{"a":"'], ['","b":"'], ['"}']],
    words=["", "x", r"\"\u0041"],
)


STREAM = StepLine(
    seq=9,
    t=9,
    rounds=[Round(1, 9, 1_700_000_000_001_000_000), Round(2, 12, 1_700_000_000_002_500_000)],
    events=[
        EventLine(
            cursor="2:31",
            event=ToolOutputDelta(text="", call="c"),
            texts=["x", '"\n', "é"],
            turn="t",
            origin=Origin(link="a", request="r"),
        )
    ],
    frames=[
        FrameLine(link=UP, dir="receive", dialect="pod", around=[['{"a":'], ["}"]]),
        FrameLine(link="c1", dir="send", dialect="smooth", around=[['{"t":', ',"a":'], [',"b":'], ["}"]]),
    ],
)


def test_a_step_with_rounds_is_read_back_and_expands_to_its_lines() -> None:
    assert read_back([STREAM]) == [STREAM]
    lines = list(STREAM.lines())
    assert STREAM.count == len(lines) == 9
    assert [line.seq for line in lines] == list(range(9, 18))
    assert [line.t for line in lines] == [9] * 3 + [12] * 6
    assert [line.text for line in lines if isinstance(line, FrameLine)] == [
        '{"a":"x"}',
        '{"t":1700000000001,"a":"x","b":"x"}',
        r'{"a":"\"\n"}',
        '{"a":"é"}',
        r'{"t":1700000000002,"a":"\"\n","b":"\"\n"}',
        '{"t":1700000000002,"a":"é","b":"é"}',
    ]
    assert [line for line in lines if isinstance(line, EventLine)] == [
        EventLine(
            seq=seq,
            t=t,
            cursor=f"2:{31 + at}",
            event=ToolOutputDelta(text=STREAM.texts[at], call="c"),
            turn="t",
            origin=STREAM.events[0].origin,
            at=time,
        )
        for at, (seq, t, time) in enumerate(
            [(10, 9, STREAM.rounds[0].at), (14, 12, STREAM.rounds[1].at), (15, 12, STREAM.rounds[1].at)]
        )
    ]


EVENT, FRAME = (
    {"cursor": "2:31", "event": {"type": "tool_output_delta", "text": "", "call": "c"}},
    {
        "link": "up",
        "dir": "receive",
        "dialect": "pod",
        "around": [["x"], ["y"]],
    },
)


@pytest.mark.parametrize(
    "changed",
    [
        {"events": [{**EVENT, "texts": []}]},
        {"events": [{**EVENT, "texts": ["x"]}]},
        {"events": []},
        {"rounds": [[3, 9]]},
        {"rounds": [[0, 9, 1], [3, 9, 1]]},
        {"rounds": [[3, 10, 1]]},
        {"events": [{**EVENT, "texts": ["x"] * 3, "cursor": "x"}]},
        {"events": [{**EVENT, "texts": ["x"] * 3}] * 2},
        {"events": [{**EVENT, "texts": ["x"] * 3, "event": {"type": "text_done", "text": ""}}]},
        {"events": [{**EVENT, "texts": ["x"] * 3, "event": {"type": "text_delta", "text": "x"}}]},
        {"events": [{**EVENT, "texts": ["x"] * 3, "event": {"type": "text_delta", "text": "", "ext": {"x": 1}}}]},
        {"frames": [FRAME] * 2},
        {"frames": [{**FRAME, "around": [["x"]]}]},
        {"frames": [{**FRAME, "around": [[], ["x"]]}]},
        {"frames": [{**FRAME, "words": ["a", "b", "c"]}]},
        {"commands": [{"cursor": "1:1", "command": {"type": "pause_turn"}}]},
    ],
)
def test_a_step_with_contradicting_rounds_is_refused(changed: dict[str, Any]) -> None:
    line = json.loads(raw([STREAM]))
    decode_line(json.dumps(line).encode())
    with pytest.raises(LineError) as caught:
        decode_line(json.dumps({**line, **changed}).encode())
    assert caught.value.unknown == ""


def test_a_frame_with_words_is_read_back_and_expands_to_its_lines() -> None:
    assert read_back([FRAMES]) == [FRAMES]
    assert FRAMES.count == 3
    assert [line.count for line in FRAMES.lines()] == [1] * 3
    assert [(line.seq, line.t, line.link, line.dir, line.dialect, line.text) for line in FRAMES.lines()] == [
        (4, 9, UP, "receive", "pod", '{"a":"","b":""}'),
        (5, 9, UP, "receive", "pod", '{"a":"x","b":"x"}'),
        (6, 9, UP, "receive", "pod", r'{"a":"\"\u0041","b":"\"\u0041"}'),
    ]
    assert lines_of([FRAMES]) == FRAMES.lines()


@pytest.mark.parametrize(
    "changed",
    [{"around": []}, {"around": [["x"]]}, {"words": []}, {"around": [["x", "y"], ["z"]]}, {"dir": "sideways"}],
)
def test_a_frame_with_contradicting_words_is_refused(changed: dict[str, Any]) -> None:
    line = json.loads(raw([FRAMES]))
    line["frames"][0].update(changed)
    with pytest.raises(LineError) as caught:
        decode_line(json.dumps(line).encode())
    assert caught.value.unknown == ""
