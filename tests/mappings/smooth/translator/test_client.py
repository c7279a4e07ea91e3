"""A link with a smooth server as the peer: which command an event answers, and which turn it belongs to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from dragoman.mappings.canonical import commands, events
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.dialect import Step
from dragoman.mappings.smooth.translator.client import WAITING_MAX
from tests.mappings.smooth.client_link import INPUT, A, Link, accepted, done, error, final, token

ANSWER = Raw(b'"a"')
OOPS = Failure(cause="model_failed", text="oops")


def test_every_action_has_a_request_id_of_ours() -> None:
    sent = Link().sends(commands.Ping(request="q"), commands.Ping(), INPUT)
    assert [frame["requestId"] for frame in sent] == ["own-1", "own-2", "own-3"]


def test_a_rename_names_the_conversation_and_every_other_action_the_session() -> None:
    rename, cancel = Link().sends(commands.RenameSession(session="s", title="T"), commands.CancelTurn(session=A))
    assert (rename["conversationId"], cancel["sessionId"]) == (A, "s")


def test_a_command_without_an_action_is_refused_at_once() -> None:
    step: Step[Any] = Link().translator.send([commands.PauseTurn(request="q")])
    (burst,) = step.bursts
    assert (step.frames, [item.failure.cause for item in burst.items]) == ([], ["unsupported"])
    assert (burst.items[0].request, [loss.kind for loss in step.losses]) == ("q", ["PauseTurn"])


def test_the_events_of_a_turn_have_the_request_that_began_it() -> None:
    link = Link()
    link.sends(INPUT)
    assert link.hears(accepted(), token(), final()) == [
        (
            "q",
            [
                events.TurnAccepted(request="q", ext=None),
                events.TextDelta(text="a"),
                events.TurnEnded(end="completed", text="a", message="m", ext={"smooth.response": ANSWER}),
            ],
        )
    ]
    assert link.hears(error("own-1")) == [("own-1", [events.ErrorReported(cause="model_failed", text="oops")])]


def test_an_acknowledgement_without_a_status_accepts_an_input() -> None:
    link = Link()
    link.sends(INPUT)
    frame = {key: value for key, value in accepted().items() if key != "status"}
    ((_, (item,)),) = link.hears(frame)
    assert item == events.TurnAccepted(request="q")
    assert link.hears(error("own-1")) == [("q", [events.TurnEnded(end="failed", failure=OOPS)])]


def test_a_one_time_code_that_could_not_be_sent_does_not_end_the_turn() -> None:
    link = Link()
    link.sends(INPUT)
    link.hears(accepted())
    ((request, (item,)),) = link.hears(error("own-1", "OTP_SEND_FAILED"))
    assert (request, type(item)) == ("q", events.ErrorReported)
    ((_, items),) = link.hears(final())
    assert [type(item) for item in items] == [events.TurnEnded]


@pytest.mark.parametrize("own", [None, "somebody's"])
def test_an_error_about_no_request_of_ours_is_only_reported(own: str | None) -> None:
    expected = events.ErrorReported(cause="model_failed", text="oops")
    assert Link().hears(error(own)) == [(own or "", [expected])]


def test_a_turn_of_another_client_is_a_turn_too() -> None:
    link = Link()
    link.hears(token("theirs"))
    assert link.hears(error("theirs")) == [("theirs", [events.TurnEnded(end="failed", failure=OOPS)])]


def test_answers_are_typed_by_their_command() -> None:
    link = Link()
    link.sends(commands.OpenSession(request="o", agent="a"), commands.GetHistory(request="h", session="s"))
    link.sends(commands.ListSessions(request="l"), commands.Ping(request="p"))
    heard = link.hears(
        done("own-1", sessionId="s", conversationId=A, agentName="x"),
        done("own-2", messages=[], nextCursor=None, hasMore=False),
        done("own-3", conversations=[]),
        {"type": "pong", "requestId": "own-4", "timestamp": 2},
    )
    assert [item for _, items in heard for item in items] == [
        events.SessionOpened(
            request="o",
            session=A,
            ext={
                "smooth.sessionId": Raw(b'"s"'),
                "smooth.conversationId": Raw(f'"{A}"'.encode()),
                "smooth.agentName": Raw(b'"x"'),
            },
        ),
        events.HistorySnapshot(request="h", items=()),
        events.SessionsListed(request="l", sessions=()),
        events.Pong(request="p", at=2_000_000),
    ]


def test_an_answer_to_an_unknown_request_keeps_its_raw_result() -> None:
    ((_, (item,)),) = Link().hears(done("theirs", a=1))
    assert isinstance(item, events.Reply)
    assert (item.request, item.failure, bytes(item.result or b"")) == ("theirs", None, b'{"a":1}')


def test_an_error_answers_the_pending_command() -> None:
    link = Link()
    link.sends(commands.AnswerApproval(request="c", session="s", approved=True))
    ((_, (item,)),) = link.hears(error("own-1", "NO_PENDING_CONFIRMATION"))
    assert isinstance(item, events.Reply)
    assert item.failure is not None
    assert (item.request, item.failure.cause) == ("c", "not_found")


def test_an_answer_to_a_question_of_a_lost_turn_begins_another_turn() -> None:
    """The server in Rust stores its questions, and acts on the answer with a turn under the answer's id."""
    link = Link()
    link.sends(commands.AnswerApproval(request="c", session="s", approved=True))
    ((_, said),) = link.hears(accepted())
    assert said == [events.Reply(request="c")]
    heard = [item for _, items in link.hears(token(), final()) for item in items]
    assert [type(item) for item in heard] == [events.TextDelta, events.TurnEnded]


def test_a_cancel_is_answered_by_the_end_of_the_turn() -> None:
    link = Link()
    link.sends(INPUT, commands.CancelTurn(request="x", session="s"))
    link.hears(accepted())
    assert link.hears({"type": "cancelled", "requestId": "own-1", "status": 499, "timestamp": 1}) == [
        ("q", [events.TurnEnded(end="cancelled"), events.Reply(request="x")])
    ]


def test_an_input_that_is_cancelled_before_its_202_is_taken_back() -> None:
    link = Link()
    link.sends(INPUT, commands.CancelTurn(request="x", session="s"))
    ((_, heard),) = link.hears({"type": "cancelled", "requestId": "own-1", "status": 499, "timestamp": 1})
    assert heard == [
        events.TurnAccepted(request="q"),
        events.TurnEnded(end="rolled_back"),
        events.Reply(request="x"),
    ]


def test_a_code_is_answered_by_the_verdict() -> None:
    link = Link()
    link.sends(commands.AnswerOtp(request="v", session="s", code="1"))
    verdict = {"type": "otp_verified", "requestId": "own-1", "data": {"data": {"message": "hi"}}, "timestamp": 1}
    ((_, items),) = link.hears(verdict)
    assert items == [events.OtpVerified(request="v", text="hi")]


def test_remembered_requests_are_bounded() -> None:
    link = Link()
    link.sends(*[commands.Ping(request=f"p{n}") for n in range(WAITING_MAX + 1)])
    pongs = [{"type": "pong", "requestId": own, "timestamp": 2} for own in ("own-1", "own-2")]
    heard = [item.request for _, items in link.hears(*pongs) for item in items if isinstance(item, events.Pong)]
    assert heard == ["own-1", "p1"]


def test_a_client_sends_nothing_by_itself() -> None:
    translator = Link().translator
    assert (translator.opened(), translator.closed("gone")) == (Step(), Step())


def test_only_the_end_of_a_turn_is_not_passed_on_after_a_cancel_that_found_no_turn() -> None:
    link = Link()
    link.sends(commands.CancelTurn(request="c", session="s"))
    heard = [type(item) for _, items in link.hears(token("theirs"), error("unheard")) for item in items]
    assert events.TextDelta in heard


def test_a_piece_of_reasoning_is_no_further_piece_of_text() -> None:
    link = Link()
    link.sends(INPUT)
    link.hears(accepted())
    read, taken = link.translator.text_reader(events.TextDelta), list[str]()

    def add_text(text: str, _at: int, _session: str) -> bool:
        taken.append(text)
        return True

    assert read is not None
    piece = {**token(), "data": {"requestId": "own-1", "token": "a"}}
    for frame in (piece, {**piece, "type": "stream_reasoning"}):
        read(json.dumps(frame).encode(), add_text)
    assert len(taken) == 1


def test_there_is_no_fast_reader_for_text_without_a_request_id() -> None:
    link = Link()
    link.hears(token(""))
    assert link.translator.text_reader(events.TextDelta) is None
