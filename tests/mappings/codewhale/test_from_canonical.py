"""Descriptions of sessions for clients, and commands that clients of other dialects send to a codewhale."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from dragoman.mappings.canonical import Command, SessionState, commands, events
from dragoman.mappings.canonical.values import BackendInfo, Item, Message, Paste, Reasoning, SessionSummary, Text
from dragoman.mappings.codewhale import DIALECT
from dragoman.mappings.codewhale.from_canonical import replies
from dragoman.mappings.codewhale.from_canonical.events import FROM_EVENT
from dragoman.mappings.codewhale.from_canonical.generations import masked, result_in
from dragoman.mappings.codewhale.from_canonical.replies import public_ids
from dragoman.mappings.codewhale.vocabulary import HEAD, SEED, keep
from dragoman.mappings.codewhale.wire.codecs import typed
from dragoman.mappings.codewhale.wire.lines import Line
from dragoman.mappings.codewhale.wire.results import AppResponse
from dragoman.mappings.codewhale.wire.values import ThreadStatus
from dragoman.mappings.dialect import Burst
from dragoman.mappings.extras import raw
from dragoman.mappings.rfc3339 import NS
from tests.mappings.codewhale.data import vector
from tests.step_counter import count_steps

UUID = "00000000-0000-4000-8000-000000000001"


def asked(command: Command) -> Any:
    (frame,) = DIALECT.commands.write(Burst(items=[command])).frames
    return json.loads(frame)


def test_clients_know_a_session_by_its_thread_and_by_its_id() -> None:
    assert public_ids(UUID) == (f"thread-{UUID}", UUID)
    assert public_ids(UUID, keep(thread_id="thread-own")) == ("thread-own",)


def test_the_preview_of_a_thread_is_the_start_of_its_last_input() -> None:
    said = [Message(role="user", text=text, at=5 * NS) for text in ("a", "b" * 200)]
    state = SessionState(
        id=UUID, title="T", opened_at=NS, updated_at=3 * NS, transcript=[*said], backend=BackendInfo(cwd="/w")
    )
    thread = replies.described(state, SEED)
    assert (thread.preview, thread.name, thread.cwd, thread.cli_version) == ("b" * 120, "T", "/w", SEED)
    assert (thread.created_at, thread.updated_at) == (1, 3)
    assert replies.described(SessionState(id=UUID), HEAD).preview == "New conversation"


def test_a_history_has_at_most_500_messages_of_user_and_assistant() -> None:
    said = [Message(role="user", text=f"{n}") for n in range(600)]
    items: list[Item] = [Message(role="system", text="s"), Reasoning(text="r"), *said]
    told = replies.history_items(items)
    assert (len(told), told[0].content, told[-1].content) == (500, "100", "599")


def test_each_message_of_a_history_has_an_id_after_the_ids_of_the_store() -> None:
    stored = [Message(role="user", text="a", ext=keep(id=7)), Message(role="assistant", text="b", ext=keep(id=9))]
    told = replies.history_items([*stored, Message(role="user", text="c"), Message(role="assistant", text="d")])
    assert [item.id for item in told] == [7, 9, 10, 11]


def test_an_id_of_the_store_before_the_shown_history_counts() -> None:
    old: list[Item] = [Message(role="user", text="a", ext=keep(id=1000)), Message(role="user", text="b")]
    told = replies.history_items([*old, *(Message(role="user", text="c") for _ in range(500))])
    assert [told[0].id, told[-1].id] == [1002, 1501]


def test_a_message_before_the_shown_history_costs_few_steps() -> None:
    def history_of(count: int) -> int:
        items = [Message(role="user", text="a") for _ in range(count)]
        return count_steps(lambda: replies.history_items(items))

    assert history_of(2500) - history_of(1500) < 1000 * 60


def test_a_row_of_this_dialect_is_shown_unchanged() -> None:
    thread = replies.row(SessionSummary(session=UUID, title="T", updated_at=9 * NS), HEAD)
    again = replies.row(SessionSummary(session=UUID, updated_at=9 * NS, ext=keep(thread=thread)), SEED)
    assert (again, again.id) == (thread, f"thread-{UUID}")


def test_a_thread_of_this_dialect_is_its_backend_s_with_the_latest_input() -> None:
    known = replies.row(SessionSummary(session=UUID, updated_at=9 * NS), HEAD)
    theirs = replace(known, cwd="/srv", model_provider="openai", status="running", name="N")
    state = SessionState(id=UUID, opened_at=20 * NS, updated_at=30 * NS, backend_ids=keep(thread=theirs))
    assert replies.described(state, SEED) == replace(theirs, updated_at=30)
    state.title, state.transcript = "T", [Message(role="user", text="hi")]
    assert replies.described(state, SEED) == replace(theirs, updated_at=30, name="T", preview="hi")


@pytest.mark.parametrize(("name", "preview"), [("", "hi"), ("hi", "New conversation")])
def test_the_name_of_a_thread_is_not_its_preview(name: str, preview: str) -> None:
    """A server that stores no messages shows each thread as new."""
    new = replies.row(SessionSummary(session=UUID, updated_at=9 * NS), HEAD)
    theirs = keep(thread=replace(new, name=name or UNSET))
    row = SessionSummary(session=UUID, title="hi", updated_at=30 * NS, messages=2, ext=theirs)
    assert replies.row(row, HEAD).preview == preview


def test_a_row_without_messages_has_no_preview() -> None:
    silent, spoken = (SessionSummary(session=UUID, title="atlas", messages=n) for n in (0, 1))
    assert (replies.row(silent, HEAD).preview, replies.row(silent, HEAD).name) == ("New conversation", "atlas")
    assert replies.row(spoken, HEAD).preview == "atlas"


def test_opening_a_session_of_another_dialect_starts_a_thread_without_extended_history() -> None:
    request = asked(commands.OpenSession(request="r", title="T", agent="a"))
    assert (request["method"], request["params"]) == ("thread/start", {"persist_extended_history": False})


def test_segments_become_one_text() -> None:
    segments = (Text(text="a "), Paste(text="b", id=1, chars=1, lines=1))
    request = asked(commands.SubmitInput(request="r", session=UUID, segments=segments))
    assert request["params"] == {"thread_id": f"thread-{UUID}", "input": "a b"}


def test_only_writes_to_goals_have_a_request() -> None:
    progress = commands.StoreWrite(
        session=UUID, method="goal_record_progress", params=raw({"thread_id": "x", "token_delta": 5})
    )
    assert asked(progress)["params"] == {
        "kind": "goal_record_progress",
        "thread_id": f"thread-{UUID}",
        "token_delta": 5,
    }
    for other in (
        commands.StoreWrite(method="CreateSession"),
        commands.StoreWrite(method="goal_record_progress", params=raw(5)),
    ):
        rendered = DIALECT.commands.write(Burst(items=[other]))
        assert (rendered.frames, len(rendered.losses)) == ([], 1)


def test_an_invalid_hook_line_or_goal_is_counted() -> None:
    for event in (
        events.LifecycleReport(report=raw(1)),
        events.GoalUpdated(goal=raw(1)),
        events.McpStartup(report=raw(1)),
    ):
        rendered = DIALECT.events.write(Burst(items=[event]))
        assert (rendered.frames, [loss.kind for loss in rendered.losses]) == ([], [type(event).__name__])


def test_a_history_from_elsewhere_is_added_to_a_resumed_thread() -> None:
    """A resume appends `history`. A 0.10.2 refuses texts without blocks (docs/dialects/codewhale.md, section 12)."""
    assert DIALECT.takes_history is not None
    said: list[Item] = [Message(role="user", text="one"), Reasoning(text="hm"), Message(role="assistant", text="1")]
    frame = asked(commands.ResumeSession(session=UUID, ext=DIALECT.takes_history(said)))
    assert (frame["method"], frame["params"]["thread_id"]) == ("thread/resume", f"thread-{UUID}")
    one, answer = [{"type": "text", "text": "one"}], [{"type": "text", "text": "1"}]
    assert frame["params"]["history"] == [{"role": "user", "content": one}, {"role": "assistant", "content": answer}]


@pytest.mark.parametrize(("known", "archived", "status"), [("running", True, "archived"), ("archived", False, "idle")])
def test_a_thread_shows_whether_it_is_archived(known: ThreadStatus, archived: bool, status: str) -> None:
    """A thread that leaves the archive is idle (docs/dialects/codewhale.md, section 2.3)."""
    row = replies.row(SessionSummary(session=UUID), HEAD)
    for ids in (keep(thread=replace(row, status=known)), None):
        state = SessionState(id=UUID, archived=archived, backend_ids=ids)
        assert replies.described(state, HEAD).status == status
        assert replies.row(SessionSummary(session=UUID, archived=archived, ext=ids), HEAD).status == status


def test_only_text_and_hooks_of_old_releases_are_bare_lines() -> None:
    """Clients would show a bare line of reasoning as text (docs/dialects/codewhale.md, section 11)."""
    spoken = {
        kind.__name__
        for kind, entry in FROM_EVENT.entries.items()
        if not set(get_args(Line)).isdisjoint(entry.produces)
    }
    assert spoken == {"ModelTurnStarted", "TextDelta", "TurnResult", "LifecycleReport", "QuestionAsked"}


SEED_GOAL = vector("res.thread.goal.set.seed")["result"]


def told(result: Any, generation: str) -> Any:
    return json.loads(bytes(raw(result_in(typed(raw(result)), generation))))


def test_a_goal_of_an_older_backend_has_the_count_that_newer_clients_need() -> None:
    assert "continuation_count" not in SEED_GOAL["goal"]
    shown = told(SEED_GOAL, HEAD)
    assert shown["goal"]["continuation_count"] == 0
    assert [event["goal"] for event in shown["events"]] == [shown["goal"]]
    assert shown["data"]["goal"] == shown["goal"]
    assert told(shown, SEED) == SEED_GOAL


def test_a_goal_of_a_backend_of_the_same_generation_stays_as_it_is() -> None:
    assert told(SEED_GOAL, SEED) == SEED_GOAL


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("api_key", "sk-test-some-longer-value", "sk-t***alue"),
        ("providers.openai.api-key", "short", "********"),
        ("api_key", "sk-t***alue", "sk-t***alue"),
        ("max_tokens_hint", "a value that is no secret", "a value that is no secret"),
        ("model", "gpt-5", "gpt-5"),
        ("api_key", None, None),
    ],
)
def test_a_secret_of_an_older_backend_is_masked(key: str, value: str | None, shown: str | None) -> None:
    result = masked(key, AppResponse(ok=True, data=raw({"key": key, "value": value})))
    assert json.loads(bytes(result.data)) == {"key": key, "value": shown}
