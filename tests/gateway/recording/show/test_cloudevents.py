from __future__ import annotations

import json
import re
from typing import Any

from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.show.cloudevents import cloud_events
from tests.gateway.recording.lines import FROZEN

ATTRIBUTE = re.compile(r"[a-z0-9]{1,20}")  # CloudEvents 1.0, section 3.1: what attributes may be called
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def told(*, frames: bool) -> list[dict[str, Any]]:
    recording = open_recording(FROZEN / "v4.jsonl")
    return [json.loads(line) for line in cloud_events(recording.header, recording.lines(), frames=frames)]


def test_each_line_is_a_valid_cloudevent() -> None:
    for event in told(frames=True):
        assert event["specversion"] == "1.0"
        assert {"id", "source", "type"} <= set(event)
        assert all(ATTRIBUTE.fullmatch(name) for name in event)
        assert all(isinstance(value, str | bool) for name, value in event.items() if name != "data")
        assert TIME.fullmatch(event["time"])
        assert event["datacontenttype"] == "application/json"


def test_ids_are_unique_and_in_order() -> None:
    events = told(frames=True)
    assert len({(event["source"], event["id"]) for event in events}) == len(events) == 21
    assert [event["sequence"] for event in events] == sorted(event["sequence"] for event in events)


def test_events_and_commands_are_exported_with_their_fields() -> None:
    events = {event["id"]: event for event in told(frames=False)}
    assert set(events) == {"2", "3", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "17", "18"}
    assert events["2"]["type"] == "dragoman.command.submit_input"
    assert events["11"]["type"] == "dragoman.event.text_delta"
    assert events["11"]["data"] == {"type": "text_delta", "text": "Two "}
    assert events["11"]["time"] == "2023-11-14T22:13:20.004000Z"
    assert events["11"]["subject"] == "00000000-0000-4000-8000-0000000000aa"
    assert events["12"]["redacted"] is True
    assert (events["18"]["link"], events["18"]["cursor"]) == ("smooth-1", "1:10")


def test_frames_are_exported_on_request() -> None:
    (frame,) = [event for event in told(frames=True) if event["id"] == "19"]
    assert frame["type"] == "dragoman.frame.receive"
    assert frame["data"] == {
        "dialect": "pando",
        "channel": "sub",
        "parts": [{"text": "llm.token"}, {"base64": "//79"}],
    }
