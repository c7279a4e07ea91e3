"""A pod behind clients of all four dialects: what each receives of the same turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.adapters.base import CloseReason
from dragoman.gateway import registry
from dragoman.gateway.session.commands import answers_command
from dragoman.mappings.canonical import Batch, Event
from dragoman.mappings.canonical.events import QuestionAsked, TurnEnded
from dragoman.mappings.canonical.values import Origin
from tests.gateway.codewhale_messages import line
from tests.gateway.in_memory import SESSION, START, InMemoryGateway, Script, in_memory_gateway
from tests.gateway.pod_messages import (
    CANCEL,
    FINISHED,
    answer_entry,
    delta,
    done,
    echo,
    problem,
    rotated,
    run,
    say,
    snapshot,
    status,
    took,
    user_entry,
)
from tests.gateway.smooth_client_messages import CREATE, answer, history, opened, token
from tests.samples import samples

Frame = dict[str, Any]

IDLE = snapshot()
RUNNING = snapshot(user_entry("Hi"), status="running")
SEGMENT = "0198c3a1-7b52-7c40-9d1e-5f0a6b7c8d9e"
THREAD = f"thread-{SESSION}"
FRESH_POD = (
    echo("Hi"),
    status("running"),
    rotated(),
    say("invoke_start", kind="user_send"),
    say("turn_start", turn=0),
    delta("Hello"),
    done("Hello"),
    say("turn_end", turn=0, result="finished"),
    *FINISHED,
)
"""The first run of a pod (docs/dialects/pod.md, section 7): its log begins in the middle of the run."""


BEGUN = {"kind": "message", "role": "user", "content": [{"kind": "text", "text": "Hi"}]}
USER_LINE_KEPT = (*FRESH_POD[:2], rotated(BEGUN), *FRESH_POD[3:])
"""The turn as pod clients see it: a rotation replaces what they show, so it repeats the input before it."""


def topic(name: str, **payload: Any) -> Frame:
    """Return a publication."""
    return {"topic": name, "payload": payload}


def bare(kind: str, **keys: Any) -> Frame:
    """Return a line between request and answer."""
    return {"type": kind, **keys}


def streamed(*deltas: str) -> tuple[Frame, ...]:
    """Return the response of a message."""
    return (bare("response_start"), *(bare("response_delta", delta=text) for text in deltas), bare("response_end"))


def message(number: int, text: str) -> Frame:
    """Return the request with which a codewhale client sends a message."""
    return line(number, "thread/message", thread_id=THREAD, input=text)


def accepted_by_whale(number: int) -> Frame:
    """Return the result of a message."""
    return {"id": number, "result": {"status": "accepted", "thread_id": THREAD}}


def together(made: InMemoryGateway, shown: Frame = IDLE) -> Script:
    """Connect a smooth client `s`, a pod client `p`, a codewhale client `c` and a pando's subscribers `v` to a pod."""
    return (
        made.connects("s")
        .sends("s", CREATE)
        .pod_sends(shown)
        .receives("s", opened("open"))
        .connects("p", dialect="pod")
        .receives("p", say("snapshot"))
        .connects("v", dialect="pando")
        .receives("v", topic("session.update"))
        .connects("c", dialect="codewhale")
        .sends("c", line(1, "thread/resume", thread_id=THREAD))
        .receives("c", {"id": 1, "result": {"status": "resumed"}})
        .receives("v", topic("session.activated"))
    )


async def reconnected(made: InMemoryGateway, shown: Frame) -> None:
    """Disconnect the clients that `histories` has made, and let the pod show itself over a new connection."""
    for name in ("new s", "new p", "new c", "new v"):
        made.clients.pop(name).link.end(CloseReason.DONE)
    await made.pod.transport.hangs_up()
    await made.pod.says(shown)


async def histories(made: InMemoryGateway) -> dict[str, list[tuple[str, str]]]:
    """Return the messages of user and assistant that new clients of each dialect receive."""
    smooth, pod = made.join("new s"), made.join("new p", dialect="pod")
    whale, pando = made.join("new c", dialect="codewhale"), made.join("new v", dialect="pando", calls=True)
    pando.judged = False  # its oracle judges subscribers
    smooth.sends(CREATE, history("h"))
    whale.sends(line(1, "thread/read", thread_id=THREAD))
    await pando.says({"jsonrpc": "2.0", "id": "1", "method": "message.list", "params": {"session_id": SESSION}})
    page = smooth.frames()[-1]["data"]["messages"]
    roles = {"inbound": "user", "outbound": "assistant"}
    (listed,) = pando.frames()
    return {
        "smooth": [(roles[m["direction"]], m["content"]["text"]) for m in reversed(page)],
        "pod": list(logged(pod.frames()[-1]["data"]["entries"])),
        "pando": [(m["role"], m["content"]) for m in listed["result"] if m["role"] != "system"],
        "codewhale": [(item["role"], item["content"]) for item in whale.frames()[-1]["result"]["data"]["history"]],
    }


def logged(entries: list[Frame]) -> Iterator[tuple[str, str]]:
    """Yield the messages of user and assistant in a pod's log (docs/dialects/pod.md, section 9)."""
    for entry in entries:
        if entry["kind"] == "user_input":
            yield "user", "".join(segment["content"] for segment in entry["segments"])
        elif entry["kind"] == "assistant_item" and entry["item"]["kind"] == "message":
            yield "assistant", "".join(part["text"] for part in entry["item"]["content"])


# -- only an answer answers --------------------------------------------------------------------------


async def test_a_history_during_a_run_does_not_answer_the_message_that_began_the_run() -> None:
    async with in_memory_gateway() as made:
        await (
            together(made)
            .sends("c", message(2, "Hi"))
            .pod_receives(run("Hi"))
            .pod_sends(*FRESH_POD)
            .receives("c", *streamed("Hello"), accepted_by_whale(2))
            .receives("s", token("$t", "Hello"), answer("$t", "Hello"))
            .receives("p", *USER_LINE_KEPT)
            .receives(
                "v",
                topic("message.append", role="user"),
                topic("llm.start"),
                topic("llm.token", token="Hello"),
                topic("llm.end"),
                topic("session.update"),
            )
        )


ANSWER: dict[str, Callable[[Frame], bool]] = {
    "smooth": lambda frame: frame["type"] in ("immediate_response", "pong"),
    "pando": lambda frame: "topic" not in frame,
    "codewhale": lambda frame: "jsonrpc" in frame,
}
"""Dialect -> the frames that answer a request; a pod's have no request."""


@pytest.mark.parametrize("dialect", ANSWER)
def test_only_the_end_of_a_run_answers_the_request_that_began_its_turn(dialect: str) -> None:
    said = [e for e in samples(Event) if not answers_command(e) and not isinstance(e, TurnEnded | QuestionAsked)]
    assert len(said) > 50
    for event in said:
        projection = registry.dialect(dialect).projection('"r1"\n1\nt' if dialect == "codewhale" else "r1", "")
        batch = Batch(session=SESSION, epoch=1, first_seq=0, events=[event], turn=SESSION, origin=Origin(request="r1"))
        for frame in projection.render(batch).frames:
            assert not ANSWER[dialect](json.loads(frame.rpartition(b"\0")[2])), event


# -- the done text is the authority ------------------------------------------------------------------

FOUR = ("smooth", "pod", "pando", "codewhale")
HISTORY = [("user", "Hi"), ("assistant", "hello world")]


async def test_an_answer_joined_in_its_middle_ends_complete_for_each_dialect_that_can_show_it() -> None:
    async with in_memory_gateway() as made:
        await (
            together(made, RUNNING)
            .pod_sends(delta("world"))
            .receives("s", token("$t", "world"))
            .receives("p", delta("world"))
            .receives("v", topic("llm.start"), topic("llm.token", token="world"))
            .pod_sends(done("hello world"), *FINISHED)
            .receives("s", answer("$t", "hello world"))
            .receives("p", say("alert", level="warn"), done("hello world"), *FINISHED)
            .receives("v", topic("llm.end"), topic("session.update"))
        )
        assert made.gaps == 1, "the live clients lack its head"


async def test_histories_have_the_beginning_of_an_answer_that_was_joined_in_its_middle() -> None:
    async with in_memory_gateway() as made:
        await (
            together(made, RUNNING)
            .pod_sends(delta("world"), done("hello world"))
            .connects("late", dialect="pod")
            .receives("late", say("snapshot"), delta("hello world"), done("hello world"))
            .pod_sends(*FINISHED)
            .receives("late", *FINISHED)
            .ignores("s", "p", "v")
        )
        assert await histories(made) == dict.fromkeys(FOUR, HISTORY)


# -- times -------------------------------------------------------------------------------------------


async def test_inputs_and_answers_of_other_clients_have_the_times_when_they_were_seen() -> None:
    async with in_memory_gateway() as made:
        await (
            together(made)
            .passes(60)
            .pod_sends(echo("Hi"), status("running"), say("turn_start", turn=0))
            .passes(30)
            .pod_sends(delta("Hello"), done("Hello"), say("turn_end", turn=0, result="finished"), *FINISHED)
            .ignores("s", "p", "v")
        )
        question, reply = START + 60 * 10**9, START + 90 * 10**9
        assert [message.at for message in made.session.state.messages()] == [question, reply]
        await histories(made)
        page = made.clients["new s"].frames()[-1]["data"]["messages"]
        assert [m["createdAt"] for m in reversed(page)] == ["2023-11-14T22:14:20Z", "2023-11-14T22:14:50Z"]
        (listed,) = made.clients["new v"].frames()
        assert [m["created_at"] for m in listed["result"]] == ["2023-11-14T22:14:20Z", "2023-11-14T22:14:50Z"]
        told = made.clients["new c"].frames()[-1]["result"]["data"]["history"]
        assert [item["created_at"] for item in told] == [question // 10**9, reply // 10**9]
        entries = made.clients["new p"].frames()[-1]["data"]["entries"]
        spoken = [entry["ts"] for entry in entries if entry["kind"] in ("user_input", "assistant_item")]
        assert spoken == [question // 10**6, reply // 10**6]


# -- one history -------------------------------------------------------------------------------------

STARTED = {"kind": "segment_start", "ts": 1, "session_id": SEGMENT, "system_prompt": None, "config": {}, "history": []}
INVOKED = {"kind": "invoke", "trigger": "user_send", "ts": 1}
ERRORED = {"kind": "run_errored", "interrupted": True, "message": "Cancelled", "ts": 1}
SUMMARY = {"kind": "message", "role": "system", "content": [{"kind": "text", "text": "[Summary]"}]}
SHORTER = {**STARTED, "history": [SUMMARY], "compacted_from": {"segment_id": SEGMENT, "at_turn_index": 1}}
"""The segment of a pod's log that begins with a summary of the one before."""


async def test_after_a_cancel_all_histories_are_equal_live_and_after_a_reconnect() -> None:
    """A pod logs nothing of a cancelled answer (docs/translation.md, rule 4.7)."""
    said = [("user", "Hi"), ("assistant", "Hel")]
    async with in_memory_gateway() as made:
        await (
            together(made, snapshot(STARTED))
            .pod_sends(echo("Hi"), status("running"), say("turn_start", turn=0), delta("Hel"))
            .sends("p", CANCEL)
            .pod_receives(CANCEL)
            .pod_sends(problem("internal", "Cancelled"), status("idle"))
            .ignores("s", "p", "v")
        )
        assert await histories(made) == dict.fromkeys(FOUR, said)
        await reconnected(made, snapshot(STARTED, INVOKED, user_entry("Hi"), ERRORED))
        assert await histories(made) == dict.fromkeys(FOUR, said)


async def test_an_input_that_the_backend_lost_before_it_stored_it_leaves_the_histories() -> None:
    stored, said = (STARTED, INVOKED, user_entry("Hi"), answer_entry("Hello")), [("user", "Hi"), ("assistant", "Hello")]
    async with in_memory_gateway() as made:
        await together(made, snapshot(*stored)).pod_sends(*took("More")).ignores("s", "p", "v")
        await histories(made)
        await reconnected(made, snapshot(*stored))
        assert await histories(made) == dict.fromkeys(FOUR, said)


async def test_a_lost_input_leaves_the_history_of_a_pod_that_has_compacted_its_log_since() -> None:
    kept = SHORTER | {"history": [SUMMARY, said_in_log("user", "Hi"), said_in_log("assistant", "Hello")]}
    async with in_memory_gateway() as made:
        first = snapshot(STARTED, INVOKED, user_entry("Hi"), answer_entry("Hello"))
        await together(made, first).pod_sends(*took("More")).ignores("s", "p", "v")
        await histories(made)
        await reconnected(made, snapshot(kept))
        told = await histories(made)
        assert told.pop("pod") == [], "all is in the first entry"
        assert told == {dialect: [("user", "Hi"), ("assistant", "Hello")] for dialect in told}


async def test_after_a_compaction_new_pod_clients_see_the_summary_and_others_the_messages() -> None:
    everything = [("user", "Hi"), ("assistant", "Hello"), ("user", "More"), ("assistant", "Again")]
    async with in_memory_gateway() as made:
        await (
            together(made, snapshot(STARTED, INVOKED, user_entry("Hi"), answer_entry("Hello")))
            .pod_sends(say("compact_start"), say("segment_rotated", entry=SHORTER))
            .pod_sends(say("compact_done", new_segment_id=SEGMENT))
            .pod_sends(*took("More"), say("turn_start", turn=1), delta("Again"), done("Again"))
            .pod_sends(say("turn_end", turn=1, result="finished"), *FINISHED)
            .ignores("s", "p", "v")
        )
        told = await histories(made)
        assert told.pop("pod") == everything[2:]
        assert told == dict.fromkeys(told, everything)
        entries = made.clients["new p"].frames()[0]["data"]["entries"]
        assert entries[0] == SHORTER, "the pod's own summary"
        await reconnected(made, snapshot(SHORTER, INVOKED, user_entry("More"), answer_entry("Again")))
        told = await histories(made)
        assert told.pop("pod") == everything[2:]
        assert told == dict.fromkeys(told, everything), "and so after a reconnect"


@pytest.mark.parametrize("input", ["", "More"], ids=["between two runs", "in a run"])
async def test_an_attached_pod_client_is_shown_a_compacted_history_without_what_it_sums_up(input: str) -> None:
    known = (INVOKED, user_entry("Hi"), answer_entry("Hello"), INVOKED, user_entry("And?"), answer_entry("Yes"))
    before = took(input) if input else ()
    async with in_memory_gateway() as made:
        await (
            together(made, snapshot(STARTED, *known))
            .pod_sends(*before, say("segment_rotated", entry=SHORTER))
            .ignores("s", "v")
            .sees("the client was shown the rotation", lambda: made.clients["p"].news()[-1] == rotation(input))
        )


async def test_runs_that_a_gateway_adds_to_a_compacted_segment_are_shown() -> None:
    kept = [SUMMARY, said_in_log("user", "More")]
    added = [said_in_log("assistant", "Again"), said_in_log("user", "Other"), said_in_log("assistant", "Said")]
    begun, more = SHORTER | {"history": kept}, SHORTER | {"history": [*kept, *added]}
    words = ["Hi", "Hello", "More", "Again", "Other", "Said"]
    everything = list(zip(["user", "assistant"] * 3, words, strict=True))
    async with in_memory_gateway() as made:
        await (
            together(made, snapshot(STARTED, INVOKED, user_entry("Hi"), answer_entry("Hello")))
            .pod_sends(*took("More"), say("segment_rotated", entry=begun), say("turn_start", turn=1))
            .pod_sends(delta("Again"), done("Again"), say("turn_end", turn=1, result="finished"), *FINISHED)
            .pod_sends(say("segment_rotated", entry=more))
            .ignores("s", "p", "v")
        )
        told = await histories(made)
        assert told.pop("pod") == [], "the runs are in the first entry"
        assert told == dict.fromkeys(told, everything)
        assert made.clients["new p"].frames()[0]["data"]["entries"] == [more]


async def test_an_input_stays_if_the_pod_compacts_its_log_before_it_answers() -> None:
    """The compacted log ends with an earlier input, and the run has no turn yet."""
    kept = SHORTER | {"history": [SUMMARY, said_in_log("user", "Hi"), said_in_log("assistant", "Hello")]}
    async with in_memory_gateway() as made:
        await (
            together(made, snapshot(STARTED, INVOKED, user_entry("Hi"), answer_entry("Hello")))
            .pod_sends(*took("More"), say("segment_rotated", entry=kept), say("turn_start", turn=1))
            .pod_sends(delta("Again"), done("Again"), say("turn_end", turn=1, result="finished"), *FINISHED)
            .ignores("s", "p", "v")
        )
        told = await histories(made)
        assert told.pop("pod") == [("user", "More"), ("assistant", "Again")]
        everything = [("user", "Hi"), ("assistant", "Hello"), ("user", "More"), ("assistant", "Again")]
        assert told == dict.fromkeys(told, everything)


def said_in_log(role: str, text: str) -> Frame:
    return {"kind": "message", "role": role, "content": [{"kind": "text", "text": text}]}


def rotation(input: str) -> Frame:
    """Return the rotated history that a client is shown: the summary, and the input of the run that goes on."""
    more = [said_in_log("user", input)] if input else []
    return say("segment_rotated", entry=SHORTER | {"history": [SUMMARY, *more]})


async def test_a_snapshot_of_another_conversation_replaces_the_history() -> None:
    other = {**STARTED, "session_id": "0198c3a1-7b52-7c40-9d1e-000000000000"}
    async with in_memory_gateway() as made:
        script = together(made, snapshot(STARTED, INVOKED, user_entry("Hi"), answer_entry("Hello")))
        await script.pod_dies().pod_sends(snapshot(other, INVOKED, user_entry("New"))).ignores("p", "v")
        assert await histories(made) == {dialect: [("user", "New")] for dialect in FOUR}


@pytest.mark.parametrize("pieces", [1, 4], ids=["the first piece", "a further piece"])
async def test_a_rule_that_fails_disconnects_the_clients_of_its_dialect_alone(
    monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    def fail(_message: object) -> bytes:
        raise ValueError("a wrong rule")

    async with in_memory_gateway() as made:
        begun = made.opens("smooth").connects("pod", dialect="pod").submits("smooth", "q", "Hi")
        await begun.pod_sends(echo("Hi"), status("running"), say("turn_start", turn=0)).ignores("pod", "smooth")
        for text in "0123"[:pieces]:
            if text == str(pieces - 1):
                monkeypatch.setattr("dragoman.mappings.pod.projection.EVENTS", SimpleNamespace(encode=fail))
            await made.pod.says(delta(text))
        await made.pod.says(done("0123"[:pieces]), *FINISHED)
        assert made.clients["pod"].transport.closed is CloseReason.INTERNAL
        said = [frame["token"] for frame in made.clients["smooth"].news() if frame["type"] == "stream_token"]
        assert (said, made.clients["smooth"].link.alive, made.dialled) == ([*"0123"[:pieces]], True, 1)
