"""Malformed input of pod clients, with the gateway as their pod (docs/dialects/pod.md, sections 1, 3 to 5 and 8).

A seed pod broadcasts its errors; ours go to the sender alone (docs/translation.md, rule 3.14). So each row has the
answer to the sender, and whether its connection is closed. The bystanders, a smooth and a pod client of the same
session, receive nothing of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import parse
from tests.conformance.malformed_input import (
    EOF,
    MAX_MESSAGE,
    MalformedInput,
    PodBystander,
    fits,
    listening,
    malformed_input_harness,
    named,
    play,
    played_together,
    row,
)
from tests.data_files import vectors

UNIT = ("resume", "cancel", "pause", "compact", "shutdown", "list_visible_pods")
"""Methods without content (section 5)."""

STRUCT: dict[str, dict[str, Any]] = {
    "run": {"input": [{"kind": "text", "content": "count 1"}]},
    "notify": {"message": "done"},
    "pod_event": {"kind": "turn_ended", "pod_name": "kid"},
    "list_completions": {"kind": "file", "prefix": ""},
    "inspect_pod": {"name": "demo"},
    "attach_or_restore_pod": {"name": "demo"},
}
"""Methods with content, and a good one for each."""


def method(name: str, /, **params: Any) -> dict[str, Any]:
    return {"method": name, "params": params}


def run(*segments: Any) -> dict[str, Any]:
    return method("run", input=list(segments))


def text(content: Any) -> dict[str, Any]:
    return {"kind": "text", "content": content}


def error(code: str) -> dict[str, Any]:
    return {"event": "error", "data": {"code": code}}


def event(name: str, /, **data: Any) -> dict[str, Any]:
    return {"event": name, "data": data}


BAD = event("error", code="internal", message=lambda words: words.startswith("invalid method: "))
"""The answer to a line that is not a method (section 1.1)."""

IDLE = error("not_running")
"""The answer to a `cancel` of an idle pod, which proves that the `cancel` was understood."""

CANCEL = '{"method":"cancel"}'
COUNT = {"kind": "text", "content": "count 1 "}


def ran(*segments: Any) -> Callable[[list[dict[str, Any]]], bool]:
    """Return the events of a whole run with this input."""

    def whole(told: list[dict[str, Any]]) -> bool:
        names = [said["event"] for said in told]
        inputs = [said["data"]["segments"] for said in told if said["event"] == "user_message"]
        return "error" not in names and names.count("run_end") == 1 and inputs == [list(segments)]

    return whole


def without_stream(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [said for said in told if said["event"] in ("error", "status", "run_end")]


def each(*values: Any) -> tuple[Any, ...]:
    """Return JSON values of all these types."""
    return values


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


LINES = [
    *[
        row(f"1: {line!r} is no method", line, BAD)
        for line in (
            "hello",
            "{",
            "]",
            "{}",
            "[]",
            '"resume"',
            "null",
            "7",
            "\0",
            "nul",
            "{'method':'cancel'}",
            '["resume"]',
            '["resume",null,null]',
        )
    ],
    row("1: two values on one line, and neither is executed", CANCEL + CANCEL, BAD),
    row("1: two values with a space between", CANCEL + " " + CANCEL, BAD),
    row("1: a value and a comma", CANCEL + ",", BAD),
    row("1: a byte order mark", b"\xef\xbb\xbf" + CANCEL.encode() + b"\n", BAD),
    row("1: not UTF-8", b'{"method":"inspect_pod","params":{"name":"\xff"}}\n', BAD),
    row("1: not UTF-8 in an ignored key", b'{"method":"cancel","x":"\xc3"}\n', BAD),
    row("1: UTF-16", CANCEL.encode("utf-16") + b"\n", BAD),
    row("4: a lone surrogate", run(text("\ud83d")), BAD),
    row("1: NaN", '{"method":"cancel","x":NaN}', BAD),
    row("1: a raw control character in text", b'{"method":"cancel","x":"\x01"}\n', BAD),
    row("1: blank lines are skipped", b"\n\r\n  \n\t\n\xe3\x80\x80\n\xc2\x85\xc2\xa0\n\n"),
    row("1: CRLF", CANCEL.encode() + b"\r\n", IDLE),
    row("1: white space around", b" \t" + CANCEL.encode() + b" \xe3\x80\x80\n", IDLE),
    row("1: two lines in one write", f"{CANCEL}\n{CANCEL}", IDLE, IDLE),
    row("1: a line in pieces", [b'{"met', b'hod":"can', b'cel"}', b"\n"], IDLE),
    row("1: a bad line costs itself alone", [f"hello\n{CANCEL}\nhello"], answer=lambda told: len(told) == 3),
    row("1: a depth of 100", f'{{"method":"cancel","x":{nested(100)}}}', IDLE),
    row("1: a depth over 128", f'{{"method":"cancel","x":{nested(200)}}}', BAD),
    row("1: a depth of 100,000", nested(100_000), BAD),
    row(
        "1: a line of 3 MB",
        run(text("count 1 " + "x" * 3_000_000)),
        answer=ran(text("count 1 " + "x" * 3_000_000)),
        runs=True,
    ),
    # A pod has no limit; docs/design.md, section 6: what is over ours costs the one message.
    row("1: a line over max_message", "x" * (MAX_MESSAGE + 1), BAD),
    row("1: a line far over max_message", "x" * (5 * MAX_MESSAGE), BAD),
    row(
        "1: good lines around one over max_message",
        f"{CANCEL}\n{'x' * (MAX_MESSAGE + 1)}\n{CANCEL}",
        answer=lambda told: len(told) == 3,
    ),
    row("1: a last line without newline is executed", [CANCEL.encode(), EOF], IDLE, closes=0),
    row("1: half a line, then EOF", [b'{"method":"can', EOF], BAD, closes=0),
    row("1: blanks, then EOF", [b"  ", EOF], closes=0),
    row("1: EOF alone", EOF, closes=0),
    row("1: EOF in a run of one's own", EOF, state="running", closes=0),
    row("3: a method before the snapshot is read", CANCEL, event("snapshot"), IDLE, state="fresh"),
    row("3: a bad line before the snapshot is read", "hello", event("snapshot"), BAD, state="fresh"),
    row("3: EOF before the snapshot is read", EOF, event("snapshot"), state="fresh", closes=0),
]

SHAPES = [
    *[
        row(f"4: the method {value!r}", {"method": value}, BAD)
        for value in each(
            7,
            None,
            True,
            [],
            {},
            "",
            "dance",
            "Run",
            "RESUME",
            "get_history",
            "worker_event",
            "list_pods",
            "r" * 100_000,
        )
    ],
    row("4: no method", {"params": {"input": []}}, BAD),
    *[
        row(f"4: {name} with params {value!r}", {"method": name, "params": value}, BAD)
        for name, value in [*((name, {}) for name in UNIT), *(("cancel", v) for v in each([], {"x": 1}, 7, "x", False))]
    ],
    row("4: null is no content", {"method": "cancel", "params": None}, IDLE),
    *[row(f"4: {name} without params", {"method": name}, BAD) for name in STRUCT],
    *[
        row(f"4: {name} with params {value!r}", {"method": name, "params": value}, BAD)
        for name, value in [*((name, {}) for name in STRUCT), *(("run", v) for v in each(None, [], 7, "x", True))]
    ],
    *[
        row(f"4: {name} with its content as an array", {"method": name, "params": list(params.values())}, BAD)
        for name, params in STRUCT.items()
    ],
    *[
        row(f"4: {name} with {field} {value!r}", {"method": name, "params": {**params, field: value}}, BAD)
        for name, params in STRUCT.items()
        for field in params
        for value in each(None, 7, True, {}, [7], [None])
        if value == 7 or name == "list_completions"
    ],
    row(
        "4: the order of keys is free", '{"params":{"name":"nobody"},"method":"inspect_pod"}', error("invalid_request")
    ),
    row("4: extra keys are ignored", '{"x":1,"method":"cancel","id":[{}]}', IDLE),
    row("4: extra keys are ignored inside", method("inspect_pod", name="nobody", x={"y": 1}), error("invalid_request")),
    row("4: a key that is known twice", '{"method":"cancel","method":"cancel"}', BAD),
    row("4: content twice", '{"method":"inspect_pod","params":{"name":"a"},"params":{"name":"a"}}', BAD),
    row("4: a field twice", '{"method":"inspect_pod","params":{"name":"a","name":"a"}}', BAD),
    row("4: a field twice, once escaped", '{"method":"inspect_pod","params":{"name":"a","\\u006eame":"b"}}', BAD),
    row(
        "4: a field of a segment twice",
        '{"method":"run","params":{"input":[{"kind":"text","content":"a","content":"b"}]}}',
        BAD,
    ),
    row(
        "4: a tag of a segment twice",
        '{"method":"run","params":{"input":[{"kind":"text","kind":"text","content":"a"}]}}',
        BAD,
    ),
    # A pod minds known keys only; docs/design.md, section 4: commands are checked for duplicate keys.
    row("4: an extra key twice", '{"method":"cancel","x":1,"x":2}', BAD),
    row("5: completions of an unknown kind", method("list_completions", kind="symbol", prefix=""), BAD),
    row("5: a report of an unknown kind", method("pod_event", kind="progress", pod_name="kid"), BAD),
    # `recursive` is absent, and true when it is written: it must not stand for the key that is said twice.
    row(
        "5: a report with a field twice",
        '{"method":"pod_event","params":{"kind":"scope_sub_delegated","parent_pod":"a","parent_pod":"b","sub_pod":"c",'
        '"sub_socket":"/s","scope":[{"target":"/x","permission":"write"}]}}',
        BAD,
    ),
    row(
        "5: a scope with an unknown permission",
        method(
            "pod_event",
            kind="scope_sub_delegated",
            parent_pod="a",
            sub_pod="b",
            sub_socket="/s",
            scope=[{"target": "/x", "permission": "Write"}],
        ),
        BAD,
    ),
    row(
        "5: a scope whose default is null",
        method(
            "pod_event",
            kind="scope_sub_delegated",
            parent_pod="a",
            sub_pod="b",
            sub_socket="/s",
            scope=[{"target": "/x", "permission": "read", "recursive": None}],
        ),
        BAD,
    ),
]

PASTE = {"kind": "paste", "id": 1, "chars": 1, "lines": 1, "content": "x"}

SEGMENTS = [
    row(
        "5: a segment of an unknown kind becomes unknown",
        run(COUNT, {"kind": "hologram", "depth": 3}),
        answer=ran(COUNT, {"kind": "unknown"}),
        runs=True,
    ),
    row(
        "5: a literal unknown segment",
        run(COUNT, {"kind": "unknown"}),
        answer=ran(COUNT, {"kind": "unknown"}),
        runs=True,
    ),
    row(
        "5: fields of a segment that nobody knows are gone", run({**COUNT, "lang": "en"}), answer=ran(COUNT), runs=True
    ),
    row("5: a paste", run(COUNT, PASTE), answer=ran(COUNT, PASTE), runs=True),
    row(
        "5: the largest u32",
        run(COUNT, {**PASTE, "id": 2**32 - 1}),
        answer=ran(COUNT, {**PASTE, "id": 2**32 - 1}),
        runs=True,
    ),
    *[
        row(
            f"4: {field} of a paste is {value}",
            json.dumps(run({**PASTE, field: 0})).replace(f'"{field}": 0', f'"{field}": {value}'),
            BAD,
        )
        for field in ("id", "chars", "lines")
        for value in ("1.0", "-1", "4294967296", "1e2", "true", "null", '"1"', "99999999999999999999999")
    ],
    *[
        row(f"5: a {kind} segment without its field", run({"kind": kind}), BAD)
        for kind in ("text", "paste", "file_ref", "knowledge_ref", "workflow_invoke")
    ],
    *[
        row(f"5: the segment {value!r}", run(value), BAD)
        for value in each(None, 7, "x", [], {}, {"content": "x"}, {"kind": 7, "content": "x"}, {"kind": None})
    ],
    row("5: a bad segment behind a good one", run(COUNT, {"kind": "text"}), BAD),
    # docs/translation.md, rule 3.10: an empty input is refused before it is sent.
    *[
        row(f"5: the empty input {segments}", run(*segments), error("invalid_request"))
        for segments in ([], [text("")], [text(" \n")])
    ],
]

OWN = event("pod_inspection", pod={"pod_name": "demo"})

CELLS = [
    row("8: run, idle", run(COUNT), answer=ran(COUNT), runs=True),
    row("8: run, running", run(COUNT), error("already_running"), state="running"),
    row("8: run, running for somebody else", run(COUNT), error("already_running"), state="occupied"),
    row(
        "8: two runs, running",
        [run(COUNT), run(COUNT)],
        error("already_running"),
        error("already_running"),
        state="running",
    ),
    row("8: run, paused", run(COUNT), answer=ran(COUNT), runs=True, state="paused"),
    row("8: resume, idle", {"method": "resume"}, error("not_paused")),
    row("8: resume, running", {"method": "resume"}, error("already_running"), state="running"),
    row("8: resume, running for somebody else", {"method": "resume"}, error("already_running"), state="occupied"),
    row("8: pause, idle", {"method": "pause"}, error("not_running")),
    row("8: pause, paused: silently nothing", {"method": "pause"}, state="paused"),
    row("8: cancel, idle", {"method": "cancel"}, error("not_running")),
    row("8: cancel, paused", {"method": "cancel"}, error("not_running"), state="paused"),
    *[
        line
        for state in ("open", "running", "paused")
        for line in (
            row(
                f"8: list_completions, {state}",
                method("list_completions", kind="file", prefix="no"),
                event("completions", entries=[{"value": "notes.md"}]),
                state=state,
            ),
            # Running, a pod refuses these (its controller is busy); the gateway knows the answers
            # (docs/translation.md, rule 3.2).
            row(f"8: list_visible_pods, {state}", {"method": "list_visible_pods"}, event("visible_pods"), state=state),
            row(f"8: inspect_pod, {state}", method("inspect_pod", name="demo"), OWN, state=state),
            *[
                row(
                    f"8: inspect_pod of {name!r}, {state}",
                    method("inspect_pod", name=name),
                    error("invalid_request"),
                    state=state,
                )
                for name in ("nobody", "")
            ],
            row(
                f"8: attach_or_restore_pod, {state}",
                method("attach_or_restore_pod", name="demo"),
                event("pod_attach_restore", result={"action": "attached", "pod_name": "demo"}),
                state=state,
            ),
            row(
                f"8: attach_or_restore_pod of nobody, {state}",
                method("attach_or_restore_pod", name="nobody"),
                error("invalid_request"),
                state=state,
            ),
            # docs/translation.md, rule 3.16: it ends this client's attachment, and never the backend or its turn.
            row(f"8: shutdown, {state}", {"method": "shutdown"}, {"event": "shutdown"}, state=state, closes=0),
            # docs/translation.md, rule 3.2: the demo backend has none of these.
            row(f"8: compact, {state}", {"method": "compact"}, error("invalid_request"), state=state),
            row(f"8: notify, {state}", method("notify", message="x"), error("invalid_request"), state=state),
            row(
                f"8: pod_event, {state}",
                method("pod_event", kind="turn_ended", pod_name="kid"),
                error("invalid_request"),
                state=state,
            ),
        )
    ],
    row("8: a bad line, running", "hello", BAD, state="running"),
    row("8: a line over max_message, running", "x" * (MAX_MESSAGE + 1), BAD, state="running"),
    row("8: a bad line, paused", "hello", BAD, state="paused"),
]


@pytest.mark.parametrize("rows", played_together(lines=LINES, shapes=SHAPES, segments=SEGMENTS, cells=CELLS))
async def test_malformed_lines_of_a_pod_client_disturb_no_other_client(
    rows: list[MalformedInput], tmp_path: Path
) -> None:
    async with malformed_input_harness(tmp_path) as at:
        for row in rows:
            with named(row.name):
                async with PodBystander.connected(at.path, opens=row.state != "fresh") as asker:
                    await play(row, at, asker)


async def test_pause_resume_and_cancel_out_of_order_change_nothing_and_answer_only_the_sender(tmp_path: Path) -> None:
    """Everybody sees the effect of a legal command, and only its sender sees a refusal (section 8)."""
    async with malformed_input_harness(tmp_path) as at, PodBystander.connected(at.path) as asker:

        async def refused(name: str, *told: Any) -> None:
            await asker.send({"method": name})
            assert fits(without_stream(await asker.told()), told), name
            assert without_stream(await at.pod.told()) == []

        async def stopped(name: str, *told: Any) -> None:
            await asker.send({"method": name})
            for client in (asker, at.pod):
                assert fits(without_stream(await client.run_seen()), told), name

        await asker.send(run(text("slow")))
        await asker.until(lambda said: said["event"] == "text_delta")
        await at.pod.until(lambda said: said["event"] == "text_delta")
        await refused("resume", error("already_running"))
        await refused("run", BAD)
        await stopped("pause", event("run_end", result="paused"), event("status", status="paused"))
        await refused("pause")
        await refused("cancel", error("not_running"))
        await asker.send({"method": "resume"})
        for client in (asker, at.pod):
            await client.until(lambda said: fits(said, event("status", status="running")))
        await refused("resume", error("already_running"))
        await stopped("cancel", event("error", code="internal", message="Cancelled"), event("status", status="idle"))
        await refused("cancel", error("not_running"))
        await refused("resume", error("not_paused"))
        await at.catch_up()
        await at.good_turns()


async def test_a_run_of_a_client_that_disconnects_without_reading_is_executed(tmp_path: Path) -> None:
    """A parent gives its child the first task in this way (section 11)."""
    async with malformed_input_harness(tmp_path) as at:
        async with PodBystander.connected(at.path, opens=False) as asker:
            await asker.send(run(COUNT))
        await at.both_saw_a_turn()
        await at.good_turns()


async def test_a_run_in_an_unterminated_last_line_is_executed(tmp_path: Path) -> None:
    """The half-closed client may see its connection end before its run does (section 1)."""
    async with malformed_input_harness(tmp_path) as at, PodBystander.connected(at.path) as asker:
        await asker.send(json.dumps(run(COUNT)).encode())
        await asker.send(EOF)
        await asker.closed()
        await at.both_saw_a_turn()
        await at.good_turns()


LATE = event("error", code="internal", message="the backend did not answer in time")


@pytest.mark.parametrize(("said", "told"), [("hello", [BAD]), (CANCEL, [LATE]), (f"hello\n{CANCEL}", [BAD, LATE])])
async def test_a_client_that_sends_before_its_snapshot_gets_the_snapshot_first(
    said: str, told: list[Any], tmp_path: Path
) -> None:
    """Exactly one snapshot comes before any other event except alerts (section 3). This backend never sends
    anything, so only it could tell whether there is a run to cancel.
    """

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(silent, tmp_path / "silent")
    limits = Limits(snapshot_wait=0.4, accept_deadline=0.4)
    async with (
        server,
        listening(tmp_path, parse(f"pod+unix:{tmp_path / 'silent'}"), limits) as (_, _, path),
        PodBystander.connected(path, opens=False) as asker,
    ):
        await asker.send(said)
        assert (await asker.until(lambda event: event["event"] != "alert"))[-1]["event"] == "snapshot"
        errors = [(await asker.until(lambda event: True))[-1] for _ in said.split("\n")]
        assert fits(errors, told)


async def test_every_line_that_the_upstream_types_reject_is_answered_only_to_its_sender(tmp_path: Path) -> None:
    refused = [v for v in vectors("pod") if v["direction"] == "client_to_pod" and not v["accept"]]
    assert refused
    async with malformed_input_harness(tmp_path) as at, PodBystander.connected(at.path) as asker:
        for vector in refused:
            await play(row(vector["name"], vector["wire"], BAD), at, asker)
