"""The session of a link with a smooth server: its claims, and the next opening after a loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.mappings.canonical import SessionState, commands, events
from dragoman.mappings.canonical.values import Message, Text
from dragoman.mappings.dialect import Step
from dragoman.mappings.opening import LOST
from dragoman.mappings.smooth.directions import FROM_CLIENT
from dragoman.mappings.smooth.translator.client import ClientTranslator
from dragoman.mappings.smooth.vocabulary import keep
from tests.mappings.smooth.client_link import A, Link, done, error

B = "0b0e9b0e-0000-4000-8000-00000000000b"


@pytest.mark.parametrize("opening", [commands.OpenSession, commands.ResumeSession])
@pytest.mark.parametrize(
    ("said", "claimed"),
    [
        (None, ["identity_form", "choice_chips"]),
        (("date_picker", "choice_chips"), ["date_picker", "choice_chips"]),
        ((), []),
    ],
)
def test_the_gateway_passes_on_a_claim_and_claims_both_forms_for_dialects_without_claims(
    opening: type[commands.OpenSession | commands.ResumeSession], said: tuple[str, ...] | None, claimed: list[str]
) -> None:
    (frame,) = Link().sends(opening(agent=A, request="again", supports=said))
    assert frame["supports"] == claimed


@pytest.mark.parametrize("ids", [{"sessionId": "", "conversationId": A}, {"sessionId": A, "conversationId": ""}, {}])
def test_a_session_without_ids_is_not_open(ids: dict[str, str]) -> None:
    link = Link()
    link.sends(commands.OpenSession(request="r"))
    ((_, (refused,)),) = link.hears(done("own-1", **ids))
    assert isinstance(refused, events.Reply)
    assert refused.failure is not None
    assert refused.failure.text == "the backend opened no session"


@pytest.mark.parametrize("conversation", [{}, {"conversationId": A}])
def test_no_form_is_claimed_for_a_smooth_client_without_a_claim(conversation: dict[str, str]) -> None:
    action = {"action": "create_conversation_session", "requestId": "r", "agentId": A, **conversation}
    step: Step[Any] = Step()
    FROM_CLIENT.receive([json.dumps(action).encode()], step)
    (frame,) = Link().sends(*step.bursts[0].items)
    assert "supports" not in frame
    assert {key: frame[key] for key in conversation} == conversation


def test_a_conversation_that_is_resumed_after_a_loss_claims_the_same() -> None:
    translator = ClientTranslator(lambda: 0, lambda: "own", lambda: 0)
    ids = keep(sessionId="s", conversationId=A)
    translator.attach(SessionState(id=A, opening=commands.OpenSession(agent=A), backend_ids=ids), "")
    (frame,) = translator.receive([json.dumps(error("own", "SESSION_NOT_FOUND")).encode()]).frames
    assert json.loads(frame)["conversationId"] == A
    assert json.loads(frame)["supports"] == ["identity_form", "choice_chips"]


IDS = keep(sessionId="s", conversationId=A)
SPOKEN = SessionState(id=A, opening=commands.OpenSession(agent=A, request="r"), backend_ids=IDS)
SPOKEN.transcript.append(Message(role="user", text="hi"))
RESUMED = SessionState(id=A, opening=commands.OpenSession(agent=A), backend_ids=IDS)
SILENT = SessionState(id=A, opening=commands.OpenSession(agent=A, request="r"), backend_ids=IDS)


@pytest.mark.parametrize(
    ("state", "conversation", "lost"),
    [(SPOKEN, B, True), (RESUMED, B, True), (SPOKEN, A, False), (SILENT, B, False)],
    ids=["something was said", "an earlier client began it", "the same conversation", "nothing was said"],
)
def test_clients_are_told_of_a_conversation_that_the_server_replaced(
    state: SessionState, conversation: str, *, lost: bool
) -> None:
    link = Link()
    link.translator.attach(state, "")
    ((_, (_, *further)),) = link.hears(done("own-1", sessionId="s", conversationId=conversation))
    assert further == ([events.Gap(text=LOST, context=True)] if lost else [])


@pytest.mark.parametrize(("conversation", "lost"), [(A, False), (B, True)])
def test_a_client_that_resumes_the_conversation_by_another_name_learns_if_it_is_lost(
    conversation: str, *, lost: bool
) -> None:
    link = Link()
    link.translator.attach(SPOKEN, "")
    link.hears(done("own-1", sessionId="s", conversationId=A))
    (create,) = link.sends(commands.ResumeSession(session="s", request="again"))
    assert create["conversationId"] == A
    ((_, (opened, *further)),) = link.hears(done("own-2", sessionId="s2", conversationId=conversation))
    assert isinstance(opened, events.SessionOpened)
    assert further == ([events.Gap(text=LOST, context=True)] if lost else [])


def test_a_refused_create_of_a_client_leaves_the_conversation_that_is_looked_up_after_a_loss() -> None:
    names = iter(("looked-up", "created", "said"))
    translator = ClientTranslator(lambda: 0, lambda: next(names), lambda: 0)
    translator.attach(SPOKEN, "")
    text = commands.SubmitInput(request="r", segments=(Text(text="hi"),))
    translator.send([commands.ResumeSession(session=A, request="again"), text])
    (refused,) = translator.receive([json.dumps(error("created", "AUTH_CONTEXT_INVALID")).encode()]).bursts
    assert [isinstance(item, events.Reply) and item.request for item in refused.items] == ["again"]
    found = translator.receive([json.dumps(done("looked-up", sessionId="s", conversationId=A)).encode()])
    assert [json.loads(frame)["sessionId"] for frame in found.frames] == ["s"]


def test_an_answer_goes_to_the_session_of_the_turn_that_asked() -> None:
    link = Link()
    link.translator.attach(SPOKEN, "")
    link.hears(done("own-1", sessionId="s", conversationId=A))
    link.sends(commands.SubmitInput(request="r", segments=(Text(text="delete it"),)))
    link.sends(commands.ResumeSession(session=A, request="again"))
    link.hears(done("own-3", sessionId="s2", conversationId=A))
    (confirm,) = link.sends(commands.AnswerApproval(request="c", approved=True))
    (further,) = link.sends(commands.SubmitInput(request="r2", segments=(Text(text="and this"),)))
    assert (confirm["sessionId"], further["sessionId"]) == ("s", "s2")
