"""Rendering for smooth clients: turns with one request id, one terminal each, no frame that is too large."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.mappings.canonical import Batch, Event, Unmapped, events
from dragoman.mappings.canonical.values import Cause, End, Failure, Message, Origin, Usage
from dragoman.mappings.dialect import Rendered
from dragoman.mappings.smooth import projection
from dragoman.mappings.smooth.projection import MAX_EVENT, Projection
from dragoman.mappings.smooth.wire.codecs import EVENTS
from tests.mappings.smooth.test_shapes import allowed
from tests.shared import needs_shared
from tests.smooth_shapes import assert_emitted

SESSION = "5d0c7a52-1f1e-4c5e-9c38-0f6b1f2a9e01"
TURN = "7c1de1f4-3f0b-4a44-8f0d-2a40b7d52b11"
AT = 1_700_000_000_123_456_789


def batch(*items: Event, turn: str = TURN) -> Batch:
    return Batch(
        session=SESSION,
        epoch=1,
        first_seq=0,
        events=list(items),
        turn=turn,
        origin=Origin(link="l", request="q"),
        at=AT,
    )


def frames(rendered: Rendered) -> list[dict[str, Any]]:
    """Return the frames of a rendering, each checked for shape, time and size."""
    decoded = [json.loads(frame) for frame in rendered.frames]
    for frame in decoded:
        assert_emitted(frame)
        assert frame["timestamp"] == AT // 1_000_000
    assert all(len(frame) <= MAX_EVENT for frame in rendered.frames)
    return decoded


def kinds(rendered: Rendered) -> list[str]:
    return [frame["type"] for frame in frames(rendered)]


def oops(text: str = "oops") -> events.ErrorReported:
    return events.ErrorReported(cause="tool_failed", text=text)


def turn_of(end: End = "completed") -> list[Event]:
    """Return a whole turn in its normal form."""
    return [
        events.TurnAccepted(request="q"),
        events.MessageAppended(message=Message(role="user", text="rain?")),
        events.StatusChanged(status="running"),
        events.RunStarted(kind="user_send"),
        events.ReasoningStarted(),
        events.ReasoningDelta(text="hm"),
        events.ReasoningDone(text="hm"),
        events.Preamble(text="a moment"),
        events.TextDelta(text="I look. "),
        events.TextDone(text="I look. "),
        events.ToolCallStarted(name="weather", call="1"),
        events.ToolCallArguments(json='{"town"', call="1"),
        events.ToolCallArguments(json='{"town":"Ghent"}', call="1", name="weather", done=True),
        events.ApprovalRequested(tool="weather", description="Look outside?"),
        events.ApprovalResolved(approved=True),
        events.ToolOutputDelta(text="r", call="1"),
        events.ToolCallFinished(call="1", name="weather", output="rain"),
        events.OtpRequired(tool="t", description="who?", channels=("sms",), auth_level="end_user"),
        events.OtpSent(channel="sms", destination="***"),
        events.InteractionRequired(question="i", kind="choices", spec=Raw(b"{}"), reason="why"),
        events.InteractionInvalid(question="i", kind="choices", errors=(), text="no"),
        events.InteractionResolved(question="i"),
        events.Heartbeat(),
        events.UsageReported(usage=Usage(input_tokens=1)),
        events.Alert(level="warn", source="disk", text="full"),
        events.TextDelta(text="It rains."),
        events.TextDone(text="It rains."),
        events.TurnResult(end=end),
        events.StatusChanged(status="idle"),
        events.TurnEnded(end=end, text="I look. It rains.", message=SESSION, usage=Usage(input_tokens=1)),
    ]


SEEN = [
    "immediate_response",
    "stream_reasoning",
    "stream_preamble",
    "stream_token",
    "stream_chunk",
    "write_confirmation_required",
    "stream_chunk",
    "otp_verification_required",
    "otp_sent",
    "interaction_required",
    "interaction_invalid",
    "keepalive",
    "stream_token",
    "eventual_response",
]


def test_other_links_see_the_turn_with_its_uuid_and_no_202() -> None:
    seen = frames(Projection().render(batch(*turn_of())))
    assert {frame["requestId"] for frame in seen} == {TURN}
    assert [frame["type"] for frame in seen] == SEEN[1:]


@needs_shared
def test_a_whole_turn_fits_the_schemas() -> None:
    for frame in frames(Projection("q").render(batch(*turn_of(), oops()))):
        assert allowed(frame["type"], frame), frame


def test_the_tokens_of_a_turn_are_the_text_of_its_terminal() -> None:
    seen = frames(Projection("q").render(batch(*turn_of())))
    text = "".join(frame["token"] for frame in seen if frame["type"] == "stream_token")
    assert seen[-1]["data"]["data"]["response"]["responseParts"] == [text]


@pytest.mark.parametrize(("turn", "told"), [(TURN, TURN), ("", "ours")])
def test_a_frame_of_unknown_type_in_a_turn_has_the_request_id_that_its_client_knows(turn: str, told: str) -> None:
    raw = '{"type":"confetti","requestId":"ours","data":{"requestId":"ours","n":1},"list":[]}'
    rendered = Projection().render(batch(Unmapped(dialect="smooth", tag="confetti", raw=raw), turn=turn))
    assert [json.loads(frame) for frame in rendered.frames] == [json.loads(raw.replace("ours", told))]


def test_losses_are_counted_once_a_batch() -> None:
    alert = events.Alert(level="warn", source="disk", text="full")
    projection = Projection()
    losses = projection.render(batch(alert, alert, events.RunStarted(kind="wakeup"))).losses
    assert [(loss.kind, loss.count) for loss in losses] == [("Alert", 2), ("RunStarted", 1)]
    assert projection.render(batch(events.TextDelta(text="a"))).losses == []


def test_a_made_message_id_is_the_same_for_every_client() -> None:
    ended = batch(events.TurnEnded(end="completed", text="a"))
    ids = {frames(p.render(ended))[0]["data"]["data"]["messageId"] for p in (Projection("q"), Projection())}
    assert len(ids) == 1


def test_between_turns_no_frame_has_the_id_of_a_turn() -> None:
    rendered = Projection().render(batch(events.Heartbeat(), oops(), events.OtpVerified(text="hi"), turn=""))
    assert [(frame["type"], frame.get("requestId")) for frame in frames(rendered)] == [
        ("error", None),
        ("otp_verified", None),
    ]


# -- errors inside a turn ----------------------------------------------------------------------------


def test_an_error_in_a_turn_waits_for_its_end_and_ends_nothing() -> None:
    projection = Projection("q")
    assert kinds(projection.render(batch(events.TextDelta(text="a"), oops(), events.TextDelta(text="b")))) == [
        "stream_token",
        "stream_token",
    ]
    seen = frames(projection.render(batch(events.TurnEnded(end="completed", text="ab"))))
    assert [(frame["type"], frame.get("requestId")) for frame in seen] == [
        ("error", None),
        ("eventual_response", "q"),
    ]
    assert kinds(projection.render(batch(events.TurnEnded(end="cancelled"), turn=SESSION))) == ["cancelled"]


def test_the_error_that_fails_the_turn_is_written_once() -> None:
    failure = Failure(cause="tool_failed", text="oops")
    ended = events.TurnEnded(end="failed", failure=failure)
    seen = frames(Projection("q").render(batch(oops("else"), oops(), ended)))
    assert [(frame["error"]["message"], frame.get("requestId")) for frame in seen] == [("else", None), ("oops", "q")]


def test_an_error_is_written_if_the_turn_did_not_fail() -> None:
    failure = Failure(cause="tool_failed", text="oops")
    ended = events.TurnEnded(end="cancelled", failure=failure)
    assert kinds(Projection("q").render(batch(oops(), ended))) == ["error", "cancelled"]


@pytest.mark.parametrize(
    ("cause", "text", "expected"),
    [
        ("model_failed", "", [("error", None), ("error", "q")]),
        ("rate_limited", "", [("error", None), ("error", "q")]),
        ("model_failed", "Hello", [("error", None), ("error", None), ("eventual_response", "q")]),
        ("tool_failed", "", [("error", None), ("error", None), ("eventual_response", "q")]),
    ],
)
def test_a_turn_without_an_answer_ends_with_the_error_of_its_model(
    cause: Cause, text: str, expected: list[tuple[str, str | None]]
) -> None:
    errors = events.ErrorReported(cause="tool_failed", text="first"), events.ErrorReported(cause=cause, text="last")
    seen = frames(Projection("q").render(batch(*errors, events.TurnEnded(end="completed", text=text))))
    assert [(frame["type"], frame.get("requestId")) for frame in seen] == expected


def test_errors_of_a_turn_without_an_end_are_written_with_the_next_batch() -> None:
    projection = Projection()
    projection.render(batch(oops()))
    seen = frames(projection.render(batch(events.TextDelta(text="a"), turn=SESSION)))
    assert [(frame["type"], frame.get("requestId")) for frame in seen] == [("error", None), ("stream_token", SESSION)]


def test_held_errors_are_bounded_and_the_rest_counted() -> None:
    rendered = Projection().render(batch(*[oops(str(n)) for n in range(100)]))
    assert [(loss.kind, loss.count) for loss in rendered.losses] == [("ErrorReported", 36)]


def test_a_copy_is_independent() -> None:
    projection = Projection("q")
    projection.render(batch(oops()))
    copied = projection.copy()
    ended = batch(events.TurnEnded(end="cancelled"))
    assert kinds(projection.render(ended)) == ["error", "cancelled"]
    assert kinds(copied.render(ended)) == ["error", "cancelled"]


# -- questions in words ------------------------------------------------------------------------------

VIEW = "identity_intake choices"
FORM = events.InteractionRequired(question="i", kind="identity_intake", spec=Raw(b'{"fields": []}'), reason="")


def words(number: int = 1, before: str = "Sure. ", kind: str = "identity_intake") -> events.QuestionAsked:
    return events.QuestionAsked(
        text=f"Field {number}?", question="i", kind=kind, before=before, number=number, parked=True
    )


def answered(number: int = 1, before: str = "Sure. ", kind: str = "identity_intake") -> events.QuestionAnswered:
    return events.QuestionAnswered(question="i", kind=kind, before=before, number=number)


def told(frame: dict[str, Any]) -> str:
    return "".join(frame["data"]["data"]["response"]["responseParts"])


def test_a_question_in_words_at_the_start_of_a_run_is_its_whole_text() -> None:
    seen = frames(Projection("q", VIEW).render(batch(FORM, words(before=""))))
    assert told(seen[-1]) == "Field 1?"


def test_a_call_beside_an_approval_is_shown_at_once_also_after_a_question_in_words() -> None:
    projection = Projection("q", VIEW)
    projection.render(batch(FORM, words()))
    asked = events.ApprovalRequested(tool="t", description="May I?")
    projection.render(batch(answered(), asked, words(2, kind="")))
    call = events.ToolCallArguments(call="c", name="t", json="{}", done=True)
    seen = frames(projection.render(batch(events.ToolCallStarted(call="c", name="t"), call)))
    assert [frame["type"] for frame in seen] == ["stream_chunk"]


def test_after_a_question_in_words_each_run_has_its_own_id_and_text() -> None:
    projection = Projection("q", VIEW)
    projection.render(batch(events.TextDelta(text="Sure. "), FORM, words()))
    assert frames(projection.render(batch(events.ToolCallStarted(call="c", name="t")))) == []
    second = frames(projection.render(batch(answered(), words(2))))
    third = frames(
        projection.render(
            batch(
                answered(2),
                events.TextDelta(text="Thanks."),
                events.TurnEnded(end="completed", text="Sure. Thanks.", message=TURN),
            )
        )
    )
    assert [told(frame) for frame in (second[-1], third[-1])] == ["Field 2?", "Thanks."]
    ids = [{frame["requestId"] for frame in run} for run in (second, third)]
    assert all(len(run) == 1 for run in ids)
    assert len({"q", TURN} | ids[0] | ids[1]) == 4
    assert second[-1]["data"]["data"]["messageId"] != third[-1]["data"]["data"]["messageId"]


def test_the_turn_after_a_question_in_words_has_its_own_id() -> None:
    projection = Projection("", VIEW)
    projection.render(batch(FORM, words(), turn=TURN))
    projection.render(batch(answered(), events.TurnEnded(end="completed"), turn=TURN))
    other = "7c1de1f4-3f0b-4a44-8f0d-2a40b7d52b12"
    seen = frames(projection.render(batch(events.TurnEnded(end="completed", text="All of it"), turn=other)))
    assert [(frame["requestId"], told(frame)) for frame in seen] == [(other, "All of it")]


# -- frames that are too large -----------------------------------------------------------------------

LARGE = 1_200_000


@pytest.mark.parametrize("character", ["a", "\u2603", "\U0001f989", "\x01", '"'])
@pytest.mark.parametrize("kind", [events.TextDelta, events.ReasoningDelta, events.Preamble])
def test_a_large_text_is_split_without_loss(kind: Callable[..., Event], character: str) -> None:
    rendered = Projection().render(batch(kind(text=character * LARGE)))
    assert "".join(frame["token"] for frame in frames(rendered)) == character * LARGE
    assert rendered.losses == []


def test_a_large_result_is_cut_with_a_mark_and_counted() -> None:
    rendered = Projection().render(batch(events.ToolCallFinished(name="t", output="a" * LARGE, is_error=True)))
    (frame,) = frames(rendered)
    result = frame["data"]["state"]["rawResponse"]["toolResult"]
    assert result["result"].endswith("\n[cut: 1200000 characters, 64000 shown]")
    assert (result["name"], result["isError"]) == ("t", True)
    assert [(loss.kind, loss.field) for loss in rendered.losses] == [("ToolCallFinished", "output")]


def test_the_sample_of_the_loss_of_a_large_result_is_what_is_left_of_it() -> None:
    rendered = Projection().render(batch(events.ToolCallFinished(name="t", output="a" * LARGE)))
    assert [len(msgspec.json.encode(loss.sample)) < MAX_EVENT for loss in rendered.losses] == [True]


def test_large_arguments_are_cut_and_stay_json() -> None:
    text = json.dumps({"a": "\x01" * LARGE})
    rendered = Projection().render(batch(events.ToolCallArguments(json=text, name="t", done=True)))
    (frame,) = frames(rendered)
    arguments = json.loads(frame["data"]["state"]["rawResponse"]["toolCall"]["arguments"])
    assert arguments["cut"].startswith('{"a": "')
    assert [(loss.kind, loss.field) for loss in rendered.losses] == [("ToolCallArguments", "json")]


def test_a_terminal_is_never_cut_but_replaced_by_an_error() -> None:
    rendered = Projection("q").render(batch(events.TurnEnded(end="completed", text="a" * LARGE)))
    (frame,) = frames(rendered)
    assert (frame["type"], frame["requestId"], frame["error"]["code"]) == ("error", "q", "INTERNAL_ERROR")
    assert [(loss.kind, loss.field) for loss in rendered.losses] == [("TurnEnded", "text")]


def test_the_text_of_a_failure_is_cut() -> None:
    failure = Failure(cause="internal", text="a" * LARGE)
    rendered = Projection("q").render(batch(events.TurnEnded(end="failed", failure=failure)))
    (frame,) = frames(rendered)
    assert (frame["requestId"], frame["error"]["message"][-16:]) == ("q", "ers, 64000 shown]"[-16:])
    assert [(loss.kind, loss.field) for loss in rendered.losses] == [("TurnEnded", "failure")]


def test_a_cut_error_that_ends_no_turn_has_no_request_id_either() -> None:
    told = events.ErrorReported(cause="tool_failed", text="a" * LARGE)
    error, terminal = frames(Projection("q").render(batch(told, events.TurnEnded(end="completed", text="Yes"))))
    assert ("requestId" in error, error["data"].get("requestId"), terminal["requestId"]) == (False, None, "q")
    assert error["error"]["message"].endswith("64000 shown]")


def test_a_form_that_is_too_large_is_lost_and_counted() -> None:
    spec = Raw(json.dumps({"a": "a" * LARGE}).encode())
    rendered = Projection().render(batch(events.InteractionRequired(question="i", kind="k", spec=spec, reason="")))
    assert (rendered.frames, [loss.kind for loss in rendered.losses]) == ([], ["InteractionRequired"])


def test_a_chunk_whose_node_alone_is_too_large_is_lost_and_counted() -> None:
    rendered = Projection().render(batch(events.ToolCallFinished(name="t" * LARGE, output="")))
    assert rendered.frames == []
    lost = {(loss.kind, loss.field) for loss in rendered.losses}
    assert lost == {("ToolCallFinished", "output"), ("ToolCallFinished", "")}


def test_a_state_that_is_too_large_is_emptied_but_keeps_its_node() -> None:
    state = Raw(json.dumps({"structuredResponse": "a" * LARGE}).encode())
    rendered = Projection().render(batch(events.StateSnapshot(node="n", state=state)))
    (frame,) = frames(rendered)
    assert frame["data"] == {"requestId": TURN, "node": "n", "state": {}}
    assert [(loss.kind, loss.field) for loss in rendered.losses] == [("StateSnapshot", "state")]


# -- any order ---------------------------------------------------------------------------------------

SOME = st.lists(st.sampled_from([*turn_of()[:-1], oops(), oops("else")]), max_size=12)


@given(SOME, st.integers(0, 12))
def test_a_copy_in_mid_turn_shows_the_same_as_the_original(items: list[Event], cut: int) -> None:
    original = Projection("q")
    before = original.render(batch(*items[:cut]))
    copied = original.copy()
    rest = batch(*items[cut:], events.TurnEnded(end="completed"))
    assert copied.render(rest).frames == original.render(rest).frames
    frames(before)


@given(SOME)
def test_a_turn_ends_with_its_only_terminal(items: list[Event]) -> None:
    seen = frames(Projection("q").render(batch(*items, events.TurnEnded(end="completed"))))
    ends = [
        frame for frame in seen if frame["type"] in ("error", "eventual_response", "cancelled") and "requestId" in frame
    ]
    assert ends == [seen[-1]]


class CountingEncoder:
    """An encoder that counts the bytes it makes."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self.made = 0

    def encode(self, message: Any) -> bytes:
        frame: bytes = self._encoder.encode(message)
        self.made += len(frame)
        return frame

    def encode_lines(self, messages: list[Any]) -> bytes:
        lines: bytes = self._encoder.encode_lines(messages)
        self.made += len(lines)
        return lines


def test_a_text_that_must_be_split_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = CountingEncoder(EVENTS)
    monkeypatch.setattr(projection, "EVENTS", counting)
    text = "long " * MAX_EVENT
    rendered = Projection().render(batch(events.TextDelta(text=text)))
    assert "".join(frame["token"] for frame in frames(rendered)) == text
    assert counting.made == sum(map(len, rendered.frames))
