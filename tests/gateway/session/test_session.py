"""A session: one answer to each command, one end of each turn, deadlines, and lost peers on both sides."""

from __future__ import annotations

import pytest

from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.config.model import Limits
from dragoman.gateway.session.commands import PASSED_OVER
from dragoman.mappings.canonical.commands import GetHistory, ListCompletions
from dragoman.mappings.canonical.values import Message
from tests.gateway.in_memory import AT_ONCE, NEVER, Script, in_memory_gateway
from tests.gateway.pod_messages import (
    CANCEL,
    FINISHED,
    Frame,
    delta,
    done,
    echo,
    problem,
    rotated,
    run,
    run_end,
    say,
    snapshot,
    status,
    took,
    user_entry,
)
from tests.gateway.smooth_client_messages import (
    CREATE,
    SHOWN,
    accepted,
    answer,
    cancel,
    cancelled,
    error,
    history,
    loose,
    opened,
    send,
    token,
)
from tests.gateway.talked import begun
from tests.idle import settle

FAR = Limits(backoff_first=NEVER, backoff_max=NEVER)  # nobody connects again by himself


# -- a turn ------------------------------------------------------------------------------------------


async def test_an_input_is_accepted_by_the_echo_of_the_pod_and_ends_once() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .submits("a", "r1", "Hi")
            .receives("a")
            .pod_sends(*took("Hi"))
            .receives("a", accepted("r1"))
            .pod_sends(delta("Hel"), delta("lo"), done("Hello"))
            .receives("a", token("r1", "Hel"), token("r1", "lo"))
            .pod_sends(*FINISHED)
            .receives("a", answer("r1", "Hello"))
        )
        assert [(m.role, m.text) for m in made.session.state.messages()] == [("user", "Hi"), ("assistant", "Hello")]
        assert made.time.waiting == [], "every deadline was called off"


async def test_an_acceptance_read_together_with_the_whole_turn_comes_before_its_tokens() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .submits("a", "r1", "Hi")
            .pod_sends(*took("Hi"), delta("Hello"), *FINISHED)
            .receives("a", accepted("r1"), token("r1", "Hello"), answer("r1", "Hello"))
        )


async def test_content_before_the_acceptance_belongs_to_the_accepted_input() -> None:
    async with in_memory_gateway() as made:
        names = await (
            made.opens("a")
            .submits("a", "r1", "Hi")
            .pod_sends(say("turn_start", turn=0), delta("He"))
            .receives("a", token("$turn", "He"))
            .pod_sends(*took("Hi"), delta("llo"), *FINISHED)
            .receives("a", accepted("r1"), token("r1", "llo"), answer("r1", "Hello"))
        )
        assert names["$turn"] != "r1"
        made.clients["a"].judged = False  # the first words stand under the turn's own id: not the order of any server


async def test_an_input_during_a_turn_is_busy_for_every_client() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .opens("b")
            .sends("b", send("r2", "Me too"))
            .receives("b", error("r2", "TURN_IN_PROGRESS"))
            .pod_receives()
            .pod_sends(*FINISHED)
            .receives("a", answer("r1", ""))
            .receives("b", answer("$turn", ""))
        )


async def test_an_input_that_the_pod_refuses_is_busy_and_the_next_one_works() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .sends("a", send("r1", "Hi"))
            .pod_sends(problem("already_running", "a run is in progress"))
            .receives("a", error("r1", "TURN_IN_PROGRESS"))
            .pod_receives(run("Hi"))
            .submits("a", "r2", "Hi again")
            .pod_sends(*took("Hi again"))
            .receives("a", accepted("r2"))
        )


async def test_a_run_of_another_client_of_the_pod_reaches_us_under_its_turns_id() -> None:
    async with in_memory_gateway() as made:
        names = await (
            made.opens("a")
            .opens("b")
            .pod_sends(*took("from the terminal"), delta("Yes"), *FINISHED)
            .receives("a", token("$turn", "Yes"), answer("$turn", "Yes"))
            .receives("b", token("$turn", "Yes"), answer("$turn", "Yes"))
        )
        assert names["$turn"].startswith("00000000-")
        assert [m.text for m in made.session.state.messages()] == ["from the terminal", "Yes"]


async def test_errors_that_answer_other_clients_of_the_pod_are_dropped_and_counted() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .pod_sends(problem("already_running", "not you"), problem("not_paused", "nor you"))
            .receives("a")
            .pod_sends(*FINISHED)
            .receives("a", answer("r1", ""))
        )
        assert made.losses("ErrorReported") == 2


async def test_an_error_in_a_turn_that_goes_on_is_told_without_request_id_before_the_end() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .pod_sends(problem("provider_error", "overloaded"))
            .receives("a")
            .pod_sends(delta("Hello"), *FINISHED)
            .receives("a", token("r1", "Hello"), loose("AGENT_ERROR"), answer("r1", "Hello"))
        )


async def test_an_error_that_ends_its_turn_is_sent_once() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .pod_sends(delta("He"), problem("provider_error", "no credit"), status("idle"))
            .receives("a", token("r1", "He"), error("r1", "AGENT_ERROR"))
        )


async def test_events_without_a_smooth_form_are_in_the_ledger() -> None:
    retry = say(
        "llm_retry", llm_call=0, failed_attempt=1, max_attempts=4, wait_ms=10, elapsed_ms=5, status=529, error="busy"
    )
    async with in_memory_gateway() as made:
        await begun(made).pod_sends(say("turn_start", turn=0), retry).receives("a")
        rows = {(e.kind, e.target, e.session) for e in made.ledger.entries()}
        assert {("ModelTurnStarted", "smooth", ""), ("ModelRetry", "smooth", made.session.state.id)} <= rows


async def test_an_event_that_a_session_drops_is_in_the_ledger_with_its_source() -> None:
    async with in_memory_gateway() as made:
        await begun(made).pod_sends(say("tool_call_args_delta", id="none", json="{}")).receives("a")
        (row,) = [entry for entry in made.ledger.entries() if entry.kind == "ToolCallArguments"]
        assert (row.source, row.session) == ("pod", made.session.state.id)


async def test_the_fields_that_a_history_from_the_transcript_loses_are_in_the_ledger() -> None:
    async with in_memory_gateway() as made:
        script = (
            begun(made)
            .pod_sends(delta("Yes"), done("Yes"), *FINISHED)
            .receives("a", token("r1", "Yes"), answer("r1", "Yes"))
        )
        await script.sends("a", history("h")).receives("a", {"requestId": "h", "status": 200})
        rows = [(entry.source, entry.target, entry.kind, entry.field) for entry in made.ledger.partial()]
        assert ("pod", "smooth", "HistorySnapshot", "items.turn, items.segments") in rows


async def test_a_rolled_back_input_is_cancelled_and_removed_from_the_history() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .pod_sends(run_end("rolled_back"), status("idle"))
            .receives("a", cancelled("r1"))
            .sends("a", history("h"))
            .receives("a", {"requestId": "h", "status": 200, "data": {"messages": [], "hasMore": False}})
        )


async def test_an_input_that_a_pod_refuses_before_it_begins_leaves_the_history() -> None:
    """A pod does not store an input with an unknown workflow (docs/dialects/pod.md, section 7)."""
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .pod_sends(problem("invalid_request", "no such workflow"), status("idle"))
            .receives("a", error("r1", "VALIDATION_ERROR"))
        )
        assert made.session.state.transcript == []


TURN = say("turn_start", turn=0)


@pytest.mark.parametrize(
    "begin",
    [
        took("Hi"),
        (*took("Hi"), TURN),
        (*took("Hi"), rotated(), TURN),  # the first run of a fresh pod
        (*took("Hi"), TURN, rotated()),
    ],
)
async def test_an_input_of_another_client_that_the_pod_rolled_back_leaves_the_history(begin: tuple[Frame, ...]) -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .pod_sends(*took("First"), TURN, delta("Yes"), done("Yes"), *FINISHED)
            .pod_sends(*begin, run_end("rolled_back"), status("idle"))
            .ignores("a")
        )
        state = made.session.state
        kept = [("user", "First"), ("assistant", "Yes")]
        assert [(message.role, message.text) for message in state.messages()] == ([] if rotated() in begin else kept)
        assert state.fresh == len(state.transcript)


# -- deadlines ---------------------------------------------------------------------------------------


async def test_an_unanswered_input_fails_and_its_late_acceptance_still_opens_a_turn() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .submits("a", "r1", "Hi")
            .passes(Limits().accept_deadline)
            .receives("a", error("r1", "INTERNAL_ERROR"))
            .pod_sends(*took("Hi"), delta("Late"), *FINISHED)
            .receives("a", token("$turn", "Late"), answer("$turn", "Late"))
        )
        assert [message.text for message in made.session.state.messages()] == ["Hi", "Late"]


async def test_after_an_input_that_the_pod_lost_the_next_one_is_accepted() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .sends("a", send("r1", "lost on the way"))
            .passes(Limits().accept_deadline)
            .receives("a", error("r1", "INTERNAL_ERROR"))
            .sends("a", send("r2", "Hi"))
            .pod_receives(run("lost on the way"), run("Hi"))
            .pod_sends(*took("Hi"), delta("Hello"))
            .receives("a", accepted("r2"), token("r2", "Hello"))
        )


async def test_a_cancel_goes_to_the_pod_which_ends_the_turn() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .pod_sends(delta("He"))
            .sends("a", cancel("r1"))
            .pod_receives(CANCEL)
            .receives("a", token("r1", "He"))
            .pod_sends(problem("internal", "Cancelled"), status("idle"))
            .receives("a", cancelled("r1"))
        )
        assert made.time.waiting == [], "every deadline was called off"


def cancelled_by_force(script: Script) -> Script:
    """Return the script, with a cancel of r1 that the pod ignores until `cancel_deadline`."""
    return script.sends("a", cancel("r1")).pod_receives(CANCEL).passes(Limits().cancel_deadline)


async def test_a_cancel_that_the_pod_ignores_is_forced_and_the_rest_of_the_turn_dropped() -> None:
    async with in_memory_gateway() as made:
        await (
            cancelled_by_force(begun(made))
            .receives("a", cancelled("r1"))
            .pod_sends(delta("still"), delta(" talking"))
            .receives("a")
            .sends("a", send("r2", "Hello?"))
            .receives("a", error("r2", "TURN_IN_PROGRESS"))
            .pod_sends(problem("internal", "Cancelled"), status("idle"))
            .submits("a", "r3", "Now")
            .pod_sends(*took("Now"))
            .receives("a", accepted("r3"))
        )
        assert made.losses("TextDelta") == 2


async def test_an_input_cancelled_by_force_leaves_the_history_when_the_pod_rolls_it_back() -> None:
    async with in_memory_gateway() as made:
        await cancelled_by_force(begun(made)).pod_sends(run_end("rolled_back"), status("idle")).ignores("a")
        assert made.session.state.transcript == []


async def test_an_input_cancelled_by_force_before_it_was_accepted_leaves_the_history_when_it_is_rolled_back() -> None:
    async with in_memory_gateway() as made:
        await (
            cancelled_by_force(made.opens("a").submits("a", "r1", "Hi"))
            .pod_sends(*took("Hi"), run_end("rolled_back"), status("idle"))
            .ignores("a")
        )
        assert made.session.state.transcript == []


async def test_a_turn_that_was_cancelled_by_force_gets_no_second_end_from_its_unanswered_cancel() -> None:
    async with in_memory_gateway() as made:
        await (
            cancelled_by_force(begun(made))
            .receives("a", cancelled("r1"))
            .passes(Limits().accept_deadline)
            .receives("a")
        )


async def test_a_pod_that_is_lost_is_free_again_after_a_cancel_by_force() -> None:
    async with in_memory_gateway() as made:
        await (
            cancelled_by_force(begun(made))
            .receives("a", cancelled("r1"))
            .pod_dies()
            .pod_sends(snapshot())
            .submits("a", "r2", "Hi")
        )


async def test_a_cancel_of_an_input_that_was_not_accepted_yet_rolls_it_back() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .sends("a", send("r1", "Hi"), cancel("r1"))
            .pod_receives(run("Hi"), CANCEL)
            .pod_sends(*took("Hi"), run_end("rolled_back"), status("idle"))
            .receives("a", accepted("r1"), cancelled("r1"))
        )


async def test_the_cancel_of_an_input_that_was_refused_does_not_end_the_next_turn() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .sends("a", send("r1", "Hi"), cancel("r1"))
            .pod_receives(run("Hi"), CANCEL)
            .pod_sends(problem("already_running", "no"), problem("not_running", "no"))
            .receives("a", error("r1", "TURN_IN_PROGRESS"))
            .submits("a", "r2", "Again")
            .pod_sends(*took("Again"))
            .receives("a", accepted("r2"))
            .passes(Limits().cancel_deadline)
            .receives("a")
        )


async def test_only_the_link_that_began_a_turn_cancels_it() -> None:
    async with in_memory_gateway() as made:
        await begun(made).opens("b").sends("b", cancel("r1")).pod_receives().receives("b")


# -- the loss of the backend -------------------------------------------------------------------------


async def test_a_pod_lost_in_mid_turn_ends_it_once_for_everybody() -> None:
    async with in_memory_gateway(limits=FAR) as made:
        await (
            begun(made)
            .opens("b")
            .pod_sends(delta("He"))
            .receives("a", token("r1", "He"))
            .receives("b", token("$turn", "He"))
            .pod_dies()
            .passes(Limits().reconnect_grace)
            .receives("a", error("r1", "INTERNAL_ERROR"))
            .receives("b", error("$turn", "INTERNAL_ERROR"))
        )


async def test_the_turn_ends_before_the_loss_of_the_backend_is_reported() -> None:
    async with in_memory_gateway(limits=FAR) as made:
        await begun(made)
        made.session.lost("gone", [])
        made.time.passes(Limits().reconnect_grace)
        assert made.session.state.turn is None
        assert not made.session.is_busy
        made.session.lost("gone", [])
        await settle()
        await made.script().receives("a", error("r1", "INTERNAL_ERROR"))


async def test_an_input_that_waits_for_an_answer_fails_when_the_pod_is_lost() -> None:
    async with in_memory_gateway(limits=FAR) as made:
        await (
            made.opens("a")
            .submits("a", "r1", "Hi")
            .pod_dies()
            .passes(Limits().reconnect_grace)
            .receives("a", error("r1", "INTERNAL_ERROR"))
        )
        assert made.time.waiting == []


async def test_a_session_continues_after_the_pod_came_back() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .pod_dies()
            .passes(Limits().reconnect_grace)
            .receives("a", error("r1", "INTERNAL_ERROR"))
            .pod_sends(snapshot(user_entry("Hi")))
            .submits("a", "r2", "Still there?")
            .pod_sends(*took("Still there?"), delta("Yes"), *FINISHED)
            .receives("a", accepted("r2"), token("r2", "Yes"), answer("r2", "Yes"))
        )
        assert [m.text for m in made.session.state.messages()] == ["Hi", "Still there?", "Yes"]


async def test_the_run_of_a_pod_found_after_the_grace_is_shown_as_a_run_of_the_backend() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .pod_dies()
            .passes(Limits().reconnect_grace)
            .receives("a", error("r1", "INTERNAL_ERROR"))
            .pod_sends(snapshot(user_entry("Hi"), status="running"), delta("lo"), *FINISHED)
            .receives("a", token("$turn", "lo"), answer("$turn", "lo"))
        )


async def test_an_input_that_could_not_be_written_is_answered() -> None:
    async with in_memory_gateway(limits=FAR) as made:
        made.refusals = 2
        await (
            made.opens("a")
            .sends("a", send("r1", "Hi"))
            .receives("a", error("r1", "INTERNAL_ERROR"))
            .sees("the second attempt was for the input", lambda: made.dialled == 2)
        )
        assert made.pods == []


# -- the loss of clients -----------------------------------------------------------------------------


async def test_a_turn_continues_after_its_client_left() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .leaves("a")
            .pod_sends(delta("Hello"), *FINISHED)
            .pod_receives()
            .opens("b")
            .sends("b", history("h"))
            .receives("b", {"data": {"messages": [{"content": {"text": "Hello"}}, {"content": {"text": "Hi"}}]}})
        )
        assert made.losses("TextDelta") == 0


async def test_a_client_that_left_before_its_input_was_accepted_leaves_it_in_the_history() -> None:
    async with in_memory_gateway() as made:
        await made.opens("a").submits("a", "r1", "Hi").leaves("a").pod_sends(*took("Hi"), delta("Hello"), *FINISHED)
        assert [m.text for m in made.session.state.messages()] == ["Hi", "Hello"]


async def test_a_client_that_joins_during_a_turn_sees_its_beginning_and_its_end() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .pod_sends(delta("Hel"))
            .receives("a", token("r1", "Hel"))
            .connects("b")
            .sends("b", {"action": "get_session", "requestId": "g", "sessionId": SHOWN})
            .receives("b", opened("g"), token("$turn", "Hel"))
            .pod_sends(delta("lo"), *FINISHED)
            .receives("a", token("r1", "lo"), answer("r1", "Hello"))
            .receives("b", token("$turn", "lo"), answer("$turn", "Hello"))
        )


async def test_a_client_that_joins_after_an_error_in_the_turn_gets_it_before_the_end() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .pod_sends(delta("Hel"), problem("provider_error", "overloaded"))
            .receives("a", token("r1", "Hel"))
            .connects("b")
            .sends("b", {"action": "get_session", "requestId": "g", "sessionId": SHOWN})
            .receives("b", opened("g"), token("$turn", "Hel"))
            .pod_sends(*FINISHED)
            .receives("a", loose("AGENT_ERROR"), answer("r1", "Hel"))
            .receives("b", loose("AGENT_ERROR"), answer("$turn", "Hel"))
        )


async def test_a_client_that_was_behind_at_the_end_of_its_turn_may_begin_the_next() -> None:
    async with in_memory_gateway() as made:
        client = made.join("a", limits=Limits(outbox_soft=1_024))
        client.judged = False  # merged pieces are not those that the script knows
        await client.says(CREATE, send("r1", "Hi"))
        await made.pod.says(*took("Hi"))
        client.transport.reading.clear()
        for piece in ("x" * 2_000, "y" * 2_000):
            await made.pod.says(delta(piece))
        await made.pod.says(*FINISHED)
        await client.transport.reads_on()
        await client.says(send("r2", "more"))
        assert made.pod.frames()[-1] == run("more")


async def test_a_session_without_clients_closes_its_backend_after_its_time_and_reopens_it() -> None:
    async with in_memory_gateway() as made:
        await made.opens("a").leaves("a").passes(Limits().session_ttl - 1)
        assert made.pods[0].transport.is_open()
        await made.script().passes(1)
        assert not made.pods[0].transport.is_open()
        assert len(made.pods) == 1
        await (
            made.opens("b")
            .pod_sends(snapshot())
            .submits("b", "r1", "Hi")
            .pod_sends(*took("Hi"))
            .receives("b", accepted("r1"))
        )
        assert len(made.pods) == 2


@pytest.mark.parametrize("error", [-86_400.0, 86_400.0])
async def test_the_time_of_a_session_is_the_same_if_the_clock_of_the_system_is_set(error: float) -> None:
    async with in_memory_gateway() as made:
        await made.opens("a").leaves("a")
        made.time.error = error
        await made.script().passes(Limits().session_ttl - 1)
        assert made.pods[0].transport.is_open()
        await made.script().passes(1)
        assert not made.pods[0].transport.is_open()


async def test_a_client_that_reconnects_in_time_keeps_the_backend_connection() -> None:
    async with in_memory_gateway() as made:
        ttl = Limits().session_ttl
        await made.opens("a").leaves("a").passes(ttl - 1).opens("b").passes(ttl)
        assert made.pods[0].transport.is_open()
        assert made.time.waiting == []


async def test_an_open_turn_outlives_the_time_of_a_session_without_clients() -> None:
    async with in_memory_gateway() as made:
        ttl = Limits().session_ttl
        await begun(made).leaves("a").passes(ttl)
        assert made.pods[0].transport.is_open()
        await made.script().pod_sends(*FINISHED).passes(ttl)
        assert not made.pods[0].transport.is_open()


async def test_a_session_whose_connection_others_need_is_kept_for_its_time_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_memory_gateway() as made:
        ttl = Limits().session_ttl
        with monkeypatch.context() as patched:
            patched.setattr(Upstream, "suspend", lambda _self: True)
            await made.opens("a").leaves("a").passes(ttl)
        assert made.time.waiting == [ttl]
        await made.script().passes(ttl)
        assert not made.pods[0].transport.is_open()


async def test_a_peer_that_never_attached_does_not_shorten_the_time_of_a_session() -> None:
    async with in_memory_gateway() as made:
        ttl = Limits().session_ttl
        await made.opens("a").leaves("a").passes(10).connects("probe").leaves("probe")
        await made.opens("b").passes(ttl - 20).leaves("b").passes(20)
        assert made.pods[0].transport.is_open()
        assert made.time.waiting == [ttl - 20]


# -- bounds ------------------------------------------------------------------------------------------


async def test_a_session_keeps_a_bounded_transcript_and_counts_dropped_items() -> None:
    long = "x" * 1_500
    limits = Limits(transcript_max=3_000, backoff_first=AT_ONCE, backoff_max=AT_ONCE)
    async with in_memory_gateway(limits=limits) as made:
        await (
            begun(made)
            .pod_sends(delta(long), *FINISHED)
            .receives("a", token("r1", long), answer("r1", long))
            .submits("a", "r2", "x")
            .pod_sends(*took("x"), delta("y"), *FINISHED)
            .receives("a", accepted("r2"), token("r2", "y"), answer("r2", "y"))
        )
        assert [m.text for m in made.session.state.messages()] == [long, "x", "y"]
        assert made.losses("transcript") == 1


async def test_the_log_of_a_session_is_bounded() -> None:
    async with in_memory_gateway(limits=Limits(log_max=16, backoff_first=AT_ONCE, backoff_max=AT_ONCE)) as made:
        await begun(made)
        for _ in range(50):
            await made.script().pod_sends(delta("x")).receives("a", token("r1", "x"))
        assert 1 < sum(len(batch.events) for batch, _after in made.session.log.batches_from(0, 1 << 20)) <= 16


async def test_the_log_of_a_session_is_empty_between_turns() -> None:
    async with in_memory_gateway() as made:
        await begun(made).pod_sends(delta("x")).receives("a", token("r1", "x"))
        assert list(made.session.log.batches_from(0, 1 << 20)) != []
        await made.script().pod_sends(*FINISHED).receives("a", answer("r1", "x"))
        assert (list(made.session.log.batches_from(0, 1 << 20)), made.session.log.size) == ([], 0)


async def test_waiting_commands_are_bounded() -> None:
    async with in_memory_gateway() as made:
        await made.opens("a")
        link = made.clients["a"].link
        for number in range(300):
            made.session.commands.act(link, ListCompletions(request=f"c{number}", kind="file", prefix=""))
        assert len(made.session.in_flight) <= 256
        assert len(made.time.waiting) <= 256
        await settle()
        assert len(made.clients["a"].news()) >= 300 - 256, "the rest was refused"


async def test_a_page_counts_as_the_work_of_the_history_that_is_passed_over() -> None:
    async with in_memory_gateway() as made:
        await made.opens("a")
        made.session.state.transcript += [Message(role="user", text="x", id=str(number)) for number in range(1000)]
        budget = made.services.queue.budget
        costs = []
        for cursor in ("", "9"):
            before = budget.left
            page = GetHistory(request="h", cursor=cursor)
            made.clients["a"].send_directly(made.router, page, "get_conversation_messages")
            costs.append(before - budget.left)
        assert costs[1] >= 1000 * PASSED_OVER > costs[0]


async def test_an_echo_of_another_clients_input_stays_a_message_of_that_client() -> None:
    async with in_memory_gateway() as made:
        await made.opens("a").submits("a", "r1", "Hi").pod_sends(echo("Hey"))
        assert [m.text for m in made.session.state.messages()] == ["Hey"]


async def test_a_turn_whose_texts_fit_is_not_ended_because_its_backend_sends_each_whole_text_again() -> None:
    text = "x" * 1_500
    done = {"event": "text_done", "data": {"text": text}}
    async with in_memory_gateway(limits=Limits(transcript_max=3_000)) as made:
        await (
            begun(made)
            .pod_sends(delta(text), done)
            .receives("a", token("r1", text))
            .pod_sends(*FINISHED)
            .receives("a", answer("r1", text))
        )


async def test_a_turn_without_end_is_ended_in_the_middle_of_a_text() -> None:
    half = "x" * 1_500
    async with in_memory_gateway(limits=Limits(transcript_max=2_000)) as made:
        await (
            begun(made)
            .pod_sends(delta(half))
            .receives("a", token("r1", half))
            .pod_sends(delta(half))
            .receives("a", token("r1", half), error("r1", "VALIDATION_ERROR"))
            .pod_receives(CANCEL)
        )


async def test_messages_that_a_backend_adds_without_a_turn_are_counted_and_the_oldest_are_dropped() -> None:
    texts = [f"{number}" * 900 for number in range(4)]
    async with in_memory_gateway(limits=Limits(transcript_max=3_000)) as made:
        await begun(made).pod_sends(*FINISHED).receives("a", answer("r1", "")).pod_sends(*map(echo, texts))
        assert [message.text for message in made.session.state.messages()] == texts[2:]
        assert made.session.memory.digest.size > len(texts[2]) + len(texts[3])


@pytest.mark.parametrize("text", ["x" * 3_000, "\x01" * 400], ids=["characters", "bytes in JSON"])
async def test_a_turn_without_end_is_ended_and_its_backend_asked_to_stop(text: str) -> None:
    async with in_memory_gateway(limits=Limits(transcript_max=2_000)) as made:
        await (
            begun(made)
            .pod_sends(delta(text))
            .receives("a", token("r1", text), error("r1", "VALIDATION_ERROR"))
            .pod_receives(CANCEL)
        )
        assert made.session.state.turn is None
