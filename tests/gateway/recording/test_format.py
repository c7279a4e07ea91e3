from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dragoman.gateway.recording import format as recording
from dragoman.gateway.recording.format import Header, LineError, RecordingError, decode_header, decode_line, encode
from dragoman.gateway.recording.lines import EventLine, FrameLine
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.errors import ConfigError
from tests.gateway.recording.lines import HEADER


def test_a_header_comes_back() -> None:
    header = Header(
        gateway="1.2", started_at=5, route="r", session="s", dialects={"pod": "seed"}, part=2, seq=7, lost=3
    )
    assert decode_header(encode(header)) == (header, 3)


def test_a_header_names_the_format_and_its_version() -> None:
    said = json.loads(encode(Header()))
    assert (said["kind"], said["format"], said["version"]) == ("header", "dragoman-recording", 3)


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


@pytest.mark.parametrize("started_at", [-1, 1 << 63, 10**23])
def test_a_header_of_no_time_of_the_calendar_is_refused(started_at: int) -> None:
    with pytest.raises(RecordingError, match="its header cannot be read"):
        decode_header(
            b'{"kind":"header","format":"dragoman-recording","version":3,"started_at":%d}' % started_at, "a.jsonl"
        )


@pytest.mark.parametrize("wrong", [{"cursor": "abc"}, {"cursor": ""}, {"cursor": "1:-4"}, {"t": -1}, {"t": 10**18}])
def test_a_line_with_a_place_or_a_time_that_is_none_is_no_line(wrong: dict[str, object]) -> None:
    line = {"kind": "event", "seq": 1, "t": 2, "cursor": "1:1", "event": {"type": "text_delta", "text": "ho"}}
    assert decode_line(msgspec.json.encode(line)).seq == 1
    with pytest.raises(LineError):
        decode_line(msgspec.json.encode({**line, **wrong}))


def test_a_newer_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        RecordingError, match="version 4, and this dragoman reads up to 3: read it with a newer dragoman"
    ):
        decode_header(b'{"format":"dragoman-recording","version":4,"kind":"something else"}')


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
