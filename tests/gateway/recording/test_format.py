from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.recording import format as recording
from gateway.recording.format import (
    UP,
    EventLine,
    EventRun,
    FrameLine,
    FrameRun,
    Header,
    LineError,
    RecordingError,
    count,
    decode_header,
    decode_line,
    encode,
    frame_line,
    lines_of,
)
from mappings.canonical.commands import SubmitInput
from mappings.canonical.events import Reply, TextDelta
from mappings.canonical.unmapped import Unmapped
from mappings.canonical.values import Origin, Text
from mappings.dialect import Missed, Oversize, Parts
from mappings.errors import ConfigError
from tests.gateway.recording.lines import HEADER


def test_a_header_comes_back() -> None:
    header = Header(
        gateway="1.2", started_at=5, route="r", session="s", dialects={"pod": "seed"}, part=2, seq=7, lost=3
    )
    assert decode_header(encode(header)) == (header, 2)


def test_a_header_names_the_format_and_its_version() -> None:
    said = json.loads(encode(Header()))
    assert (said["kind"], said["format"], said["version"]) == ("header", "dragoman-recording", 2)


@pytest.mark.parametrize("frame", [b'{"a":1}', "Grüße 🦀\u2028".encode(), b"\xff\xfe", b""])
def test_a_frame_comes_back_byte_for_byte(frame: bytes) -> None:
    line = frame_line(1, 2, "smooth-1", "send", "smooth", frame)
    again = decode_line(encode(line))
    assert isinstance(again, FrameLine)
    assert again == line
    assert again.frame() == frame


def test_a_zeromq_message_comes_back_with_its_parts_and_without_whose_it_was() -> None:
    line = frame_line(1, 2, UP, "receive", "pando", Parts("sub", b"who", (b"topic", b"", b"\xff")))
    again = decode_line(encode(line))
    assert isinstance(again, FrameLine)
    assert again.frame() == Parts("sub", b"", (b"topic", b"", b"\xff"))


@pytest.mark.parametrize(
    ("frame", "why"), [(Oversize(20, 10), "too large: 20 bytes"), (Missed("sub", 3), "3 messages")]
)
def test_a_frame_that_never_came_says_why(frame: Oversize | Missed, why: str) -> None:
    line = frame_line(1, 2, UP, "receive", "pod", frame)
    assert line.missing.startswith(why)
    assert line.frame() is None


def test_an_event_comes_back_with_its_place() -> None:
    line = EventLine(
        seq=4, t=9, cursor="2:31", turn="t", origin=Origin(link="a", request="r"), at=8, event=TextDelta(text="x")
    )
    again = decode_line(encode(line))
    assert again == line
    assert isinstance(again, EventLine)
    assert again.position == (2, 31)
    assert again.logged


def test_a_command_comes_back_and_stands_in_no_log() -> None:
    command = SubmitInput(request="r", segments=(Text(text="hello"),))
    again = decode_line(encode(EventLine(seq=1, t=0, cursor="1:0", link="pod-1", command=command)))
    assert isinstance(again, EventLine)
    assert again.command == command
    assert not again.logged


def test_an_answer_stands_in_no_log() -> None:
    assert not EventLine(seq=1, t=0, cursor="1:0", link="pod-1", event=Reply(request="r")).logged


def test_an_unknown_message_comes_back_as_command_and_as_event() -> None:
    unknown = Unmapped(dialect="pod", tag="x", raw="{}")
    for line in (
        EventLine(seq=1, t=0, cursor="1:0", command=unknown),
        EventLine(seq=1, t=0, cursor="1:0", event=unknown),
    ):
        assert decode_line(encode(line)) == line


FRAMES = FrameRun(
    seq=4, t=9, link=UP, dir="receive", dialect="pod", around=['{"a":"', '","b":"', '"}'], words=["", "x", r"\"\u0041"]
)
EVENTS = EventRun(
    seq=7, t=9, cursor="2:31", events=[TextDelta(text="x"), Unmapped(dialect="pod", tag="x", raw="{}")], turn="t",
    origin=Origin(link="a", request="r"), at=8,
)  # fmt: skip


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


def test_a_line_is_one_line_whatever_stands_in_it() -> None:
    line = EventLine(seq=1, t=0, cursor="1:0", event=TextDelta(text="a\nb\r\nc\u2028d"))
    assert b"\n" not in encode(line)


def test_keys_of_the_future_are_skipped() -> None:
    line = b'{"kind":"event","seq":1,"t":2,"cursor":"1:0","new":[1],"event":{"type":"text_delta","text":"x","new":{}}}'
    assert decode_line(line) == EventLine(seq=1, t=2, cursor="1:0", event=TextDelta(text="x"))


def test_a_line_of_an_unknown_kind_says_which() -> None:
    with pytest.raises(LineError) as caught:
        decode_line(b'{"kind":"note","text":"x"}')
    assert caught.value.unknown == "note"


@pytest.mark.parametrize("line", [b"", b"{", b"\x00\x00", b"[]", b'{"kind":"frame"}', b"\xff", b"[" * 100_000])
def test_what_is_no_line_is_refused_as_such(line: bytes) -> None:
    with pytest.raises(LineError) as caught:
        decode_line(line)
    assert caught.value.unknown == ""


@pytest.mark.parametrize("line", [b"", b"{}", b"hello", b'{"format":"asciicast","version":2}', b"\xff", b"[1]"])
def test_a_file_that_is_no_recording_is_refused_by_name(line: bytes) -> None:
    with pytest.raises(ConfigError, match=r"a\.jsonl is no recording"):
        decode_header(line, "a.jsonl")


def test_a_newer_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        RecordingError, match="version 3, and this dragoman reads up to 2: read it with a newer dragoman"
    ):
        decode_header(b'{"format":"dragoman-recording","version":3,"kind":"something else"}')


def test_a_version_that_never_was_is_refused() -> None:
    with pytest.raises(RecordingError, match="never was"):
        decode_header(b'{"format":"dragoman-recording","version":0}')


def test_an_older_version_goes_through_every_converter_up_to_this(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_0(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "version": 1} if "format" in line else {**line, "t": line["time"]}

    def from_1(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "kind": "frame", "text": line["what"]} if "what" in line else line

    monkeypatch.setattr(recording, "VERSION", 2)
    monkeypatch.setattr(recording, "CONVERTERS", {0: from_0, 1: from_1})
    header, version = decode_header(b'{"kind":"header","format":"dragoman-recording","version":0,"session":"s"}')
    assert (header.session, version) == ("s", 0)
    old = b'{"seq":1,"time":2,"link":"up","dir":"send","dialect":"pod","what":"x"}'
    assert decode_line(old, version) == FrameLine(seq=1, t=2, link="up", dir="send", dialect="pod", text="x")


def test_lines_of_this_version_are_not_converted() -> None:
    assert decode_header(encode(HEADER))[1] == recording.VERSION
