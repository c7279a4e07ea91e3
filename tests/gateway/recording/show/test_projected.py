from __future__ import annotations

import json

import pytest

from dragoman.gateway import registry
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.show.projected import projected
from tests.gateway.recording.lines import FROZEN


def frames(name: str) -> list[bytes]:
    recording = open_recording(FROZEN / "v4.jsonl")
    rendered = list(projected(registry.dialect(name), recording.header.session, recording.lines()))
    return [frame for part in rendered for frame in part.frames]


def test_a_smooth_client_sees_its_own_turn_under_its_own_request() -> None:
    seen = [json.loads(frame) for frame in frames("smooth")]
    assert {frame["requestId"] for frame in seen} == {"r1"}
    assert "".join(frame["token"] for frame in seen if frame["type"] == "stream_token") == "Two lines."
    assert seen[-1]["type"] == "eventual_response"


def test_a_pod_client_sees_the_same_conversation() -> None:
    seen = [json.loads(frame) for frame in frames("pod")]
    assert "".join(frame["data"]["text"] for frame in seen if frame["event"] == "text_delta") == "Two lines."
    assert [frame["data"]["result"] for frame in seen if frame["event"] == "run_end"] == ["finished"]


@pytest.mark.parametrize("name", list(registry.dialects()))
def test_show_prints_frames_of_every_dialect(name: str) -> None:
    assert any(b"Two " in frame for frame in frames(name))
