from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from msgspec import Raw

from dragoman.gateway import registry
from dragoman.gateway.recording.format import EventLine, FrameLine, Line
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.show.projected import Losses, batches, find_losses, projected
from dragoman.mappings.canonical.events import (
    QuestionAsked,
    Reply,
    TextDelta,
    ToolCallArguments,
    ToolOutputDelta,
    TurnEnded,
)
from dragoman.mappings.canonical.unions import Unmapped
from dragoman.mappings.dialect import Dialect
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


# -- losses ----------------------------------------------------------------------------------------


CALL = ToolCallArguments(call="c", name="ls", json="{}", done=True)
WITHOUT_CALL = "smooth clients get it without call"


def frame(dialect: str, link: str = "") -> FrameLine:
    return FrameLine(seq=1, t=0, link=link or f"{dialect}-1", dir="receive", dialect=dialect, text="{}")


def lost(lines: Sequence[Line]) -> Losses:
    return find_losses("s", lines, registry.dialect)


def event(seq: int, event: object, t: int = 0) -> EventLine:
    return EventLine(seq=seq, t=t, cursor=f"1:{seq}", turn="t", event=event)  # type: ignore[arg-type]  # an Event


def test_fields_that_a_client_does_not_get_are_named() -> None:
    assert lost([frame("smooth"), event(2, CALL)]) == {2: [WITHOUT_CALL]}


def test_a_field_that_only_the_dialect_of_the_backend_has_is_named() -> None:
    ended = TurnEnded(end="completed", text="a", ext={"smooth.directive": Raw(b'"stay"')})
    lines: list[Line] = [frame("smooth", link="up"), frame("pod"), event(2, ended)]
    assert lost(lines) == {2: ["pod clients get it without ext.directive"]}


def test_an_event_that_a_client_does_not_get_has_the_reason_of_its_rule() -> None:
    rule = registry.dialect("pod").events.from_canonical.entries[ToolOutputDelta].fidelity
    why = getattr(rule, "why", "")
    assert why
    lines: list[Line] = [frame("pod"), event(2, CALL), event(3, ToolOutputDelta(call="c", text="a"))]
    assert lost(lines)[3] == [f"pod clients do not get it: {why}"]


def test_an_unknown_message_of_the_backend_is_one_that_other_clients_do_not_get() -> None:
    lines: list[Line] = [frame("pod", link="up"), frame("smooth"), event(2, Unmapped(dialect="pod", tag="x", raw="{}"))]
    assert lost(lines) == {2: ["smooth clients do not get it: a message of pod"]}


def test_a_dialect_counts_from_the_first_frame_of_its_client() -> None:
    lines: list[Line] = [event(1, CALL), frame("smooth"), event(3, CALL, t=5)]
    assert lost(lines) == {3: [WITHOUT_CALL]}


def test_the_dialect_of_the_backend_loses_no_fields() -> None:
    lines: list[Line] = [frame("smooth", link="up"), frame("smooth"), event(2, CALL)]
    assert lost(lines) == {}


def test_a_dialect_that_is_not_installed_is_left_out() -> None:
    assert lost([frame("latin"), frame("smooth"), event(2, CALL)]) == {2: [WITHOUT_CALL]}


def test_events_that_cannot_be_rendered_are_shown_without_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, dialect: Dialect) -> None:
            pass

        def render(self, batch: object) -> None:
            raise RuntimeError

    monkeypatch.setattr("dragoman.gateway.recording.show.projected.ProjectedSession", Broken)
    lines: list[Line] = [frame("smooth"), event(2, CALL), event(3, TextDelta(text="a"), t=5)]
    assert lost(lines) == {}
