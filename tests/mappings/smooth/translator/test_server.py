"""A link with a smooth client as the peer: what is refused, what is answered, and the single turn at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from dragoman.mappings.canonical import Event, SessionState, commands, events
from dragoman.mappings.canonical.values import Cause, Failure, Message, Text
from dragoman.mappings.dialect import Oversize, Step
from dragoman.mappings.smooth import DIALECT
from dragoman.mappings.smooth.translator.server import PENDING_MAX
from tests.mappings.smooth.server_link import (
    CANCEL,
    CONFIRM,
    CREATE,
    GET,
    HISTORY,
    LIST,
    OTP,
    PING,
    RENAME,
    SAID,
    SEND,
    SESSION,
    Link,
    action,
    strict,
    without,
)
from tests.smooth_shapes import assert_reply


def test_a_refusal_of_an_oversized_frame_names_the_limit() -> None:
    link = Link()
    link.sends(Oversize(size=2_000_000, limit=1_048_576))
    assert "1048576" in link.hears()[0]["error"]["message"]


@given(st.lists(st.binary() | st.sampled_from([json.dumps(SEND).encode(), b"{}", b'{"action":"cancel"}']), max_size=5))
def test_garbage_never_raises_and_each_frame_is_answered_or_forwarded(frames: list[bytes]) -> None:
    link = Link()
    acted = link.sends(*frames)
    silent = sum(frame == b'{"action":"cancel"}' for frame in frames)
    assert len(frames) - silent <= len(acted) + len(link.hears()) <= len(frames)


def test_unknown_keys_are_dropped_and_counted() -> None:
    link = Link()
    assert link.sends(PING | {"before": "x"}) == [commands.Ping(request=SAID)]
    assert [loss.field for loss in link.last.losses] == ["$.before"]


def test_the_session_keeps_the_clients_name_for_it() -> None:
    said = [c.session for c in Link().sends(GET, HISTORY, CONFIRM, RENAME)]
    assert said == ["s", "s", "s", "c"]


# -- answers ------------------------------------------------------------------------------------------


def test_no_frame_is_sent_before_the_first_action_or_at_the_end() -> None:
    assert Link().translator.opened() == Step()
    assert Link().translator.closed("gone") == Step()


STATE = SessionState(id=SESSION, agent="weather", status="running")


@pytest.mark.parametrize(
    ("asked", "kind"),
    [(CREATE, "create"), (CREATE | {"conversationId": SESSION}, "create"), (GET, "get_session")],
)
def test_a_session_is_shown_in_the_form_of_its_command(asked: dict[str, Any], kind: str) -> None:
    link = Link()
    link.sends(asked)
    (frame,) = strict(link.translator.attach(STATE, SAID))
    assert (frame["requestId"], frame["status"]) == (SAID, 200)
    assert_reply(kind, frame["data"])
    assert frame["data"]["conversationId"] == SESSION
    assert frame["data"].get("status") == ("active" if kind == "get_session" else None)


@pytest.mark.parametrize("request_id", ["", "unknown", "turn"])
def test_a_session_is_not_shown_without_a_command_for_it(request_id: str) -> None:
    link = Link()
    link.begins_a_turn()
    assert link.translator.attach(STATE, request_id) == Step()


def test_each_answer_has_the_form_of_its_command() -> None:
    link = Link()
    link.sends(HISTORY | {"requestId": "h"}, LIST | {"requestId": "l"}, CONFIRM | {"requestId": "c"})
    page = events.HistorySnapshot(request="h", items=(Message(role="user", text="?", id=SESSION),))
    history, listed, confirmed = link.receives(
        page, events.SessionsListed(request="l", sessions=()), events.Reply(request="c")
    )
    assert [frame["requestId"] for frame in (history, listed, confirmed)] == ["h", "l", "c"]
    assert_reply("history", history["data"])
    assert_reply("conversations", listed["data"])
    assert confirmed["data"] == {"sessionId": "s", "approved": True}


def test_the_reason_why_a_client_is_disconnected_has_no_request_id() -> None:
    text = "too many messages in a short time (`message_rate`)"
    (frame,) = Link().receives(events.Reply(request="", failure=Failure(cause="busy", text=text)))
    assert frame["error"]["message"] == text
    assert ("requestId" in frame, "requestId" in frame["data"]) == (False, False)


def test_an_unexpected_one_time_code_is_otp_invalid() -> None:
    link = Link()
    link.sends(OTP)
    (frame,) = link.receives(events.Reply(request=SAID, failure=Failure(cause="unsupported", text="none")))
    assert (frame["type"], frame["requestId"]) == ("otp_invalid", SAID)
    assert frame["data"]["data"] == {"error": "NOT_FOUND", "attemptsRemaining": 0, "message": "none"}


def test_an_answer_that_is_too_large_becomes_an_error() -> None:
    link = Link()
    link.sends(HISTORY)
    (frame,) = link.receives(events.Reply(request=SAID, result=Raw(json.dumps({"text": "a" * 1_100_000}).encode())))
    assert (frame["requestId"], frame["error"]["code"]) == (SAID, "INTERNAL_ERROR")


def test_a_command_beyond_the_limit_is_refused_and_no_earlier_one_loses_its_id() -> None:
    link = Link()
    assert len(link.sends(*[without(HISTORY, "requestId")] * PENDING_MAX)) == PENDING_MAX
    assert link.sends(HISTORY) == []
    (refusal,) = link.hears()
    assert (refusal["requestId"], refusal["error"]["code"]) == (SAID, "TURN_IN_PROGRESS")
    assert refusal["error"]["message"] == f"more than {PENDING_MAX} requests wait for a reply"
    (answer,) = link.receives(events.HistorySnapshot(request="minted-1", items=()))
    assert "requestId" not in answer
    assert len(link.sends(HISTORY)) == 1


def test_a_refused_cancel_beyond_the_limit_does_not_end_the_turn_in_the_client() -> None:
    link = Link()
    link.begins_a_turn()
    link.sends(*[without(HISTORY, "requestId")] * PENDING_MAX)
    assert link.sends(CANCEL | {"requestId": "turn"}) == []
    (refusal,) = link.hears()
    assert "requestId" not in refusal


# -- the turn -----------------------------------------------------------------------------------------


def test_input_keeps_the_clients_request_id() -> None:
    (command,) = Link().sends(SEND)
    assert command == commands.SubmitInput(request=SAID, session="s", segments=(Text(text="hi"),))


def test_input_without_a_request_id_gets_one() -> None:
    link = Link()
    (command,) = link.sends(without(SEND, "requestId"))
    assert command.request == "minted-1"
    failure = Failure(cause="not_found", text="none")
    assert link.receives(events.Reply(request="minted-1", failure=failure))[0]["requestId"] == "minted-1"


def test_a_connection_has_one_turn() -> None:
    link = Link()
    link.begins_a_turn()
    assert link.sends(SEND | {"sessionId": "another"}) == []
    (frame,) = link.hears()
    assert (frame["requestId"], frame["error"]["code"]) == (SAID, "TURN_IN_PROGRESS")


@pytest.mark.parametrize("said", [SEND | {"message": " "}, without(SEND, "sessionId"), SEND | {"sessionId": 5}])
def test_an_input_during_a_turn_is_not_read_further(said: dict[str, Any]) -> None:
    """R and P refuse it before they look at its fields (docs/dialects/smooth.md, section 6)."""
    link = Link()
    link.begins_a_turn()
    assert link.sends(said) == []
    (frame,) = link.hears()
    assert (frame["requestId"], frame["error"]["code"]) == (SAID, "TURN_IN_PROGRESS")


@pytest.mark.parametrize(("parked", "free"), [(True, True), (False, False)])
def test_a_question_in_words_that_parks_the_turn_ends_it_for_its_client(parked: bool, free: bool) -> None:
    link = Link()
    link.begins_a_turn()
    link.passes(events.QuestionAsked(text="Your email?", question="q", kind="identity_intake", parked=parked))
    assert bool(link.sends(SEND)) is free
    assert [frame["error"]["code"] for frame in link.hears()] == ([] if free else ["TURN_IN_PROGRESS"])


def test_a_refusal_has_the_id_of_its_action_even_if_it_is_the_open_turns() -> None:
    link = Link()
    link.begins_a_turn(SAID)
    for frame, code in (
        (SEND, "TURN_IN_PROGRESS"),
        (action("dance"), "UNSUPPORTED_ACTION"),
        ({"requestId": SAID}, "VALIDATION_ERROR"),
        (GET | {"sessionId": ""}, "VALIDATION_ERROR"),
    ):
        link.sends(frame)
        (answer,) = link.hears()
        assert (answer.get("requestId"), answer["error"]["code"]) == (SAID, code)


def test_a_confirm_with_its_turns_id_is_answered_with_that_id() -> None:
    link = Link()
    link.begins_a_turn(SAID)
    first, second = link.sends(CONFIRM, CONFIRM)
    (acknowledged,) = link.receives(events.Reply(request=first.request))
    assert (acknowledged["type"], acknowledged["requestId"]) == ("immediate_response", SAID)
    (refused,) = link.receives(events.Reply(request=second.request, failure=Failure(cause="not_found", text="late")))
    assert (refused.get("requestId"), refused["error"]["code"]) == (SAID, "NO_PENDING_CONFIRMATION")
    assert link.sends(SEND) == []  # the turn goes on


def ended(link: Link) -> None:
    link.passes(events.TextDelta(text="a"), events.TurnEnded(end="completed"))


def refused(link: Link) -> None:
    (frame,) = link.receives(events.Reply(request="turn", failure=Failure(cause="busy", text="busy")))
    assert (frame["requestId"], frame["error"]["code"]) == ("turn", "TURN_IN_PROGRESS")


@pytest.mark.parametrize("free", [ended, refused])
def test_the_end_of_its_turn_frees_the_connection(free: Callable[[Link], None]) -> None:
    link = Link()
    link.begins_a_turn()
    free(link)
    link.begins_a_turn("next")


def question(kind: str) -> events.QuestionAsked:
    return events.QuestionAsked(text="Name?", question="i", kind=kind, parked=True)


@pytest.mark.parametrize(
    ("claims", "kind", "asked", "frees"),
    [
        ([], "identity_intake", events.InteractionRequired, True),
        (["identity_form"], "identity_intake", events.InteractionRequired, False),
        (["identity_form"], "choices", events.InteractionRequired, True),
        ([], "signature", events.InteractionRequired, False),  # nothing to claim it by: it is shown as it came
        ([], "", events.ApprovalRequested, False),
    ],
)
def test_a_question_that_is_asked_in_words_frees_the_connection(
    claims: list[str], kind: str, asked: type[Event], *, frees: bool
) -> None:
    link = Link()
    link.sends(action("create_conversation_session", agentId=SESSION, supports=claims))
    native: Event = events.ApprovalRequested(tool="t", description="d")
    if asked is events.InteractionRequired:
        native = events.InteractionRequired(question="i", kind=kind, spec=Raw(b"{}"), reason="")
    assert link.translator.can_be_asked(native) is not frees
    link.begins_a_turn()
    link.passes(native, question(kind))
    answer = link.sends(SEND | {"requestId": "answer"})
    assert bool(answer) is frees


def test_other_events_do_not_free_the_connection() -> None:
    link = Link()
    link.begins_a_turn()
    link.passes(events.TextDelta(text="a"))
    link.receives(events.Reply(request="turn"))
    assert link.sends(SEND) == []


@pytest.mark.parametrize("named", [{}, {"sessionId": ""}])
def test_a_cancel_without_a_turn_and_a_session_is_not_answered(named: dict[str, str]) -> None:
    link = Link()
    assert link.sends(CANCEL | named) == []
    assert (link.hears(), link.last.faults) == ([], [])


def test_a_cancel_without_a_turn_on_its_connection_is_about_the_session_that_it_names() -> None:
    link = Link()
    (command,) = link.sends(CANCEL | {"sessionId": "s"})
    assert (type(command), command.session) == (commands.CancelTurn, "s")
    assert link.receives(events.Reply(request=command.request, failure=Failure(cause="not_running", text="no"))) == []


def test_a_cancel_ends_the_turn_of_its_connection_whatever_ids_it_has() -> None:
    link = Link()
    link.begins_a_turn()
    assert link.sends(CANCEL | {"sessionId": "another"}) == [commands.CancelTurn(request=SAID, session="s")]
    assert link.receives(events.Reply(request=SAID)) == []


@pytest.mark.parametrize(("cause", "answers"), [("not_running", 0), ("not_found", 0), ("unsupported", 1)])
def test_a_late_cancel_is_not_answered_but_an_unsupported_one_is(cause: Cause, answers: int) -> None:
    link = Link()
    link.begins_a_turn(SAID)
    (command,) = link.sends(CANCEL)
    frames = link.receives(events.Reply(request=command.request, failure=Failure(cause=cause, text="no")))
    assert [frame.get("requestId") for frame in frames] == [None] * answers, "its id names the turn, which goes on"


@pytest.mark.parametrize(
    ("backend", "skill", "code"), [("pod", "meteo", "SKILL_NOT_FOUND"), ("pod", " ", ""), ("smooth", "meteo", "")]
)
def test_an_input_with_a_skill_runs_no_turn_on_a_backend_without_skills(backend: str, skill: str, code: str) -> None:
    """A server refuses a skill that it cannot resolve (docs/dialects/smooth.md, sections 3 and 8)."""
    link = Link()
    link.translator.note_backend(replace(DIALECT, name=backend))
    assert bool(link.sends(SEND | {"skill": skill})) is not bool(code)
    assert [(f["requestId"], f["error"]["code"]) for f in link.hears()] == ([(SAID, code)] if code else [])
    assert link.sends(SEND) or not code, "no turn is open"


def test_a_skill_and_a_stream_flag_are_kept_in_ext() -> None:
    (command,) = Link().sends(SEND | {"skill": "meteo", "stream": False})
    assert command.ext == {"smooth.skill": Raw(b'"meteo"'), "smooth.stream": Raw(b"false")}


def test_the_dialect_speaks_its_later_generation_by_default_and_addresses_its_frames() -> None:
    assert (DIALECT.name, DIALECT.generations, DIALECT.has_request_ids, DIALECT.single_session) == (
        "smooth",
        ("1.57", "1.3.0"),
        True,
        False,
    )


def test_a_message_that_is_too_large_for_any_page_is_cut_and_counted_and_the_history_goes_on() -> None:
    link = Link()
    link.sends({"action": "get_conversation_messages", "requestId": SAID, "sessionId": SESSION})
    items = (Message(role="assistant", text="x" * 1_100_000, id="m1"), Message(role="user", text="hi", id="m0"))
    step = link.translator.send([events.HistorySnapshot(request=SAID, items=items)])
    (reply,) = map(json.loads, step.frames)
    (message,) = reply["data"]["messages"]
    assert message["content"]["text"].endswith("x\n[cut: 1100000 characters, 64000 shown]")
    assert reply["data"]["nextCursor"] == "m1"
    assert [loss.field for loss in step.losses] == ["items.text"]


def test_a_page_that_is_too_large_is_cut_to_its_newer_half_with_a_cursor() -> None:
    link = Link()
    link.sends({"action": "get_conversation_messages", "requestId": SAID, "sessionId": SESSION})
    items = tuple(Message(role="user", text="x" * 400_000, id=f"m{n}") for n in range(4))
    (reply,) = link.receives(events.HistorySnapshot(request=SAID, items=items))
    assert reply["requestId"] == SAID
    assert [len(m["content"]["text"]) for m in reply["data"]["messages"]] == [400_000, 400_000]
    assert reply["data"]["nextCursor"] == "m1"
    assert reply["data"]["hasMore"] is True


def test_a_page_is_cut_to_a_single_message_if_two_are_too_large() -> None:
    link = Link()
    link.sends(HISTORY)
    items = tuple(Message(role="user", text="x" * 600_000, id=f"m{n}") for n in range(2))
    (reply,) = link.receives(events.HistorySnapshot(request=SAID, items=items))
    assert (len(reply["data"]["messages"]), reply["data"]["nextCursor"]) == (1, "m0")


def test_a_long_error_is_cut() -> None:
    link = Link()
    link.sends(GET)
    failure = Failure(cause="not_found", text="x" * 1_100_000)
    (frame,) = link.receives(events.Reply(request=SAID, failure=failure))
    assert (frame["requestId"], frame["error"]["code"]) == (SAID, "SESSION_NOT_FOUND")
    assert frame["error"]["message"].endswith("[cut: 1100000 characters, 64000 shown]")
