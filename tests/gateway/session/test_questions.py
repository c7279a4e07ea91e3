"""Custody of questions, as conversations (docs/design.md, section 5; docs/translation.md, rule 3.3): which clients are
asked, which may answer, what the others receive, and what happens without an answer.

The backend is a smooth server. `p` and `q` are pod clients, which are asked in words. `a` and `b` are smooth clients,
which see approvals natively, and forms if they claim them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.mappings.canonical import Batch
from dragoman.mappings.canonical.events import ApprovalRequested, ApprovalResolved, QuestionAsked, TextDelta, TurnEnded
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
    code_sent,
    code_valid,
    code_wanted,
    code_wrong,
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
    verified,
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
    return (
        made.script()
        .joins("p", dialect="pod")
        .gets("p", SNAPSHOT)
        .says("p", run("Delete it"))
        .server_gets(create("$open"))
        .server_says(acknowledged("$open", **CREATED))
        .server_gets(told("$t", "Delete it"))
        .server_says(taken("$t"))
        .gets("p", echo("Delete it"), *BEGAN)
    )


def parked(made: InMemoryGateway) -> Script:
    """Like `opened`, with an open approval."""
    return opened(made).server_says(confirmation("$t"), called("$t", "delete")).gets("p", *ASKED)


def joined(script: Script, name: str, *prelude: Frame, supports: list[str] | None = None) -> Script:
    """Like `opened`, with a smooth client beside `p`."""
    hello = attach(supports=FORMS if supports is None else supports)
    return script.joins(name).says(name, hello).gets(name, ok("open"), *prelude)


def mixed(made: InMemoryGateway) -> Script:
    """Return a script with a pod client `p` whose turn "$t" runs, a pod client `q`, and a smooth client `a` that claims
    the forms.
    """
    script = opened(made).joins("q", dialect="pod").gets("q", SNAPSHOT)
    return joined(script, "a")


def asked(made: InMemoryGateway) -> Script:
    """Like `mixed`, with an open approval."""
    return (
        mixed(made)
        .server_says(confirmation("$t"), called("$t", "delete"))
        .gets("p", *ASKED)
        .gets("q", *ASKED)
        .gets("a", needs("$turn"), chunk("$turn"))
    )


def ends(script: Script, *pods: str, smooth: tuple[str, ...] = ()) -> Script:
    """Continue the turn to its end for all clients."""
    script.server_says(result("$t", "delete", "gone"), said("$t", "Done."), answered("$t", "Done."))
    for pod in pods:
        script.gets(pod, say("tool_result"), delta("Done."), done("Done."), *ENDED)
    for name in smooth:
        script.gets(name, chunk("$turn"), token("$turn", "Done."), answer("$turn", "Done."))
    return script


# -- in words ----------------------------------------------------------------------------------------


async def test_a_pod_client_answers_in_words_and_the_turn_continues_as_a_new_run() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await ends(
            parked(made)
            .says("p", run(" Approve\n"))
            .server_gets(confirmed("$c", approved=True))
            .server_says(acknowledged("$c"))
            .gets("p", *heard(" Approve\n"), *CALLED),
            "p",
        ).done()
        assert "delete" in names["$asked"]
        assert "Call delete?" in names["$asked"], "the backend's exact words"
        assert [m.text for m in made.session.state.messages()] == ["Delete it", "Done."], "no part of the transcript"
        assert made.time.waiting == []


async def test_a_workflow_named_like_an_answer_counts_as_the_answer() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await parked(made).says("p", invoke("deny")).server_gets(confirmed("$c", approved=False)).done()


async def test_any_other_input_during_a_question_is_refused_and_not_queued() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .says("p", run("approve it"), run("approve!"))
            .gets("p", ANSWER_FIRST, ANSWER_FIRST)
            .server_gets()
            .done()
        )


async def test_text_before_a_question_is_complete_in_the_run_that_the_question_ends() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            opened(made)
            .server_says(said("$t", "I will"), said("$t", " delete."), confirmation("$t"))
            .gets("p", delta("I will"), delta(" delete."), done("I will delete."), *ASKED)
            .says("p", run("deny"))
            .server_gets(confirmed("$c", approved=False))
            .server_says(acknowledged("$c"), said("$t", "As you wish."), answered("$t", "I will delete.As you wish."))
            .gets("p", *heard("deny"), delta("As you wish."), done("As you wish."), *ENDED)
            .done()
        )


async def test_a_resume_shows_the_question_again_and_answers_nothing() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            asked(made)
            .says("p", {"method": "resume"})
            .gets("p", *BEGAN, *ASKED)
            .gets("q")
            .gets("a")
            .server_gets()
            .done()
        )


async def test_a_pause_during_a_question_succeeds_at_once() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await parked(made).says("p", {"method": "pause"}).gets("p").server_gets().done()


async def test_a_cancel_ends_question_and_turn() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            asked(made)
            .says("p", CANCEL)
            .server_gets({"action": "cancel"})
            .server_says(stopped("$t"))
            .gets("p", *WOKE, *CALLED, problem("internal", "Cancelled"), status("idle"))
            .gets("q", *WOKE, *CALLED, problem("internal", "Cancelled"), status("idle"))
            .gets("a", cancelled("$turn"))
            .done()
        )
        assert made.session.state.turn is None
        assert made.time.waiting == []


# -- the first answer wins ---------------------------------------------------------------------------


async def test_the_first_answer_counts_and_other_clients_are_told() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await ends(
            asked(made)
            .says("q", run("deny"))
            .server_gets(confirmed("$c", approved=False))
            .says("p", run("approve"))
            .says("a", confirm("late", approved=True))
            .gets("p", busy("not sent: the question was answered already"))
            .gets("a", error("late", "NO_PENDING_CONFIRMATION"))
            .server_says(acknowledged("$c"))
            .gets("p", *heard("deny"), *CALLED)
            .gets("q", *heard("deny"), *CALLED),
            "p",
            "q",
            smooth=("a",),
        ).done()


async def test_an_answer_of_a_smooth_client_continues_the_run_of_pod_clients() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await ends(
            asked(made)
            .says("a", confirm("yes", approved=True))
            .server_gets(confirmed("$c", approved=True))
            .server_says(acknowledged("$c"))
            .gets("a", ok("yes"))
            .gets("p", *WOKE, *CALLED)
            .gets("q", *WOKE, *CALLED)
            .says("p", run("deny"))
            .gets("p", busy("a turn is already in progress in this session")),
            "p",
            "q",
            smooth=("a",),
        ).done()


async def test_a_second_confirm_under_the_id_of_the_open_turn_is_refused_under_that_id() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = made.script().joins("a").says("a", attach(conversationId=None))
        await (
            script.server_gets(create("$open"))
            .server_says(acknowledged("$open", **CREATED))
            .gets("a", ok("open"))
            .says("a", send("r1", "Delete it"))
            .server_gets(told("$t", "Delete it"))
            .server_says(taken("$t"), confirmation("$t"), called("$t", "delete"))
            .gets("a", accepted("r1"), needs("r1"), chunk("r1"))
            .says("a", confirm("r1", approved=True))
            .server_gets(confirmed("$c", approved=True))
            .says("a", confirm("r1", approved=True))
            .gets("a", error("r1", "NO_PENDING_CONFIRMATION"))
            .server_says(acknowledged("$c"), answered("$t", ""))
            .gets("a", ok("r1"), answer("r1", ""))
            .done()
        )


async def test_an_approval_within_a_text_leaves_the_whole_answer_to_a_plain_smooth_client() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = joined(mixed(made), "b", supports=[])
        await (
            script.server_says(said("$t", "First. "), confirmation("$t"))
            .gets("p", delta("First. "), done("First. "), *ASKED)
            .gets("q", delta("First. "), done("First. "), *ASKED)
            .gets("a", token("$turn", "First. "), needs("$turn"))
            .gets("b", token("$turn", "First. "), needs("$turn"))
            .says("b", confirm("yes", approved=True))
            .server_gets(confirmed("$c", approved=True))
            .server_says(acknowledged("$c"), said("$t", "Second."), answered("$t", "First. Second."))
            .gets("p", *WOKE, delta("Second."), done("Second."), *ENDED)
            .gets("q", *WOKE, delta("Second."), done("Second."), *ENDED)
            .gets("a", token("$turn", "Second."), answer("$turn", "First. Second."))
            .gets("b", ok("yes"), token("$turn", "Second."), answer("$turn", "First. Second."))
            .done()
        )


async def test_a_question_that_the_backend_no_longer_knows_is_closed() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .says("p", run("approve"))
            .server_gets(confirmed("$c", approved=True))
            .server_says(refused("$c", "NO_PENDING_CONFIRMATION"))
            .gets("p", *WOKE, *CALLED, say("error"))
            .done()
        )
        assert made.session.questions.open is None


async def test_a_backend_that_does_not_take_an_answer_in_time_may_be_answered_again() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .says("p", run("approve"))
            .server_gets(confirmed("$c", approved=True))
            .passes(Limits().accept_deadline)
            .gets("p", say("error", code="internal"))
            .says("p", run("approve"))
            .server_gets(confirmed("$d", approved=True))
            .done()
        )


async def test_a_backend_that_continues_before_it_acknowledges_has_accepted_the_answer() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .says("p", run("approve"))
            .server_gets(confirmed("$c", approved=True))
            .server_says(result("$t", "delete", "gone"))
            .gets("p", *heard("approve"), *CALLED, say("tool_result"))
            .server_says(acknowledged("$c"), answered("$t", ""))
            .gets("p", *ENDED)
            .done()
        )


# -- answers that cross ------------------------------------------------------------------------------


async def twice(made: InMemoryGateway) -> Script:
    """Like `asked`, answered by `q`, with a second open approval."""
    return (
        asked(made)
        .says("q", run("approve"))
        .server_gets(confirmed("$c", approved=True))
        .server_says(acknowledged("$c"), result("$t", "delete", "gone"), confirmation("$t", "burn"))
        .gets("p", *heard("approve"), *CALLED, say("tool_result"), *ASKED_ON)
        .gets("q", *heard("approve"), *CALLED, say("tool_result"), *ASKED_ON)
        .gets("a", chunk("$turn"), needs("$turn"))
    )


async def test_an_answer_that_crossed_a_further_question_does_not_answer_that_question() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = await twice(made)
        await (
            script.passes(0.9)
            .says("p", run("approve"))
            .says("a", confirm("crossed", approved=True))
            .gets("p", busy("not sent: the question before was answered by somebody else"))
            .gets("a", error("crossed", "NO_PENDING_CONFIRMATION"))
            .server_gets()
            .passes(0.1)
            .says("p", run("approve"))
            .server_gets(confirmed("$d", approved=True))
            .done()
        )


async def test_the_client_that_answered_one_question_may_answer_the_next_at_once() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = await twice(made)
        names = await script.says("q", run("deny")).server_gets(confirmed("$d", approved=False)).done()
        assert "burn" in names["$asked on"]


async def test_a_question_that_replaces_another_is_not_answered_by_answers_to_the_first() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .server_says(confirmation("$t", "burn"))
            .gets("p", *WOKE, *CALLED, *ASKED_ON)
            .says("p", run("approve"))
            .gets("p", busy("not sent: the question before was answered by somebody else"))
            .server_gets()
            .passes(Limits().answer_guard)
            .says("p", run("approve"))
            .server_gets(confirmed("$c", approved=True))
            .done()
        )


# -- slow clients ------------------------------------------------------------------------------------


SMALL = Limits(outbox_soft=1_024, backoff_first=AT_ONCE, backoff_max=AT_ONCE)


def behind(made: InMemoryGateway) -> Script:
    """Return a script in which `p` runs a turn, `q` has stopped reading and lags behind, and an approval is open."""
    return (
        opened(made)
        .joins("q", dialect="pod", limits=SMALL)
        .gets("q", SNAPSHOT)
        .stops_reading("q")
        .server_says(said("$t", "x" * 2_000))
        .gets("p", delta("x" * 2_000))
        .gets("q", delta("x" * 2_000))
        .server_says(said("$t", "y" * 2_000))
        .gets("p", delta("y" * 2_000))
        .server_says(said("$t", "z"))
        .gets("p", delta("z"))
        .server_says(confirmation("$t"), called("$t", "delete"))
        .gets("p", done("x" * 2_000 + "y" * 2_000 + "z"), *ASKED)
    )


async def test_an_answer_of_a_link_that_was_not_shown_the_question_does_not_count() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            behind(made)
            .says("q", run("approve"))
            .server_gets()
            .reads_on("q")
            .gets(
                "q",
                delta("y" * 2_000),
                busy("not sent: the open question was not shown to you yet"),
                delta("z"),
                done("x" * 2_000 + "y" * 2_000 + "z"),
                *ASKED,
            )
            .says("q", run("approve"))
            .server_gets(confirmed("$c", approved=True))
            .done()
        )


async def test_a_slow_pod_client_sees_question_and_answer_in_order() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        long = "x" * 2_000 + "y" * 2_000 + "z"
        await (
            behind(made)
            .says("p", run("approve"))
            .server_gets(confirmed("$c", approved=True))
            .server_says(acknowledged("$c"))
            .gets("p", *heard("approve"), *CALLED)
            .reads_on("q")
            .gets("q", delta("y" * 2_000), delta("z"), done(long), *ASKED, *heard("approve"), *CALLED)
            .server_says(answered("$t", long))
            .gets("p", *ENDED)
            .gets("q", *ENDED)
            .done()
        )


# -- nobody answers ----------------------------------------------------------------------------------


async def test_the_deadline_denies_a_question_with_an_alert_and_a_run_of_the_backend() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        deadline = Limits().answer_deadline
        await ends(
            asked(made)
            .passes(deadline - 1)
            .gets("p")
            .passes(1)
            .gets("p", say("alert", level="warn"))
            .gets("q", say("alert", level="warn"))
            .server_gets(confirmed("$c", approved=False))
            .says("p", run("approve"))
            .gets("p", busy("not sent: the question was answered already"))
            .server_says(acknowledged("$c"))
            .gets("p", *WOKE, *CALLED)
            .gets("q", *WOKE, *CALLED),
            "p",
            "q",
            smooth=("a",),
        ).done()
        assert made.time.waiting == []


async def test_a_lost_denial_is_sent_again_after_another_deadline() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        deadline = Limits().answer_deadline
        await (
            parked(made)
            .passes(deadline)
            .gets("p", say("alert"))
            .server_gets(confirmed("$c", approved=False))
            .passes(deadline)
            .gets("p", say("alert"))
            .server_gets(confirmed("$d", approved=False))
            .done()
        )


async def test_the_deadline_declines_a_form() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            opened(made)
            .server_says(form("$t", "i1"))
            .gets("p", *ASKED)
            .passes(Limits().answer_deadline)
            .gets("p", say("alert"))
            .server_gets(submitted("$s", "i1", declined=True))
            .done()
        )


# -- the backend, and clients, are lost ----------------------------------------------------------------


async def test_a_backend_lost_at_a_question_denies_it_and_fails_the_turn_for_everybody() -> None:
    async with in_memory_gateway(upstream="smooth", limits=FAR) as made:
        await (
            asked(made)
            .server_dies()
            .gets("p", *WOKE, *CALLED, say("error"), status("idle"))
            .gets("q", *WOKE, *CALLED, say("error"), status("idle"))
            .gets("a", error("$turn", "INTERNAL_ERROR"))
            .says("a", confirm("late", approved=True))
            .gets("a", error("late", "NO_PENDING_CONFIRMATION"))
            .done()
        )
        assert made.time.waiting == []


async def test_a_question_outlives_its_clients_and_is_shown_to_clients_that_come_back() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await ends(
            parked(made)
            .leaves("p")
            .passes(100)
            .joins("q", dialect="pod")
            .gets("q", say("snapshot", status="running"), *ASKED)
            .says("q", run("approve"))
            .server_gets(confirmed("$c", approved=True))
            .server_says(acknowledged("$c"))
            .gets("q", *heard("approve"), *CALLED),
            "q",
        ).done()


async def test_late_joiners_see_the_question_in_their_own_form() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await ends(
            joined(parked(made), "a", needs("$turn"), chunk("$turn"))
            .joins("q", dialect="pod")
            .gets("q", SNAPSHOT, *ASKED)
            .says("a", confirm("yes", approved=True))
            .server_gets(confirmed("$c", approved=True))
            .server_says(acknowledged("$c"))
            .gets("a", ok("yes"))
            .gets("p", *WOKE, *CALLED)
            .gets("q", *WOKE, *CALLED),
            "p",
            "q",
            smooth=("a",),
        ).done()


async def test_a_client_that_joins_after_the_answer_is_not_asked() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .says("p", run("approve"))
            .server_gets(confirmed("$c", approved=True))
            .server_says(acknowledged("$c"), result("$t", "delete", "gone"))
            .gets("p", *heard("approve"), *CALLED, say("tool_result"))
            .joins("q", dialect="pod")
            .gets("q", SNAPSHOT, *CALLED, say("tool_result"))
            .done()
        )


# -- the route answers -------------------------------------------------------------------------------


async def test_a_route_that_denies_does_so_at_once_and_the_run_goes_on() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="deny") as made:
        await ends(
            opened(made)
            .server_says(confirmation("$t"), called("$t", "delete"))
            .gets("p", *CALLED)
            .server_gets(confirmed("$c", approved=False))
            .server_says(acknowledged("$c"))
            .gets("p"),
            "p",
        ).done()


async def test_a_route_that_denies_declines_forms() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="deny") as made:
        await (
            opened(made)
            .server_says(form("$t", "i1"))
            .gets("p")
            .server_gets(submitted("$s", "i1", declined=True))
            .done()
        )


async def test_a_route_that_approves_approves_writes() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="approve") as made:
        await opened(made).server_says(confirmation("$t")).gets("p").server_gets(confirmed("$c", approved=True)).done()


async def test_a_route_that_approves_asks_for_forms() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="approve") as made:
        await opened(made).server_says(form("$t", "i1")).gets("p", *ASKED).server_gets().done()


async def test_a_route_does_not_decide_while_a_client_that_can_be_asked_is_attached() -> None:
    for decides in ("deny", "approve"):
        async with in_memory_gateway(upstream="smooth", approvals=decides) as made:
            await asked(made).server_gets().done()


async def test_a_route_that_approves_does_not_approve_without_any_client() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="approve") as made:
        await (
            opened(made)
            .leaves("p")
            .server_says(confirmation("$t"))
            .server_gets()
            .joins("q", dialect="pod")
            .gets("q", SNAPSHOT, *ASKED)
            .done()
        )


async def test_a_lost_decision_of_the_route_is_followed_by_the_denial_at_the_deadline() -> None:
    async with in_memory_gateway(upstream="smooth", approvals="approve") as made:
        await (
            opened(made)
            .server_says(confirmation("$t"))
            .server_gets(confirmed("$c", approved=True))
            .passes(Limits().answer_deadline)
            .gets("p", say("alert"))
            .server_gets(confirmed("$d", approved=False))
            .done()
        )


# -- a turn that was cancelled by force ----------------------------------------------------------------


async def test_the_open_question_of_a_turn_cancelled_by_force_is_denied_to_the_backend() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .says("p", CANCEL)
            .server_gets({"action": "cancel", "requestId": "$x"})
            .server_says(refused("$x", "UNSUPPORTED_ACTION"))
            .gets("p", *WOKE, *CALLED, problem("internal", "Cancelled"), status("idle"))
            .server_gets(confirmed("$c", approved=False))
            .server_says(acknowledged("$c"), said("$t", "ok"), answered("$t", "ok"))
            .says("p", run("Next"))
            .server_gets(told("$u", "Next"))
            .done()
        )


async def test_a_question_in_a_turn_that_ended_for_its_clients_is_denied_and_not_shown() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            opened(made)
            .says("p", CANCEL)
            .server_gets({"action": "cancel", "requestId": "$x"})
            .server_says(refused("$x", "UNSUPPORTED_ACTION"))
            .gets("p", problem("internal", "Cancelled"), status("idle"))
            .server_says(confirmation("$t"), called("$t", "delete"))
            .server_gets(confirmed("$c", approved=False))
            .server_says(acknowledged("$c"), form("$t", "i1"))
            .server_gets(submitted("$s", "i1", declined=True))
            .gets("p")
            .done()
        )
        assert made.losses("ApprovalRequested") == 1


# -- one-time codes ------------------------------------------------------------------------------------


def code_asked(made: InMemoryGateway) -> Script:
    """Return a script in which `p` sent "Pay" and the ended turn asks it for a one-time code."""
    return (
        made.script()
        .joins("p", dialect="pod")
        .gets("p", SNAPSHOT)
        .says("p", run("Pay"))
        .server_gets(create("$open"))
        .server_says(acknowledged("$open", **CREATED))
        .server_gets(told("$t", "Pay"))
        .server_says(taken("$t"), code_wanted("$t"), code_sent("$t"), answered("$t", ""))
        .gets(
            "p",
            echo("Pay"),
            *BEGAN,
            delta("$wanted"),
            done("$wanted"),
            delta("$sent"),
            done("$sent"),
            *ENDED,
        )
    )


async def test_a_requested_code_does_not_park_the_turn() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await code_asked(made).says("p", run("Never mind")).server_gets(told("$u", "Never mind")).done()
        assert "Pay 5." in names["$wanted"]
        assert "***12" in names["$sent"]


async def test_the_refused_input_is_sent_again_after_a_right_code() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            code_asked(made)
            .says("p", run("code 123456"))
            .server_gets(verified("$v", "123456"))
            .server_says(code_valid("$v"))
            .server_gets(told("$u", "Pay"))
            .server_says(taken("$u"), said("$u", "Paid."), answered("$u", "Paid."))
            .gets("p", echo("Pay"), *BEGAN, delta("Paid."), done("Paid."), *ENDED)
            .done()
        )


async def test_without_otp_resend_the_client_is_told_to_repeat_its_input() -> None:
    async with in_memory_gateway(upstream="smooth", otp_resend=False) as made:
        names = await (
            code_asked(made)
            .says("p", run("/code 123456"))
            .server_gets(verified("$v", "123456"))
            .server_says(code_valid("$v"))
            .gets("p", *heard("/code 123456"), delta("$text"), done("$text"), *ENDED)
            .server_gets()
            .done()
        )
        assert "again" in names["$text"]


async def test_a_wrong_code_is_asked_for_again_in_a_new_run_until_the_attempts_are_used_up() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        over = ENDED
        names = await (
            code_asked(made)
            .says("p", run("code 1"))
            .server_gets(verified("$v", "1"))
            .server_says(code_wrong("$v", 1))
            .gets("p", *heard("code 1"), delta("$one"), done("$one"), *over)
            .says("p", run("code 2"))
            .server_gets(verified("$w", "2"))
            .server_says(code_wrong("$w", 0))
            .gets("p", *heard("code 2"), delta("$none"), done("$none"), *over)
            .says("p", run("code 3"))
            .server_gets(told("$u", "code 3"))
            .done()
        )
        assert "1 try is left" in names["$one"]
        assert "left" not in names["$none"]


async def test_a_smooth_client_verifies_a_code_in_its_own_form_and_repeats_its_input_itself() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            joined(code_asked(made), "a")
            .says("a", ask("verify_otp", "v1", code="9"))
            .server_gets(verified("$v", "9"))
            .server_says(code_wrong("$v", 2))
            .gets("a", needs("v1", "otp_invalid"))
            .says("a", ask("verify_otp", "v2", code="123456"))
            .server_gets(verified("$w", "123456"))
            .server_says(code_valid("$w"))
            .gets("a", needs("v2", "otp_verified"))
            .server_gets()
            .done()
        )


# -- forms ---------------------------------------------------------------------------------------------


async def test_a_form_is_asked_field_by_field_and_again_from_a_field_that_the_backend_refuses() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        email = (delta("$email"), done("$email"), run_end("paused"), status("paused"))
        name = (delta("$name"), done("$name"), run_end("paused"), status("paused"))
        wrong = (delta("$wrong"), done("$wrong"), run_end("paused"), status("paused"))
        names = await (
            opened(made)
            .server_says(form("$t", "i1"), called("$t", "request_identity_intake"))
            .gets("p", *email)
            .says("p", run("nonsense"))
            .gets("p", *heard("nonsense"), *CALLED, *name)
            .server_gets()
            .says("p", run("none"))
            .server_gets(submitted("$s", "i1", values={"email": "nonsense", "name": None}))
            .server_says(form_refused("$s", "i1", "email", "no address"))
            .gets("p", *heard("none"), *wrong)
            .says("p", run("a@b.cd"))
            .gets("p", *heard("a@b.cd"), *name)
            .says("p", run("Al"))
            .server_gets(submitted("$u", "i1", values={"email": "a@b.cd", "name": "Al"}))
            .server_says(acknowledged("$u"), answered("$t", ""))
            .gets("p", *heard("Al"), *ENDED)
            .done()
        )
        assert "email?" in names["$email"]
        assert "name?" in names["$name"]
        assert "no address" in names["$wrong"]
        assert "email?" in names["$wrong"]


async def test_skip_declines_a_form() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            opened(made)
            .server_says(form("$t", "i1"))
            .gets("p", *ASKED)
            .says("p", run("Skip"))
            .server_gets(submitted("$s", "i1", declined=True))
            .server_says(acknowledged("$s"))
            .gets("p", *heard("Skip"))
            .done()
        )


async def test_an_answer_with_the_id_of_another_form_is_a_mismatch_and_the_form_stays_open() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            mixed(made)
            .server_says(form("$t", "i1"))
            .gets("p", *ASKED)
            .gets("q", *ASKED)
            .gets("a", needs("$turn", "interaction_required"))
            .says("a", submit("s1", "i2", values={}))
            .gets("a", error("s1", "INTERACTION_MISMATCH"))
            .says("a", confirm("c1", approved=True))
            .gets("a", error("c1", "NO_PENDING_CONFIRMATION"))
            .server_gets()
            .says("a", submit("s2", "i1", values={"email": "x"}))
            .server_gets(submitted("$s", "i1", values={"email": "x"}))
            .server_says(form_refused("$s", "i1", "email", "no address"))
            .gets("a", needs("s2", "interaction_invalid"))
            .says("a", submit("s3", "i1", values={"email": "a@b.cd"}))
            .server_gets(submitted("$u", "i1", values={"email": "a@b.cd"}))
            .server_says(acknowledged("$u"))
            .gets("a", ok("s3"))
            .gets("p", *WOKE)
            .gets("q", *WOKE)
            .done()
        )


async def test_an_answer_to_no_open_form_is_refused() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            mixed(made)
            .says("a", submit("s", "i1", declined=True))
            .gets("a", error("s", "NO_PENDING_INTERACTION"))
            .done()
        )


# -- smooth clients that cannot show a form --------------------------------------------------------------


def plain(made: InMemoryGateway) -> Script:
    """Return a script with a smooth client `b` without claims whose turn r1 runs, in the session of `a`, which claims
    the forms.
    """
    script = (
        made.script()
        .joins("a")
        .says("a", attach(conversationId=None))
        .server_gets(create("$open"))
        .server_says(acknowledged("$open", **CREATED))
        .gets("a", ok("open"))
    )
    return (
        joined(script, "b", supports=[])
        .says("b", send("r1", "Quote"))
        .server_gets(told("$t", "Quote"))
        .server_says(taken("$t"), said("$t", "Sure. "))
        .gets("b", accepted("r1"), token("r1", "Sure. "))
        .gets("a", token("$turn", "Sure. "))
    )


async def test_a_plain_smooth_client_is_asked_a_form_in_words_and_answers_by_its_next_message() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await (
            plain(made)
            .server_says(form("$t", "i1"), called("$t", "request_identity_intake"))
            .gets("b", token("r1", "$one"), {"type": "eventual_response", "requestId": "r1"})
            .gets("a", needs("$turn", "interaction_required"), chunk("$turn"))
            .says("b", send("r2", "a@b.cd"))
            .gets("b", accepted("r2"), chunk("r2"), token("r2", "$two"), answer("r2", "$two"))
            .gets("a")
            .says("b", send("r3", "none"))
            .server_gets(submitted("$s", "i1", values={"email": "a@b.cd"}))
            .server_says(acknowledged("$s"), said("$t", "Here."), answered("$t", "Sure. Here."))
            .gets("b", accepted("r3"), token("r3", "Here."), answer("r3", "Here."))
            .gets("a", token("$turn", "Here."), answer("$turn", "Sure. Here."))
            .done()
        )
        end = next(frame for frame in made.clients["b"].frames() if frame["type"] == "eventual_response")
        assert end["data"]["data"]["response"]["responseParts"] == ["Sure. " + names["$one"]], "as its tokens"


async def test_another_client_asked_in_words_sees_each_run_under_a_new_id() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = (
            joined(plain(made), "c", token("$turn", "Sure. "), supports=["choice_chips"])
            .server_says(form("$t", "i1"), called("$t", "request_identity_intake"))
            .gets("b", token("r1", "$one"), {"type": "eventual_response", "requestId": "r1"})
            .gets("c", token("$turn", "$one"), {"type": "eventual_response", "requestId": "$turn"})
            .gets("a", needs("$turn", "interaction_required"), chunk("$turn"))
            .says("b", send("r2", "a@b.cd"))
            .gets("b", accepted("r2"), chunk("r2"), token("r2", "$two"), answer("r2", "$two"))
            .gets("c", chunk("$run 2"), token("$run 2", "$two"), answer("$run 2", "$two"))
            .says("c", send("s1", "none"))
            .server_gets(submitted("$s", "i1", values={"email": "a@b.cd"}))
            .server_says(acknowledged("$s"), said("$t", "Here"))
            .gets("c", accepted("s1"), token("s1", "Here"))
            .gets("b", token("$run 3", "Here"))
            .gets("a", token("$turn", "Here"))
        )
        names = await (
            joined(script, "d", token("$run 3", "Here"), supports=[])
            .server_says(said("$t", "."), answered("$t", "Sure. Here."))
            .gets("c", token("s1", "."), answer("s1", "Here."))
            .gets("b", token("$run 3", "."), answer("$run 3", "Here."))
            .gets("d", token("$run 3", "."), answer("$run 3", "Here."))
            .gets("a", token("$turn", "."), answer("$turn", "Sure. Here."))
            .done()
        )
        assert len({names["$turn"], names["$run 2"], names["$run 3"], "r1", "r2", "s1"}) == 6


async def test_a_smooth_client_that_resumes_without_a_claim_has_the_claim_of_its_session() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            plain(made)
            .joins("c")
            .says("c", {key: value for key, value in attach().items() if key != "supports"})
            .gets("c", ok("open"), token("$turn", "Sure. "))
            .server_says(form("$t", "i1"), called("$t", "request_identity_intake"))
            .gets("b", token("r1", "$one"), {"type": "eventual_response", "requestId": "r1"})
            .gets("a", needs("$turn", "interaction_required"), chunk("$turn"))
            .gets("c", needs("$turn", "interaction_required"), chunk("$turn"))
            .done()
        )


async def test_a_smooth_client_without_a_claim_in_a_pods_session_is_asked_in_words() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = opened(made)
        await (
            script.joins("b")
            .says("b", {key: value for key, value in attach().items() if key != "supports"})
            .gets("b", ok("open"))
            .server_says(form("$t", "i1"), called("$t", "x"))
            .gets("p", *ASKED)
            .gets("b", token("$turn", "$words"), {"type": "eventual_response", "requestId": "$turn"})
            .done()
        )


async def test_a_plain_smooth_client_that_joins_at_a_form_is_asked_in_words() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        script = opened(made).server_says(said("$t", "Sure. "), form("$t", "i1"), called("$t", "x"))
        script.gets("p", delta("Sure. "), done("Sure. "), *ASKED)
        await (
            joined(
                script,
                "b",
                token("$turn", "Sure. "),
                token("$turn", "$words"),
                {"type": "eventual_response", "requestId": "$turn"},
                supports=[],
            )
            .says("b", send("r1", "skip"))
            .server_gets(submitted("$s", "i1", declined=True))
            .server_says(acknowledged("$s"), said("$t", "Fine."), answered("$t", "Sure. Fine."))
            .gets("b", accepted("r1"), chunk("r1"), token("r1", "Fine."), answer("r1", "Fine."))
            .gets("p", *heard("skip"), *CALLED, delta("Fine."), done("Fine."), *ENDED)
            .done()
        )


async def test_an_approval_reaches_a_plain_smooth_client_in_its_own_form() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            plain(made)
            .server_says(confirmation("$t"))
            .gets("b", needs("r1"))
            .gets("a", needs("$turn"))
            .says("b", send("r2", "approve"))
            .gets("b", error("r2", "TURN_IN_PROGRESS"))
            .server_gets()
            .done()
        )


# -- what is kept of it ----------------------------------------------------------------------------------


async def test_the_log_has_the_approval_of_a_question() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            parked(made)
            .says("p", run("approve"))
            .server_gets(confirmed("$c", approved=True))
            .server_says(result("$t", "delete", "gone"), acknowledged("$c"), answered("$t", ""))
            .gets("p", *heard("approve"), *CALLED, say("tool_result"), *ENDED)
            .done()
        )
        events = [event for batch, _after in made.session.log.batches_from(0, 1 << 20) for event in batch.events]
        kinds = [type(event).__name__ for event in events]
        assert kinds.index("ApprovalRequested") < kinds.index("ApprovalResolved") < kinds.index("ToolCallFinished")
        assert [event.approved for event in events if isinstance(event, ApprovalResolved)] == [True]
        assert isinstance(events[-1], TurnEnded)
        assert sum(isinstance(event, ApprovalRequested) for event in events) == 1


# -- a paragraph of its own ---------------------------------------------------------------------------


async def test_a_question_after_text_is_a_paragraph_of_its_own() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await (
            opened(made)
            .server_says(said("$t", "Let me see."), confirmation("$t"))
            .gets("p", delta("Let me see."), done("Let me see."), *ASKED)
            .says("p", run("approve"))
            .server_gets(confirmed("$c", approved=True))
            .server_says(acknowledged("$c"), confirmation("$t", "drop"))
            .gets("p", *heard("approve"), delta("$next"), done("$next"), run_end("paused"), status("paused"))
            .done()
        )
        assert names["$asked"].startswith("\n\n"), "a blank line stands before it"
        assert not names["$next"].startswith("\n"), "its run has no other text"


async def test_a_requested_code_after_text_is_a_paragraph_of_its_own() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        names = await (
            opened(made)
            .server_says(code_wanted("$t"), code_sent("$t"), answered("$t", ""))
            .gets("p", delta("$wanted"), done("$wanted"), delta("$sent"), done("$sent"), *ENDED)
            .done()
        )
        assert not names["$wanted"].startswith("\n")
        assert names["$sent"].startswith("\n\n")


@pytest.mark.parametrize("dialect", ["pando", "codewhale"])
def test_pando_and_codewhale_clients_see_the_blank_line_before_a_question_too(dialect: str) -> None:
    words = QuestionAsked(text="May I?", question="q", number=1, parked=True, after_text=True)
    batch = Batch(session="s", epoch=1, first_seq=0, events=[TextDelta(text="Let me see."), words], turn="t")
    frames = registry.dialect(dialect).projection("", "").render(batch).frames
    parts = [json.loads(frame.rpartition(b"\0")[2]) for frame in frames]
    said = [f.get("delta") or f.get("payload", {}).get("token") for f in parts]
    assert [text for text in said if text] == ["Let me see.", "\n\nMay I?"]
