from __future__ import annotations

import json

import pytest

from dragoman.gateway import registry
from dragoman.gateway.recording.format import EventLine
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.show.projected import batches, projected
from dragoman.mappings.canonical.events import QuestionAsked, Reply, TextDelta
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


# -- batches ------------------------------------------------------------------------------------------------


def line(seq: int, t: int, event: TextDelta | QuestionAsked, turn: str = "t") -> EventLine:
    return EventLine(seq=seq, t=t, cursor=f"1:{seq}", turn=turn, at=t, event=event)


def test_events_of_one_time_and_turn_are_one_batch() -> None:
    a, b, c = (TextDelta(text=text) for text in "abc")
    first, second, third = batches("s", [line(1, 5, a), line(2, 5, b), line(3, 6, c), line(4, 6, c, turn="u")])
    assert (first.events, first.first_seq, first.epoch, first.turn, first.session) == ([a, b], 1, 1, "t", "s")
    assert (second.events, second.first_seq, second.at) == ([c], 3, 6)
    assert third.turn == "u"


def test_a_question_ends_its_batch() -> None:
    asked = QuestionAsked(text="May I?", parked=True)
    first, second = batches("s", [line(1, 5, asked), line(2, 5, TextDelta(text="a"))])
    assert (first.events, second.events) == ([asked], [TextDelta(text="a")])


def test_a_reply_to_one_link_is_in_no_batch() -> None:
    answer = EventLine(seq=1, t=0, cursor="1:0", link="pod-1", event=Reply(request="r"))
    assert list(batches("s", [answer])) == []
