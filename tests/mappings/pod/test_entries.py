"""Log entries and transcript items (docs/dialects/pod.md, section 9)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Raw, json

from dragoman.mappings.canonical.events import HistorySnapshot
from dragoman.mappings.canonical.values import FileRef, Item, Message, PastRun, Reasoning, Text, ToolCall, ToolResult
from dragoman.mappings.dialect import Step
from dragoman.mappings.pod import DIALECT
from dragoman.mappings.pod.entries import LoggedConversation, MadeLog, made_entries, opaque
from tests.mappings.pod.data import CAPTURES, captured

TS = 1_700_000_000_000
AT = TS * 1_000_000


def user(text: str) -> dict[str, object]:
    return {"kind": "user_input", "segments": [{"kind": "text", "content": text}], "ts": TS}


def start(*history: object) -> dict[str, object]:
    return {"kind": "segment_start", "history": list(history), "ts": TS}


def said(text: str, role: str = "assistant") -> dict[str, object]:
    return {"kind": "message", "role": role, "content": [{"kind": "text", "text": text}]}


def items_of(entries: Iterable[object]) -> tuple[Item, ...]:
    return tuple(LoggedConversation(map(opaque, entries)).items)


def test_a_segment_start_resets_and_seeds() -> None:
    items = items_of([user("old"), start(said("summary", "system")), user("new")])
    assert [item.text for item in items if isinstance(item, Message)] == ["summary", "new"]


def test_items_carry_the_time_of_their_entry_in_ns() -> None:
    assert [item.at for item in items_of([user("x")])] == [AT]


def test_segments_of_an_input_stay_segments() -> None:
    entry = {
        "kind": "user_input",
        "segments": [{"kind": "text", "content": "see "}, {"kind": "file_ref", "path": "a"}],
        "ts": 0,
    }
    segments = (Text(text="see "), FileRef(path="a"))
    assert items_of([entry]) == (Message(role="user", text="see @a", segments=segments),)


def test_an_input_with_a_segment_of_unknown_kind_is_read_and_its_original_kept() -> None:
    entry = {
        "kind": "user_input",
        "segments": [{"kind": "flow", "selector": "s"}, {"kind": "text", "content": "x"}],
        "ts": 0,
    }
    (item,) = items_of([entry])
    assert isinstance(item, Message)
    assert (item.text, entry["segments"]) == (
        "x",
        [{"kind": "flow", "selector": "s"}, {"kind": "text", "content": "x"}],
    )


def test_a_result_has_the_name_of_its_call() -> None:
    call = {"kind": "tool_call", "call_id": "c", "name": "Read", "arguments": "{}"}
    result = {"kind": "tool_result", "call_id": "c", "summary": "ok", "content": "text", "is_error": True}
    items = items_of(
        [{"kind": "assistant_item", "item": call, "ts": 0}, {"kind": "tool_result", "item": result, "ts": 0}]
    )
    assert items == (
        ToolCall(call="c", name="Read", arguments="{}"),
        ToolResult(call="c", name="Read", summary="ok", output="text", is_error=True),
    )


def test_a_refusal_is_text_and_reasoning_is_reasoning() -> None:
    refusal = {"kind": "message", "role": "assistant", "content": [{"kind": "refusal", "refusal": "no"}]}
    thought = {"kind": "reasoning", "text": "hm", "encrypted_content": "zz"}
    items = items_of([{"kind": "assistant_item", "item": item, "ts": 0} for item in (thought, refusal)])
    assert items == (Reasoning(text="hm"), Message(role="assistant", text="no"))


def test_entries_that_cannot_be_read_are_skipped() -> None:
    junk: list[object] = [
        None,
        7,
        "x",
        [],
        {},
        {"kind": "future"},
        {"kind": "user_input", "segments": 3},
        {"kind": "user_input", "segments": [], "ts": 10**4297},
        {"kind": ["x"]},
    ]
    assert items_of([*junk, start(*junk), *junk, user("x")]) == items_of([user("x")])


def test_an_entry_with_a_time_that_no_pod_writes_is_skipped() -> None:
    assert [len(items_of([user("x") | {"ts": ts}])) for ts in (-1, 0, TS, 1 << 70)] == [0, 1, 1, 0]


def test_a_time_that_an_entry_cannot_have_is_the_nearest() -> None:
    """The store of a server in Go may have the year 1 for an unknown time. A pod client skips an entry with it."""
    entries: list[Any] = made_entries([Message(role="user", text="x", at=at) for at in (-AT, 1 << 90)])
    assert [entry["ts"] for entry in entries] == [0, 0, (1 << 64) - 1, (1 << 64) - 1]


def test_a_system_item_of_unknown_kind_shows_its_body() -> None:
    item = {"kind": "task_reminder", "body": "b", "n": 1}
    (message,) = items_of([{"kind": "system_item", "item": item, "ts": 0}])
    assert message == Message(
        role="system", text="b", ext={"pod.item": Raw(b'{"body":"b","kind":"task_reminder","n":1}')}
    )


def test_a_run_is_open_until_it_completed_or_errored() -> None:
    entries = [
        user("x"),
        {"kind": "invoke", "trigger": "user_send", "ts": 0},
        user("x"),
        {"kind": "run_completed", "interrupted": False, "result": "finished", "ts": 0},
        {"kind": "invoke", "trigger": "user_send", "ts": 0},
        {"kind": "run_errored", "interrupted": False, "message": "", "ts": 0},
    ]
    open_after = [LoggedConversation(map(opaque, entries[:number])).run_open for number in range(7)]
    assert open_after == [False, False, True, True, False, True, False]


def test_a_run_that_has_only_begun_is_the_last_run() -> None:
    entries = [
        {"kind": "invoke", "trigger": "user_send", "ts": 0},
        user("x"),
        {"kind": "run_completed", "interrupted": False, "result": "finished", "ts": 0},
        {"kind": "invoke", "trigger": "user_send", "ts": 0},
    ]
    logged = LoggedConversation(map(opaque, entries))
    assert logged.runs == [PastRun(first=0, last=1, end="completed"), PastRun(first=1, last=1)]


def kinds(entries: list[object]) -> list[Any]:
    return [entry["kind"] for entry in entries if isinstance(entry, dict)]


ITEMS = (
    Message(role="user", text="q", segments=(Text(text="q"),), at=AT),
    Message(role="system", text="note", ext={"pod.item": Raw(b'{"body":"note","kind":"interrupt"}')}, at=AT),
    Reasoning(text="r", at=AT),
    ToolCall(call="c", name="Read", arguments="{}", at=AT),
    ToolResult(call="c", name="Read", summary="s", output="o", is_error=True, at=AT),
    Message(role="assistant", text="a", at=AT),
)


def test_made_entries_read_back_as_their_items() -> None:
    entries = json.decode(DIALECT.events.codec.encode(made_entries(ITEMS)))
    assert items_of(entries) == ITEMS


def test_made_runs_begin_with_an_invoke_and_end_if_they_have_an_answer() -> None:
    one, two = ITEMS[0], ITEMS[-1]
    assert kinds(made_entries([one, one, two, one])) == [
        *("invoke", "user_input"),
        *("invoke", "user_input", "assistant_item", "run_completed"),
        *("invoke", "user_input"),
    ]


def test_the_last_made_run_stays_open_while_a_turn_runs() -> None:
    log = MadeLog()
    assert kinds(log.add_item(ITEMS[0])) == ["invoke", "user_input"]
    assert log.end(running=True, paused=False) == []


def test_a_turn_without_input_is_a_wakeup() -> None:
    assert MadeLog().end(running=True, paused=False) == [{"kind": "invoke", "trigger": "wakeup", "ts": 0}]


def test_a_paused_session_ends_with_a_paused_run() -> None:
    log = MadeLog()
    log.add_item(ITEMS[0])
    (entry,) = log.end(running=False, paused=True)
    assert isinstance(entry, dict)
    assert entry["result"] == "paused"


def test_a_system_message_without_an_original_is_a_notification() -> None:
    (entry,) = made_entries([Message(role="system", text="t")])
    assert isinstance(entry, dict)
    assert entry["item"] == {"kind": "notification", "message": "t", "body": "t"}


def test_captured_histories_are_read_completely() -> None:
    spoken = 0
    for path in CAPTURES:
        for _, way, frame in captured(path):
            if way == "s2c" and b'"snapshot"' in frame[:30]:
                step: Step[Any] = Step()
                DIALECT.events.receive([frame], step)
                (snapshot,) = step.bursts[0].items
                assert isinstance(snapshot, HistorySnapshot)
                entries = json.decode(frame)["data"]["entries"]
                after = entries[max((i for i, e in enumerate(entries) if e["kind"] == "segment_start"), default=0) :]
                told = [e for e in after if e["kind"] in ("user_input", "assistant_item", "tool_result", "system_item")]
                seeds = after[0]["history"] if after and after[0]["kind"] == "segment_start" else []
                assert len(snapshot.items) == len(told) + len(seeds)
                spoken += len(snapshot.items)
    assert spoken
