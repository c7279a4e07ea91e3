"""Lifetime and answers of questions (docs/design.md, section 5; docs/translation.md, rule 3.3): which clients are
asked, which may answer, what the others receive, and what happens without an answer.

The backend is a smooth server. `p` and `q` are pod clients, which are asked in words. `a` and `b` are smooth clients,
which see approvals natively, and forms if they claim them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.overload.fair_queue import REFUSED, STEP
from dragoman.mappings.canonical import Batch
from dragoman.mappings.canonical.events import ApprovalRequested, ApprovalResolved, QuestionAsked, TextDelta
from tests.gateway.in_memory import AT_ONCE, NEVER, InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import CANCEL, delta, done, echo, problem, run, run_end, say, status
from tests.gateway.smooth_client_messages import AGENT, accepted, answer, cancelled, error, token
from tests.gateway.smooth_server_messages import (
    CONVERSATION,
    CREATED,
    SERVER_SESSION,
    acknowledged,
    answered,
    called,
    confirmation,
    confirmed,
    create,
    form,
    form_refused,
    result,
    said,
    stopped,
    submitted,
    taken,
    told,
)
from tests.gateway.smooth_server_messages import problem as refused

Frame = dict[str, Any]

FAR = Limits(backoff_first=NEVER, backoff_max=NEVER)

SNAPSHOT = say("snapshot")
BEGAN = (status("running"), say("turn_start"))
ASKED = (delta("$asked"), done("$asked"), run_end("paused"), status("paused"))
ASKED_ON = (delta("$asked on"), done("$asked on"), run_end("paused"), status("paused"))
WOKE = (status("running"), say("invoke_start", kind="wakeup"), say("turn_start"))
CALLED = (say("tool_call_start"), say("tool_call_done"))
ENDED = (say("turn_end"), run_end("finished"), status("idle"))
FORMS = ["identity_form", "choice_chips"]


def heard(text: str) -> tuple[Frame, ...]:
    """Return the events that pod clients receive if an answer in words begins a run."""
    return (echo(text), status("running"), say("invoke_start", kind="user_send"), say("turn_start"))


def invoke(slug: str) -> Frame:
    """Return the call of a workflow by a pod client."""
    return {"method": "run", "params": {"input": [{"kind": "workflow_invoke", "slug": slug}]}}


def busy(text: str) -> Frame:
    """Return the refusal of a pod client's input."""
    return say("error", code="already_running", message=text)


ANSWER_FIRST = busy("not sent: answer approve or deny first")


def attach(request: str = "open", **keys: Any) -> Frame:
    """Attach a smooth client to the conversation."""
    keys.setdefault("supports", FORMS)
    return {
        "action": "create_conversation_session",
        "requestId": request,
        "agentId": AGENT,
        "conversationId": CONVERSATION,
        **keys,
    }


def ask(action: str, request: str, **keys: Any) -> Frame:
    """Return an action of a smooth client."""
    return {"action": action, "requestId": request, "sessionId": SERVER_SESSION, **keys}


def confirm(request: str, *, approved: bool) -> Frame:
    """Return a smooth client's answer to an approval."""
    return ask("confirm_tool_action", request, approved=approved)


def submit(request: str, interaction: str, **keys: Any) -> Frame:
    """Return a smooth client's answer to a form."""
    return ask("submit_interaction", request, interactionId=interaction, **keys)


def send(request: str, text: str) -> Frame:
    """Return a smooth client's input."""
    return ask("send_message", request, message=text)


def needs(request: str, kind: str = "write_confirmation_required") -> Frame:
    """Return the question that a smooth client receives."""
    return {"type": kind, "requestId": request}


def chunk(request: str) -> Frame:
    """Return a tool's call or result as a smooth client receives it."""
    return {"type": "stream_chunk", "requestId": request}


def ok(request: str) -> Frame:
    """Return the acceptance of a smooth client's answer."""
    return {"type": "immediate_response", "requestId": request, "status": 200}


def opened(made: InMemoryGateway) -> Script:
    """Return a script with a pod client `p` whose turn "$t" runs."""
    return made.asks_server("p", "Delete it").server_sends(taken("$t")).receives("p", echo("Delete it"), *BEGAN)


def parked(made: InMemoryGateway) -> Script:
    """Like `opened`, with an open approval."""
    return opened(made).server_sends(confirmation("$t"), called("$t", "delete")).receives("p", *ASKED)


def approved(made: InMemoryGateway) -> Script:
    """Like `parked`, and then `p` approves."""
    return parked(made).sends("p", run("approve")).server_receives(confirmed("$c", approved=True))


def cancelled_at_question(made: InMemoryGateway) -> Script:
    """Like `parked`, and then `p` cancels the turn."""
    script = parked(made).sends("p", CANCEL).server_receives({"action": "cancel"}).server_sends(stopped("$t"))
    return script.receives("p", *WOKE, *CALLED, problem("internal", "Cancelled"), status("idle"))


def message_send(made: InMemoryGateway, id: str, text: str) -> bytes:
    """Return a call with which a pando client sends a text to the session."""
    params = {"session_id": made.session.state.id, "content": text}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "message.send", "params": params}).encode()


def joined(script: Script, name: str, *prelude: Frame, supports: list[str] | None = None) -> Script:
    """Like `opened`, with a smooth client beside `p`."""
    hello = attach(supports=FORMS if supports is None else supports)
    return script.connects(name).sends(name, hello).receives(name, ok("open"), *prelude)


def mixed(made: InMemoryGateway) -> Script:
    """Return a script with a pod client `p` whose turn "$t" runs, a pod client `q`, and a smooth client `a` that claims
    the forms.
    """
    script = opened(made).connects("q", dialect="pod").receives("q", SNAPSHOT)
    return joined(script, "a")


def asked(made: InMemoryGateway) -> Script:
    """Like `mixed`, with an open approval."""
    return (
        mixed(made)
        .server_sends(confirmation("$t"), called("$t", "delete"))
        .receives("p", *ASKED)
        .receives("q", *ASKED)
        .receives("a", needs("$turn"), chunk("$turn"))
    )


def ends(script: Script, *pods: str, smooth: tuple[str, ...] = ()) -> Script:
    """Continue the turn to its end for all clients."""
    script = script.server_sends(result("$t", "delete", "gone"), said("$t", "Done."), answered("$t", "Done."))
    for pod in pods:
        script = script.receives(pod, say("tool_result"), delta("Done."), done("Done."), *ENDED)
    for name in smooth:
        script = script.receives(name, chunk("$turn"), token("$turn", "Done."), answer("$turn", "Done."))
    return script


# -- in words ----------------------------------------------------------------------------------------


OVER = "not sent: the question was answered, or the agent does not wait for an answer any more"


async def test_a_pod_client_answers_in_words_and_the_turn_continues_as_a_new_run() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await ends(
            parked(made)
            .sends("p", run(" Approve\n"))
            .server_receives(confirmed("$c", approved=True))
            .server_sends(acknowledged("$c"))
            .receives("p", *heard(" Approve\n"), *CALLED),
            "p",
        )
        assert "delete" in names["$asked"]
        assert "Call delete?" in names["$asked"], "the backend's exact words"
        assert [m.text for m in made.session.state.messages()] == ["Delete it", "Done."], "no part of the transcript"
        assert made.time.waiting == []


async def test_a_question_stays_open_while_the_backend_tells_of_earlier_calls() -> None:
    """The server in Rust asks before it tells of the calls before the one that waits (docs/dialects/smooth.md)."""
    async with in_memory_gateway(upstream="smooth") as made:
        script = (
            mixed(made)
            .server_sends(confirmation("$t"), called("$t", "find"), result("$t", "find", "x"), called("$t", "delete"))
            .receives("p", *ASKED)
            .receives("q", *ASKED)
            .receives("a", needs("$turn"), *[chunk("$turn")] * 3)
            .sends("a", confirm("y", approved=True))
            .server_receives(confirmed("$c", approved=True))
            .server_sends(acknowledged("$c"))
            .receives("a", ok("y"))
        )
        for pod in ("p", "q"):
            script = script.receives(pod, *WOKE, *CALLED, say("tool_result"), *CALLED)
        await ends(script, "p", "q", smooth=("a",))


async def test_a_pando_client_that_only_makes_calls_answers_in_words() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await parked(made)
        caller = made.join("v", dialect="pando", calls=True)
        caller.calls(message_send(made, "1", "approve"))
        caller.judged = False  # its oracle judges subscribers
        await made.settle()
        await made.script().server_receives(confirmed("$c", approved=True))


async def test_a_workflow_named_like_an_answer_counts_as_the_answer() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await parked(made).sends("p", invoke("deny")).server_receives(confirmed("$c", approved=False))


async def test_any_other_input_during_a_question_is_refused_and_not_queued() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .sends("p", run("approve it"), run("approve!"))
            .receives("p", ANSWER_FIRST, ANSWER_FIRST)
            .server_receives()
        )


async def test_a_resume_shows_the_question_again_and_answers_nothing() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            asked(made)
            .sends("p", {"method": "resume"})
            .receives("p", *BEGAN, *ASKED)
            .receives("q")
            .receives("a")
            .server_receives()
        )


async def test_a_pause_during_a_question_succeeds_at_once() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await parked(made).sends("p", {"method": "pause"}).receives("p").server_receives()


async def test_a_cancel_ends_question_and_turn() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            asked(made)
            .sends("p", CANCEL)
            .server_receives({"action": "cancel"})
            .server_sends(stopped("$t"))
            .receives("p", *WOKE, *CALLED, problem("internal", "Cancelled"), status("idle"))
            .receives("q", *WOKE, *CALLED, problem("internal", "Cancelled"), status("idle"))
            .receives("a", cancelled("$turn"))
        )
        assert made.session.state.turn is None
        assert made.time.waiting == []


async def test_a_smooth_client_cancels_its_turn_after_the_answer_of_another_client() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            mixed(made)
            .server_sends(answered("$t", "Done."))
            .ignores("p", "q", "a")
            .sends("a", send("r1", "Delete more"))
            .server_receives({"action": "send_message", "requestId": "$u"})
            .server_sends(taken("$u"), confirmation("$u"), called("$u", "delete"))
            .receives("a", accepted("r1"), needs("r1"), chunk("r1"))
            .sends("q", run("approve"))
            .server_receives(confirmed("$c", approved=True))
            .server_sends(acknowledged("$c"))
            .sends("a", ask("cancel", "c1"))
            .server_receives({"action": "cancel"})
            .server_sends(stopped("$u"))
            .receives("a", cancelled("r1"))
            .ignores("p", "q")
        )


# -- the first answer wins ---------------------------------------------------------------------------


async def test_the_first_answer_counts_and_other_clients_are_told() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await ends(
            asked(made)
            .sends("q", run("deny"))
            .server_receives(confirmed("$c", approved=False))
            .sends("p", run("approve"))
            .sends("a", confirm("late", approved=True))
            .receives("p", busy("not sent: the question was answered already"))
            .receives("a", error("late", "NO_PENDING_CONFIRMATION"))
            .server_sends(acknowledged("$c"))
            .receives("p", *heard("deny"), *CALLED)
            .receives("q", *heard("deny"), *CALLED),
            "p",
            "q",
            smooth=("a",),
        )


async def test_an_answer_of_a_smooth_client_continues_the_run_of_pod_clients() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await ends(
            asked(made)
            .sends("a", confirm("yes", approved=True))
            .server_receives(confirmed("$c", approved=True))
            .server_sends(acknowledged("$c"))
            .receives("a", ok("yes"))
            .receives("p", *WOKE, *CALLED)
            .receives("q", *WOKE, *CALLED)
            .sends("p", run("deny"))
            .receives("p", busy(OVER)),
            "p",
            "q",
            smooth=("a",),
        )


async def test_a_second_confirm_under_the_id_of_the_open_turn_is_refused_under_that_id() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = made.connects("a").sends("a", attach(conversationId=None))
        await (
            script.server_receives(create("$open"))
            .server_sends(acknowledged("$open", **CREATED))
            .receives("a", ok("open"))
            .sends("a", send("r1", "Delete it"))
            .server_receives(told("$t", "Delete it"))
            .server_sends(taken("$t"), confirmation("$t"), called("$t", "delete"))
            .receives("a", accepted("r1"), needs("r1"), chunk("r1"))
            .sends("a", confirm("r1", approved=True))
            .server_receives(confirmed("$c", approved=True))
            .sends("a", confirm("r1", approved=True))
            .receives("a", error("r1", "NO_PENDING_CONFIRMATION"))
            .server_sends(acknowledged("$c"), answered("$t", ""))
            .receives("a", ok("r1"), answer("r1", ""))
        )


async def test_an_approval_within_a_text_leaves_the_whole_answer_to_a_plain_smooth_client() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = joined(mixed(made), "b", supports=[])
        await (
            script.server_sends(said("$t", "First. "), confirmation("$t"))
            .receives("p", delta("First. "), done("First. "), *ASKED)
            .receives("q", delta("First. "), done("First. "), *ASKED)
            .receives("a", token("$turn", "First. "), needs("$turn"))
            .receives("b", token("$turn", "First. "), needs("$turn"))
            .sends("b", confirm("yes", approved=True))
            .server_receives(confirmed("$c", approved=True))
            .server_sends(acknowledged("$c"), said("$t", "Second."), answered("$t", "First. Second."))
            .receives("p", *WOKE, delta("Second."), done("Second."), *ENDED)
            .receives("q", *WOKE, delta("Second."), done("Second."), *ENDED)
            .receives("a", token("$turn", "Second."), answer("$turn", "First. Second."))
            .receives("b", ok("yes"), token("$turn", "Second."), answer("$turn", "First. Second."))
        )


async def test_a_question_that_the_backend_no_longer_knows_is_closed() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            approved(made)
            .server_sends(refused("$c", "NO_PENDING_CONFIRMATION"))
            .receives("p", *WOKE, *CALLED, say("error"))
        )
        assert made.session.questions.open is None


async def test_a_backend_that_does_not_take_an_answer_in_time_may_be_answered_again() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            approved(made)
            .passes(Limits().accept_deadline)
            .receives("p", say("error", code="internal"))
            .sends("p", run("approve"))
            .server_receives(confirmed("$d", approved=True))
        )


async def test_a_backend_that_continues_before_it_acknowledges_has_accepted_the_answer() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            approved(made)
            .server_sends(result("$t", "delete", "gone"))
            .receives("p", *heard("approve"), *CALLED, say("tool_result"))
            .server_sends(acknowledged("$c"), answered("$t", ""))
            .receives("p", *ENDED)
        )


async def test_text_that_only_the_end_of_the_turn_has_comes_after_the_question_was_closed() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .server_sends(answered("$t", "Done."))
            .receives("p", *WOKE, *CALLED, delta("Done."), done("Done."), *ENDED)
        )


# -- answers that cross ------------------------------------------------------------------------------


async def twice(made: InMemoryGateway) -> Script:
    """Like `asked`, answered by `q`, with a second open approval."""
    return (
        asked(made)
        .sends("q", run("approve"))
        .server_receives(confirmed("$c", approved=True))
        .server_sends(acknowledged("$c"), result("$t", "delete", "gone"), confirmation("$t", "burn"))
        .receives("p", *heard("approve"), *CALLED, say("tool_result"), *ASKED_ON)
        .receives("q", *heard("approve"), *CALLED, say("tool_result"), *ASKED_ON)
        .receives("a", chunk("$turn"), needs("$turn"))
    )


async def test_an_answer_that_crossed_a_further_question_does_not_answer_that_question() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = await twice(made)
        await (
            script.passes(0.9)
            .sends("p", run("approve"))
            .sends("a", confirm("crossed", approved=True))
            .receives("p", busy("not sent: another client answered the question before"))
            .receives("a", error("crossed", "NO_PENDING_CONFIRMATION"))
            .server_receives()
            .passes(0.1)
            .sends("p", run("approve"))
            .server_receives(confirmed("$d", approved=True))
        )


async def test_the_client_that_answered_one_question_may_answer_the_next_at_once() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = await twice(made)
        names = await script.sends("q", run("deny")).server_receives(confirmed("$d", approved=False))
        assert "burn" in names["$asked on"]


async def test_a_client_that_begins_a_turn_after_a_cancelled_question_may_answer_the_next_at_once() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            cancelled_at_question(made)
            .sends("p", run("Again"))
            .server_receives(told("$u", "Again"))
            .server_sends(taken("$u"), confirmation("$u", "burn"))
            .receives("p", echo("Again"), *BEGAN, *ASKED_ON)
            .sends("p", run("approve"))
            .server_receives(confirmed("$c", approved=True))
        )


async def test_a_question_that_replaces_another_is_not_answered_by_answers_to_the_first() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .server_sends(confirmation("$t", "burn"))
            .receives("p", *WOKE, *CALLED, *ASKED_ON)
            .sends("p", run("approve"))
            .receives("p", busy("not sent: another client answered the question before"))
            .server_receives()
            .passes(Limits().answer_guard)
            .sends("p", run("approve"))
            .server_receives(confirmed("$c", approved=True))
        )


# -- slow clients ------------------------------------------------------------------------------------


SMALL = Limits(outbox_soft=1_024, backoff_first=AT_ONCE, backoff_max=AT_ONCE)
LONG = "x" * 2_000 + "y" * 2_000 + "z"


def behind(made: InMemoryGateway) -> Script:
    """Return a script in which `p` runs a turn, `q` has stopped reading and lags behind, and an approval is open."""
    return (
        opened(made)
        .connects("q", dialect="pod", limits=SMALL)
        .receives("q", SNAPSHOT)
        .stops_reading("q")
        .server_sends(said("$t", "x" * 2_000))
        .receives("p", delta("x" * 2_000))
        .receives("q", delta("x" * 2_000))
        .server_sends(said("$t", "y" * 2_000))
        .receives("p", delta("y" * 2_000))
        .server_sends(said("$t", "z"))
        .receives("p", delta("z"))
        .server_sends(confirmation("$t"), called("$t", "delete"))
        .receives("p", done(LONG), *ASKED)
    )


async def test_an_answer_of_a_link_that_was_not_shown_the_question_does_not_count() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            behind(made)
            .sends("q", run("approve"))
            .server_receives()
            .reads_on("q")
            .receives(
                "q",
                delta("y" * 2_000),
                busy("not sent: the open question was not shown to you yet"),
                delta("z"),
                done(LONG),
                *ASKED,
            )
            .sends("q", run("approve"))
            .server_receives(confirmed("$c", approved=True))
        )


async def test_an_answer_of_a_client_that_joined_after_the_question_counts_before_it_is_shown_the_whole_turn() -> None:
    async with in_memory_gateway(upstream="smooth", limits=Limits(catch_up=1)) as made:
        await (
            asked(made)
            .connects("b")
            .stops_reading("b")
            .sends("b", confirm("yes", approved=True))
            .server_receives(confirmed("$c", approved=True))
            .reads_on("b")
            .receives("b", needs("$turn"), chunk("$turn"))
        )


async def test_a_slow_pod_client_sees_question_and_answer_in_order() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            behind(made)
            .sends("p", run("approve"))
            .server_receives(confirmed("$c", approved=True))
            .server_sends(acknowledged("$c"))
            .receives("p", *heard("approve"), *CALLED)
            .reads_on("q")
            .receives("q", delta("y" * 2_000), delta("z"), done(LONG), *ASKED, *heard("approve"), *CALLED)
            .server_sends(answered("$t", LONG))
            .receives("p", *ENDED)
            .receives("q", *ENDED)
        )


async def test_a_slow_pod_client_gets_the_whole_turn_after_its_end() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            behind(made)
            .sends("p", run("approve"))
            .server_receives(confirmed("$c", approved=True))
            .server_sends(acknowledged("$c"), answered("$t", LONG))
            .receives("p", *heard("approve"), *CALLED, *ENDED)
            .reads_on("q")
            .receives("q", delta("y" * 2_000), delta("z"), done(LONG), *ASKED, *heard("approve"), *CALLED, *ENDED)
        )


# -- nobody answers ----------------------------------------------------------------------------------


async def test_the_deadline_denies_a_question_with_an_alert_and_a_run_of_the_backend() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        deadline = Limits().answer_deadline
        await (
            ends(
                asked(made)
                .passes(deadline - 1)
                .receives("p")
                .passes(1)
                .receives("p", say("alert", level="warn"))
                .receives("q", say("alert", level="warn"))
                .server_receives(confirmed("$c", approved=False))
                .sends("p", run("approve"))
                .receives("p", busy("not sent: the question was answered already"))
                .server_sends(acknowledged("$c"))
                .receives("p", *WOKE, *CALLED)
                .receives("q", *WOKE, *CALLED),
                "p",
                "q",
                smooth=("a",),
            )
            .sends("p", run("approve"))
            .receives("p", busy(OVER))
        )
        assert made.time.waiting == []


async def test_a_lost_denial_is_sent_again_after_another_deadline() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        deadline = Limits().answer_deadline
        await (
            parked(made)
            .passes(deadline)
            .receives("p", say("alert"))
            .server_receives(confirmed("$c", approved=False))
            .passes(deadline)
            .receives("p", say("alert"))
            .server_receives(confirmed("$d", approved=False))
        )


async def test_the_deadline_declines_a_form() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            opened(made)
            .server_sends(form("$t", "i1"))
            .receives("p", *ASKED)
            .passes(Limits().answer_deadline)
            .receives("p", say("alert"))
            .server_receives(submitted("$s", "i1", declined=True))
        )


# -- the backend, and clients, are lost ----------------------------------------------------------------


async def test_a_backend_lost_at_a_question_denies_it_and_fails_the_turn_for_everybody() -> None:
    async with in_memory_gateway(upstream="smooth", limits=FAR) as made:
        await (
            asked(made)
            .server_dies()
            .receives("p", *WOKE, *CALLED, say("error"), status("idle"))
            .receives("q", *WOKE, *CALLED, say("error"), status("idle"))
            .receives("a", error("$turn", "INTERNAL_ERROR"))
            .sends("a", confirm("late", approved=True))
            .receives("a", error("late", "NO_PENDING_CONFIRMATION"))
        )
        assert made.time.waiting == []


async def test_an_answer_in_words_to_a_question_that_is_over_is_no_input() -> None:
    async with in_memory_gateway(upstream="smooth", limits=FAR) as made:
        await (
            cancelled_at_question(made)
            .sends("p", run("approve"))
            .receives("p", busy(OVER))
            .sends("p", run("approve"))
            .server_receives(told("$u", "approve"))
        )


async def test_a_word_of_an_answer_is_an_input_once_no_question_can_be_meant() -> None:
    async with in_memory_gateway(upstream="smooth", limits=FAR) as made:
        await (
            cancelled_at_question(made)
            .passes(Limits().answer_deadline)
            .sends("p", run("approve"))
            .server_receives(told("$u", "approve"))
        )


async def test_a_late_answer_of_a_pando_client_is_no_input() -> None:
    async with in_memory_gateway(upstream="smooth", limits=FAR) as made:
        made.join("pub", dialect="pando").judged = False
        await cancelled_at_question(made).ignores("pub")
        caller = made.join("v", dialect="pando", calls=True)
        caller.judged = False
        caller.calls(message_send(made, "1", "approve"))
        await made.settle()
        refused = {"code": -32000, "message": f"message.send: {OVER}"}
        await made.script().receives("v", {"jsonrpc": "2.0", "id": "1", "error": refused})
        caller.calls(message_send(made, "2", "approve"))
        await made.settle()
        await made.script().server_receives(told("$u", "approve"))


async def test_a_pando_client_that_answered_one_question_may_answer_the_next_at_once() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        made.join("pub", dialect="pando").judged = False
        turn = (await parked(made).ignores("pub"))["$t"]
        caller = made.join("v", dialect="pando", calls=True)
        caller.judged = False
        caller.calls(message_send(made, "1", "approve"))
        await made.settle()
        script = made.script().server_receives(confirmed("$c", approved=True)).server_sends(acknowledged("$c"))
        await script.server_sends(confirmation(turn, "burn")).ignores("pub", "p", "v")
        caller.calls(message_send(made, "2", "approve"))
        await made.settle()
        await made.script().server_receives(confirmed("$d", approved=True)).ignores("pub", "p")


async def test_a_question_outlives_its_clients_and_is_shown_to_clients_that_come_back() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await ends(
            parked(made)
            .leaves("p")
            .passes(100)
            .connects("q", dialect="pod")
            .receives("q", say("snapshot", status="running"), *ASKED)
            .sends("q", run("approve"))
            .server_receives(confirmed("$c", approved=True))
            .server_sends(acknowledged("$c"))
            .receives("q", *heard("approve"), *CALLED),
            "q",
        )


async def test_late_joiners_see_the_question_in_their_own_form() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await ends(
            joined(parked(made), "a", needs("$turn"), chunk("$turn"))
            .connects("q", dialect="pod")
            .receives("q", SNAPSHOT, *ASKED)
            .sends("a", confirm("yes", approved=True))
            .server_receives(confirmed("$c", approved=True))
            .server_sends(acknowledged("$c"))
            .receives("a", ok("yes"))
            .receives("p", *WOKE, *CALLED)
            .receives("q", *WOKE, *CALLED),
            "p",
            "q",
            smooth=("a",),
        )


async def test_a_client_that_joins_after_the_answer_is_not_asked() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            approved(made)
            .server_sends(acknowledged("$c"), result("$t", "delete", "gone"))
            .receives("p", *heard("approve"), *CALLED, say("tool_result"))
            .connects("q", dialect="pod")
            .receives("q", SNAPSHOT, *CALLED, say("tool_result"))
        )


# -- the route answers -------------------------------------------------------------------------------


async def test_a_route_that_denies_does_so_at_once_and_the_run_goes_on() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="deny") as made:
        await ends(
            opened(made)
            .server_sends(confirmation("$t"), called("$t", "delete"))
            .receives("p", *CALLED)
            .server_receives(confirmed("$c", approved=False))
            .server_sends(acknowledged("$c"))
            .receives("p"),
            "p",
        )


async def test_a_route_that_denies_declines_forms() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="deny") as made:
        await (
            opened(made)
            .server_sends(form("$t", "i1"))
            .receives("p")
            .server_receives(submitted("$s", "i1", declined=True))
        )


async def test_a_route_that_approves_approves_writes() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="approve") as made:
        await (
            opened(made)
            .server_sends(confirmation("$t"))
            .receives("p")
            .server_receives(confirmed("$c", approved=True))
            .server_sends(acknowledged("$c"), said("$t", "May I go on?"), answered("$t", "May I go on?"))
            .receives("p", delta("May I go on?"), done("May I go on?"), *ENDED)
            .sends("p", run("approve"))
            .server_receives(told("$u", "approve"))
        )


async def test_a_route_that_approves_asks_for_forms() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="approve") as made:
        await opened(made).server_sends(form("$t", "i1")).receives("p", *ASKED).server_receives()


async def test_a_route_does_not_decide_while_a_client_that_can_be_asked_is_attached() -> None:
    for decides in ("deny", "approve"):
        async with in_memory_gateway(upstream="smooth", approvals=decides) as made:
            await asked(made).server_receives()


async def test_a_route_that_approves_does_not_approve_without_any_client() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="approve") as made:
        await (
            opened(made)
            .leaves("p")
            .server_sends(confirmation("$t"))
            .server_receives()
            .connects("q", dialect="pod")
            .receives("q", SNAPSHOT, *ASKED)
        )


async def test_a_lost_decision_of_the_route_is_followed_by_the_denial_at_the_deadline() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="approve") as made:
        await (
            opened(made)
            .server_sends(confirmation("$t"))
            .server_receives(confirmed("$c", approved=True))
            .passes(Limits().answer_deadline)
            .receives("p", say("alert"))
            .server_receives(confirmed("$d", approved=False))
        )


# -- a turn that was cancelled by force ----------------------------------------------------------------


async def test_the_open_question_of_a_turn_cancelled_by_force_is_denied_to_the_backend() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .sends("p", CANCEL)
            .server_receives({"action": "cancel", "requestId": "$x"})
            .server_sends(refused("$x", "UNSUPPORTED_ACTION"))
            .receives("p", *WOKE, *CALLED, problem("internal", "Cancelled"), status("idle"))
            .server_receives(confirmed("$c", approved=False))
            .server_sends(acknowledged("$c"), said("$t", "ok"), answered("$t", "ok"))
            .sends("p", run("Next"))
            .server_receives(told("$u", "Next"))
        )


async def test_a_question_in_a_turn_that_ended_for_its_clients_is_denied_and_not_shown() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            opened(made)
            .sends("p", CANCEL)
            .server_receives({"action": "cancel", "requestId": "$x"})
            .server_sends(refused("$x", "UNSUPPORTED_ACTION"))
            .receives("p", problem("internal", "Cancelled"), status("idle"))
            .server_sends(confirmation("$t"), called("$t", "delete"))
            .server_receives(confirmed("$c", approved=False))
            .server_sends(acknowledged("$c"), form("$t", "i1"))
            .server_receives(submitted("$s", "i1", declined=True))
            .receives("p")
        )
        assert made.losses("ApprovalRequested") == 1


# -- forms ---------------------------------------------------------------------------------------------


async def test_a_form_is_asked_field_by_field_and_again_from_a_field_that_the_backend_refuses() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        email = (delta("$email"), done("$email"), run_end("paused"), status("paused"))
        name = (delta("$name"), done("$name"), run_end("paused"), status("paused"))
        wrong = (delta("$wrong"), done("$wrong"), run_end("paused"), status("paused"))
        names = await (
            opened(made)
            .server_sends(form("$t", "i1"), called("$t", "request_identity_intake"))
            .receives("p", *email)
            .sends("p", run("nonsense"))
            .receives("p", *heard("nonsense"), *CALLED, *name)
            .server_receives()
            .sends("p", run("none"))
            .server_receives(submitted("$s", "i1", values={"email": "nonsense", "name": None}))
            .server_sends(form_refused("$s", "i1", "email", "no address"))
            .receives("p", *heard("none"), *wrong)
            .sends("p", run("a@b.cd"))
            .receives("p", *heard("a@b.cd"), *name)
            .sends("p", run("Al"))
            .server_receives(submitted("$u", "i1", values={"email": "a@b.cd", "name": "Al"}))
            .server_sends(acknowledged("$u"), answered("$t", ""))
            .receives("p", *heard("Al"), *ENDED)
        )
        assert "email?" in names["$email"]
        assert "name?" in names["$name"]
        assert "no address" in names["$wrong"]
        assert "email?" in names["$wrong"]


async def test_a_form_that_a_backend_asks_again_under_its_id_is_answered_again() -> None:
    parked_again = (run_end("paused"), status("paused"))
    async with in_memory_gateway(upstream="smooth") as made:
        script = (
            opened(made)
            .server_sends(form("$t", "i1"), called("$t", "request_identity_intake"))
            .receives("p", delta("$email"), done("$email"), *parked_again)
        )
        for number in "12":
            script = (
                script.sends("p", run("a@b.cd"))
                .ignores("p")
                .sends("p", run("Al"))
                .server_receives(submitted(f"$s{number}", "i1", values={"email": "a@b.cd", "name": "Al"}))
                .passes(Limits().answer_guard)
                .server_sends(form("$t", "i1"))
                .ignores("p")
                .passes(Limits().answer_guard)
            )
        await script


async def test_an_answer_to_another_form_or_without_values_is_refused_and_the_form_stays_open() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            mixed(made)
            .server_sends(form("$t", "i1"))
            .receives("p", *ASKED)
            .receives("q", *ASKED)
            .receives("a", needs("$turn", "interaction_required"))
            .sends("a", submit("s1", "i2", values={}))
            .receives("a", error("s1", "INTERACTION_MISMATCH"))
            .sends("a", submit("s2", "i1"))
            .receives("a", error("s2", "VALIDATION_ERROR"))
            .sends("a", confirm("c1", approved=True))
            .receives("a", error("c1", "NO_PENDING_CONFIRMATION"))
            .server_receives()
            .sends("a", submit("s2", "i1", values={"email": "x"}))
            .server_receives(submitted("$s", "i1", values={"email": "x"}))
            .server_sends(form_refused("$s", "i1", "email", "no address"))
            .receives("a", needs("s2", "interaction_invalid"))
            .sends("a", submit("s3", "i1", values={"email": "a@b.cd"}))
            .server_receives(submitted("$u", "i1", values={"email": "a@b.cd"}))
            .server_sends(acknowledged("$u"))
            .receives("a", ok("s3"))
            .receives("p", *WOKE)
            .receives("q", *WOKE)
        )


async def test_an_answer_to_no_open_form_is_refused_and_audited() -> None:
    with capture_logs() as lines:
        async with in_memory_gateway(upstream="smooth") as made:
            await (
                mixed(made)
                .sends("a", submit("s", "i1", declined=True))
                .receives("a", error("s", "NO_PENDING_INTERACTION"))
            )
    refused = [(line["link"], line["command"]) for line in lines if line.get("action") == "refusal"]
    assert refused == [("a", "AnswerInteraction")]


async def test_a_refused_answer_counts_as_more_work_than_a_ping() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await mixed(made)
        budget, client = made.services.queue.budget, made.clients["a"]
        budget.left = STEP
        client.sends(submit("s1", "i1", declined=True))
        await made.settle()
        assert len(client.news()) == 1
        assert budget.left < STEP - REFUSED


# -- smooth clients that cannot show a form --------------------------------------------------------------


def plain(made: InMemoryGateway) -> Script:
    """Return a script with a smooth client `b` without claims whose turn r1 runs, in the session of `a`, which claims
    the forms.
    """
    script = (
        made.connects("a")
        .sends("a", attach(conversationId=None))
        .server_receives(create("$open"))
        .server_sends(acknowledged("$open", **CREATED))
        .receives("a", ok("open"))
    )
    return (
        joined(script, "b", supports=[])
        .sends("b", send("r1", "Quote"))
        .server_receives(told("$t", "Quote"))
        .server_sends(taken("$t"), said("$t", "Sure. "))
        .receives("b", accepted("r1"), token("r1", "Sure. "))
        .receives("a", token("$turn", "Sure. "))
    )


async def test_a_plain_smooth_client_is_asked_a_form_in_words_and_answers_by_its_next_message() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await (
            plain(made)
            .server_sends(form("$t", "i1"), called("$t", "request_identity_intake"))
            .receives("b", token("r1", "$one"), {"type": "eventual_response", "requestId": "r1"})
            .receives("a", needs("$turn", "interaction_required"), chunk("$turn"))
            .sends("b", send("r2", "a@b.cd"))
            .receives("b", accepted("r2"), chunk("r2"), token("r2", "$two"), answer("r2", "$two"))
            .receives("a")
            .sends("b", send("r3", "none"))
            .server_receives(submitted("$s", "i1", values={"email": "a@b.cd"}))
            .server_sends(acknowledged("$s"), said("$t", "Here."), answered("$t", "Sure. Here."))
            .receives("b", accepted("r3"), token("r3", "Here."), answer("r3", "Here."))
            .receives("a", token("$turn", "Here."), answer("$turn", "Sure. Here."))
        )
        end = next(frame for frame in made.clients["b"].frames() if frame["type"] == "eventual_response")
        assert end["data"]["data"]["response"]["responseParts"] == ["Sure. " + names["$one"]], "as its tokens"
        assert names["$one"].startswith("\n\n"), "a question after text is a paragraph of its own"


async def test_another_client_asked_in_words_sees_each_run_under_a_new_id() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = (
            joined(plain(made), "c", token("$turn", "Sure. "), supports=["choice_chips"])
            .server_sends(form("$t", "i1"), called("$t", "request_identity_intake"))
            .receives("b", token("r1", "$one"), {"type": "eventual_response", "requestId": "r1"})
            .receives("c", token("$turn", "$one"), {"type": "eventual_response", "requestId": "$turn"})
            .receives("a", needs("$turn", "interaction_required"), chunk("$turn"))
            .sends("b", send("r2", "a@b.cd"))
            .receives("b", accepted("r2"), chunk("r2"), token("r2", "$two"), answer("r2", "$two"))
            .receives("c", chunk("$run 2"), token("$run 2", "$two"), answer("$run 2", "$two"))
            .sends("c", send("s1", "none"))
            .server_receives(submitted("$s", "i1", values={"email": "a@b.cd"}))
            .server_sends(acknowledged("$s"), said("$t", "Here"))
            .receives("c", accepted("s1"), token("s1", "Here"))
            .receives("b", token("$run 3", "Here"))
            .receives("a", token("$turn", "Here"))
        )
        names = await (
            joined(script, "d", token("$run 3", "Here"), supports=[])
            .server_sends(said("$t", "."), answered("$t", "Sure. Here."))
            .receives("c", token("s1", "."), answer("s1", "Here."))
            .receives("b", token("$run 3", "."), answer("$run 3", "Here."))
            .receives("d", token("$run 3", "."), answer("$run 3", "Here."))
            .receives("a", token("$turn", "."), answer("$turn", "Sure. Here."))
        )
        assert len({names["$turn"], names["$run 2"], names["$run 3"], "r1", "r2", "s1"}) == 6


async def test_a_smooth_client_that_resumes_without_a_claim_has_the_claim_of_its_session() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            plain(made)
            .connects("c")
            .sends("c", {key: value for key, value in attach().items() if key != "supports"})
            .receives("c", ok("open"), token("$turn", "Sure. "))
            .server_sends(form("$t", "i1"), called("$t", "request_identity_intake"))
            .receives("b", token("r1", "$one"), {"type": "eventual_response", "requestId": "r1"})
            .receives("a", needs("$turn", "interaction_required"), chunk("$turn"))
            .receives("c", needs("$turn", "interaction_required"), chunk("$turn"))
        )


async def test_a_smooth_client_without_a_claim_in_a_pods_session_is_asked_in_words() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = opened(made)
        await (
            script.connects("b")
            .sends("b", {key: value for key, value in attach().items() if key != "supports"})
            .receives("b", ok("open"))
            .server_sends(form("$t", "i1"), called("$t", "x"))
            .receives("p", *ASKED)
            .receives("b", token("$turn", "$words"), {"type": "eventual_response", "requestId": "$turn"})
        )


async def test_a_plain_smooth_client_that_joins_at_a_form_is_asked_in_words() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = opened(made).server_sends(said("$t", "Sure. "), form("$t", "i1"), called("$t", "x"))
        script = script.receives("p", delta("Sure. "), done("Sure. "), *ASKED)
        await (
            joined(
                script,
                "b",
                token("$turn", "Sure. "),
                token("$turn", "$words"),
                {"type": "eventual_response", "requestId": "$turn"},
                supports=[],
            )
            .sends("b", send("r1", "skip"))
            .server_receives(submitted("$s", "i1", declined=True))
            .server_sends(acknowledged("$s"), said("$t", "Fine."), answered("$t", "Sure. Fine."))
            .receives("b", accepted("r1"), chunk("r1"), token("r1", "Fine."), answer("r1", "Fine."))
            .receives("p", *heard("skip"), *CALLED, delta("Fine."), done("Fine."), *ENDED)
        )


async def test_an_approval_reaches_a_plain_smooth_client_in_its_own_form() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            plain(made)
            .server_sends(confirmation("$t"))
            .receives("b", needs("r1"))
            .receives("a", needs("$turn"))
            .sends("b", send("r2", "approve"))
            .receives("b", error("r2", "TURN_IN_PROGRESS"))
            .server_receives()
        )


# -- what is kept of it ----------------------------------------------------------------------------------


async def test_the_log_has_the_approval_of_a_question() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            approved(made)
            .server_sends(result("$t", "delete", "gone"), acknowledged("$c"))
            .receives("p", *heard("approve"), *CALLED, say("tool_result"))
        )
        events = [event for batch, _after in made.session.log.batches_from(0, 1 << 20) for event in batch.events]
        kinds = [type(event).__name__ for event in events]
        assert kinds.index("ApprovalRequested") < kinds.index("ApprovalResolved") < kinds.index("ToolCallFinished")
        assert [event.approved for event in events if isinstance(event, ApprovalResolved)] == [True]
        assert sum(isinstance(event, ApprovalRequested) for event in events) == 1


# -- a paragraph of its own ---------------------------------------------------------------------------


async def test_a_question_after_text_is_a_paragraph_of_its_own() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await (
            opened(made)
            .server_sends(said("$t", "Let me see."), confirmation("$t"))
            .receives("p", delta("Let me see."), done("Let me see."), *ASKED)
            .sends("p", run("approve"))
            .server_receives(confirmed("$c", approved=True))
            .server_sends(acknowledged("$c"), confirmation("$t", "drop"))
            .receives("p", *heard("approve"), delta("$next"), done("$next"), run_end("paused"), status("paused"))
        )
        assert names["$asked"].startswith("\n\n"), "a blank line stands before it"
        assert not names["$next"].startswith("\n"), "its run has no other text"


@pytest.mark.parametrize("dialect", ["pando", "codewhale"])
def test_pando_and_codewhale_clients_see_the_blank_line_before_a_question_too(dialect: str) -> None:
    words = QuestionAsked(text="May I?", question="q", number=1, parked=True, after_text=True)
    batch = Batch(session="s", epoch=1, first_seq=0, events=[TextDelta(text="Let me see."), words], turn="t")
    frames = registry.dialect(dialect).projection("", "").render(batch).frames
    parts = [json.loads(frame.rpartition(b"\0")[2]) for frame in frames]
    said = [f.get("delta") or f.get("payload", {}).get("token") for f in parts]
    assert [text for text in said if text] == ["Let me see.", "\n\nMay I?"]
