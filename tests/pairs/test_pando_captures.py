"""Captured conversations, played by a primary of the tests in their recorded order, reach clients of all dialects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.routing.pando_stage import PandoStage, frames, pando_stage, row
from tests.gateway.smooth_words import ask
from tests.gateway.stage import settle
from tests.mappings.pando.data import CAPTURES, captured, value

PLAYED = [path for path in CAPTURES if path.stem in ("02-streamed-turns", "04-parallel-tools")]


def published(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """What client `a` was told by its subscription."""
    messages = [frames for conn, way, frames in captured(path) if way == "pub" and conn == "a"]
    return [(topic, envelope["payload"]) for topic, envelope in (value(frame[0].encode()) for frame in messages)]


async def play(made: PandoStage, told: list[tuple[str, dict[str, Any]]]) -> None:
    """Publish it; the store, asked at the end of a run, does not answer: the tokens are all that there is."""
    for topic, payload in told:
        await made.publishes(topic, **payload)
        while made.asked():
            await made.answers("message.list", problem="message.list: message service not available on this instance")


@pytest.mark.parametrize("path", PLAYED, ids=lambda path: path.stem)
async def test_text_tools_and_ends_reach_clients_of_all_dialects(path: Path) -> None:
    told = published(path)
    (session,) = {payload["session_id"] for topic, payload in told if topic == "llm.token"}
    async with pando_stage() as made:
        smooth, pod, pando = made.join("smooth"), made.join("pod"), made.join("pando", publishes=True)
        smooth.say(json.dumps(ask("get_session", "open", sessionId=session)).encode())
        await settle()
        await made.begins(row(session))
        await made.answers("message.list", [])
        before = len(frames(pando))
        await play(made, told)
        text = "".join(payload["token"] for topic, payload in told if topic == "llm.token")
        calls = list(dict.fromkeys(p["call_id"] for topic, p in told if topic == "tool.start"))
        names = [next(p["tool_name"] for t, p in told if t == "tool.start" and p["call_id"] == c) for c in calls]
        results = [payload["result"] for topic, payload in told if topic == "tool.end"]
        ends = sum(topic == "llm.end" for topic, _ in told)
        assert text
        assert ends
        assert _smooth(frames(smooth)) == (text, names, results, ends)
        assert _pod(frames(pod)) == (text, names, results, ends)
        assert _pando(frames(pando)[before:]) == (text, names, results, ends)


Seen = tuple[str, list[str], list[str], int]


def _smooth(told: list[dict[str, Any]]) -> Seen:
    raw = [f["data"]["state"].get("rawResponse", {}) for f in told if f["type"] == "stream_chunk"]
    return (
        "".join(f["token"] for f in told if f["type"] == "stream_token"),
        [chunk["toolCall"]["name"] for chunk in raw if "toolCall" in chunk],
        [chunk["toolResult"]["result"] for chunk in raw if "toolResult" in chunk],
        sum(f["type"] == "eventual_response" for f in told),
    )


def _pod(told: list[dict[str, Any]]) -> Seen:
    return (
        "".join(e["data"]["text"] for e in told if e["event"] == "text_delta"),
        [e["data"]["name"] for e in told if e["event"] == "tool_call_done"],
        [e["data"]["output"] for e in told if e["event"] == "tool_result"],
        sum(e["event"] == "run_end" for e in told),
    )


def _pando(told: list[dict[str, Any]]) -> Seen:
    calls = {e["payload"]["call_id"]: e["payload"]["tool_name"] for e in told if e["topic"] == "tool.start"}
    return (
        "".join(e["payload"]["token"] for e in told if e["topic"] == "llm.token"),
        list(calls.values()),
        [e["payload"]["result"] for e in told if e["topic"] == "tool.end"],
        sum(e["topic"] == "llm.end" for e in told),
    )
