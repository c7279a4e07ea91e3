"""Between equal dialects the gateway changes nothing (docs/translation.md, rule 4.12): a visit through it gives the
same frames as one without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from smooth_operator_core import InMemoryKnowledge

from tests.conformance.compared_visits import AGENT, TERMINALS, Visit, VisitingClient, Walk, difference, received
from tests.peers.smooth_server import verified_only

pytestmark = pytest.mark.peers

WALKS: dict[str, tuple[Walk, dict[str, Any]]] = {}
NOBODY = "0b0e9b0e-0000-4000-8000-00000000dead"


def walk(**parts: Any) -> Callable[[Walk], Walk]:
    """Register a visit, for a server that has `parts` beside its tools."""

    def add(function: Walk) -> Walk:
        WALKS[getattr(function, "__name__", "").replace("_", " ")] = function, parts
        return function

    return add


@pytest.mark.parametrize("name", WALKS)
async def test_a_client_of_the_gateway_receives_what_a_client_of_the_server_receives(name: str) -> None:
    function, parts = WALKS[name]
    straight = await received(function, through=False, **parts)
    through = await received(function, through=True, **parts)
    assert not difference(straight, through), difference(straight, through)


# -- sessions ---------------------------------------------------------------------------------------


@walk()
async def a_turn_its_history_and_its_list(visit: Visit) -> None:
    visit.server.model.push_text("Hello from the engine!")
    client = await visit.connect()
    await client.open(userName="Ann", userEmail="ann@example.com")
    await client.turn("t", "hello there")
    await client.ask("get_conversation_messages", "h", sessionId=client.session)
    await client.ask("list_conversations", "l")
    await client.ask("get_session", "g", sessionId=client.session)
    await client.ask("rename_conversation", "r", conversationId=client.conversation, title="A title")


@walk()
async def a_session_is_gone_on_with_on_another_socket(visit: Visit) -> None:
    visit.server.model.push_text("One.").push_text("Two.")
    first = await visit.connect(elsewhere=True)
    await first.open()
    await first.turn("t1", "one?")
    await first.leave()
    second = await visit.connect()
    second.session = first.session
    await second.ask("get_session", "g", sessionId=first.session)
    await second.ask("get_conversation_messages", "h", sessionId=first.session)
    await second.turn("t2", "two?")
    await second.ask("get_conversation_messages", "h2", sessionId=first.session)


@walk()
async def sessions_that_nobody_knows(visit: Visit) -> None:
    client = await visit.connect()
    await client.ask("get_session", "g", sessionId=NOBODY)
    await client.ask("get_conversation_messages", "h", sessionId=NOBODY)
    await client.ask("send_message", "t", sessionId=NOBODY, message="hi")
    await client.ask("confirm_tool_action", "c", sessionId=NOBODY, approved=True)
    await client.ask("verify_otp", "v", sessionId=NOBODY, code="123456")


@walk()
async def a_conversation_that_nobody_knows_begins_anew(visit: Visit) -> None:
    visit.server.model.push_text("Fresh.")
    client = await visit.connect()
    await client.open(conversationId=NOBODY)
    assert client.conversation != NOBODY
    await client.turn("t", "hello")


@walk()
async def history_is_paged(visit: Visit) -> None:
    client = await visit.open()
    for number in range(4):
        visit.server.model.push_text(f"Answer {number}.")
        await client.turn(f"t{number}", f"Question {number}?")
    cursor = None
    for number in range(4):
        page = await client.ask(
            "get_conversation_messages",
            f"p{number}",
            sessionId=client.session,
            limit=3,
            **({} if cursor is None else {"cursor": cursor}),
        )
        cursor = page["data"]["nextCursor"]
    for name, limit in enumerate((0, -1, 1, 100, 101, 2**30, "3", 2.5, None, True)):
        await client.ask("get_conversation_messages", f"l{name}", sessionId=client.session, limit=limit)
    await client.ask("get_conversation_messages", "b", sessionId=client.session, before="2020-01-01T00:00:00Z")
    await client.ask("get_conversation_messages", "u", sessionId=client.session, cursor=NOBODY)
    await client.ask("get_conversation_messages", "e", sessionId=client.session, cursor="")


@walk()
async def conversations_are_listed_newest_first(visit: Visit) -> None:
    client = await visit.connect()
    for number in range(3):
        visit.server.model.push_text(f"Answer {number}.")
        await client.open(f"c{number}")
        await client.turn(f"t{number}", f"## Question {number} " + "x" * 80 * (number == 2))
    await client.open("empty")
    await client.ask("list_conversations", "l")
    page = await client.ask("list_conversations", "l1", limit=2)
    await client.ask("list_conversations", "l2", limit=2, cursor=page["data"]["nextCursor"])
    await client.ask("list_conversations", "q", query="question 1")
    await client.ask("list_conversations", "x", cursor="nonsense")


# -- turns ------------------------------------------------------------------------------------------


@walk()
async def a_tool_call_and_its_result(visit: Visit) -> None:
    visit.server.model.push_tool_call("c1", "lookup_order", '{"id": "123"}').push_text("It has shipped.")
    client = await visit.open()
    await client.turn("t", "where is order 123?")


@walk()
async def several_tool_calls_in_one_turn(visit: Visit) -> None:
    model = visit.server.model
    model.push_tool_call("c1", "lookup_order", '{"id": "1"}').push_tool_call("c2", "lookup_order", '{"id": "2"}')
    model.push_text("Both have shipped.")
    client = await visit.open()
    await client.turn("t", "where are my orders?")


@walk()
async def a_tool_that_nobody_has(visit: Visit) -> None:
    visit.server.model.push_tool_call("c1", "unheard_of", "{}").push_text("I cannot do that.")
    client = await visit.open()
    await client.turn("t", "do it")


@walk()
async def an_empty_answer(visit: Visit) -> None:
    visit.server.model.push_text("")
    client = await visit.open()
    await client.turn("t", "say nothing")
    await client.ask("get_conversation_messages", "h", sessionId=client.session)


@walk()
async def a_model_that_fails(visit: Visit) -> None:
    visit.server.model.push_error("no such model").push_text("Here again.")
    client = await visit.open()
    await client.turn("t1", "hello")
    await client.turn("t2", "hello again")
    await client.ask("get_conversation_messages", "h", sessionId=client.session)


@walk()
async def attachments_a_model_and_a_skill(visit: Visit) -> None:
    for _ in range(4):
        visit.server.model.push_text("I see.")
    client = await visit.open()
    image = {"url": "data:image/png;base64,AA==", "detail": "low"}
    file = {"name": "a.txt", "url": "data:text/plain,a", "mimeType": "text/plain"}
    await client.turn("t1", "look", images=[image], files=[file], model="small", stream=False)
    await client.turn("t2", "", images=[image])
    await client.turn("t3", "look", images="none", files=[{"name": "b"}], model="")
    await client.turn("t4", "look", skill="unheard-of")
    await client.turn("t5", "look", skill="")
    assert [len(call.messages) for call in visit.server.model.calls]


@walk()
async def inputs_that_are_refused(visit: Visit) -> None:
    client = await visit.open()
    blank: list[Any] = ["", "  ", None, 7, []]
    for number, message in enumerate(blank):
        await client.ask("send_message", f"t{number}", sessionId=client.session, message=message)
    await client.ask("send_message", "m", sessionId=client.session)
    await client.ask("send_message", "s", message="hi")
    await client.ask("send_message", "n", sessionId="", message="hi")


@walk()
async def a_second_input_while_a_turn_runs(visit: Visit) -> None:
    visit.server.shelves.clear()
    visit.server.model.push_tool_call("c1", "lookup_order", '{"id": "1"}').push_text("It has shipped.")
    client = await visit.open()
    await client.send("t", "where is it?")
    await client.read_type("stream_chunk")
    await client.ask("send_message", "t2", sessionId=client.session, message="and now?")
    await client.ask("ping", "p")
    await client.ask("get_session", "g", sessionId=client.session)
    await client.ask("get_conversation_messages", "h", sessionId=client.session)
    visit.server.shelves.set()
    await client.read_type(*TERMINALS)


@walk()
async def a_second_input_under_the_id_of_the_turn_that_runs(visit: Visit) -> None:
    visit.server.shelves.clear()
    visit.server.model.push_tool_call("c1", "lookup_order", '{"id": "1"}').push_text("It has shipped.")
    client = await visit.open()
    await client.send("t", "where is it?")
    await client.read_type("stream_chunk")
    await client.ask("send_message", "t", sessionId=client.session, message="and now?")
    visit.server.shelves.set()
    await client.read_type("eventual_response")


@walk()
async def a_turn_without_a_request_id(visit: Visit) -> None:
    visit.server.model.push_text("Hello.")
    client = await visit.open()
    await client.say({"action": "send_message", "sessionId": client.session, "message": "hi"})
    await client.read_type("eventual_response")


@walk()
async def a_request_id_that_is_used_again(visit: Visit) -> None:
    visit.server.model.push_text("One.").push_text("Two.")
    client = await visit.connect()
    await client.open("r")
    await client.turn("r", "one?")
    await client.turn("r", "two?")
    await client.ask("get_conversation_messages", "r", sessionId=client.session)


def grounded() -> dict[str, Any]:
    knowledge = InMemoryKnowledge()
    knowledge.ingest("Parcels to islands take nine days.", source="islands.md")
    return {"knowledge": knowledge}


@walk(**grounded())
async def an_answer_with_its_sources(visit: Visit) -> None:
    visit.server.model.push_text("Nine days.")
    client = await visit.open()
    ended = await client.turn("t", "How long do parcels to islands take?")
    assert [source["id"] for source in ended["data"]["data"]["citations"]]


# -- cancel -----------------------------------------------------------------------------------------


@walk()
async def a_cancel_without_a_turn(visit: Visit) -> None:
    client = await visit.connect()
    await client.say({"action": "cancel", "requestId": "c"})
    await client.fence()
    await client.open()
    await client.say({"action": "cancel", "requestId": "c", "sessionId": client.session})
    await client.fence()


@walk()
async def a_cancel_in_the_middle_of_a_tool(visit: Visit) -> None:
    visit.server.shelves.clear()
    visit.server.model.push_tool_call("c1", "lookup_order", '{"id": "1"}').push_text("Next.")
    client = await visit.open()
    await client.send("t", "where is it?")
    await client.read_type("stream_chunk")
    await client.say({"action": "cancel", "requestId": "else", "sessionId": NOBODY})
    await client.read_type(*TERMINALS)
    visit.server.shelves.set()
    await client.ask("get_conversation_messages", "h", sessionId=client.session)
    await client.turn("t2", "next?")
    await client.ask("get_conversation_messages", "h2", sessionId=client.session)


@walk()
async def a_cancel_while_parked_then_the_next_turn(visit: Visit) -> None:
    visit.server.model.push_tool_call("c1", "delete_record", '{"id": "42"}').push_text("Free again.")
    client = await visit.open()
    await client.send("t", "delete 42")
    await client.read_type("stream_chunk")
    await client.say({"action": "cancel", "requestId": "t", "sessionId": client.session})
    await client.read_type("cancelled")
    await client.ask("confirm_tool_action", "late", sessionId=client.session, approved=True)
    await client.turn("t2", "never mind")
    assert visit.server.deleted == []


# -- questions --------------------------------------------------------------------------------------


async def park(client: VisitingClient, *, request: str = "t", text: str = "delete 42") -> Any:
    """Run a turn up to its question; return the question."""
    await client.send(request, text)
    asked = await client.read_type("write_confirmation_required", "interaction_required")
    await client.read_type("stream_chunk")
    return asked["data"]["data"]


def confirmation(approved: bool) -> Walk:
    async def confirmed(visit: Visit) -> None:
        visit.server.model.push_tool_call("c1", "delete_record", '{"id": "42"}').push_text("As you said.")
        client = await visit.connect()
        await client.open()
        await client.ask("confirm_tool_action", "early", sessionId=client.session, approved=approved)
        await park(client)
        await client.ask("confirm_tool_action", "none", sessionId=client.session)
        await client.ask("confirm_tool_action", "word", sessionId=client.session, approved="yes")
        await client.ask("confirm_tool_action", "nobody", approved=True)
        await client.ask("confirm_tool_action", "other", sessionId=NOBODY, approved=True)
        await client.ask("confirm_tool_action", "right", sessionId=client.session, approved=approved)
        await client.read_type("eventual_response")
        await client.ask("confirm_tool_action", "late", sessionId=client.session, approved=approved)
        assert visit.server.deleted == (["42"] if approved else [])

    return confirmed


WALKS["a write that is approved"] = confirmation(True), {}
WALKS["a write that is denied"] = confirmation(False), {}


@walk()
async def a_confirmation_under_the_id_of_its_turn(visit: Visit) -> None:
    visit.server.model.push_tool_call("c1", "delete_record", '{"id": "42"}').push_text("Gone.")
    client = await visit.open()
    await park(client)
    await client.ask("confirm_tool_action", "t", sessionId=client.session, approved=True)
    await client.read_type("eventual_response")
    await client.ask("confirm_tool_action", "t", sessionId=client.session, approved=True)


@walk()
async def two_writes_in_one_turn(visit: Visit) -> None:
    model = visit.server.model
    model.push_tool_call("c1", "delete_record", '{"id": "1"}').push_tool_call("c2", "delete_record", '{"id": "2"}')
    model.push_text("One of them.")
    client = await visit.open()
    await park(client)
    await client.ask("confirm_tool_action", "q1", sessionId=client.session, approved=True)
    await client.read_type("write_confirmation_required")
    await client.read_type("stream_chunk")
    await client.ask("confirm_tool_action", "q2", sessionId=client.session, approved=False)
    await client.read_type("eventual_response")
    assert visit.server.deleted == ["1"]


IDENTITY = json.dumps(
    {"fields": [{"key": "email", "required": True}, {"key": "name", "required": False}], "reason": "to write"}
)
CHOICE = json.dumps(
    {
        "questions": [
            {"question": "Which plan?", "header": "Plan", "options": [{"label": "Basic"}, {"label": "Pro"}]},
            {
                "question": "Which days?",
                "header": "Days",
                "multiSelect": True,
                "options": [{"label": "Monday", "description": "first"}, {"label": "Friday"}],
            },
        ],
        "reason": "to order",
    }
)


async def asked_by(visit: Visit, tool: str, spec: str, supports: list[str] | None) -> tuple[VisitingClient, Any]:
    """Return a client whose turn waits for a form."""
    visit.server.model.push_tool_call("c1", tool, spec).push_text("Thank you.")
    client = await visit.connect()
    await client.open(**({} if supports is None else {"supports": supports}))
    return client, await park(client, text="an offer, please")


@walk()
async def a_form_that_is_filled_in_wrong_and_then_right(visit: Visit) -> None:
    client, form = await asked_by(visit, "request_identity_intake", IDENTITY, ["identity_form"])
    submit = {"sessionId": client.session, "interactionId": form["interactionId"]}
    await client.ask("submit_interaction", "s1", **submit, values={"email": "nowhere"})
    await client.ask("submit_interaction", "t", **submit, values={})
    await client.ask("submit_interaction", "s2", **submit)
    await client.ask("submit_interaction", "s3", **submit, values="x")
    await client.ask("submit_interaction", "s4", **submit, kind="identity_intake", values={"email": "ann@example.com"})
    await client.read_type("eventual_response")
    await client.ask("submit_interaction", "s5", **submit, values={"email": "ann@example.com"})


@walk()
async def a_form_that_is_declined(visit: Visit) -> None:
    client, form = await asked_by(visit, "request_identity_intake", IDENTITY, ["identity_form", "hologram"])
    submit = {"sessionId": client.session, "interactionId": form["interactionId"]}
    await client.ask("submit_interaction", "s", **submit, declined=True)
    await client.read_type("eventual_response")


@walk()
async def a_choice(visit: Visit) -> None:
    client, form = await asked_by(visit, "request_choices", CHOICE, ["choice_chips"])
    submit = {"sessionId": client.session, "interactionId": form["interactionId"], "kind": "choices"}
    await client.ask("submit_interaction", "s1", **submit, values={"answers": [{"header": "Plan", "options": ["Pro"]}]})
    answers = [{"header": "Plan", "options": ["Pro"]}, {"header": "Days", "options": ["Monday"], "other": "Sunday"}]
    await client.ask("submit_interaction", "s2", **submit, values={"answers": answers})
    await client.read_type("eventual_response")


@walk()
async def a_stale_answer_under_the_id_of_the_turn(visit: Visit) -> None:
    client, form = await asked_by(visit, "request_identity_intake", IDENTITY, ["identity_form"])
    values = {"email": "ann@example.com"}
    submit = {"sessionId": client.session, "values": values}
    await client.ask("submit_interaction", "t", **submit, interactionId="an-older-form")
    await client.ask("submit_interaction", "s", **submit, interactionId=["an-older-form"])
    await client.ask("submit_interaction", "s", **submit, interactionId=form["interactionId"], kind="choices")
    await client.ask("submit_interaction", "n", **submit)
    await client.ask("submit_interaction", None, **submit, interactionId=form["interactionId"])
    await client.ask("confirm_tool_action", "c", sessionId=client.session, approved=True)
    await client.ask("submit_interaction", "t", **submit, interactionId=form["interactionId"])
    await client.read_type("eventual_response")


@walk()
async def an_answer_that_nobody_asked_for(visit: Visit) -> None:
    client = await visit.connect()
    await client.open(supports=["identity_form"])
    for interaction in ("i", 5):
        await client.ask("submit_interaction", "s", sessionId=client.session, interactionId=interaction, values={})


def fallback(**claims: Any) -> Walk:
    async def asks_in_its_own_words(visit: Visit) -> None:
        visit.server.model.push_tool_call("c1", "request_identity_intake", IDENTITY).push_text("What is your email?")
        visit.server.model.push_tool_call("c2", "submit_interaction", json.dumps(SUBMITTED)).push_text("Thank you.")
        client = await visit.connect()
        await client.open(**claims)
        await client.turn("t1", "an offer, please")
        await client.turn("t2", "ann@example.com")
        await client.ask("get_conversation_messages", "h", sessionId=client.session)

    return asks_in_its_own_words


SUBMITTED = {"kind": "identity_intake", "values": {"email": "ann@example.com"}}
WALKS["a form for a client that claims nothing"] = fallback(), {}
WALKS["a form for a client that claims no form"] = fallback(supports=[]), {}
WALKS["a form for a client that claims another form"] = fallback(supports=["choice_chips"]), {}
WALKS["a form for a client whose claims are no list"] = fallback(supports="identity_form"), {}


def resumed(then: list[str] | None) -> Walk:
    async def claims_again(visit: Visit) -> None:
        visit.server.model.push_text("Hello.")
        first = await visit.connect(elsewhere=True)
        await first.open(supports=["identity_form"])
        await first.turn("t0", "hello")
        await first.leave()
        visit.server.model.push_tool_call("c1", "request_identity_intake", IDENTITY).push_text("Thank you.")
        client = await visit.connect()
        claims = {} if then is None else {"supports": then}
        await client.open(conversationId=first.conversation, **claims)
        await client.send("t", "an offer, please")
        seen = await client.read_type("interaction_required", *TERMINALS)
        if seen["type"] == "interaction_required":
            await client.read_type("stream_chunk")
            interaction = seen["data"]["data"]["interactionId"]
            await client.ask(
                "submit_interaction", "s", sessionId=client.session, interactionId=interaction, declined=True
            )
            await client.read_type("eventual_response")

    return claims_again


WALKS["a resumed conversation keeps its claims"] = resumed(None), {}
WALKS["a resumed conversation claims the same"] = resumed(["identity_form"]), {}
WALKS["a resumed conversation claims nothing any more"] = resumed([]), {}


@walk(**verified_only(AGENT))
async def codes(visit: Visit) -> None:
    visit.server.model.push_tool_call("c1", "lookup_order", '{"id": "123"}').push_text("Please verify.")
    visit.server.model.push_tool_call("c2", "lookup_order", '{"id": "123"}').push_text("It has shipped.")
    client = await visit.connect()
    await client.open(userEmail="ann@example.com")
    await client.turn("t1", "where is order 123?")
    verify = {"sessionId": client.session}
    await client.ask("verify_otp", "v1", **verify, code="000000")
    await client.ask("verify_otp", "v2", **verify)
    await client.ask("verify_otp", "v3", code="123456")
    await client.ask("verify_otp", None, **verify, code="123456")
    await client.ask("verify_otp", "t1", **verify, code="123456")
    await client.turn("t2", "where is order 123?")


@walk()
async def a_code_that_nobody_asked_for(visit: Visit) -> None:
    client = await visit.open()
    await client.ask("verify_otp", "v", sessionId=client.session, code="123456")


# -- frames that are wrong --------------------------------------------------------------------------

WRONG: list[str] = [
    "{",
    "[]",
    '"ping"',
    "null",
    "",
    '{"requestId": "r"}',
    '{"action": null, "requestId": "r"}',
    '{"action": "frobnicate", "requestId": "r", "sessionId": 5}',
    '{"action": "get_messages", "requestId": "r"}',
    '{"action": "ping"}',
    '{"action": "ping", "requestId": ""}',
    '{"action": "ping", "requestId": null}',
    '{"action": "ping", "requestId": "r", "unknown": {"a": [1]}}',
    '{"action": "create_conversation_session", "requestId": "r"}',
    '{"action": "create_conversation_session", "requestId": "r", "agentId": "  "}',
    '{"action": "create_conversation_session", "requestId": "r", "agentId": null}',
    '{"action": "get_session", "requestId": "r"}',
    '{"action": "get_session"}',
    '{"action": "get_session", "requestId": "r", "sessionId": ""}',
    '{"action": "get_conversation_messages", "requestId": "r"}',
    '{"action": "verify_otp", "requestId": "r"}',
    '{"action": "submit_interaction", "requestId": "r"}',
    '{"action": "confirm_tool_action", "requestId": "r", "approved": true}',
]


@walk()
async def frames_that_are_wrong(visit: Visit) -> None:
    client = await visit.connect()
    for wrong in WRONG:
        await client.say(wrong)
        await client.read(lambda _frame: True)
    await client.say(b'{"action": "ping", "requestId": "binary"}')
    await client.read(lambda _frame: True)
