from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dragoman.gateway.recording.format import (
    UP,
    CommandLine,
    EventLine,
    FrameLine,
    Header,
    Line,
    LineError,
    RecordingError,
    Round,
    StepLine,
    VersionError,
    decode_header,
    decode_line,
    encode,
    packed,
)
from dragoman.mappings.canonical.commands import PauseTurn
from dragoman.mappings.canonical.events import Reply, TextDelta, TextDone, ToolOutputDelta
from dragoman.mappings.canonical.unions import Unmapped
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Missed, Oversize, Parts
from dragoman.mappings.errors import ConfigError
from tests.gateway.recording.lines import frame_at, raw, read_back


def test_a_header_is_read_back_unchanged() -> None:
    header = Header(
        gateway="1.2", started_at=5, route="r", session="s", dialects={"pod": "seed"}, part=2, seq=7, lost=3
    )
    assert decode_header(encode(header)) == header


def test_a_header_names_the_format_and_its_version() -> None:
    said = json.loads(encode(Header()))
    assert (said["kind"], said["format"], said["version"]) == ("header", "dragoman-recording", 4)


def test_line_ends_in_a_text_do_not_split_its_line() -> None:
    line = EventLine(seq=1, t=0, cursor="1:0", event=TextDelta(text="a\nb\r\nc\u2028d"))
    assert raw([line]).count(b"\n") == 1


def test_unknown_keys_are_skipped() -> None:
    event = b'{"cursor":"1:0","new":[1],"event":{"type":"text_delta","text":"x","new":{}}}'
    line = b'{"kind":"step","seq":1,"t":2,"new":{},"events":[%s]}' % event
    assert list(decode_line(line).lines()) == [EventLine(seq=1, t=2, cursor="1:0", event=TextDelta(text="x"))]


def test_the_error_for_a_line_of_an_unknown_kind_names_the_kind() -> None:
    with pytest.raises(LineError) as caught:
        decode_line(b'{"kind":"note","text":"x"}')
    assert caught.value.unknown == "note"


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"\x00\x00", b"[]", b'{"kind":"step"}', b'{"kind":"step","seq":1,"t":1}', b"\xff", b"[" * 100_000],
)
def test_an_invalid_line_is_refused(line: bytes) -> None:
    with pytest.raises(LineError) as caught:
        decode_line(line)
    assert caught.value.unknown == ""


@pytest.mark.parametrize("frame", [{"base64": "A"}, {"base64": "é"}, {"channel": "pub", "parts": [{"base64": "AAA"}]}])
def test_a_line_with_invalid_base64_is_refused(frame: dict[str, object]) -> None:
    written = {"link": "up", "dir": "receive", "dialect": "pod", **frame}
    with pytest.raises(LineError):
        decode_line(msgspec.json.encode({"kind": "step", "seq": 1, "t": 2, "frames": [written]}))


@pytest.mark.parametrize("line", [b"", b"{}", b"hello", b'{"format":"asciicast","version":2}', b"\xff", b"[1]"])
def test_a_file_that_is_no_recording_is_refused_by_name(line: bytes) -> None:
    with pytest.raises(ConfigError, match=r"a\.jsonl is not a recording"):
        decode_header(line, "a.jsonl")


@pytest.mark.parametrize("started_at", [-1, 1 << 63, 10**23])
def test_a_header_with_a_time_outside_of_the_calendar_is_refused(started_at: int) -> None:
    with pytest.raises(RecordingError, match="its header cannot be read"):
        decode_header(
            b'{"kind":"header","format":"dragoman-recording","version":4,"started_at":%d}' % started_at, "a.jsonl"
        )


@pytest.mark.parametrize("wrong", [{"cursor": "abc"}, {"cursor": ""}, {"cursor": "1:-4"}, {"t": -1}, {"t": 10**18}])
def test_a_line_with_an_invalid_cursor_or_time_is_refused(wrong: dict[str, object]) -> None:
    event = {"cursor": "1:1", "event": {"type": "text_delta", "text": "ho"}}
    line = {"kind": "step", "seq": 1, "t": 2}
    assert decode_line(msgspec.json.encode({**line, "events": [event]})).seq == 1
    with pytest.raises(LineError):
        decode_line(msgspec.json.encode({**line, "events": [{**event, **wrong}], **wrong}))


DELTA: dict[str, object] = {"event": {"type": "text_delta", "text": ""}}
PAUSE: dict[str, object] = {"command": {"type": "pause_turn"}}


@pytest.mark.parametrize(
    ("place", "entry"),
    [
        ("events", {}),
        ("events", PAUSE),
        ("commands", {}),
        ("commands", DELTA),
    ],
)
def test_an_entry_that_contradicts_its_place_is_refused(place: str, entry: dict[str, object]) -> None:
    line = {"kind": "step", "seq": 1, "t": 2}
    fits = DELTA if place == "events" else PAUSE
    assert decode_line(msgspec.json.encode({**line, place: [{"cursor": "1:1", **fits}]})).count == 1
    with pytest.raises(LineError):
        decode_line(msgspec.json.encode({**line, place: [{"cursor": "1:1", **entry}]}))


def test_a_newer_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(VersionError, match="version 5, and this dragoman reads version 4: read it with a newer"):
        decode_header(b'{"format":"dragoman-recording","version":5,"kind":"something else"}')


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_unreleased_version_is_refused_by_its_number_and_the_name_of_the_file(version: int) -> None:
    line = b'{"kind":"header","format":"dragoman-recording","version":%d,"session":"s"}' % version
    with pytest.raises(VersionError, match=rf"a\.jsonl is a recording of version {version}, which no release .* wrote"):
        decode_header(line, "a.jsonl")


# -- the order in a step ----------------------------------------------------------------------------------------


def test_a_step_is_one_line_and_its_items_are_read_back_in_order() -> None:
    items: list[Line] = [
        FrameLine(seq=1, t=5, link="c", dir="receive", dialect="smooth", text="a"),
        CommandLine(seq=2, t=5, cursor="1:7", command=PauseTurn(request="r"), link="c"),
        EventLine(seq=3, t=5, cursor="1:7", event=Reply(request="r"), link="c"),
        EventLine(seq=4, t=5, cursor="1:7", event=TextDone(text="x")),
        CommandLine(seq=5, t=5, cursor="1:8", command=PauseTurn(request="u"), link="up"),
        EventLine(seq=6, t=5, cursor="1:8", event=TextDone(text="y")),
        FrameLine(seq=7, t=5, link="up", dir="send", dialect="pod", text="b"),
        FrameLine(seq=8, t=5, link="c", dir="send", dialect="smooth", text="c"),
    ]
    (step,) = packed(items)
    assert (step.seq, step.t, step.count) == (1, 5, 8)
    assert read_back(items) == items


@pytest.mark.parametrize(
    "second",
    [
        FrameLine(seq=2, t=5, link="c", dir="receive", dialect="smooth", text="a"),
        CommandLine(seq=2, t=5, cursor="1:7", command=PauseTurn()),
        EventLine(seq=2, t=6, cursor="1:8", event=TextDone(text="x")),
        EventLine(seq=3, t=5, cursor="1:8", event=TextDone(text="x")),
    ],
    ids=["frame received later", "command behind an event of its cursor", "another time", "number left out"],
)
def test_two_lines_keep_an_order_that_one_step_cannot_express(second: Line) -> None:
    items: list[Line] = [EventLine(seq=1, t=5, cursor="1:7", event=TextDone(text="x")), second]
    assert len(list(packed(items))) == 2
    assert read_back(items) == items


# -- frames, events and commands -----------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [b'{"a":1}', "Grüße 🦀\u2028".encode(), b"\xff\xfe", b""])
def test_a_frame_is_read_back_byte_for_byte(frame: bytes) -> None:
    line = frame_at(1, 2, "smooth-1", "send", "smooth", frame)
    (again,) = read_back([line])
    assert isinstance(again, FrameLine)
    assert again == line
    assert again.frame() == frame


def test_a_zeromq_message_is_read_back_with_its_parts_and_without_its_identity() -> None:
    line = frame_at(1, 2, UP, "receive", "pando", Parts("sub", b"who", (b"topic", b"", b"\xff")))
    (again,) = read_back([line])
    assert isinstance(again, FrameLine)
    assert again.frame() == Parts("sub", b"", (b"topic", b"", b"\xff"))


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (Oversize(20, 10), "too large: message of 20 bytes"),
        (Oversize(65, 64, "message_parts"), "too large: message of 65 parts"),
        (Missed("sub", 3), "3 messages"),
    ],
)
def test_a_row_without_a_frame_gives_the_reason(frame: Oversize | Missed, why: str) -> None:
    line = frame_at(1, 2, UP, "receive", "pod", frame)
    assert line.missing.startswith(why)
    assert line.frame() is None


def test_a_reply_is_not_in_the_log() -> None:
    assert not EventLine(seq=1, t=0, cursor="1:0", link="pod-1", event=Reply(request="r")).logged


def test_an_unknown_message_is_read_back_as_command_and_as_event() -> None:
    unknown = Unmapped(dialect="pod", tag="x", raw="{}")
    for line in (
        CommandLine(seq=1, t=0, cursor="1:0", command=unknown),
        EventLine(seq=1, t=0, cursor="1:0", event=unknown),
    ):
        assert read_back([line]) == [line]


# -- alike frames and streamed texts, folded -----------------------------------------------------------------


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
        {"events": [{**EVENT, "texts": ["x"] * 3, "link": "c"}]},
        {"events": [{**EVENT, "texts": ["x"] * 3, "redacted": True}]},
        {"events": [{**EVENT, "texts": ["x"] * 3, "event": {"type": "text_done", "text": ""}}]},
        {"events": [{**EVENT, "texts": ["x"] * 3, "event": {"type": "text_delta", "text": "x"}}]},
        {"events": [{**EVENT, "texts": ["x"] * 3, "event": {"type": "text_delta", "text": "", "ext": {"x": 1}}}]},
        {"frames": [FRAME] * 2},
        {"frames": [{**FRAME, "around": [["x"]]}]},
        {"frames": [{**FRAME, "around": [[], ["x"]]}]},
        {"commands": [{"cursor": "1:1", "command": {"type": "pause_turn"}}]},
    ],
)
def test_a_step_with_contradicting_rounds_is_refused(changed: dict[str, Any]) -> None:
    line = json.loads(raw([STREAM]))
    decode_line(json.dumps(line).encode())
    with pytest.raises(LineError) as caught:
        decode_line(json.dumps({**line, **changed}).encode())
    assert caught.value.unknown == ""


def test_rounds_whose_frames_are_too_large_unfolded_are_refused() -> None:
    texts = ["x"] * 20_000
    changed = {"events": [{**EVENT, "texts": texts}], "rounds": [[len(texts), 9, 1]]}
    line = {**json.loads(raw([STREAM])), **changed}
    assert decode_line(json.dumps(line).encode()).rounds
    with pytest.raises(LineError, match="its frames have over 1073741824 characters"):
        decode_line(json.dumps({**line, "frames": [{**FRAME, "around": [["x" * 100_000], ["y"]]}]}).encode())


@pytest.mark.parametrize(
    "entry",
    [{"frames": [FRAME]}, {"events": [{**EVENT, "texts": ["x"]}]}, {"frames": [FRAME | {"words": ["a", "b"]}]}],
)
def test_a_folded_entry_of_a_step_without_rounds_is_refused(entry: dict[str, Any]) -> None:
    """Its items are unknown, and the seq of the next step would not fit."""
    with pytest.raises(LineError, match="without `rounds`"):
        decode_line(json.dumps({"kind": "step", "seq": 1, "t": 9, **entry}).encode())
