"""Rules toward smooth beyond the golden frames: what clients see, and what strict clients must never get."""

from __future__ import annotations

import json
from typing import Any, get_args
from uuid import UUID, uuid5

import pytest
from msgspec import Raw

from dragoman.mappings.canonical import Event, Unmapped, commands, events
from dragoman.mappings.canonical.values import (
    End,
    Ext,
    Failure,
    FieldError,
    FileRef,
    Message,
    Paste,
    Reasoning,
    Role,
    SessionSummary,
    Text,
    Usage,
)
from dragoman.mappings.dialect import Burst, Loss
from dragoman.mappings.smooth.directions import FROM_CLIENT
from dragoman.mappings.smooth.from_canonical.context import Context
from dragoman.mappings.smooth.from_canonical.events import FROM_EVENT
from dragoman.mappings.smooth.from_canonical.replies import public_ids
from dragoman.mappings.smooth.wire.codecs import EVENTS
from dragoman.mappings.smooth.wire.events import StreamReasoning
from dragoman.mappings.smooth.wire.values import nanoseconds, rfc3339
from tests.smooth_shapes import assert_emitted, assert_reply

SESSION = "5d0c7a52-1f1e-4c5e-9c38-0f6b1f2a9e01"
AT = 1_700_000_000_123_456_789


def said(item: Any, asked: Any = None, request: str = "q") -> tuple[list[dict[str, Any]], list[Loss]]:
    """Return the frames of a single item, each checked strictly, and the losses."""
    context = Context(request, AT, asked)
    frames = [json.loads(EVENTS.encode(message)) for message in FROM_EVENT.functions[type(item)](item, context)]
    for frame in frames:
        assert_emitted(frame)
    return frames, context.take_losses()


def one(item: Any, asked: Any = None) -> dict[str, Any]:
    ((frame,), losses) = said(item, asked)
    assert losses == []
    return frame


# -- sessions ----------------------------------------------------------------------------------------


def test_the_ids_of_a_session_are_functions_of_its_canonical_id() -> None:
    data = one(events.SessionOpened(request="q", session=SESSION, agent="weather"))["data"]
    assert_reply("create", data)
    assert data == {
        "sessionId": str(uuid5(UUID(SESSION), "session")),
        "conversationId": SESSION,
        "agentName": "smooth-agent",
        "userParticipantId": str(uuid5(UUID(SESSION), "user")),
        "agentParticipantId": str(uuid5(UUID(SESSION), "agent")),
        "agentId": str(uuid5(UUID(SESSION), "agentId")),
    }
    assert public_ids(SESSION) == (data["sessionId"], SESSION)


def test_an_agent_id_that_is_a_uuid_is_shown_unchanged() -> None:
    agent = "11111111-1111-1111-1111-111111111111"
    assert one(events.SessionOpened(request="q", session=SESSION, agent=agent))["data"]["agentId"] == agent


@pytest.mark.parametrize(("status", "told"), [("idle", "idle"), ("running", "active"), ("paused", "idle")])
def test_only_the_answer_to_get_session_has_a_status(status: Any, told: str) -> None:
    opened = events.SessionOpened(request="q", session=SESSION, status=status)
    data = one(opened, commands.GetSession(session=SESSION))["data"]
    assert_reply("get_session", data)
    assert data["status"] == told
    assert "status" not in one(opened, commands.OpenSession())["data"]


def page(*items: Any, cursor: str | None = None) -> dict[str, Any]:
    data = one(events.HistorySnapshot(request="q", items=items, next_cursor=cursor))["data"]
    assert_reply("history", data)
    return dict(data)


def test_a_page_shows_messages_of_user_and_assistant() -> None:
    message = Message(role="assistant", text="It rains.", id=SESSION, at=1_500_000_000)
    assert page(message, Message(role="user", text="?", id="entry 1")) == {
        "messages": [
            {
                "id": SESSION,
                "direction": "outbound",
                "content": {"text": "It rains."},
                "createdAt": "1970-01-01T00:00:01.500000Z",
            },
            {
                "id": str(uuid5(UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8"), "entry 1")),
                "direction": "inbound",
                "content": {"text": "?"},
                "createdAt": "1970-01-01T00:00:00Z",
            },
        ],
        "nextCursor": None,
        "hasMore": False,
    }


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_messages_without_an_id_get_a_fixed_id_each(role: Role) -> None:
    items = [Message(role=role, text=text, at=at) for text in ("a", "b") for at in (1, 2)]
    ids = [record["id"] for record in page(*items)["messages"]]
    assert len(set(ids)) == 4
    assert ids == [record["id"] for record in page(*items)["messages"]]


@pytest.mark.parametrize(
    "newest_first",  # ns; a pando stores whole seconds
    [(3_000_400_000, 3_000_000_000, 3_000_000_000, 1_000_000_007), (3_000_000_000, 0, 0, 1_000_000_000), (0, 0, 0, 0)],
    ids=["in one second", "unknown between others", "unknown"],
)
def test_a_page_sorted_by_its_milliseconds_has_the_order_of_the_history(newest_first: tuple[int, ...]) -> None:
    records = page(*[Message(role="user", text=str(n), at=at) for n, at in enumerate(newest_first)])["messages"]
    sorted_by_client = sorted(records, key=lambda record: nanoseconds(record["createdAt"]) // 1_000_000)
    assert [record["content"]["text"] for record in sorted_by_client] == ["3", "2", "1", "0"]
    assert records[-1]["createdAt"] == rfc3339(newest_first[-1])


def test_a_page_hides_system_messages_and_reasoning() -> None:
    assert page(Message(role="system", text="be kind"), Reasoning(text="hm"))["messages"] == []


def test_a_page_with_a_cursor_has_a_next_page() -> None:
    assert (page(cursor="c")["nextCursor"], page(cursor="c")["hasMore"]) == ("c", True)


def test_a_whole_history_is_a_loss() -> None:
    frames, losses = said(events.HistorySnapshot(items=(), rotated=True))
    assert (frames, [loss.kind for loss in losses]) == ([], ["HistorySnapshot"])


def test_a_list_omits_empty_conversations_and_gives_titles_to_those_without() -> None:
    rows = (
        SessionSummary(session=SESSION, title="Rain", updated_at=1_000_000_000, messages=2),
        SessionSummary(session=SESSION, messages=1),
        SessionSummary(session=SESSION, title="empty"),
    )
    data = one(events.SessionsListed(request="q", sessions=rows))["data"]
    assert_reply("conversations", data)
    assert [row["title"] for row in data["conversations"]] == ["Rain", "Session 5d0c7a52"]
    assert (data["nextCursor"], data["hasMore"]) == (None, False)


# -- replies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "data"),
    [
        (commands.AnswerApproval(session="s", approved=False), {"sessionId": "s", "approved": False}),
        (commands.AnswerInteraction(session="s", question="i"), {"sessionId": "s", "interactionId": "i"}),
        (commands.RenameSession(session="s", title="t"), {"conversationId": "s", "title": "t"}),
        (commands.Compact(), {}),
    ],
)
def test_a_reply_without_a_result_acknowledges_its_command(asked: Any, data: dict[str, Any]) -> None:
    frame = one(events.Reply(request="q"), asked)
    assert (frame["status"], frame["data"]) == (200, data)


def test_a_result_is_the_data_and_other_values_than_objects_are_wrapped() -> None:
    assert one(events.Reply(request="q", result=Raw(b'{"a":[1]}')))["data"] == {"a": [1]}
    assert one(events.Reply(request="q", result=Raw(b"[1]")))["data"] == {"result": [1]}


@pytest.mark.parametrize("asked", [commands.CancelTurn(), commands.AnswerOtp(code="1")])
def test_cancel_and_verify_otp_have_no_success_reply(asked: Any) -> None:
    assert said(events.Reply(request="q"), asked) == ([], [])


@pytest.mark.parametrize("asked", [None, commands.AnswerOtp(code="1")])
def test_not_found_is_of_the_session_unless_the_command_asked_for_something_else(asked: Any) -> None:
    frame = one(events.Reply(request="q", failure=Failure(cause="not_found", text="gone")), asked)
    assert (frame["type"], frame["requestId"]) == ("error", "q")
    assert frame["error"] == {"code": "SESSION_NOT_FOUND", "message": "gone"}


def test_a_rename_names_the_unknown_conversation_as_the_server_in_rust_does() -> None:
    failure = Failure(cause="not_found", text="session 'session-c' not found")
    frame = one(events.Reply(request="q", failure=failure), commands.RenameSession(session="session-c", title="t"))
    assert frame["error"]["message"] == "conversation 'session-c' not found"


def test_the_original_code_of_a_failure_comes_back() -> None:
    ext: Ext = {"smooth.code": Raw(b'"SKILL_NOT_FOUND"')}
    failure = Failure(cause="not_found", text="no such skill", ext=ext)
    asked = commands.AnswerApproval(approved=True)
    assert one(events.Reply(request="q", failure=failure), asked)["error"]["code"] == "SKILL_NOT_FOUND"


# -- the ends of a turn ------------------------------------------------------------------------------


def test_the_answer_has_the_whole_text_and_the_known_usage() -> None:
    ended = events.TurnEnded(end="completed", text="It rains.", message="m", usage=Usage(input_tokens=3))
    answer = one(ended)["data"]["data"]
    assert_reply("response", answer["response"])
    assert answer == {
        "messageId": "m",
        "response": {
            "responseParts": ["It rains."],
            "customerHappinessScore": 0.5,
            "needsSatisfactionScore": 0.5,
            "requestSummary": "",
            "resolutionStatus": "in_progress",
            "suggestedNextActions": [],
        },
        "needsEscalation": False,
        "usage": {"promptTokens": 3},
    }


@pytest.mark.parametrize("usage", [None, Usage(), Usage(cache_read_tokens=5)])
def test_unknown_usage_is_omitted(usage: Usage | None) -> None:
    assert "usage" not in one(events.TurnEnded(end="completed", usage=usage))["data"]["data"]


def test_an_answer_without_text_has_no_parts_but_an_id() -> None:
    answer = one(events.TurnEnded(end="limit_reached"))["data"]["data"]
    assert answer["response"]["responseParts"] == []
    assert str(UUID(answer["messageId"])) == answer["messageId"]


@pytest.mark.parametrize(
    ("original", "response"),
    [
        ({"responseParts": ["It ", "rains."], "mood": 1}, {"responseParts": ["It rains, a lot."], "mood": 1}),
        ({"chart": [1, 2]}, {"chart": [1, 2]}),
        ({"responseParts": ["It rains", ", a lot."]}, {"responseParts": ["It rains", ", a lot."]}),
    ],
)
def test_a_backends_own_response_gets_the_whole_text(original: object, response: object) -> None:
    ext: Ext = {"smooth.response": Raw(json.dumps(original).encode())}
    frame = one(events.TurnEnded(end="completed", text="It rains, a lot.", ext=ext))
    assert frame["data"]["data"]["response"] == response


ENDS: list[tuple[End, str]] = [
    ("completed", "eventual_response"),
    ("limit_reached", "eventual_response"),
    ("failed", "error"),
    ("cancelled", "cancelled"),
    ("paused", "cancelled"),
    ("rolled_back", "cancelled"),
]


@pytest.mark.parametrize(("end", "kind"), ENDS)
def test_each_end_has_its_terminal_with_the_turns_request(end: End, kind: str) -> None:
    frame = one(events.TurnEnded(end=end))
    assert (frame["type"], frame["requestId"]) == (kind, "q")


def test_a_failure_is_the_error_of_the_turn() -> None:
    failure = Failure(cause="model_failed", text="the model is ill")
    frame = one(events.TurnEnded(end="failed", failure=failure))
    assert frame["error"] == {"code": "AGENT_ERROR", "message": "the model is ill"}


# -- tools -------------------------------------------------------------------------------------------


def test_arguments_are_written_once_when_they_are_complete() -> None:
    assert said(events.ToolCallStarted(name="t", call="1")) == ([], [])
    assert said(events.ToolCallArguments(json='{"a"', call="1")) == ([], [])
    frame = one(events.ToolCallArguments(json='{"a":1}', call="1", name="t", done=True))
    assert frame["data"]["state"] == {"rawResponse": {"toolCall": {"name": "t", "arguments": '{"a":1}'}}}


@pytest.mark.parametrize(
    ("summary", "output", "result"), [("short", "long", "long"), ("short", None, "short"), (None, None, "")]
)
def test_a_result_has_the_output_or_else_the_summary(summary: str | None, output: str | None, result: str) -> None:
    frame = one(events.ToolCallFinished(name="t", summary=summary, output=output))
    assert frame["data"]["state"]["rawResponse"]["toolResult"]["result"] == result


def test_an_original_that_differs_from_its_event_is_not_shown() -> None:
    """The original in `ext` must not undo a policy that removes arguments or results."""
    secret = {"rawResponse": {"toolCall": {"name": "t", "arguments": {"secret": 1}}}}
    ext: Ext = {"smooth.state": Raw(json.dumps(secret).encode())}
    assert "secret" not in json.dumps(one(events.ToolCallArguments(json="{}", name="t", done=True, ext=ext)))
    told = {"rawResponse": {"toolResult": {"name": "t", "isError": False, "result": {"secret": 1}}}}
    ext = {"smooth.state": Raw(json.dumps(told).encode())}
    assert "secret" not in json.dumps(one(events.ToolCallFinished(name="t", output="", ext=ext)))


def test_a_state_with_unknown_keys_is_lost() -> None:
    frames, losses = said(events.StateSnapshot(node="n", state=Raw(b'{"mine":1}')))
    assert (frames, [loss.kind for loss in losses]) == ([], ["StateSnapshot"])


# -- questions ---------------------------------------------------------------------------------------


def test_unknown_channels_are_left_out_and_counted() -> None:
    asked = events.OtpRequired(tool="t", description="d", channels=("pigeon", "sms"), auth_level="end_user")
    ((frame,), losses) = said(asked)
    assert frame["data"]["data"]["availableChannels"] == ["sms"]
    assert [(loss.kind, loss.field) for loss in losses] == [("OtpRequired", "channels")]


def test_a_code_sent_by_an_unknown_channel_is_lost() -> None:
    frames, losses = said(events.OtpSent(channel="pigeon", destination="roof"))
    assert (frames, [loss.kind for loss in losses]) == ([], ["OtpSent"])


def test_an_unknown_reason_is_left_out_and_attempts_are_never_negative() -> None:
    ((frame,), losses) = said(events.OtpInvalid(attempts_remaining=-1, text="no", reason="TOO_LATE"))
    assert frame["data"]["data"] == {"attemptsRemaining": 0, "message": "no"}
    assert [(loss.kind, loss.field) for loss in losses] == [("OtpInvalid", "reason")]


def test_a_form_without_an_object_as_its_description_is_lost() -> None:
    form = events.InteractionRequired(question="i", kind="k", spec=Raw(b"[]"), reason="r")
    frames, losses = said(form)
    assert (frames, [loss.kind for loss in losses]) == ([], ["InteractionRequired"])


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ((FieldError(field="f", text="bad"),), [{"field": "f", "message": "bad"}]),
        ((), [{"field": "", "message": "all bad"}]),
    ],
)
def test_a_refused_form_names_at_least_one_fault(errors: tuple[FieldError, ...], told: list[Any]) -> None:
    refused = events.InteractionInvalid(question="i", kind="k", errors=errors, text="all bad")
    assert one(refused)["data"]["data"]["errors"] == told


# -- losses and commands -----------------------------------------------------------------------------


def test_an_event_without_a_form_is_counted_by_kind_with_its_reason() -> None:
    context = Context()
    for index in range(3):
        assert FROM_EVENT.functions[events.ModelCallStarted](events.ModelCallStarted(index=index), context) == ()
    (loss,) = context.take_losses()
    assert (loss.kind, loss.count, loss.why) == ("ModelCallStarted", 3, "smooth does not report model calls")
    assert context.take_losses() == []


def test_an_unknown_message_of_another_dialect_is_lost() -> None:
    frames, losses = said(Unmapped(dialect="pod", tag="confetti", raw='{"event":"confetti"}'))
    assert (frames, [loss.why for loss in losses]) == ([], ["a message of pod"])


def test_references_and_pastes_become_the_text_of_a_message() -> None:
    segments = (Text(text="see "), FileRef(path="a.txt"), Paste(text=" x", id=1, chars=2, lines=1))
    sent = FROM_CLIENT.write(Burst(items=[commands.SubmitInput(request="q", session="s", segments=segments)]))
    assert [json.loads(frame)["message"] for frame in sent.frames] == ["see @a.txt x"]


def test_a_command_without_an_action_is_counted() -> None:
    written = FROM_CLIENT.write(Burst(items=[commands.PauseTurn(request="q")]))
    assert (written.frames, [loss.why for loss in written.losses]) == ([], ["smooth cannot pause"])


def test_internal_events_have_no_form_in_smooth() -> None:
    internal = {t for t in get_args(Event) if t.visibility == "internal"} - {Unmapped}
    assert {t for t in internal if FROM_EVENT.entries[t].fidelity.kind != "none"} == set()


def test_reasoning_becomes_only_stream_reasoning() -> None:
    made = [FROM_EVENT.entries[t].produces for t in get_args(Event) if t.visibility == "reasoning"]
    assert {struct for produces in made for struct in produces} == {StreamReasoning}
