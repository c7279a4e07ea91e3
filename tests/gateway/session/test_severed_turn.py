"""A pod whose connection is lost during a turn and restored within the grace (docs/translation.md, section
4.10).

The frames are those of a real pod: it shows its log again to whoever connects, with the blocks that are whole
(docs/dialects/pod.md, sections 3 and 9). Text that still streams follows.
"""

from __future__ import annotations

import msgspec
import pytest

from dragoman.gateway.config.model import Limits, Show
from dragoman.gateway.session.inputs import BUSY
from dragoman.gateway.session.resumed_turn import HELD_MAX
from tests.gateway.codewhale_messages import line
from tests.gateway.in_memory import InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import (
    CANCEL,
    FINISHED,
    Frame,
    answer_entry,
    call_entries,
    completed,
    delta,
    done,
    echo,
    errored,
    logged,
    problem,
    rotated,
    run,
    run_entries,
    say,
    snapshot,
    status,
    took,
)
from tests.gateway.smooth_client_messages import accepted, answer, cancel, cancelled, error, send, token
from tests.gateway.talked import begun

SEGMENT = "0198c3a1-8000-7000-8000-000000000001"
GRACE = Limits().reconnect_grace
BEFORE = run_entries("Before", answer_entry("Yes"), end=completed())


def interrupted(made: InMemoryGateway) -> Script:
    """Return a client `a` whose turn r1 has streamed `Hel` when the connection to the pod is lost."""
    return begun(made, "Hel").pod_dies().receives("a")


def submitted(made: InMemoryGateway) -> Script:
    """Return a client `a` whose input r1 was written to a pod that is lost before it answers."""
    return made.opens("a").submits("a", "r1", "Hi").pod_dies().receives("a")


def asked_by_pod_client(made: InMemoryGateway) -> Script:
    """Return a pod client `p` whose input was written to the pod."""
    return (
        made.connects("p", dialect="pod")
        .pod_sends(snapshot())
        .receives("p", snapshot())
        .sends("p", run("Hi"))
        .pod_receives(run("Hi"))
    )


def said(made: InMemoryGateway) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in made.session.state.messages()]


# -- the run goes on -----------------------------------------------------------------------------------


async def test_the_turn_continues_if_the_pod_still_runs_it() -> None:
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .pod_sends(snapshot(*run_entries("Hi"), status="running"), delta("lo"), done("Hello"), *FINISHED)
            .receives("a", token("r1", "lo"), answer("r1", "Hello"))
            .pod_receives()
        )
        assert said(made) == [("user", "Hi"), ("assistant", "Hello")]
        assert made.time.waiting == [], "the grace was called off"


async def test_blocks_completed_meanwhile_are_sent_before_the_turn_continues() -> None:
    entries = run_entries("Hi", answer_entry("Hello. "), *call_entries("c1", "read", "text"))
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .pod_sends(snapshot(*entries, status="running"))
            .receives(
                "a",
                token("r1", "lo. "),
                {"type": "stream_chunk", "requestId": "r1"},
                {"type": "stream_chunk", "requestId": "r1"},
            )
            .pod_sends(delta("Bye"), done("Bye"), *FINISHED)
            .receives("a", token("r1", "Bye"), answer("r1", "Hello. Bye"))
        )


async def test_a_result_that_was_missed_stays_hidden_if_the_route_shows_names_alone() -> None:
    entries = run_entries("Hi", answer_entry("Hello"), *call_entries("c1", "read", "the secret"))
    async with in_memory_gateway(show=Show(tools="names")) as made:
        await interrupted(made).pod_sends(snapshot(*entries, status="running")).ignores("a")
        assert b"read" in b"".join(made.clients["a"].transport.got)
        assert b"the secret" not in b"".join(made.clients["a"].transport.got)
        assert b"the secret" not in msgspec.json.encode(made.session.state)


@pytest.mark.parametrize("heard", [True, False])
async def test_the_input_of_another_client_is_never_mistaken_for_the_answer(heard: bool) -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .pod_sends(*((echo("Hi"),) if heard else ()), status("running"), delta("Hel"))
            .receives("a", token("$t", "Hel"))
            .pod_dies()
            .pod_sends(snapshot(*run_entries("Hi"), status="running"), delta("lo"), done("Hello"), *FINISHED)
            .receives("a", token("$t", "lo"), answer("$t", "Hello"))
        )
        assert said(made) == [*([("user", "Hi")] if heard else []), ("assistant", "Hello")]
        assert made.gaps == (not heard), "an input that was missed is counted: a run may not be given one in its middle"


async def test_content_received_before_is_not_sent_again() -> None:
    entries = run_entries("Hi", answer_entry("Hello"), *call_entries("c1", "read", "text"))
    called = say("tool_call_start", id="c1", name="read"), say("tool_call_done", id="c1", name="read", arguments="{}")
    result = say("tool_result", id="c1", summary="", output="text", is_error=False)
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .submits("a", "r1", "Hi")
            .pod_sends(*took("Hi"), delta("Hello"), done("Hello"), *called, result)
            .receives("a", accepted("r1"), token("r1", "Hello"), {"type": "stream_chunk"}, {"type": "stream_chunk"})
            .pod_dies()
            .pod_sends(snapshot(*entries, status="running"))
            .receives("a")
            .pod_sends(*FINISHED)
            .receives("a", answer("r1", "Hello"))
        )


async def test_a_pod_client_sees_one_run_without_a_history_in_it() -> None:
    shown = snapshot(*run_entries("Hi"), status="running")
    async with in_memory_gateway() as made:
        await (
            asked_by_pod_client(made)
            .pod_sends(*took("Hi"), say("turn_start", turn=0), delta("Hel"))
            .receives("p", echo("Hi"), status("running"), say("turn_start", turn=0), delta("Hel"))
            .pod_dies()
            .receives("p")
            .pod_sends(shown, delta("lo"), done("Hello"), say("turn_end", turn=0, result="finished"), *FINISHED)
            .receives("p", delta("lo"), done("Hello"), say("turn_end", turn=0, result="finished"), *FINISHED)
        )


async def test_a_model_turn_whose_start_was_missed_is_begun_for_pod_clients() -> None:
    async with in_memory_gateway() as made:
        await (
            asked_by_pod_client(made)
            .pod_sends(*took("Hi"))
            .receives("p", echo("Hi"), status("running"))
            .pod_dies()
            .pod_sends(snapshot(*run_entries("Hi"), status="running"), delta("Hel"), done("Hel"))
            .receives("p", say("turn_start", turn=0), delta("Hel"), done("Hel"))
        )


async def test_the_model_turn_after_one_that_was_heard_to_its_end_is_begun_for_pod_clients() -> None:
    ended = say("turn_end", turn=0, result="finished")
    heard = [*took("Hi"), say("turn_start", turn=0), delta("Hel"), done("Hel"), ended]
    async with in_memory_gateway() as made:
        await (
            asked_by_pod_client(made)
            .pod_sends(*heard)
            .receives("p", *heard)
            .pod_dies()
            .pod_sends(snapshot(*run_entries("Hi", answer_entry("Hel")), status="running"), delta("lo"), done("lo"))
            .receives("p", say("turn_start", turn=1), delta("lo"), done("lo"))
        )


async def test_a_model_turn_whose_start_was_not_heard_is_not_begun_in_its_middle() -> None:
    async with in_memory_gateway() as made:
        await (
            made.connects("p", dialect="pod")
            .pod_sends(snapshot(status="running"), delta("H"))
            .receives("p", say("snapshot"), delta("H"))
            .pod_dies()
            .pod_sends(snapshot({"kind": "invoke", "trigger": "notify", "ts": 1}, status="running"), done("Hello"))
            .receives("p", delta("ello"), done("Hello"))
        )


async def test_the_run_after_one_that_ended_meanwhile_gets_no_start_of_its_model_turn() -> None:
    entries = *run_entries("Hi", end=errored("broken")), *run_entries("Next")
    failed = problem("internal", "broken"), status("idle")
    async with in_memory_gateway() as made:
        await (
            asked_by_pod_client(made)
            .pod_sends(*took("Hi"))
            .receives("p", *took("Hi"))
            .pod_dies()
            .pod_sends(snapshot(*entries, status="running"), delta("middle"))
            .receives("p", *failed, say("segment_rotated"), status("running"), delta("middle"))
        )


# -- a block of which a part was missed ----------------------------------------------------------------

RUNNING = snapshot(*run_entries("Hi"), status="running")


async def test_text_missed_in_the_middle_of_a_block_comes_with_its_done_text() -> None:
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .pod_sends(RUNNING, delta("wor"))
            .pod_sends(delta("ld"))
            .receives("a")
            .pod_sends(done("Hello world"))
            .receives("a", token("r1", "lo world"))
            .pod_sends(delta("!"))
            .receives("a", token("r1", "!"))
            .pod_sends(done("!"), *FINISHED)
            .receives("a", answer("r1", "Hello world!"))
        )
        assert made.gaps == 0
        assert said(made) == [("user", "Hi"), ("assistant", "Hello world!")]


async def test_text_missed_at_the_beginning_of_a_block_comes_with_its_done_text() -> None:
    async with in_memory_gateway() as made:
        await (
            begun(made)
            .pod_dies()
            .pod_sends(RUNNING, delta("lo"))
            .receives("a")
            .pod_sends(done("Hello"), *FINISHED)
            .receives("a", token("r1", "Hello"), answer("r1", "Hello"))
        )
        assert made.gaps == 0


async def test_reasoning_missed_in_the_middle_comes_with_its_done_text() -> None:
    async with in_memory_gateway() as made:
        await (
            asked_by_pod_client(made)
            .pod_sends(*took("Hi"), say("turn_start", turn=0), say("thinking_start"), say("thinking_delta", text="h"))
            .receives(
                "p", *took("Hi"), say("turn_start", turn=0), say("thinking_start"), say("thinking_delta", text="h")
            )
            .pod_dies()
            .pod_sends(RUNNING, say("thinking_delta", text="m"), say("thinking_done", text="hmm"), delta("Yes"))
            .receives("p", say("thinking_delta", text="mm"), say("thinking_done", text="hmm"), delta("Yes"))
        )
        assert made.gaps == 0


async def test_a_done_text_that_contradicts_the_received_text_replaces_it_and_is_a_gap() -> None:
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .pod_sends(RUNNING, delta("lo"), done("Bye, hello"), *FINISHED)
            .receives("a", answer("r1", "Bye, hello"))
        )
        assert made.gaps == 1
        assert said(made) == [("user", "Hi"), ("assistant", "Bye, hello")]


CALLED = say("tool_call_start", id="c", name="ls"), say("tool_call_args_delta", id="c", json='{"a')
ARGUED = say("tool_call_done", id="c", name="ls", arguments='{"all":true}')


def resumed_in_a_call(made: InMemoryGateway) -> Script:
    """Return a script in which a pod is lost amid the arguments of a call, and sends their rest afterwards."""
    return (
        asked_by_pod_client(made)
        .pod_sends(*took("Hi"), say("turn_start", turn=0), *CALLED)
        .receives("p", *took("Hi"), say("turn_start", turn=0), *CALLED)
        .pod_dies()
        .pod_sends(RUNNING, say("tool_call_args_delta", id="c", json="tru"))
        .pod_sends(say("tool_call_args_delta", id="c", json="e}"))
    )


async def test_arguments_of_a_call_of_which_a_part_was_missed_come_with_its_end() -> None:
    async with in_memory_gateway() as made:
        await (
            resumed_in_a_call(made)
            .receives("p")
            .pod_sends(ARGUED, say("tool_call_start", id="d", name="ls"))
            .pod_sends(say("tool_call_args_delta", id="d", json="{"))
            .receives(
                "p",
                ARGUED,
                say("tool_call_start", id="d", name="ls"),
                say("tool_call_args_delta", id="d", json="{"),
            )
        )
        assert made.losses("ToolCallArguments") == 0


async def test_arguments_whose_call_has_no_end_after_a_part_was_missed_are_counted() -> None:
    async with in_memory_gateway() as made:
        await (
            resumed_in_a_call(made)
            .pod_sends(problem("internal", "Cancelled"), status("idle"))
            .pod_sends(*took("Next"))
            .ignores("p")
        )
        assert made.losses("ToolCallArguments") == 2


@pytest.mark.parametrize("rest", [("lo",), ()])
async def test_a_block_that_ends_without_its_done_text_is_a_gap(rest: tuple[str, ...]) -> None:
    """A cancelled run has no done text, and a block whose done text was missed has none either."""
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .pod_sends(RUNNING, *map(delta, rest))
            .receives("a")
            .pod_sends(problem("internal", "Cancelled"), status("idle"))
            .receives("a", *(token("r1", text) for text in rest), cancelled("r1"))
        )
        assert made.gaps == 1


async def test_text_of_a_block_that_is_too_long_to_wait_is_sent_after_a_gap() -> None:
    half = "x" * (HELD_MAX // 2)
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .pod_sends(RUNNING, delta(half))
            .pod_sends(delta(half))
            .receives("a")
            .pod_sends(delta("lo"))
            .receives("a", token("r1", half), token("r1", half), token("r1", "lo"))
        )
        assert made.gaps == 1


@pytest.mark.parametrize("pieces", [("lo",), ("",) * 100 + ("lo",)], ids=["one", "empty ones before it"])
async def test_text_that_waits_when_its_turn_is_ended_is_counted(pieces: tuple[str, ...]) -> None:
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .pod_sends(RUNNING, *map(delta, pieces))
            .sends("a", cancel("r1"))
            .pod_receives(CANCEL)
            .passes(Limits().cancel_deadline)
            .receives("a", cancelled("r1"))
            .pod_sends(problem("internal", "Cancelled"), status("idle"))
            .receives("a")
        )
        assert made.losses("TextDelta") == 1, "empty pieces are not kept"


async def test_the_text_so_far_in_a_snapshot_is_sent_at_once_and_goes_on() -> None:
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .pod_sends(snapshot(*run_entries("Hi", answer_entry("Hello")), status="running"))
            .receives("a", token("r1", "lo"))
            .pod_sends(delta("ld"), done("Hello world"), *FINISHED)
            .receives("a", token("r1", " world"), answer("r1", "Hello world"))
        )
        assert made.gaps == 0
        assert said(made) == [("user", "Hi"), ("assistant", "Hello world")]


@pytest.mark.parametrize("following", [(delta("Bye"), done("Bye")), (say("turn_start", turn=1), delta("Bye"))])
async def test_a_finished_text_in_a_snapshot_is_a_block_of_its_own(following: tuple[Frame, ...]) -> None:
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .pod_sends(snapshot(*run_entries("Hi", answer_entry("Hello")), status="running"))
            .receives("a", token("r1", "lo"))
            .pod_sends(*following, *FINISHED)
            .receives("a", token("r1", "Bye"), answer("r1", "HelloBye"))
        )
        assert made.gaps == 0


async def test_a_run_of_a_restarted_pod_does_not_continue_the_old_turn() -> None:
    began = say("turn_start", turn=0), delta("Old")
    noted = {"kind": "invoke", "trigger": "notify", "ts": 1}
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .pod_sends(status("running"), say("invoke_start", kind="notify"), *began)
            .receives("a", token("$turn", "Old"))
            .pod_dies()
            .pod_sends(snapshot(noted, noted, status="running"), delta("New"))
            .receives("a", error("$turn", "INTERNAL_ERROR"), token("$next", "New"))
        )


# -- the run has ended ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "now", "told"),
    [
        (completed(), "idle", answer("r1", "Hello")),
        (completed("limit_reached"), "idle", answer("r1", "Hello")),
        (completed("paused", interrupted=True), "paused", cancelled("r1")),
        (errored("Cancelled"), "idle", cancelled("r1")),
        (errored("Cancelled"), "paused", cancelled("r1")),
        (errored("the provider is down"), "idle", error("r1", "INTERNAL_ERROR")),
    ],
)
async def test_a_run_that_ended_meanwhile_ends_the_turn_as_logged(end: Frame, now: str, told: Frame) -> None:
    entries = run_entries("Hi", answer_entry("Hello"), end=end)
    async with in_memory_gateway() as made:
        await interrupted(made).pod_sends(snapshot(*entries, status=now)).receives("a", token("r1", "lo"), told)
        assert said(made) == [("user", "Hi"), ("assistant", "Hello")]
        assert made.session.state.status == now


async def test_a_run_followed_by_one_of_another_client_ends_the_turn_too() -> None:
    entries = *run_entries("Hi", answer_entry("Hello"), end=completed()), *run_entries("Next")
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .pod_sends(snapshot(*entries, status="running"))
            .receives("a", token("r1", "lo"), answer("r1", "Hello"))
            .pod_sends(delta("Other"), done("Other"), *FINISHED)
            .receives("a", token("$other", "Other"), answer("$other", "Other"))
        )
        assert said(made) == [("user", "Hi"), ("assistant", "Hello"), ("user", "Next"), ("assistant", "Other")]


async def test_an_input_that_the_pod_took_back_is_rolled_back() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .submits("a", "r1", "Hi")
            .pod_sends(*took("Hi"), rotated())
            .receives("a", accepted("r1"))
            .pod_dies()
            .pod_sends(snapshot(rotated()["data"]["entry"]))
            .receives("a", cancelled("r1"))
        )
        assert said(made) == []


# -- neither -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shown",
    [
        snapshot(*run_entries("Hi")),  # a restored pod: idle, though its last run has no end
        snapshot(*BEFORE),  # another conversation
        snapshot(),
        snapshot(*run_entries("Other"), status="running"),
    ],
)
async def test_a_snapshot_without_the_run_fails_the_turn(shown: Frame) -> None:
    async with in_memory_gateway() as made:
        await interrupted(made).pod_sends(shown).receives("a", error("r1", "INTERNAL_ERROR"))
        assert made.session.state.turn is None


async def test_a_new_pod_in_place_of_the_old_one_does_not_count_as_a_rollback() -> None:
    async with in_memory_gateway() as made:
        await begun(made).pod_dies().pod_sends(snapshot()).receives("a", error("r1", "INTERNAL_ERROR"))


async def test_another_conversation_with_the_same_input_fails_the_turn() -> None:
    other = rotated()["data"]["entry"] | {"session_id": "0198c3a1-7b52-7c40-9d1e-5f0a6b7c8d00"}
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .submits("a", "r1", "Hi")
            .pod_sends(*took("Hi"), rotated(), delta("Hel"))
            .receives("a", accepted("r1"), token("r1", "Hel"))
            .pod_dies()
            .pod_sends(snapshot(other, *run_entries("Hi"), status="running"))
            .receives("a", error("r1", "INTERNAL_ERROR"))
        )


async def test_a_pod_that_is_not_found_within_the_grace_fails_the_turn() -> None:
    async with in_memory_gateway() as made:
        await interrupted(made)
        made.away = True
        await (
            made.script()
            .pod_dies()
            .passes(GRACE * 0.9)
            .receives("a")
            .passes(GRACE * 0.1)
            .receives("a", error("r1", "INTERNAL_ERROR"))
        )
        assert made.session.state.status == "idle"


async def test_the_grace_is_configurable() -> None:
    async with in_memory_gateway(limits=Limits(reconnect_grace=30.0)) as made:
        await (
            interrupted(made)
            .passes(29)
            .receives("a")
            .pod_sends(snapshot(*run_entries("Hi"), status="running"), delta("lo"), *FINISHED)
            .receives("a", token("r1", "lo"), answer("r1", "Hello"))
        )


async def test_losing_the_backend_is_not_reported_if_no_turn_is_open() -> None:
    async with in_memory_gateway() as made:
        await made.opens("a").pod_dies().pod_sends(snapshot()).receives("a")
        assert made.time.waiting == []


UNREACHED = {"message": "the backend cannot be reached: nobody listens"}


async def test_nothing_is_looked_for_in_the_history_if_no_input_was_written() -> None:
    """The second input of the codewhale client is written when the first has failed, and fails too."""
    async with in_memory_gateway() as made:
        await made.opens("a").connects("w", dialect="codewhale")
        made.away = True
        resumed = line(1, "thread/resume", thread_id=f"thread-{made.session.state.id}")
        inputs = [line(n, "thread/message", thread_id=f"thread-{made.session.state.id}", input="Hi") for n in (2, 3)]
        await (
            made.script()
            .sends("w", resumed)
            .receives("w", {"id": 1})
            .pod_dies()
            .sends("w", *inputs)
            .receives("w", {"id": 2, "error": UNREACHED}, {"id": 3, "error": UNREACHED})
        )
        assert not made.session.form.states.severed


# -- what was in flight --------------------------------------------------------------------------------


async def test_an_input_in_flight_that_the_pod_accepted_begins_its_turn() -> None:
    async with in_memory_gateway() as made:
        await (
            submitted(made)
            .pod_sends(snapshot(*run_entries("Hi"), status="running"), delta("Hello"), *FINISHED)
            .receives("a", accepted("r1"), token("r1", "Hello"), answer("r1", "Hello"))
            .pod_receives()
        )
        assert said(made) == [("user", "Hi"), ("assistant", "Hello")]


async def test_an_input_in_flight_that_was_answered_meanwhile_is_accepted_and_ends() -> None:
    entries = run_entries("Hi", answer_entry("Hello"), end=completed())
    async with in_memory_gateway() as made:
        await (
            submitted(made)
            .pod_sends(snapshot(*entries))
            .receives("a", accepted("r1"), token("r1", "Hello"), answer("r1", "Hello"))
        )


async def test_an_input_in_flight_that_never_arrived_fails_and_is_not_written_again() -> None:
    async with in_memory_gateway() as made:
        await submitted(made).pod_sends(snapshot()).receives("a", error("r1", "INTERNAL_ERROR")).pod_receives()


async def test_the_same_text_in_an_earlier_run_is_not_mistaken_for_the_input() -> None:
    async with in_memory_gateway() as made:
        await (
            made.connects("a")
            .sends("a", {"action": "ping", "requestId": "p"})
            .receives("a", {"type": "pong"})
            .opens("b")
            .submits("b", "r0", "Hi")
            .pod_sends(*took("Hi"), delta("Yes"), done("Yes"), *FINISHED)
            .receives("b", accepted("r0"), token("r0", "Yes"), answer("r0", "Yes"))
            .submits("b", "r1", "Hi")
            .pod_dies()
            .pod_sends(snapshot(*run_entries("Hi", answer_entry("Yes"), end=completed())))
            .receives("b", error("r1", "INTERNAL_ERROR"))
        )


async def test_the_same_text_in_an_earlier_run_is_not_mistaken_for_the_input_after_a_compaction() -> None:
    compacted = rotated(logged("system", "in short"))
    compacted["data"]["entry"]["compacted_from"] = {"segment_id": SEGMENT, "at_turn_index": 1}
    answered = run_entries("Go on", answer_entry("Yes"), end=completed())
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .submits("a", "r1", "Hi")
            .pod_sends(*took("Hi"), rotated(), delta("Hello"), done("Hello"), *FINISHED, compacted)
            .receives("a", accepted("r1"), token("r1", "Hello"), answer("r1", "Hello"))
            .submits("a", "r2", "Go on")
            .pod_sends(*took("Go on"), delta("Yes"), done("Yes"), *FINISHED)
            .receives("a", accepted("r2"), token("r2", "Yes"), answer("r2", "Yes"))
            .submits("a", "r3", "Go on")
            .pod_dies()
            .pod_sends(snapshot(compacted["data"]["entry"], *answered))
            .receives("a", error("r3", "INTERNAL_ERROR"))
        )


async def test_a_pod_client_is_not_sent_again_what_a_summary_replaced() -> None:
    summary, heard = logged("user", "in short"), [logged("user", "Go on"), logged("assistant", "Yes")]
    compacted, whole = rotated(summary), rotated(summary, *heard)
    for event in (compacted, whole):
        event["data"]["entry"]["compacted_from"] = {"segment_id": SEGMENT, "at_turn_index": 1}
    before = snapshot(rotated()["data"]["entry"], *run_entries("Hi", answer_entry("Hello"), end=completed()))
    answered = run_entries("Go on", answer_entry("Yes"), end=completed())
    turn = [say("turn_start", turn=0), delta("Yes"), done("Yes"), say("turn_end", turn=0, result="finished")]
    async with in_memory_gateway() as made:
        await (
            made.connects("p", dialect="pod")
            .pod_sends(before)
            .receives("p", before)
            .pod_sends(compacted)
            .receives("p", compacted)
            .sends("p", run("Go on"))
            .pod_receives(run("Go on"))
            .pod_sends(*took("Go on"), *turn, *FINISHED)
            .receives("p", echo("Go on"), status("running"), *turn, *FINISHED)
            .pod_dies()
            .pod_sends(snapshot(compacted["data"]["entry"], *answered))
            .receives("p", whole, status("idle"))
        )


async def test_an_input_in_flight_behind_one_that_was_accepted_late_fails() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .submits("a", "r1", "Hi")
            .passes(Limits().accept_deadline)
            .receives("a", error("r1", "INTERNAL_ERROR"))
            .submits("a", "r2", "More")
            .pod_sends(*took("Hi"), delta("Hel"))
            .receives("a", token("$late", "Hel"))
            .pod_dies()
            .pod_sends(snapshot(*run_entries("Hi"), status="running"), delta("lo"), done("Hello"), *FINISHED)
            .receives("a", error("r2", "INTERNAL_ERROR"), token("$late", "lo"), answer("$late", "Hello"))
        )
        assert said(made) == [("user", "Hi"), ("assistant", "Hello")]


async def test_a_cancel_in_flight_succeeds_if_the_run_has_ended() -> None:
    entries = run_entries("Hi", answer_entry("Hel"), end=errored("Cancelled"))
    async with in_memory_gateway() as made:
        await (
            begun(made, "Hel")
            .sends("a", cancel("r1"))
            .pod_receives(CANCEL)
            .pod_dies()
            .pod_sends(snapshot(*entries))
            .receives("a", cancelled("r1"))
            .pod_receives()
        )
        assert made.time.waiting == []


# -- within the grace ----------------------------------------------------------------------------------


async def test_an_input_within_the_grace_is_refused_as_busy() -> None:
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .sends("a", send("r2", "More"))
            .receives("a", error("r2", "TURN_IN_PROGRESS"))
            .pod_sends(snapshot(*run_entries("Hi"), status="running"))
            .pod_receives()
        )


async def test_a_cancel_within_the_grace_is_sent_once_the_run_is_known_to_continue() -> None:
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .sends("a", cancel("r1"))
            .pod_receives()
            .pod_sends(snapshot(*run_entries("Hi"), status="running"))
            .pod_receives(CANCEL)
            .pod_sends(problem("internal", "Cancelled"), status("idle"))
            .receives("a", cancelled("r1"))
        )


async def test_a_cancel_within_the_grace_is_not_sent_if_the_run_has_ended() -> None:
    entries = run_entries("Hi", answer_entry("Hello"), end=completed())
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .sends("a", cancel("r1"))
            .pod_sends(snapshot(*entries))
            .receives("a", token("r1", "lo"), answer("r1", "Hello"))
            .pod_receives()
        )


async def whale_with_two_inputs(made: InMemoryGateway) -> Script:
    """Connect a pod client `p`, and a codewhale client `w` whose first input runs when the connection is lost."""
    await made.opens("a").connects("p", dialect="pod").connects("w", dialect="codewhale").ignores("p")
    thread = f"thread-{made.session.state.id}"
    inputs = [line(n, "thread/message", thread_id=thread, input=text) for n, text in ((2, "Hi"), (3, "More"))]
    script = made.script().sends("w", line(1, "thread/resume", thread_id=thread), *inputs).pod_receives(run("Hi"))
    return script.pod_sends(*took("Hi")).pod_dies().ignores("a", "p", "w").sends("p", CANCEL)


@pytest.mark.parametrize("shown", [snapshot(), snapshot(*run_entries("Hi", end=completed()))])
async def test_a_cancel_within_the_grace_is_not_for_the_input_after_the_lost_turn(shown: Frame) -> None:
    async with in_memory_gateway() as made:
        script = await whale_with_two_inputs(made)
        await script.pod_sends(shown).pod_receives(run("More")).ignores("a", "p", "w")


async def test_a_cancel_within_the_grace_is_for_a_run_of_which_nothing_was_heard() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .connects("p", dialect="pod")
            .pod_sends(status("running"))
            .pod_dies()
            .sends("p", CANCEL)
            .pod_sends(snapshot({"kind": "invoke", "trigger": "notify", "ts": 1}, status="running"))
            .pod_receives(CANCEL)
            .ignores("p")
        )


async def test_a_second_loss_within_the_grace_does_not_restart_it() -> None:
    async with in_memory_gateway() as made:
        await (
            interrupted(made)
            .passes(GRACE / 2)
            .pod_dies()
            .passes(GRACE / 2)
            .receives("a", error("r1", "INTERNAL_ERROR"))
        )


async def test_a_command_without_an_answer_fails_with_its_connection_although_the_turn_may_go_on() -> None:
    async with in_memory_gateway() as made:
        completions = {"method": "list_completions", "params": {"kind": "file", "prefix": "src"}}
        await (
            asked_by_pod_client(made)
            .sends("p", completions)
            .pod_receives(completions)
            .pod_dies()
            .receives("p", say("error"))
        )
        assert made.session.in_flight.find_command(made.session.in_flight.input) is not None


async def test_a_pause_is_refused_while_the_connection_is_lost() -> None:
    async with in_memory_gateway() as made:
        await (
            asked_by_pod_client(made)
            .pod_sends(*took("Hi"))
            .receives("p", *took("Hi"))
            .pod_dies()
            .sends("p", {"method": "pause"})
            .receives("p", say("error", code="already_running", message=BUSY))
        )
