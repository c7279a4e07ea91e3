"""Malformed messages of pods, with the gateway as their client (docs/dialects/pod.md, sections 1, 4, 6 to 8).

A smooth and a pod client receive only legal frames and one terminal of each turn, and dropped messages are counted. The
connection to the pod stays, and carries the next turn.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from dragoman.gateway.app import App
from dragoman.gateway.endpoint import parse
from tests.conformance.fake_pod import FakePod
from tests.conformance.malformed_input import (
    MAX_MESSAGE,
    Frame,
    MalformedInputHarness,
    fits,
    malformed_input_harness,
    named,
)
from tests.gateway.pod_messages import FINISHED, delta, say, snapshot

TERMINALS = ("eventual_response", "error", "cancelled")
HANGS_UP = b""
"""Said by a pod whose connection ends."""


class Row(Struct, frozen=True, kw_only=True):
    """Lines that the pod sends, in an open run of the smooth client or in none, and what both clients receive. `smooth`
    and `pod` are compared by fits(). `counted` is the number of faults and losses. With `again` the connection ends
    and is made again.
    """

    name: str
    say: Sequence[dict[str, Any] | bytes]
    running: bool = False
    smooth: Any = ()
    pod: Any = ()
    counted: int = 0
    again: bool = False


def idle(name: str, *say: Any, smooth: Any = (), pod: Any = (), counted: int = 0, again: bool = False) -> Row:
    return Row(name=name, say=say, smooth=smooth, pod=pod, counted=counted, again=again)


def running(name: str, *say: Any, smooth: Any = (), pod: Any = (), counted: int = 0, again: bool = False) -> Row:
    return Row(name=name, say=say, running=True, smooth=smooth, pod=pod, counted=counted, again=again)


def raw(text: str) -> bytes:
    return text.encode() + b"\n"


def token(text: str) -> dict[str, Any]:
    return {"type": "stream_token", "token": text}


def answer(text: str) -> dict[str, Any]:
    """Return the end of a turn whose whole visible text is `text` (docs/translation.md, rule 3.7)."""
    return {
        "type": "eventual_response",
        "data": {"data": {"response": {"responseParts": lambda parts: "".join(parts) == text}}},
    }


def failed(code: str) -> dict[str, Any]:
    return {"type": "error", "requestId": "turn", "error": {"code": code}}


def names(*expected: str) -> Any:
    """Return a check for events of these names, in this order."""
    return [{"event": name} for name in expected]


RUN_END, IDLE = FINISHED
RUNNING = say("status", status="running")
DONE = say("text_done", text="x")
THE_END = ("run_end", "status")
EMPTY_RUN = ("turn_start", "turn_end", *THE_END)  # a run without output: the pod's parent waits for its start
ALERT = {"level": "warn", "source": "pod", "message": "m", "timestamp_ms": 1}
EMPTY = answer("")

UNREADABLE = {
    "1: not JSON": raw("hello"),
    "1: JSON cut off": raw('{"event":"text_delta","data":'),
    "1: two values on one line": raw(json.dumps(IDLE) * 2),
    "1: not UTF-8": b'{"event":"text_delta","data":{"text":"\xff"}}\n',
    "1: a lone surrogate": raw('{"event":"text_delta","data":{"text":"\\ud83d"}}'),
    "1: nested 200 deep": raw('{"event":"system_item","data":{"item":' + "[" * 200 + "]" * 200 + "}}"),
    "1: nested 100,000 deep": raw("[" * 100_000 + "]" * 100_000),
    "1: a line over max_message": raw(json.dumps(delta("x" * MAX_MESSAGE))),
    "1: a line far over max_message": raw(json.dumps(delta("x" * 5 * MAX_MESSAGE))),
    "4: an array": raw("[]"),
    "4: a number": raw("7"),
    "4: null": raw("null"),
    "4: no event": raw("{}"),
    "4: an event that is a number": raw('{"event":7}'),
    "4: an event that a seed pod does not know": raw('{"event":"heartbeat"}'),
    "12: an event of a newer pod": raw('{"event":"rewind_applied","data":{"entries":[]}}'),
    "4: a method": raw('{"method":"cancel"}'),
    "4: no data": raw('{"event":"text_delta"}'),
    "4: null data": raw('{"event":"text_delta","data":null}'),
    "4: empty data": raw('{"event":"text_delta","data":{}}'),
    "4: data as an array": raw('{"event":"text_delta","data":["x"]}'),
    "4: data of an event that has none": raw('{"event":"thinking_start","data":{}}'),
    "4: text that is a number": raw(json.dumps(say("text_delta", text=7))),
    "4: an unknown error code": raw(json.dumps(say("error", code="busy", message="m"))),
    "4: an unknown result": raw(json.dumps(say("run_end", result="yielded"))),
    "4: an unknown kind of invocation": raw(json.dumps(say("invoke_start", kind="cron"))),
    "4: a turn of 1.0": raw('{"event":"turn_start","data":{"turn":1.0}}'),
    "4: a negative turn": raw(json.dumps(say("turn_start", turn=-1))),
    "4: a turn over u64": raw(json.dumps(say("turn_start", turn=1 << 64))),
    "4: a fractional time": raw(json.dumps(say("alert", **{**ALERT, "timestamp_ms": 1.5}))),
    "4: an alert without a time": raw(json.dumps(say("alert", level="warn", source="pod", message="m"))),
    "4: an alert of an unknown source": raw(json.dumps(say("alert", **{**ALERT, "source": "engine"}))),
    "4: is_error that is null": raw(json.dumps(say("tool_result", id="c", summary="s", is_error=None))),
    "4: a tool result without an id": raw(json.dumps(say("tool_result", summary="s", is_error=False))),
    "4: a segment that is no UUID": raw(json.dumps(say("compact_done", new_segment_id="s"))),
    "12: a snapshot of a newer pod": raw(
        json.dumps(say("snapshot", entries=[], greeting={"worker_name": "w"}, status="idle"))
    ),
}
"""Lines that a seed client's reader ends at (section 1.3); docs/design.md, section 6: to us each costs itself alone."""

UNREAD_STATUS = {
    "4: an unknown status": raw(json.dumps(say("status", status="busy"))),
    "4: a status without data": raw('{"event":"status"}'),
    "4: a status that is null": raw(json.dumps(say("status", status=None))),
}
"""Section 6: a status tells each transition, so a pod that runs has stopped."""

UNASKED = {
    "3: completions that nobody asked for": say("completions", kind="file", entries=[]),
    "3: a list of pods that nobody asked for": say("visible_pods", pods=[]),
    "3: an inspection that nobody asked for": say("pod_inspection", pod={}),
    "3: an attachment that nobody asked for": say("pod_attach_restore", result={}),
    "1.1: the error of a bad line of another client's": say("error", code="internal", message="invalid method: x"),
    "3: the refusal of another client's run": say("error", code="already_running", message="m"),
    "3: the refusal of another client's cancel": say("error", code="not_running", message="m"),
    "3: the refusal of another client's resume": say("error", code="not_paused", message="m"),
}
"""Answers to other clients of the pod: they are dropped and counted (docs/translation.md, rule 3.17)."""

ROWS = [
    *[idle(f"{name}", line, counted=1) for name, line in UNREADABLE.items()],
    *[running(f"{name}, running", line, counted=1) for name, line in UNREADABLE.items()],
    *[idle(name, line, counted=1) for name, line in UNREAD_STATUS.items()],
    *[
        running(f"{name}, running", line, smooth=[EMPTY], pod=names(*EMPTY_RUN), counted=1)
        for name, line in UNREAD_STATUS.items()
    ],
    running(
        "4: an unknown status after run_end",
        RUN_END,
        UNREAD_STATUS["4: an unknown status"],
        smooth=[EMPTY],
        pod=names(*EMPTY_RUN),
        counted=1,
    ),
    *[idle(name, said, counted=1) for name, said in UNASKED.items()],
    *[running(f"{name}, running", said, counted=1) for name, said in UNASKED.items()],
    idle("1: blank lines", b"\n \r\n\t\n\xe3\x80\x80\n"),
    idle(
        "4: extra keys are taken out and counted",
        {**delta("x"), "seq": 4},
        DONE,
        IDLE,
        smooth=[token("x"), answer("x")],
        pod=names("status", "text_delta", "text_done", *THE_END),
        counted=1,
    ),
    # Section 3: exactly one snapshot; to clients that are attached a changed history is a rotation
    # (docs/translation.md, section 2).
    idle("3: a second snapshot", snapshot(), pod=names("segment_rotated", "status")),
    running(
        "3: a second snapshot in a run",
        snapshot(status="running"),
        pod=lambda told: "snapshot" not in [e["event"] for e in told],
    ),
    idle("8: status idle once more", IDLE, pod=lambda told: fits(told, []) or fits(told, [IDLE])),
    idle("8: run_end without a run", RUN_END, pod=lambda told: all(e["event"] == "run_end" for e in told)),
    idle(
        "8: Cancelled without a run",
        say("error", code="internal", message="Cancelled"),
        pod=lambda told: all(e["event"] == "error" for e in told),
    ),
    idle("6: an empty text_done without a run", say("text_done", text="")),
    idle("6: an empty thinking_done without a run", say("thinking_done", text="")),
    # docs/translation.md, rule 3.17: content with no turn open opens one of the backend's.
    idle(
        "7: text without a run",
        delta("x"),
        IDLE,
        smooth=[token("x"), answer("x")],
        pod=names("status", "text_delta", "text_done", *THE_END),
    ),
    idle(
        "7: text_done alone",
        DONE,
        IDLE,
        smooth=[token("x"), answer("x")],
        pod=names("status", "text_delta", "text_done", *THE_END),
    ),
    idle(
        "7: a tool result without a run",
        say("tool_result", id="c", summary="s", is_error=False),
        IDLE,
        smooth=[{"type": "stream_chunk"}, {"type": "stream_chunk"}, EMPTY],
        pod=names("status", "tool_call_start", "tool_call_done", "tool_result", *THE_END),
    ),
    running("8: two run_ends", RUN_END, RUN_END, IDLE, smooth=[EMPTY], pod=lambda told: told[-1] == IDLE),
    running("8: two ends", *FINISHED, *FINISHED, smooth=[EMPTY], pod=lambda told: IDLE in told),
    running(
        "8: an end and another end's error",
        *FINISHED,
        say("error", code="internal", message="Cancelled"),
        IDLE,
        smooth=[EMPTY],
        pod=lambda told: IDLE in told,
    ),
    running("8: status without run_end", IDLE, smooth=[EMPTY], pod=names(*EMPTY_RUN)),
    running(
        "8: an error that is no end",
        say("error", code="provider_error", message="m"),
        delta("x"),
        DONE,
        *FINISHED,
        smooth=lambda told: fits(told[-1:], [answer("x")]) or fits(told[-2:-1], [answer("x")]),
        pod=names("error", "text_delta", "text_done", *THE_END),
    ),
    running(
        "8: an error, then the end",
        say("error", code="provider_error", message="m"),
        IDLE,
        smooth=[failed("AGENT_ERROR")],
        pod=names("error", "status"),
    ),
    running(
        "8: two errors, then the end",
        say("error", code="tool_error", message="m"),
        say("error", code="provider_error", message="n"),
        IDLE,
        smooth=lambda told: [f["type"] for f in told if "requestId" in f] == ["error"],
        pod=names("error", "error", "status"),
    ),
    running(
        "8: text between run_end and status",
        RUN_END,
        delta("x"),
        IDLE,
        smooth=[token("x"), answer("x")],
        pod=names("text_delta", "text_done", *THE_END),
    ),
    running(
        "8: text after the end is a run of the pod's own",
        *FINISHED,
        delta("x"),
        IDLE,
        smooth=[
            EMPTY,
            {**token("x"), "requestId": lambda r: r != "turn"},
            {**answer("x"), "requestId": lambda r: r != "turn"},
        ],
        pod=names(*EMPTY_RUN, "status", "text_delta", "text_done", *THE_END),
    ),
    running("8: status running again and again", RUNNING, RUNNING, *FINISHED, smooth=[EMPTY], pod=names(*EMPTY_RUN)),
    # docs/translation.md, rules 3.7, 4.2: a done that differs sends the rest; one that contradicts is right, and a Gap
    # is counted.
    running(
        "6: text_done with more than was streamed",
        delta("a"),
        say("text_done", text="abc"),
        *FINISHED,
        smooth=[token("a"), token("bc"), answer("abc")],
        pod=names("text_delta", "text_delta", "text_done", *THE_END),
    ),
    running(
        "6: text_done that contradicts",
        delta("a"),
        say("text_done", text="b"),
        *FINISHED,
        smooth=[token("a"), answer("b")],
        pod=names("text_delta", "alert", "text_done", *THE_END),
        counted=1,
    ),
    running(
        "6: text_done twice",
        delta("x"),
        DONE,
        DONE,
        *FINISHED,
        smooth=lambda told: fits(told[:1], [token("x")]) and told[-1]["type"] == "eventual_response",
        pod=lambda told: told[-1] == IDLE,
    ),
    running(
        "8: a block that is never closed",
        delta("x"),
        *FINISHED,
        smooth=[token("x"), answer("x")],
        pod=names("text_delta", "text_done", *THE_END),
    ),
    running(
        "6: thinking without its start",
        say("thinking_delta", text="t"),
        say("thinking_done", text="t"),
        *FINISHED,
        smooth=[{"type": "stream_reasoning"}, EMPTY],
        pod=names("thinking_start", "thinking_delta", "thinking_done", *THE_END),
    ),
    running(
        "6: thinking within text",
        delta("x"),
        say("thinking_start"),
        say("thinking_delta", text="t"),
        *FINISHED,
        smooth=[token("x"), {"type": "stream_reasoning"}, answer("x")],
        pod=names("text_delta", "text_done", "thinking_start", "thinking_delta", "thinking_done", *THE_END),
    ),
    running(
        "6: a result of an unknown call",
        say("tool_result", id="c", summary="s", is_error=False),
        *FINISHED,
        smooth=[{"type": "stream_chunk"}, {"type": "stream_chunk"}, EMPTY],
        pod=names("tool_call_start", "tool_call_done", "tool_result", *THE_END),
    ),
    running(
        "6: a result twice",
        say("tool_call_start", id="c", name="t"),
        say("tool_call_done", id="c", name="t", arguments="{}"),
        *[say("tool_result", id="c", summary="s", is_error=False)] * 2,
        *FINISHED,
        smooth=[{"type": "stream_chunk"}, {"type": "stream_chunk"}, EMPTY],
        pod=names("tool_call_start", "tool_call_done", "tool_result", *THE_END),
    ),
    running(
        "6: two results of one call",
        say("tool_call_start", id="c", name="t"),
        *[say("tool_result", id="c", summary=s, is_error=False) for s in "ab"],
        *FINISHED,
        smooth=[{"type": "stream_chunk"}, {"type": "stream_chunk"}, EMPTY],
        pod=names("tool_call_start", "tool_call_done", "tool_result", *THE_END),
        counted=1,
    ),
    running(
        "6: arguments without a start",
        say("tool_call_args_delta", id="c", json="{}"),
        *FINISHED,
        smooth=[EMPTY],
        pod=names(*EMPTY_RUN),
        counted=1,
    ),
    running(
        "6: a call that is done without a start",
        say("tool_call_done", id="c", name="t", arguments="{}"),
        *FINISHED,
        smooth=[{"type": "stream_chunk"}, EMPTY],
        pod=names("tool_call_start", "tool_call_done", *THE_END),
    ),
    running(
        "6: a call that starts twice",
        *[say("tool_call_start", id="c", name="t")] * 2,
        *FINISHED,
        smooth=[{"type": "stream_chunk"}, EMPTY],
        pod=names("tool_call_start", "tool_call_done", *THE_END),
    ),
    running(
        "6: a call whose arguments are no JSON",
        say("tool_call_done", id="c", name="t", arguments="{"),
        *FINISHED,
        smooth=[{"type": "stream_chunk"}, EMPTY],
        pod=names("tool_call_start", "tool_call_done", *THE_END),
    ),
    running(
        "6: ends of what did not begin",
        say("turn_end", turn=7, result="finished"),
        say("llm_call_end", llm_call=9),
        *FINISHED,
        smooth=[EMPTY],
        pod=lambda told: told[-1] == IDLE,
    ),
    running(
        "6: a turn number that goes back",
        say("turn_start", turn=5),
        say("turn_start", turn=0),
        *FINISHED,
        smooth=[EMPTY],
        pod=names("turn_start", "turn_start", "turn_end", *THE_END),
    ),
    running(
        "6: usage of the largest u64",
        say("usage", input_tokens=(1 << 64) - 1, output_tokens=None),
        *FINISHED,
        smooth=[{"type": "eventual_response"}],
        pod=names("usage", *EMPTY_RUN),
    ),
    running(
        "7: the user message of another client's",
        say("user_message", segments=[{"kind": "text", "content": "o"}]),
        *FINISHED,
        smooth=[EMPTY],
        pod=names("user_message", *EMPTY_RUN),
    ),
    # docs/translation.md, rule 3.15: tokens are split, a terminal is never cut.
    running(
        "6: a text of 1.5 MB",
        delta("x" * 1_500_000),
        *FINISHED,
        smooth=lambda told: (
            "".join(f["token"] for f in told[:-1]) == "x" * 1_500_000 and fits(told[-1], failed("INTERNAL_ERROR"))
        ),
        pod=names("text_delta", "text_done", *THE_END),
    ),
    # docs/design.md, section 6: the open turn ends as failed with a cause; no command is repeated. The new snapshot is
    # a rotation to clients that stayed.
    running(
        "1: the end of the connection in a run",
        HANGS_UP,
        smooth=[failed("INTERNAL_ERROR")],
        pod=names("turn_start", "error", "status", "segment_rotated", "status"),  # a client may wait for its start
        again=True,
    ),
    running(
        "1: the end of the connection in a line",
        b'{"event":"text_delta","data":{"te',
        HANGS_UP,
        smooth=[failed("INTERNAL_ERROR")],
        pod=names("turn_start", "error", "status", "segment_rotated", "status"),  # a client may wait for its start
        again=True,
        counted=1,
    ),
    idle("1: the end of the connection", HANGS_UP, pod=names("segment_rotated", "status"), again=True),
]


def faults(app: App) -> int:
    return sum(n for name, n in app.ledger.counters.items() if name.startswith("faults_"))


def dropped(app: App) -> int:
    """Return the pod's messages that were dropped; a missing counterpart in one dialect is not the pod's fault."""
    unknown = {("Unmapped", "pod")}  # counted where it is not written; no pod client survives what it does not know
    entries = [e for e in app.ledger.entries() if not e.target or (e.kind, e.target) in unknown]
    return faults(app) + sum(entry.count for entry in entries)


async def told_by(row: Row, pod: FakePod, at: MalformedInputHarness) -> tuple[list[Frame], list[Frame]]:
    """Return the frames that the smooth and the pod client receive meanwhile."""
    for said in row.say:
        if said == HANGS_UP:
            pod.hang_up()
        else:
            await pod.say(said)
    if row.again:
        await pod.connected(2)
    theirs = await at.pod.told()  # by the pod itself, so after all that it said
    return await at.smooth.told(), theirs


ALONE = [row for row in ROWS if row.again or any("tool_" in str(said) for said in row.say)]
"""Rows that need a gateway of their own: one that loses its pod, or one that does not know the call "c" from before."""

TOGETHER = [row for row in ROWS if row not in ALONE]


@pytest.mark.parametrize(
    "rows", [pytest.param(TOGETHER, id="together"), *[pytest.param([row], id=row.name) for row in ALONE]]
)
async def test_malformed_lines_of_a_pod_lose_only_themselves(rows: list[Row], tmp_path: Path) -> None:
    socket = tmp_path / "fake"
    async with FakePod.serving(socket) as pod, malformed_input_harness(tmp_path, parse(f"pod+unix:{socket}")) as at:
        for row in rows:
            with named(row.name):
                await play(row, pod, at)


async def play(row: Row, pod: FakePod, at: MalformedInputHarness) -> None:
    """Send the lines of a row, check what both clients receive, and let both run a turn."""
    if row.running:
        await at.smooth.send(
            {"action": "send_message", "sessionId": "$session", "requestId": "turn", "message": "hold"}
        )
        await pod.holds()
    await at.pod.told()
    before = [*await at.smooth.told()]
    assert fits(before, [{"status": 202}] if row.running else [])
    counted = dropped(at.app)
    smooth, theirs = await told_by(row, pod, at)
    assert fits(smooth, row.smooth), f"smooth: {smooth}"
    assert fits(theirs, row.pod), f"pod: {theirs}"
    assert dropped(at.app) - counted == row.counted, at.app.ledger.entries()
    if row.running and not any(f["type"] in TERMINALS and f.get("requestId") == "turn" for f in smooth):
        await pod.say(*FINISHED)
        assert (await at.pod.run_seen())[-1] == IDLE
        assert fits((await at.smooth.run_seen())[-1], {"type": "eventual_response", "requestId": "turn"})
    ends = [f for f in smooth if f["type"] in TERMINALS and f.get("requestId") == "turn"]
    assert len(ends) <= 1
    await at.good_turns()
    assert pod.connections == 1 + row.again


async def test_text_of_an_idle_pod_ends_by_itself_and_the_next_input_is_taken(tmp_path: Path) -> None:
    socket = tmp_path / "fake"
    async with FakePod.serving(socket) as pod, malformed_input_harness(tmp_path, parse(f"pod+unix:{socket}")) as at:
        await pod.say(delta("x"))
        assert fits(await at.pod.run_seen(), names("status", "text_delta", "text_done", *THE_END))
        assert fits((await at.smooth.run_seen())[-1], answer("x"))
        await at.good_turns()
